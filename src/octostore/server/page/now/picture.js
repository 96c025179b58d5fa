// The picture: one row per job, time from left to right, with now at the right edge.

import { h } from "../dom.js";
import { ms, span, utc } from "../clock.js";
import { gist, jobLink, visible } from "../words.js";
import { LAG_MS } from "../judging.js";
import { life, LOSSES } from "./model.js";

const TICKS = 5;
const NARROW = 8; // percent: a name does not fit into such a bar, and goes before it
const FAR = 300; // percent: always outside the window
const STEPS = 200; // steps per window in which names at its edge move

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

export function picture(ranked, now, judgedAt, windowSeconds) {
  const frame = frameAt(now, windowSeconds * 1_000);
  const transform = `translateX(${(-frame.from).toFixed(3)}%)`;
  return [
    LEGEND,
    h("div", { class: "axis", "aria-hidden": "true" }, ticks(windowSeconds)),
    h("ul", { class: "rows" }, ranked.map((one) => rowOf(one, now, judgedAt, frame, transform))),
  ];
}

/**
 * Bars have fixed positions on a strip, and the strip moves. So a row is drawn again only when it changes, and not every
 * second. All positions are in percent of the window.
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

function rowOf({ row, claims, word }, now, judgedAt, frame, transform) {
  return h(
    "li",
    { key: row.job_id, class: word ? `row needs ${word}` : "row" },
    kept(row, "label", `${word} ${row.status}`, () => labelOf(row, word)),
    h("div", { class: "track", "aria-hidden": "true" }, h("div", { class: "strip", style: { transform } }, barsOf(row, claims, judgedAt, frame))),
    h("p", { class: "line" }, lineOf(claims, now, judgedAt)),
  );
}

const labelOf = (row, word) =>
  h("div", { class: "label" }, jobLink(row.job_id, { "data-row": "" }), " ", word ? h("strong", { class: "chip" }, ATTENTION[word]) : h("span", { class: "chip" }, row.status));

const drawn = new WeakMap(); // row -> its rendered parts, and the state each was rendered from

function kept(row, part, from, draw) {
  const parts = drawn.get(row) ?? drawn.set(row, {}).get(row);
  if (parts[part]?.from !== from) parts[part] = { from, vnode: draw() };
  return parts[part].vnode;
}

function barsOf(row, claims, judgedAt, frame) {
  const [first, last] = [claims[0], claims.at(-1)];
  const isAtEdge = frame.at(ms(first.claimed_at)) < frame.from + NARROW; // names there move with the window
  const isNarrow = frame.to - frame.at(ms(last.claimed_at)) < NARROW;
  const step = isAtEdge && Math.floor(frame.steps + (first.fencing_token % 16) / 16); // spread over time, not all rows together
  const from = [frame.id, row.version, claims.length, life(last, judgedAt), isNarrow, step].join(" ");
  return kept(row, "bars", from, () => h("div", { class: "bars" }, claims.map((claim, index) => claimOf(claim, claims[index - 1], claims[index + 1], judgedAt, frame))));
}

function claimOf(claim, before, next, judgedAt, { at, from, to }) {
  const state = life(claim, judgedAt);
  const begin = at(ms(claim.claimed_at));
  // A live claim ends where it would expire, right of the edge while that is in the future.
  const end = at(ms(claim.ended_at) ?? ms(claim.expires_at) ?? Infinity);
  const solid = state !== null || claim.how === "expired" ? Math.min(end, at(ms(claim.heartbeat_at))) : end;
  const key = claim.fencing_token;
  const title = `${visible(claim.owner)}, ${claim.how ? HOW[claim.how] : state}, since ${utc(claim.claimed_at)}`;
  return [
    h("div", { key: `bar-${key}`, title, class: `bar ${claim.how ?? "held"}`, style: between(begin, solid) }),
    end > solid && h("div", { key: `tail-${key}`, title, class: `tail ${state ?? "gone"}`, style: between(solid, end) }),
    claim.progress && h("div", { key: `mark-${key}`, class: "mark", title: `progress: ${visible(claim.progress.note ?? "")}`, style: { left: `${at(ms(claim.progress.at))}%` } }),
    nameOf(claim, before, next, Math.max(from, begin), Math.min(to, end), { at, from }),
    next && changesHands(claim, next) && h("div", { key: `next-${key}`, class: LOSSES.has(claim.how) ? "takeover" : "takeover handed", title: sentence(claim, next), style: between(end, at(ms(next.claimed_at))) }),
  ];
}

const changesHands = (claim, next) => LOSSES.has(claim.how) || next.handed_over_by !== null;

/**
 * The owner's name, inside its bar. If it does not fit, the last claim of a row has its name before the bar, with the
 * previous owner's if that does not fit either. The bars' titles have all names.
 */
function nameOf(claim, before, next, begin, end, { at, from }) {
  const props = { key: `name-${claim.fencing_token}`, class: "owner", style: between(begin, end) };
  if (end - begin >= NARROW || begin - from < NARROW) return h("span", props, visible(claim.owner));
  if (next) return null;
  const first = before ? Math.max(from, at(ms(before.claimed_at))) : begin;
  const isPair = before && changesHands(before, claim) && first > from && at(ms(before.ended_at)) - first < NARROW;
  const names = isPair ? `${visible(before.owner)} → ${visible(claim.owner)}` : visible(claim.owner);
  return h("span", { ...props, class: "owner before", style: { right: `${(100 - (isPair ? first : begin)).toFixed(3)}%` } }, names);
}

const between = (from, to) => ({ left: `${from.toFixed(3)}%`, width: `${Math.max(0, to - from).toFixed(3)}%` });

/** "worker-b took over from worker-a: no heartbeat for 3.001 s, TTL 3 s". */
export function sentence(lost, next) {
  if (next?.handed_over_by) return `${visible(next.owner)} got it from ${visible(lost.owner)}: handed over${lost.note ? ` (${gist(lost.note)})` : ""}`;
  const why = lost.reason ? `: ${gist(lost.reason)}` : "";
  if (next) return `${visible(next.owner)} took over from ${visible(lost.owner)}${why}`;
  return lost.how === "expired" ? `${visible(lost.owner)} lost it${why}` : `it was taken away from ${visible(lost.owner)}${why}`;
}

/** The row in words, shown below the bars. Screen readers get only this. */
export function lineOf(claims, now, judgedAt) {
  const last = claims.at(-1);
  const ago = (moment) => `${span((now - ms(moment)) / 1_000)} ago`;
  const at = claims.findLastIndex((claim, index) => index >= claims.length - 2 && (LOSSES.has(claim.how) || (claims[index + 1]?.handed_over_by ?? null) !== null));
  const parts = [];
  if (last.ended_at === null) {
    parts.push(`${visible(last.owner)}, ${stateOf(last, now, judgedAt)}, heartbeat ${ago(last.heartbeat_at)}`);
    if (last.progress) parts.push(`${progressOf(last.progress)}, ${ago(last.progress.at)}`);
    if (last.stop_requested) parts.push("asked to stop");
  } else if (at < 0 || at < claims.length - 1) {
    parts.push(`${visible(last.owner)}: ${HOW[last.how]} ${ago(last.ended_at)}${last.reason ? `, ${gist(last.reason)}` : ""}`);
  }
  if (at >= 0) parts.push(sentence(claims[at], claims[at + 1] ?? null));
  return parts.join(" · ");
}

const UNKNOWN_MS = 3 * LAG_MS; // after this long without data, the state may have changed

function stateOf(claim, now, judgedAt) {
  const state = claim.stuck ? stuck(claim, now) : life(claim, judgedAt);
  return now - judgedAt > UNKNOWN_MS ? `${state} when last seen` : state;
}

/** "stuck: no progress for 4 min 10 s, limit 2 min". */
export function stuck(claim, now) {
  const silent = span((now - Math.max(ms(claim.progress?.at ?? claim.claimed_at), ms(claim.claimed_at))) / 1_000);
  return `stuck: no progress for ${silent}${claim.max_silence ? ` (limit ${span(claim.max_silence)})` : ""}`;
}

/** "page 14 of 20 (70%)". */
export function progressOf({ note, percent }) {
  const share = percent === null ? "" : `${Math.round(percent)}%`;
  return note ? `${gist(note)}${share && ` (${share})`}` : share || "progress";
}

const LEGEND = legend();

function legend() {
  const shown = [["bar held", "claimed"], ["tail alive", "since the last heartbeat"], ["tail late", "late"], ["tail gone", "gone"], ["bar done", "done"], ["bar failed", "failed"], ["bar expired", "expired"], ["bar force_released", "taken away"], ["bar released", "released"], ["mark", "progress"]];
  return h("ul", { class: "legend", "aria-label": "Legend" }, shown.map(([look, text]) => h("li", { key: look }, h("span", { class: `swatch ${look}`, "aria-hidden": "true" }), text)));
}
