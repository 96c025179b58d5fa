// The page: loads and renders the current view, and keeps it up to date.
//
// A view is a module with
//   title                             its name in the menu and in the window's title
//   load(ctx)                         -> data, from the API (ctx.get)
//   render(data, ctx)                 -> elements; called at least once a second, so that ages keep counting
// and, if it is live,
//   follow(data, ctx)                 -> { after, job, prefix, types, heartbeats } for the stream, or null
//   onEvent(data, event, ctx)         apply an event to `data`
//   onHeartbeat(data, heartbeat, ctx) apply a heartbeat to `data`
//   every                             seconds until it is loaded again, for what no event contains; or (data) -> seconds
//   leave()                           drop state kept outside `data`, when another view is shown
// `ctx` has params (of the URL), me (the principal), get, href, go, reload, act (see acting.js), may(scope), and
// judgedAt(): the time by which owners are judged to be alive (see judging.js).

import { get, logIn, logOut, Failure } from "./api.js";
import { confirmAction, dialog, dismiss } from "./acting.js";
import { h, render } from "./dom.js";
import { Judge } from "./judging.js";
import { handleKeys, keysDialog } from "./keys.js";
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
const STORE_WIDE = new Set(["tokens", "health"]); // not for a token limited to a prefix
const TICK_MS = 1_000;
const HIDDEN_MS = 30_000; // after this long, a hidden page closes its stream
const REFOLLOW_MS = 5_000; // how often the set of followed heartbeats may change
const REMEMBERED = 1_000;
const KEPT_VIEWS = 20; // views that can be shown while the server is unreachable
const REDRAW_MS = 250; // the minimum between redraws for stream data
const RELOAD_MS = 500; // the same for views that load again after an event
const ASLEEP_MS = 60_000; // after this long without a tick, the machine was asleep, and the connection may be dead
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 10_000;

const page = {
  me: null,
  view: null, // the module
  params: {},
  data: null,
  failure: null,
  isLoading: false,
  leaving: null, // aborts the view's requests
  loadedAt: -Infinity,
  dueAt: Infinity, // by performance.now: when to load again
  pause: FIRST_PAUSE_MS, // after the next failure
  recent: [], // recent events, which a load in progress may not include
  forgotten: 0, // the `seq` of the last one dropped from `recent`
  followedAt: -Infinity,
  tickedAt: Date.now(), // this clock keeps running while the machine sleeps
  notice: null,
  row: null, // the URL of the row focused last
  focusing: null, // what to focus next: the URL of a row, or the heading
  isFrameDue: false,
};

const judge = new Judge();
const kept = new Map(); // by URL: the last data of a view

const stream = new Stream({
  state: () => draw(),
  event: (event) => onEvent(event),
  heartbeat: (beat) => {
    if (page.data === null) return;
    page.view.onHeartbeat?.(page.data, beat, ctx);
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
  act: (action) => confirmAction(action, { draw, done: (text) => notify(text), reload: () => load() }),
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

/** Load again. If a load is in progress, wait for it: it may miss the change that this call is about. */
function loadAgain() {
  if (page.isLoading) soon("load", loadAgain, RELOAD_MS);
  else if (page.me !== null && page.data !== null) load();
}

/** Apply the events that the stream delivered during the load. If some were dropped, follow the log again from there. */
function catchUp() {
  const seq = page.data.seq ?? 0;
  if (seq < page.forgotten) stream.stop();
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

/** By `performance.now`: when the data was last up to date. */
const freshAt = () => Math.max(stream.heardAt ?? -Infinity, page.loadedAt);

function keep() {
  if (page.data === null || page.view === null || page.view === login) return;
  const address = JSON.stringify(page.params);
  kept.delete(address);
  kept.set(address, { data: page.data, freshAt: freshAt(), judgedAt: judgedAt(), row: page.row });
  if (kept.size > KEPT_VIEWS) kept.delete(kept.keys().next().value);
}

/** While the server is unreachable, show the last data of this view; the banner says how old it is. */
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

/** Follow the log. Returns true if the stream continues without a gap. */
function follow() {
  const wanted = page.view.follow?.(page.data, ctx) ?? null;
  page.followedAt = performance.now();
  if (wanted !== null && !document.hidden) return stream.follow(wanted);
  stream.stop();
  return false;
}

function onEvent(event) {
  page.recent.push(event);
  if (page.recent.length > REMEMBERED) page.forgotten = page.recent.shift().seq;
  if (page.data === null) return;
  apply(event);
  soon("draw", draw, REDRAW_MS);
}

function apply(event) {
  if (!page.view.onEvent || event.seq <= (page.data.seq ?? 0)) return;
  page.view.onEvent(page.data, event, ctx);
  page.data.seq = event.seq;
}

const timers = {};

/** Run once after a delay, however often it is called until then. */
function soon(what, does, milliseconds) {
  timers[what] ??= setTimeout(() => {
    timers[what] = undefined;
    does();
  }, milliseconds);
}

// Navigation

const viewAt = (wanted) => VIEWS[wanted.view ?? "now"] ?? now;

/** `ahead` is a load that has already begun. */
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
    stream.heardAt = null; // it says nothing about the age of the next view
    forget();
    page.data = null;
    if (wasLost) recall();
  }
  page.view = view;
  if (isOther) page.focusing = (isBack && kept.get(JSON.stringify(wanted))?.row) || "h1";
  page.failure = wasLost ? new Failure("unreachable", "The server cannot be reached.", "The page retries automatically.") : null;
  document.title = `${view.heading?.(wanted) ?? view.title} · OctoStore`;
  load(ahead);
}

function show(view, failure) {
  stream.stop();
  page.leaving?.abort();
  page.view?.leave?.();
  dismiss();
  forget();
  kept.clear(); // the next user may not be allowed to see it
  Object.assign(page, { view, data: { failure }, failure: null, isLoading: false, me: null, notice: null });
  draw();
}

async function enter(credential) {
  await logIn(credential);
  await start();
}

async function start() {
  const search = location.search;
  page.params = params();
  page.leaving = null; // otherwise leaving the previous view would abort this load
  const ahead = viewAt(page.params).load(ctx); // in parallel with whoami
  ahead.catch(() => null); // fails if the user is not logged in
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
  navigate({ ahead: location.search === search ? ahead : null }); // the user may have navigated meanwhile
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

// Rendering

function draw() {
  if (page.isFrameDue) return;
  page.isFrameDue = true;
  requestAnimationFrame(() => {
    page.isFrameDue = false;
    render(document.getElementById("app"), ...layout());
    focus();
  });
}

/** Focus, after a view's first rendering, the row the user left, or else the heading. */
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

/** A bug in the page itself, which also goes to the console. */
function fault(error) {
  reportError(error);
  return new Failure("refused", "This view cannot be shown because of a bug in the page.", String(error.message));
}

/** A bug in one view must not break the menu. */
function viewed() {
  try {
    return page.view.render(page.data, ctx);
  } catch (error) {
    return failed(fault(error), () => load());
  }
}

function isOffered(name) {
  return (name !== "tokens" || ctx.may("admin")) && !(page.me?.prefix && STORE_WIDE.has(name));
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

/** Says how old the data is, until the server is back. */
function banner() {
  if (stateNow() !== "lost" || page.data === null) return h("div", { key: "banner", role: "status" });
  const age = span((performance.now() - freshAt()) / 1_000);
  return h("div", { key: "banner", role: "status", class: "banner" }, `Not connected to the server. This data is ${age} old. Reconnecting…`);
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

// Start

const CODE = "#login=";

async function begin() {
  onNavigation((isBack) => navigate({ isBack }));
  handleKeys({ go, href, draw, params });
  document.addEventListener("focusin", ({ target }) => (page.row = target.matches("[data-row]") ? target.getAttribute("href") : null));
  document.addEventListener("visibilitychange", onVisibility);
  addEventListener("offline", () => stream.cut());
  addEventListener("online", () => {
    if (page.data === null || page.me === null) return;
    stream.stop(); // it may be in a long pause
    load();
  });
  setInterval(tick, TICK_MS);
  if (!location.hash.startsWith(CODE)) return start();
  const code = decodeURIComponent(location.hash.slice(CODE.length));
  history.replaceState(null, "", location.pathname + location.search); // it works only once, so keep it out of the history
  try {
    await enter({ code });
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    show(login, error);
  }
}

begin();
