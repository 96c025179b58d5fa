// The page: which view is shown, what it is shown from, and what goes on around it.
//
// A view is a module with
//   title                      what it is called, in the menu and in the window's title
//   load(ctx)                  -> data, from the API (ctx.get)
//   render(data, ctx)          -> what the data looks like now; called at least once a second, so ages keep counting
// and, if it is live,
//   follow(data, ctx)          -> { after, job, prefix, types, heartbeats } of the stream, or null
//   hear(data, event, ctx)     -> change `data` by an event of the log
//   beat(data, heartbeat, ctx) -> change `data` by a heartbeat
//   every                      seconds after which it is loaded again, for what is in no event
// `ctx` has params (of the address), me (the principal), get, href, go, reload, act (see acting.js) and may(scope).

import { get, logIn, logOut, Failure } from "./api.js";
import { acting, dialog, dismiss } from "./acting.js";
import { h, render } from "./dom.js";
import { heedKeys, keysDialog } from "./keys.js";
import { Stream } from "./stream.js";
import { address, go, href, onNavigation, params } from "./url.js";
import { span } from "./clock.js";
import { failed, loading } from "./words.js";
import * as dead from "./views/dead.js";
import * as health from "./views/health.js";
import * as job from "./views/job.js";
import * as log from "./views/log.js";
import * as login from "./views/login.js";
import * as now from "./views/now.js";
import * as queues from "./views/queues.js";
import * as takeovers from "./views/takeovers.js";
import * as tokens from "./views/tokens.js";
import * as workers from "./views/workers.js";

const VIEWS = { now, workers, queues, takeovers, dead, log, tokens, health, job };
const MENU = ["now", "workers", "queues", "takeovers", "dead", "log", "tokens", "health"];
const TICK_MS = 1_000;
const HIDDEN_MS = 30_000; // then a page that nobody looks at lets its stream go
const REFOLLOW_MS = 5_000; // how often the jobs whose heartbeats are followed may change
const REMEMBERED = 1_000;

const page = {
  me: null,
  view: null, // the module
  params: {},
  data: null,
  failure: null,
  isLoading: false,
  leaving: null, // aborts what the view has under way
  loadedAt: -Infinity,
  recent: [], // events that came lately: a load that was under way may not know them
  followedAt: -Infinity,
  notice: null,
  isFrameDue: false,
};

const stream = new Stream({
  state: () => draw(),
  event: (event) => hear(event),
  heartbeat: (beat) => {
    if (page.data === null) return;
    page.view.beat?.(page.data, beat, ctx);
    draw();
  },
  stale: () => {
    stream.stop();
    load();
  },
  failed: (failure) => heed(failure),
});

const ctx = {
  get params() {
    return page.params;
  },
  get me() {
    return page.me;
  },
  get: (where, query) => get(where, query, page.leaving?.signal),
  href,
  go,
  reload: () => load(),
  redraw: () => draw(),
  may: (scope) => page.me !== null && (page.me.scopes.includes(scope) || page.me.scopes.includes("admin")),
  enter: (credential) => enter(credential),
  act: (action) => acting(action, { draw, done: (text) => notify(text), reload: () => load() }),
};

// Loading

async function load(ahead = null) {
  page.leaving?.abort();
  const leaving = (page.leaving = new AbortController());
  const { view } = page;
  page.isLoading = true;
  draw();
  try {
    const data = await (ahead ?? view.load(ctx));
    if (leaving.signal.aborted) return;
    page.data = data;
    page.failure = null;
    page.loadedAt = performance.now();
    for (const event of page.recent) apply(event);
    follow();
  } catch (error) {
    if (leaving.signal.aborted) return;
    heed(error);
  } finally {
    if (!leaving.signal.aborted) page.isLoading = false;
    draw();
  }
}

function heed(error) {
  if (!(error instanceof Failure)) throw error;
  if (error.kind === "logged out") return show(login, error);
  page.failure = error;
  draw();
}

function follow() {
  const wanted = page.view.follow?.(page.data, ctx) ?? null;
  page.followedAt = performance.now();
  if (wanted === null || document.hidden) stream.stop();
  else stream.follow(wanted);
}

function hear(event) {
  page.recent.push(event);
  if (page.recent.length > REMEMBERED) page.recent.shift();
  if (page.data === null) return;
  apply(event);
  if (performance.now() - page.followedAt > REFOLLOW_MS) follow();
  draw();
}

function apply(event) {
  if (!page.view.hear || event.seq <= (page.data.seq ?? 0)) return;
  page.view.hear(page.data, event, ctx);
  page.data.seq = event.seq;
}

// Going somewhere

const viewAt = (wanted) => VIEWS[wanted.view ?? "now"] ?? now;

function navigate(ahead = null) {
  const wanted = params();
  const view = viewAt(wanted);
  const isOther = view !== page.view;
  page.params = wanted;
  page.notice = null;
  dismiss();
  if (isOther) {
    stream.stop();
    page.data = null;
    page.recent = [];
  }
  page.view = view;
  page.failure = null;
  document.title = `${view.heading?.(wanted) ?? view.title} · OctoStore`;
  load(ahead).then(() => isOther && document.querySelector("h1")?.focus({ preventScroll: true }));
}

function show(view, failure) {
  stream.stop();
  page.leaving?.abort();
  Object.assign(page, { view, data: { failure }, failure: null, isLoading: false, me: null, recent: [] });
  draw();
}

async function enter(credential) {
  await logIn(credential);
  await start();
}

async function start() {
  page.params = params();
  const ahead = viewAt(page.params).load(ctx); // together with who we are: what it answers to others is that they must log in
  ahead.catch(() => null);
  try {
    page.me = await get("auth/whoami");
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    if (error.kind === "logged out") return show(login, null);
    page.view = viewAt(page.params);
    page.failure = error;
    draw();
    setTimeout(start, 2_000);
    return;
  }
  page.view = null;
  navigate(ahead);
}

async function leave() {
  try {
    await logOut();
  } finally {
    show(login, null);
  }
}

function notify(text) {
  page.notice = text;
  draw();
}

// Drawing

function draw() {
  if (page.isFrameDue) return;
  page.isFrameDue = true;
  requestAnimationFrame(() => {
    page.isFrameDue = false;
    render(document.getElementById("app"), ...layout());
  });
}

function layout() {
  if (page.view === null) return [];
  if (page.me === null && page.view === login) return [h("main", { class: "narrow", key: "login" }, login.render(page.data, ctx))];
  return [
    h("a", { class: "skip", href: "#main", key: "skip" }, "Skip to content"),
    header(),
    banner(),
    h("main", { id: "main", key: "main" }, h("h1", { tabindex: -1 }, page.view.heading?.(page.params) ?? page.view.title), notice(), content()),
    h("footer", { key: "footer" }, h("a", { href: "docs" }, "API"), " · ", h("button", { class: "link", onclick: () => keysDialog(draw) }, "Keyboard shortcuts")),
    dialog(),
  ];
}

function content() {
  const parts = [];
  if (page.failure !== null) parts.push(failed(page.failure, () => load()));
  if (page.data !== null) parts.push(h("div", { key: page.view.title, class: "view" }, viewed()));
  else if (page.failure === null) parts.push(loading());
  return parts;
}

/** A fault in one view must not take the menu away, and is told to the console as any other. */
function viewed() {
  try {
    return page.view.render(page.data, ctx);
  } catch (error) {
    reportError(error);
    return failed(new Failure("refused", "This view cannot be shown: internal error of the page.", String(error.message)), () => load());
  }
}

function header() {
  const shown = MENU.filter((name) => name !== "tokens" || ctx.may("admin"));
  return h(
    "header",
    { key: "header" },
    h("a", { class: "brand", href: "./" }, "OctoStore"),
    h(
      "nav",
      { "aria-label": "Views" },
      shown.map((name) => h("a", { key: name, href: name === "now" ? "./" : address({ view: name }), "aria-current": VIEWS[name] === page.view ? "page" : null }, VIEWS[name].title)),
    ),
    h("span", { class: `state ${stateNow()}` }, STATES[stateNow()] ?? (page.data && `Updated ${span((performance.now() - page.loadedAt) / 1_000)} ago`)),
    page.me && h("span", { class: "me" }, h("span", { title: `may ${page.me.scopes.join(", ")}${page.me.prefix ? ` on ${page.me.prefix}…` : ""}` }, page.me.name), " ", h("button", { class: "link", onclick: leave }, "Log out")),
  );
}

const STATES = { live: "Live", connecting: "Connecting…", lost: "Not connected" };

function stateNow() {
  return page.failure?.kind === "unreachable" ? "lost" : stream.state;
}

/** What is shown stays, with its age, until the server is back. */
function banner() {
  if (stateNow() !== "lost" || page.data === null) return h("div", { key: "banner", role: "status" });
  const heardAt = Math.max(stream.heardAt ?? -Infinity, page.loadedAt);
  const age = span((performance.now() - heardAt) / 1_000);
  return h("div", { key: "banner", role: "status", class: "banner" }, `Not connected to the server. What you see is ${age} old. Trying again…`);
}

function notice() {
  return h("div", { role: "status", class: page.notice ? "notice" : null }, page.notice ? [page.notice, " ", h("button", { class: "link", onclick: () => notify(null) }, "Dismiss")] : null);
}

function tick() {
  if (document.hidden || page.view === null) return;
  const age = (performance.now() - page.loadedAt) / 1_000;
  const isDue = page.failure?.kind === "unreachable" ? age > 2 : page.view.every && age > page.view.every;
  if (page.me !== null && isDue && !page.isLoading) {
    page.loadedAt = page.failure === null ? performance.now() : page.loadedAt;
    load();
  }
  draw();
}

let hiding;

function onVisibility() {
  clearTimeout(hiding);
  if (document.hidden) hiding = setTimeout(() => stream.stop(), HIDDEN_MS);
  else if (page.me !== null && page.data !== null && stream.state === "off") load();
}

// Beginning

const CODE = "#login=";

async function begin() {
  onNavigation(() => navigate());
  heedKeys({ go, href, draw, params });
  document.addEventListener("visibilitychange", onVisibility);
  addEventListener("offline", () => stream.cut());
  addEventListener("online", () => {
    if (page.data === null || page.me === null) return;
    stream.stop(); // it may be pausing for long
    load();
  });
  setInterval(tick, TICK_MS);
  if (!location.hash.startsWith(CODE)) return start();
  const code = decodeURIComponent(location.hash.slice(CODE.length));
  history.replaceState(null, "", location.pathname + location.search); // it is good once, and need not stay in the history
  try {
    await enter({ code });
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    show(login, error);
  }
}

begin();
