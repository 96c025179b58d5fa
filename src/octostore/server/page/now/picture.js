// The picture: one row for each job, time from left to right, and now at the right edge.

import { h } from "../dom.js";
import { ms, span, utc } from "../clock.js";
import { jobLink, visible } from "../words.js";
import { life, LOSSES } from "./model.js";

const TICKS = 5;
const NARROW = 8; // percent: a name would not fit into such a bar, and stands before it
const FAR = 300; // percent: outside, whatever the window
const STEPS = 200; // of the window, in which what moves with its edge is placed anew

export const HOW = {
  done: "done",
  failed: "failed",
  expired: "expired",
  force_released: "taken away",
  released: "released",
  deferred: "deferred",
  cancelled: "cancelled",
  undone: "undone",
};

export const ATTENTION = {
  lost: "lost",
  gone: "gone",
  stuck: "stuck",
  late: "late",
  stopping: "asked to stop",
  failed: "failed",
  dead: "dead",
};

export function picture(ranked, now, windowSeconds) {
  const frame = frameAt(now, windowSeconds * 1_000);
  const transform = `translateX(${(-frame.from).toFixed(3)}%)`;
  return [
    LEGEND,
    h("div", { class: "axis", "aria-hidden": "true" }, ticks(windowSeconds)),
    h("ul", { class: "rows" }, ranked.map((one) => rowOf(one, now, frame, transform))),
  ];
}

/**
 * Bars stand still: they are placed by a fixed moment, and what moves is the strip they are on. So a row is drawn again
 * only when something has happened to it, and not every second. Everything is in percent of the window.
 */
function frameAt(now, width) {
  const origin = Math.floor(now / width) * width;
  const at = (moment) => Math.min(FAR, Math.max(-FAR, ((moment - origin) / width) * 100));
  const to = at(now);
  return { at, from: to - 100, to, id: `${origin} ${width}`, steps: (now / width) * STEPS };
}

function ticks(windowSeconds) {
  return Array.from({ length: TICKS + 1 }, (_, index) => {
    const share = index / TICKS;
    return h("span", { style: { left: `${share * 100}%` } }, index === TICKS ? "now" : `−${span(Math.round(windowSeconds * (1 - share)))}`);
  });
}

function rowOf({ row, claims, word }, now, frame, transform) {
  return h(
    "li",
    { key: row.job_id, class: word ? `row needs ${word}` : "row" },
    kept(row, "label", `${word} ${row.status}`, () => labelOf(row, word)),
    h("div", { class: "track", "aria-hidden": "true" }, h("div", { class: "strip", style: { transform } }, barsOf(row, claims, now, frame))),
    h("p", { class: "line" }, lineOf(row, claims, now)),
  );
}

const labelOf = (row, word) =>
  h("div", { class: "label" }, jobLink(row.job_id, { "data-row": "" }), " ", word ? h("strong", { class: "chip" }, ATTENTION[word]) : h("span", { class: "chip" }, row.status));

const drawn = new WeakMap(); // row -> parts of it, and what each was drawn from

function kept(row, part, from, draw) {
  const parts = drawn.get(row) ?? drawn.set(row, {}).get(row);
  if (parts[part]?.from !== from) parts[part] = { from, vnode: draw() };
  return parts[part].vnode;
}

function barsOf(row, claims, now, frame) {
  const [first, last] = [claims[0], claims.at(-1)];
  const isAtEdge = frame.at(ms(first.claimed_at)) < frame.from + NARROW; // names there move along with the window
  const isNarrow = frame.to - frame.at(ms(last.claimed_at)) < NARROW;
  const step = isAtEdge && Math.floor(frame.steps + (first.fencing_token % 16) / 16); // not all rows at once
  const from = [frame.id, row.version, claims.length, life(last, now), isNarrow, step].join(" ");
  return kept(row, "bars", from, () => h("div", { class: "bars" }, claims.map((claim, index) => claimOf(claim, claims[index + 1], now, frame))));
}

function claimOf(claim, next, now, { at, from, to }) {
  const state = life(claim, now);
  const begin = at(ms(claim.claimed_at));
  // A live one may end where it expires, which is right of the edge while that is to come.
  const end = at(ms(claim.ended_at) ?? ms(claim.expires_at) ?? Infinity);
  const solid = state !== null || claim.how === "expired" ? Math.min(end, at(ms(claim.heartbeat_at))) : end;
  const key = claim.fencing_token;
  const title = `${visible(claim.owner)}, ${claim.how ? HOW[claim.how] : state}, since ${utc(claim.claimed_at)}`;
  return [
    h("div", { key: `bar-${key}`, title, class: `bar ${claim.how ?? "held"}`, style: between(begin, solid) }),
    end > solid && h("div", { key: `tail-${key}`, title, class: `tail ${state ?? "gone"}`, style: between(solid, end) }),
    claim.progress && h("div", { key: `mark-${key}`, class: "mark", title: `progress: ${visible(claim.progress.note ?? "")}`, style: { left: `${at(ms(claim.progress.at))}%` } }),
    nameOf(claim, next, Math.max(from, begin), Math.min(to, end), from),
    LOSSES.has(claim.how) && next && h("div", { key: `next-${key}`, class: "takeover", title: sentence(claim, next), style: between(end, at(ms(next.claimed_at))) }),
  ];
}

/** Within its bar; the last one of a row before it, if it has no room there. All of them are in the bars' titles. */
function nameOf(claim, next, begin, end, from) {
  const props = { key: `name-${claim.fencing_token}`, class: "owner", style: between(begin, end) };
  if (end - begin >= NARROW || begin - from < NARROW) return h("span", props, visible(claim.owner));
  if (next) return null;
  return h("span", { ...props, class: "owner before", style: { right: `${(100 - begin).toFixed(3)}%` } }, visible(claim.owner));
}

const between = (from, to) => ({ left: `${from.toFixed(3)}%`, width: `${Math.max(0, to - from).toFixed(3)}%` });

/** "worker-b took over from worker-a: no heartbeat for 3.001 s, TTL 3 s". */
export function sentence(lost, next) {
  const why = lost.reason ? `: ${visible(lost.reason)}` : "";
  const how = lost.how === "expired" ? "lost it" : "had it taken away";
  if (!next) return `${visible(lost.owner)} ${how}${why}`;
  return `${visible(next.owner)} took over from ${visible(lost.owner)}${why}`;
}

/** The row in words: for everybody below the bars, and all there is of it for those who cannot see them. */
export function lineOf(row, claims, now) {
  const last = claims.at(-1);
  const lost = claims.findLast((claim, index) => LOSSES.has(claim.how) && index >= claims.length - 2);
  const said = [];
  if (last.ended_at === null) {
    said.push(`${visible(last.owner)}, ${last.stuck ? "stuck" : life(last, now)}, heartbeat ${span((now - ms(last.heartbeat_at)) / 1_000)} ago`);
    if (last.progress?.note) said.push(`${visible(last.progress.note)}${last.progress.percent === null ? "" : ` (${Math.round(last.progress.percent)} %)`}`);
    if (last.stop_requested) said.push("asked to stop");
  } else if (!lost) {
    said.push(`${visible(last.owner)}: ${HOW[last.how]} ${span((now - ms(last.ended_at)) / 1_000)} ago${last.reason ? `, ${visible(last.reason)}` : ""}`);
  }
  if (lost) said.push(sentence(lost, lost === last ? null : last));
  return said.join(" · ");
}

const LEGEND = legend();

function legend() {
  const shown = [["bar held", "held"], ["tail alive", "since the last heartbeat"], ["tail late", "late"], ["tail gone", "gone"], ["bar done", "done"], ["bar failed", "failed"], ["bar expired", "expired"], ["bar force_released", "taken away"], ["bar released", "released"], ["mark", "progress"]];
  return h("ul", { class: "legend", "aria-label": "Legend" }, shown.map(([look, text]) => h("li", { key: look }, h("span", { class: `swatch ${look}`, "aria-hidden": "true" }), text)));
}
