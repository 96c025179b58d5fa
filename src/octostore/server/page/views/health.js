// Whether work is getting done, and if not, why.

import { h } from "../dom.js";
import { when } from "../clock.js";
import { address } from "../url.js";
import { grouped, plural, visible } from "../words.js";

export const title = "Health";
export const every = 10;

export async function load(ctx) {
  const [figures, server] = await Promise.all([ctx.get("figures", { max_age: every }), ctx.get("livez")]);
  return { ...figures, server };
}

const SAYS = {
  ok: "Work is getting done.",
  degraded: "It works, but someone should take a look.",
  unhealthy: "Work is not getting done.",
};

export function render(data) {
  return [
    h("p", { class: "status" }, h(data.status === "ok" ? "span" : "strong", { class: "chip" }, data.status), " ", SAYS[data.status]),
    data.reasons.length > 0 && h("ul", null, data.reasons.map((reason) => h("li", { key: reason }, reason))),
    h("p", { class: "quiet" }, "Counted ", when(data.at), "."),
    h("dl", { class: "facts" }, facts(data).map(([name, value]) => [h("dt", null, name), h("dd", null, value)])),
  ];
}

const linked = (number, one, query, many) => (number > 0 ? h("a", { href: address(query) }, plural(number, one, many)) : `no ${many ?? `${one}s`}`);

function facts(data) {
  return [
    ["Claimed", linked(data.claimed, "job", { status: "claimed" })],
    ["Late", linked(data.late, "claim", { attention: "late" })],
    ["Stuck", linked(data.stuck, "claim", { attention: "stuck" })],
    ["Waiting", data.waiting > 0 ? [linked(data.waiting, "job", { view: "queues" }), ", the oldest due ", when(data.oldest_due_at)] : "no jobs"],
    ["Dead", linked(data.dead, "job", { view: "dead" })],
    ["Lost in the last hour", linked(data.taken_back, "claim", { view: "takeovers" })],
    ["Open sessions", linked(data.open_sessions, "session", { view: "workers" })],
    ["Last event", `#${grouped(data.seq)}`],
    ["Store", h("span", { class: "name" }, visible(data.store_id))],
    ["Server", `OctoStore ${data.server.version}`],
  ];
}
