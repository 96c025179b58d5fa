// Which claims were lost, when and why, and who owns the job now.

import { h } from "../dom.js";
import { ms, now as storeNow, span, when } from "../clock.js";
import { applyEvent, LOSSES, modelOf } from "../now/model.js";
import { HOW } from "../now/picture.js";
import { windowSeconds } from "../url.js";
import { empty, filters, gist, jobLink, plural, table, visible } from "../words.js";

export const title = "Takeovers";
export const every = 60;

const WINDOWS = [["3600", "1 h"], ["21600", "6 h"], ["86400", "24 h"], ["604800", "7 d"]];
const windowName = (seconds) => WINDOWS.find(([value]) => value === String(seconds))?.[1] ?? span(seconds);
const windowOf = (params) => windowSeconds(params, 86_400);

export async function load(ctx) {
  const { prefix, queue, owner } = ctx.params;
  return modelOf(await ctx.get("claims", { window: windowOf(ctx.params), lost: true, prefix, queue, owner, limit: 200 }));
}

export const follow = (model, ctx) => ({ after: model.seq, prefix: ctx.params.prefix ?? "" });

export function onEvent(model, event, ctx) {
  const { prefix, queue, owner } = ctx.params;
  applyEvent(model, event, { lost: true, prefix, queue, owner });
}

export function render(model, ctx) {
  const seconds = windowOf(ctx.params);
  const found = lossesOf(model, storeNow() - seconds * 1_000);
  return [
    filters([{ name: "prefix", label: "Job begins with" }, { name: "owner", label: "Owner", hint: "exact name" }, { name: "queue", label: "Queue", hint: "exact name" }, { name: "window", label: "Window", options: WINDOWS }], { ...ctx, params: { window: "86400", ...ctx.params } }),
    found.length === 0
      ? empty([`Nobody has lost a job in the last ${windowName(seconds)}. Last claim: `, when(model.last_claim_at, "none found"), ". To watch a worker get killed and its job taken over:"], "octostore demo")
      : [h("p", { class: "quiet" }, `${plural(found.length, "claim")} lost in the last ${windowName(seconds)}${model.more ? " (the newest; there are more)" : ""}.`), tableOf(found)],
  ];
}

function lossesOf(model, since) {
  const found = [];
  for (const row of model.rows.values())
    row.claims.forEach((claim, index) => {
      if (LOSSES.has(claim.how) && ms(claim.ended_at) >= since) found.push({ row, claim, next: row.claims[index + 1] ?? null, last: row.claims.at(-1) });
    });
  return found.sort((a, b) => ms(b.claim.ended_at) - ms(a.claim.ended_at));
}

function tableOf(found) {
  return table(
    "Takeovers",
    [
      ["Job", ({ row }) => jobLink(row.job_id, { "data-row": "" })],
      ["Lost by", ({ claim }) => visible(claim.owner)],
      ["When", ({ claim }) => when(claim.ended_at)],
      ["Why", ({ claim }) => [HOW[claim.how], claim.reason && `: ${gist(claim.reason)}`, claim.note && ` (${gist(claim.note)})`]],
      ["Taken over by", ({ next, claim }) => (next ? [visible(next.owner), h("span", { class: "quiet" }, ` ${span((ms(next.claimed_at) - ms(claim.ended_at)) / 1_000)} later`)] : "nobody yet")],
      ["Now", ({ row, last }) => (last.ended_at === null ? [visible(last.owner), " has it"] : row.status)],
    ],
    found,
    ({ row, claim }) => `${row.job_id} ${claim.fencing_token}`,
  );
}
