// The log, live.

import { h } from "../dom.js";
import { now as storeNow, when } from "../clock.js";
import { sentence, TYPES } from "../story.js";
import { windowSeconds } from "../url.js";
import { empty, filters, jobLink, plural, table, visible } from "../words.js";

export const title = "Log";

const SHOWN = 500;
const SINCE = [["600", "10 min"], ["3600", "1 h"], ["86400", "24 h"], ["604800", "7 d"]];
const LOADED = 200;
const PAGES = 5;
const SHORTER = [60, 5]; // seconds: windows to try if there are more events than can be shown

let isPaused = false;
let held = []; // the newest events that arrived while paused
let missed = 0; // how many arrived

export async function load(ctx) {
  const { prefix, type, after } = ctx.params;
  const query = { prefix, types: type };
  [held, missed] = [[], 0];
  const { seq } = await ctx.get("claims", { window: 1, limit: 1 }); // for the end of the log and the store's time
  if (after) {
    const page = await ctx.get("events", { ...query, after, limit: LOADED });
    return { events: page.events, seq: page.after, isLive: false, next: page.after < seq ? page.after : null };
  }
  const seconds = windowSeconds(ctx.params, 600);
  const isAll = !prefix && !type;
  let found;
  for (const back of [seconds, ...SHORTER]) {
    const since = new Date(storeNow() - back * 1_000).toISOString();
    found = await upTo(seq, { ...query, since, after: isAll ? Math.max(0, seq - SHOWN) : 0 }, ctx);
    if (found.isWhole) break;
  }
  return { events: found.events.slice(-SHOWN), seq: found.after, isLive: true, next: null };
}

/** Read several pages: with filters, a page may be short although more events follow. */
async function upTo(seq, query, ctx) {
  const events = [];
  let { after } = query;
  for (let page = 0; page < PAGES; page += 1) {
    const response = await ctx.get("events", { ...query, after, limit: LOADED });
    events.push(...response.events);
    after = response.after;
    if (after >= seq) return { events, after, isWhole: true };
  }
  return { events, after, isWhole: false };
}

export function follow(data, ctx) {
  if (!data.isLive) return null;
  return { after: data.seq, prefix: ctx.params.prefix ?? "", types: ctx.params.type ?? "" };
}

export function onEvent(data, event) {
  append(isPaused ? held : data.events, [event]);
  missed += isPaused ? 1 : 0;
}

export function leave() {
  isPaused = false;
  missed = 0;
  held = [];
}

function append(events, more) {
  events.push(...more);
  events.splice(0, Math.max(0, events.length - SHOWN));
}

export function render(data, ctx) {
  const pause = () => {
    isPaused = !isPaused;
    if (!isPaused) append(data.events, held.splice(0));
    missed = 0;
    ctx.redraw();
  };
  const agent = ctx.params.agent ?? "";
  const shown = data.events.filter((event) => !agent || event.agent === agent || event.actor === agent).reverse();
  return [
    filters(
      [{ name: "prefix", label: "Job begins with" }, { name: "agent", label: "Owner or token name", hint: "exact name" }, { name: "type", label: "Type", options: [["", "any"], ...TYPES.map((type) => [type, type])] }, { name: "window", label: "From the last", options: SINCE }],
      { ...ctx, params: { window: "600", ...ctx.params } },
      data.isLive && h("button", { type: "button", "aria-pressed": String(isPaused), onclick: pause }, isPaused ? `Resume (${plural(missed, "new event")})` : "Pause"),
      !data.isLive && h("a", { class: "button", href: ctx.href({ after: null }), "data-previous": "" }, "Back to the newest"),
      data.next && h("a", { class: "button", href: ctx.href({ after: data.next }), "data-next": "" }, "Next page"),
    ),
    shown.length === 0 ? nothing(ctx) : tableOf(shown),
  ];
}

function nothing(ctx) {
  const { prefix, agent, type } = ctx.params;
  if (!prefix && !agent && !type) return empty("No events in this period. To create one:", "octostore run my-first-job -- true");
  const longer = SINCE.find(([seconds]) => Number(seconds) > windowSeconds(ctx.params, 600));
  return empty(["No event in this period matches these filters.", longer && [" ", h("a", { href: ctx.href({ window: longer[0] }) }, `Look at the last ${longer[1]}`), "."]]);
}

function tableOf(events) {
  return table(
    "Events, newest first",
    [
      ["Number", (event) => event.seq],
      ["When", (event) => when(event.at)],
      ["About", (event) => (event.job_id ? jobLink(event.job_id, { "data-row": "" }) : visible(event.session_id ?? event.queue ?? ""))],
      ["What happened", (event) => sentence(event)],
      ["By", (event) => visible(event.actor)],
    ],
    events,
    (event) => event.seq,
  );
}
