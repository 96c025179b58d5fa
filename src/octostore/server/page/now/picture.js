// The picture: one row for each job, time from left to right, and now at the right edge.

import { h } from "../dom.js";
import { ms, span, utc } from "../clock.js";
import { jobLink, visible } from "../words.js";
import { attention, life, LOSSES } from "./model.js";

const TICKS = 5;
const NARROW = 8; // percent: a name would not fit into such a bar, and stands before it

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

const ATTENTION = {
  lost: "lost",
  gone: "gone",
  stuck: "stuck",
  late: "late",
  stopping: "asked to stop",
  failed: "failed",
  dead: "dead",
};

export function picture(ranked, now, windowSeconds) {
  const start = now - windowSeconds * 1_000;
  const at = (moment) => Math.min(100, Math.max(0, ((moment - start) / (now - start)) * 100));
  return [
    legend(),
    h("div", { class: "axis", "aria-hidden": "true" }, ticks(windowSeconds)),
    h("ul", { class: "rows" }, ranked.map(({ row, claims }) => rowOf(row, claims, now, at))),
  ];
}

function ticks(windowSeconds) {
  return Array.from({ length: TICKS + 1 }, (_, index) => {
    const share = index / TICKS;
    return h("span", { style: { left: `${share * 100}%` } }, index === TICKS ? "now" : `−${span(Math.round(windowSeconds * (1 - share)))}`);
  });
}

function rowOf(row, claims, now, at) {
  const word = attention(row, now);
  return h(
    "li",
    { key: row.job_id, class: word ? `row needs ${word}` : "row" },
    h("div", { class: "label" }, jobLink(row.job_id, { "data-row": "" }), " ", word ? h("strong", { class: "chip" }, ATTENTION[word]) : h("span", { class: "chip" }, row.status)),
    h("div", { class: "track", "aria-hidden": "true" }, claims.flatMap((claim, index) => barsOf(claim, claims[index + 1], now, at))),
    h("p", { class: "line" }, lineOf(row, claims, now)),
  );
}

function barsOf(claim, next, now, at) {
  const state = life(claim, now);
  const isLost = LOSSES.has(claim.how);
  const end = claim.ended_at === null ? Math.min(now, ms(claim.expires_at) ?? now) : ms(claim.ended_at);
  const solid = state !== null || claim.how === "expired" ? Math.min(end, ms(claim.heartbeat_at)) : end;
  const key = claim.fencing_token;
  const title = `${visible(claim.owner)}, ${claim.how ? HOW[claim.how] : state}, since ${utc(claim.claimed_at)}`;
  return [
    h("div", { key: `bar-${key}`, title, class: `bar ${claim.how ?? "held"}`, style: between(at(ms(claim.claimed_at)), at(solid)) }),
    end > solid && h("div", { key: `tail-${key}`, title, class: `tail ${state ?? "gone"}`, style: between(at(solid), at(end)) }),
    claim.progress && h("div", { key: `mark-${key}`, class: "mark", title: `progress: ${visible(claim.progress.note ?? "")}`, style: { left: `${at(ms(claim.progress.at))}%` } }),
    nameOf(claim, next, at(ms(claim.claimed_at)), at(end)),
    isLost && next && h("div", { key: `next-${key}`, class: "takeover", title: sentence(claim, next), style: between(at(end), at(ms(next.claimed_at))) }),
  ];
}

/** Within its bar; the last one of a row before it, if it has no room there. All of them are in the bars' titles. */
function nameOf(claim, next, from, to) {
  const props = { key: `name-${claim.fencing_token}`, class: "owner", style: between(from, to) };
  if (to - from >= NARROW || from < NARROW) return h("span", props, visible(claim.owner));
  if (next) return null;
  return h("span", { ...props, class: "owner before", style: { right: `${(100 - from).toFixed(3)}%` } }, visible(claim.owner));
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

function legend() {
  const shown = [["bar held", "held"], ["tail alive", "since the last heartbeat"], ["tail late", "late"], ["tail gone", "gone"], ["bar done", "done"], ["bar failed", "failed"], ["bar expired", "expired"], ["bar force_released", "taken away"], ["bar released", "released"], ["mark", "progress"]];
  return h("ul", { class: "legend", "aria-label": "Legend" }, shown.map(([look, text]) => h("li", { key: look }, h("span", { class: `swatch ${look}`, "aria-hidden": "true" }), text)));
}
