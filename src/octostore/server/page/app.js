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
//   every                      seconds after which it is loaded again, for what is in no event; or (data) -> seconds
//   leave()                    forget what is kept beside the data, when another view is shown
// `ctx` has params (of the address), me (the principal), get, href, go, reload, act (see acting.js), may(scope), and
// judgedAt(): the time by which owners are judged to be alive (see judging.js).

import { get, logIn, logOut, Failure } from "./api.js";
import { acting, dialog, dismiss } from "./acting.js";
import { h, render } from "./dom.js";
import { Judge } from "./judging.js";
import { heedKeys, keysDialog } from "./keys.js";
import { Stream } from "./stream.js";
import { address, go, href, onNavigation, params } from "./url.js";
import { now as storeNow, span } from "./clock.js";
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

const VIEWS = { __proto__: null, now, workers, queues, takeovers, dead, log, tokens, health, job };
const MENU = ["now", "workers", "queues", "takeovers", "dead", "log", "tokens", "health"];
const ABOUT_ALL = new Set(["tokens", "health"]); // not for a token that is limited to some names
const TICK_MS = 1_000;
const HIDDEN_MS = 30_000; // then a page that nobody looks at lets its stream go
const REFOLLOW_MS = 5_000; // how often the jobs whose heartbeats are followed may change
const REMEMBERED = 1_000;
const KEPT_VIEWS = 20; // views that are still there when the server is not
const REDRAW_MS = 250; // however much comes from the stream
const RELOAD_MS = 500; // the same for views that load again after an event
const ASLEEP_MS = 60_000; // so long without a tick: the machine has slept, and nothing is known of the connection
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 10_000;

const page = {
  me: null,
  view: null, // the module
  params: {},
  data: null,
  failure: null,
  isLoading: false,
  leaving: null, // aborts what the view has under way
  loadedAt: -Infinity,
  dueAt: Infinity, // of performance.now: when to load again
  pause: FIRST_PAUSE_MS, // after the next failure
  recent: [], // events that came lately: a load that was under way may not know them
  forgotten: 0, // the last of them that had to go
  followedAt: -Infinity,
  tickedAt: Date.now(), // which goes on while the machine sleeps
  notice: null,
  row: null, // the address of the one that was focused last
  focusing: null, // what is to be focused: the address of a row, or the heading
  isFrameDue: false,
};

const judge = new Judge();
const kept = new Map(); // by address: what a view showed when it was left

const stream = new Stream({
  state: () => draw(),
  event: (event) => hear(event),
  heartbeat: (beat) => {
    if (page.data === null) return;
    page.view.beat?.(page.data, beat, ctx);
    soon("draw", draw, REDRAW_MS);
  },
  stale: () => {
    stream.stop();
    load();
  },
  failed: (failure) => onFailure(failure),
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
  reload: () => soon("load", loadAgain, RELOAD_MS),
  redraw: () => draw(),
  judgedAt,
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
  page.dueAt = Infinity;
  draw();
  try {
    const data = await (ahead ?? view.load(ctx));
    if (leaving.signal.aborted) return;
    page.data = data;
    page.failure = null;
    page.loadedAt = performance.now();
    judge.loaded(storeNow());
    page.pause = FIRST_PAUSE_MS;
    page.dueAt = page.loadedAt + 1_000 * ((typeof view.every === "function" ? view.every(data) : view.every) ?? Infinity);
    catchUp();
  } catch (error) {
    if (leaving.signal.aborted) return;
    onFailure(error);
  } finally {
    if (!leaving.signal.aborted) page.isLoading = false;
    draw();
  }
}

/** Unless one is under way: what it finds may be older than what asks for this one. */
function loadAgain() {
  if (page.isLoading) soon("load", loadAgain, RELOAD_MS);
  else if (page.me !== null && page.data !== null) load();
}

/** A load takes a while, and the stream goes on meanwhile. What it brought since is heard again, if it is all here. */
function catchUp() {
  const seq = page.data.seq ?? 0;
  if (seq < page.forgotten) stream.stop(); // and follow from there
  if (follow()) for (const event of page.recent) apply(event);
  else forget();
}

function forget() {
  Object.assign(page, { recent: [], forgotten: 0 });
}

function judgedAt() {
  const since = (moment) => (moment === null ? null : performance.now() - moment);
  return judge.at(storeNow(), since(stream.liveAt), since(stream.heardAt));
}

/** Of `performance.now`: what is shown is as old as that. */
const freshAt = () => Math.max(stream.heardAt ?? -Infinity, page.loadedAt);

function keep() {
  if (page.data === null || page.view === null || page.view === login) return;
  const address = JSON.stringify(page.params);
  kept.delete(address);
  kept.set(address, { data: page.data, freshAt: freshAt(), judgedAt: judgedAt(), row: page.row });
  if (kept.size > KEPT_VIEWS) kept.delete(kept.keys().next().value);
}

/** Where the server cannot be reached, what was there before is better than nothing: the banner says how old it is. */
function recall() {
  const last = kept.get(JSON.stringify(page.params));
  if (page.data !== null || last === undefined) return;
  page.data = last.data;
  page.loadedAt = last.freshAt;
  judge.loaded(last.judgedAt);
}

function onFailure(error) {
  if (!(error instanceof Failure)) return onFailure(fault(error));
  if (error.kind === "logged out") return show(login, error);
  page.failure = error;
  if (error.kind === "unreachable") recall();
  if (error.kind === "unreachable") {
    page.dueAt = performance.now() + Math.max(error.retryAfterMs, page.pause * (0.75 + Math.random() / 2));
    page.pause = Math.min(page.pause * 2, LONGEST_PAUSE_MS);
  }
  draw();
}

/** Whether the stream just goes on. */
function follow() {
  const wanted = page.view.follow?.(page.data, ctx) ?? null;
  page.followedAt = performance.now();
  if (wanted !== null && !document.hidden) return stream.follow(wanted);
  stream.stop();
  return false;
}

function hear(event) {
  page.recent.push(event);
  if (page.recent.length > REMEMBERED) page.forgotten = page.recent.shift().seq;
  if (page.data === null) return;
  apply(event);
  soon("draw", draw, REDRAW_MS);
}

function apply(event) {
  if (!page.view.hear || event.seq <= (page.data.seq ?? 0)) return;
  page.view.hear(page.data, event, ctx);
  page.data.seq = event.seq;
}

const timers = {};

/** Once, however often it is asked for until then. */
function soon(what, does, milliseconds) {
  timers[what] ??= setTimeout(() => {
    timers[what] = undefined;
    does();
  }, milliseconds);
}

// Going somewhere

const viewAt = (wanted) => VIEWS[wanted.view ?? "now"] ?? now;

/** `ahead` is what the view has asked for already. */
function navigate({ isBack = false, ahead = null } = {}) {
  const wanted = params();
  const view = viewAt(wanted);
  const isOther = view !== page.view || wanted.job !== page.params.job;
  const wasLost = page.view !== null && stateNow() === "lost";
  keep();
  page.params = wanted;
  page.notice = null;
  dismiss();
  if (isOther) {
    page.view?.leave?.();
    stream.stop();
    stream.heardAt = null; // what it has brought is not about what comes now
    forget();
    page.data = null;
    if (wasLost) recall();
  }
  page.view = view;
  if (isOther) page.focusing = (isBack && kept.get(JSON.stringify(wanted))?.row) || "h1";
  page.failure = wasLost ? new Failure("unreachable", "The server cannot be reached.", "The page tries again by itself.") : null;
  document.title = `${view.heading?.(wanted) ?? view.title} · OctoStore`;
  load(ahead);
}

function show(view, failure) {
  stream.stop();
  page.leaving?.abort();
  page.view?.leave?.();
  dismiss();
  forget();
  kept.clear(); // the next one may not be allowed to see it
  Object.assign(page, { view, data: { failure }, failure: null, isLoading: false, me: null, notice: null });
  draw();
}

async function enter(credential) {
  await logIn(credential);
  await start();
}

async function start() {
  const asked = location.search;
  page.params = params();
  page.leaving = null; // or what is asked for now would end with what was left before
  const ahead = viewAt(page.params).load(ctx); // at the same time, and not after the answer to who we are
  ahead.catch(() => null); // those who are not logged in
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
  navigate({ ahead: location.search === asked ? ahead : null }); // somebody may have gone on meanwhile
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
    focus();
  });
}

/** After the first drawing of a view: on the row that was left, if somebody comes back to it, or on the heading. */
function focus() {
  if (page.focusing === null || page.isLoading) return;
  const row = [...document.querySelectorAll("[data-row]")].find((link) => link.getAttribute("href") === page.focusing);
  page.focusing = null;
  if (row) row.focus();
  else document.querySelector("h1")?.focus({ preventScroll: true });
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
  const isInBanner = page.failure?.kind === "unreachable" && page.data !== null;
  if (page.failure !== null && !isInBanner) parts.push(failed(page.failure, () => load()));
  if (page.data !== null) parts.push(h("div", { key: page.view.title, class: "view" }, viewed()));
  else if (page.failure === null) parts.push(loading());
  return parts;
}

/** A fault of the page itself: the console has it, too. */
function fault(error) {
  reportError(error);
  return new Failure("refused", "This view cannot be shown because of a bug in the page.", String(error.message));
}

/** A fault in one view must not take the menu away. */
function viewed() {
  try {
    return page.view.render(page.data, ctx);
  } catch (error) {
    return failed(fault(error), () => load());
  }
}

function isOffered(name) {
  return (name !== "tokens" || ctx.may("admin")) && !(page.me?.prefix && ABOUT_ALL.has(name));
}

function header() {
  const shown = MENU.filter(isOffered);
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
    page.me && h("span", { class: "me" }, h("span", { title: `may ${page.me.scopes.join(", ")}${page.me.prefix ? ` on ${page.me.prefix}…` : ""}` }, page.me.name), !ctx.may("admin") && [" ", h("span", { class: "chip", title: "This token has no admin scope, so there are no buttons to change anything." }, "view only")], " ", h("button", { class: "link", onclick: leave }, "Log out")),
  );
}

const STATES = { live: "Live", connecting: "Connecting…", lost: "Not connected" };

function stateNow() {
  return page.failure?.kind === "unreachable" ? "lost" : stream.state;
}

/** What is shown stays, with its age, until the server is back. */
function banner() {
  if (stateNow() !== "lost" || page.data === null) return h("div", { key: "banner", role: "status" });
  const age = span((performance.now() - freshAt()) / 1_000);
  return h("div", { key: "banner", role: "status", class: "banner" }, `Not connected to the server. What you see is ${age} old. Reconnecting…`);
}

function notice() {
  return h("div", { role: "status", class: page.notice ? "notice" : null }, page.notice ? [page.notice, " ", h("button", { class: "link", onclick: () => notify(null) }, "Dismiss")] : null);
}

function tick() {
  if (document.hidden || page.view === null) return;
  const hasSlept = Date.now() - page.tickedAt > ASLEEP_MS;
  page.tickedAt = Date.now();
  if (page.me !== null && !page.isLoading) {
    if (hasSlept) stream.stop();
    if (hasSlept || performance.now() >= page.dueAt) load();
    else if (stream.state !== "off" && performance.now() - page.followedAt > REFOLLOW_MS) follow();
  }
  draw();
}

let hiding;

function onVisibility() {
  clearTimeout(hiding);
  page.tickedAt = Date.now();
  if (document.hidden) hiding = setTimeout(() => stream.stop(), HIDDEN_MS);
  else if (page.me !== null && page.data !== null && stream.state === "off") load();
}

// Beginning

const CODE = "#login=";

async function begin() {
  onNavigation((isBack) => navigate({ isBack }));
  heedKeys({ go, href, draw, params });
  document.addEventListener("focusin", ({ target }) => (page.row = target.matches("[data-row]") ? target.getAttribute("href") : null));
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
