// Queues: what they contain, how fast they move, and their limits.

import { path } from "../api.js";
import { h } from "../dom.js";
import { ms, span, when } from "../clock.js";
import { address } from "../url.js";
import { capped, empty, grouped, table, visible } from "../words.js";

export const title = "Queues";
export const every = 10;

export const load = (ctx) => ctx.get("queues");

export function render(data, ctx) {
  const shown = ctx.params.queue ? data.queues.filter((one) => one.queue === ctx.params.queue) : data.queues;
  if (shown.length === 0)
    return empty(ctx.params.queue ? `There is no queue ${visible(ctx.params.queue)} with a job or a limit.` : "No job has been enqueued yet. To enqueue one:", "octostore enqueue build --queue default");
  return [
    h("p", { class: "quiet" }, "Counted ", when(data.counted_at), `. In the charts, each bar is ${span(data.bucket_seconds)}.`),
    table("Queues", columns(data, ctx), shown, (one) => one.queue),
    data.more && h("p", { class: "quiet" }, "These are the longest queues; there are more."),
  ];
}

function columns(data, ctx) {
  const count = (number) => (number === 0 ? "none" : capped(number, data.counted_to));
  return [
    ["Queue", (one) => [h("a", { href: address({ queue: one.queue }), "data-row": "", class: "name" }, visible(one.queue)), one.paused && paused(one.pause)]],
    ["Due now", (one) => (one.ready > 0 ? [count(one.ready), ", the oldest due ", when(one.oldest_due_at)] : "none")],
    ["Last claim", (one) => when(one.last_claim_at, "none found")],
    ["Later", (one) => (one.later > 0 ? [count(one.later), ", the next ", when(one.available_at)] : "none")],
    ["Claimed", (one) => (one.max_claimed === null ? count(one.claimed) : `${count(one.claimed)} (limit ${one.max_claimed})`)],
    ["Dead", (one) => (one.dead > 0 ? h("a", { href: address({ view: "dead", queue: one.queue }) }, count(one.dead)) : count(0))],
    ["Done", (one) => count(one.done)],
    ["Enqueued", (one) => spark(one.rates.enqueued, data)],
    ["Finished", (one) => spark(one.rates.done, data)],
    ["Failed", (one) => spark(one.rates.failed, data)],
    ...(ctx.may("admin") && !ctx.me.prefix ? [["Change", (one) => buttons(one, ctx)]] : []),
  ];
}

function paused(pause) {
  return [h("strong", { class: "chip" }, "paused"), pause && h("div", { class: "quiet" }, when(pause.at), ` by ${visible(pause.by)}`, pause.reason && `: ${visible(pause.reason)}`)];
}

const LATELY_SECONDS = 600; // as in `octostore queues`, or less if the log is busy

/** A bar for each interval, and the recent ones as a number. */
function spark(counts, data) {
  const most = Math.max(1, ...counts);
  const covered = Math.min(LATELY_SECONDS, (ms(data.counted_at) - ms(data.rates_since)) / 1_000);
  const lately = counts.slice(-Math.ceil(LATELY_SECONDS / data.bucket_seconds)).reduce((sum, one) => sum + one, 0);
  return [
    h("span", { class: "spark", "aria-hidden": "true" }, counts.map((one) => h("i", { style: { height: `${Math.round((one / most) * 22)}px` } }))),
    h("br"),
    h("span", { class: lately === 0 ? "quiet" : null }, `${lately === 0 ? "none" : grouped(lately)} in ${span(covered)}`),
  ];
}

function buttons(one, ctx) {
  const name = visible(one.queue);
  const set = (title, verb, says, body, done, fields) => () => ctx.act({ title, verb, says, fields, method: "PUT", where: path("queues", one.queue), body: (given) => ({ reason: given.reason, ...body(given) }), done });
  const pause = one.paused
    ? set(`Resume ${name}`, "Resume", "Workers get jobs from this queue again.", () => ({ paused: false }), `Queue ${name} was resumed.`)
    : set(`Pause ${name}`, "Pause", "Nobody gets a job from this queue until it is resumed. Claimed jobs keep running.", () => ({ paused: true }), `Queue ${name} was paused.`);
  const limit = set(
    `Limit ${name}`,
    "Set limit",
    "The number of jobs in this queue that can be claimed at the same time. Leave it empty for no limit.",
    (given) => ({ max_claimed: given.most === "" ? null : Number(given.most) }),
    `The limit of queue ${name} was changed.`,
    [{ name: "most", label: "At most", kind: "number", min: 1, optional: true, value: one.max_claimed ?? "" }],
  );
  return h("span", { class: "buttons" }, h("button", { onclick: pause }, one.paused ? "Resume" : "Pause"), h("button", { onclick: limit }, "Limit"));
}
