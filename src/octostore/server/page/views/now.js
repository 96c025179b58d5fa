// Who owns which job, whether the owner is alive and makes progress, and who took over from whom.

import { h } from "../dom.js";
import { now as storeNow, span, when } from "../clock.js";
import { applyHeartbeat, applyEvent, held, holders, modelOf, rowsAt } from "../now/model.js";
import { ATTENTION, lineOf, picture } from "../now/picture.js";
import { windowSeconds } from "../url.js";
import { empty, filters, grouped, jobLink, plural, table, visible } from "../words.js";

export const title = "Now";
export const every = (model) => (held(model).length < holders(model) ? 10 : 60); // if not all heartbeats fit in a URL

const WINDOWS = [["60", "1 min"], ["300", "5 min"], ["900", "15 min"], ["3600", "1 h"], ["21600", "6 h"], ["86400", "24 h"]];
const STATUSES = [["", "any"], ["claimed", "claimed"], ["queued", "queued"], ["free", "free"], ["done", "done"], ["dead", "dead"]];

const ATTENTIONS = [["", "any"], ...Object.entries(ATTENTION)];

const windowOf = (params) => windowSeconds(params, 900);
const wantedOf = ({ prefix, queue, owner, status }) => ({ prefix, queue, owner, status });

export async function load(ctx) {
  return modelOf(await ctx.get("claims", { window: windowOf(ctx.params), ...wantedOf(ctx.params), limit: 200 }));
}

export function follow(model, ctx) {
  return { after: model.seq, prefix: ctx.params.prefix ?? "", heartbeats: held(model).join(",") };
}

export const onEvent = (model, event, ctx) => applyEvent(model, event, wantedOf(ctx.params));
export const onHeartbeat = (model, heartbeat) => applyHeartbeat(model, heartbeat);

const FIRST_ROWS = 30; // as many as a large screen shows
let isFirst = true;

export function render(model, ctx) {
  const seconds = windowOf(ctx.params);
  const now = storeNow();
  const judgedAt = ctx.judgedAt();
  const ranked = rowsAt(model, now, judgedAt, seconds, ctx.params);
  const isTable = ctx.params.show === "table";
  return [
    filters(
      [{ name: "prefix", label: "Job begins with" }, { name: "owner", label: "Owner", hint: "exact name" }, { name: "queue", label: "Queue", hint: "exact name" }, { name: "status", label: "Status", options: STATUSES }, { name: "attention", label: "Attention", options: ATTENTIONS }, { name: "window", label: "Window", options: WINDOWS }],
      { ...ctx, params: { window: "900", ...ctx.params } },
      h("a", { class: "button", href: ctx.href({ show: isTable ? null : "table" }), "data-switch": "" }, isTable ? "Show picture" : "Show table"),
    ),
    ranked.length > 0 && h("p", { class: "quiet" }, summary(ranked, model, seconds, ctx)),
    ranked.length === 0 ? nothing(model, ctx, seconds) : isTable ? tableOf(ranked, now, judgedAt) : picture(atFirst(ranked, ctx), now, judgedAt, seconds),
  ];
}

/** The first frame has only the visible rows, and the next one all of them: rendering 200 takes a while. */
function atFirst(ranked, ctx) {
  if (!isFirst) return ranked;
  isFirst = false;
  requestAnimationFrame(() => ctx.redraw());
  return ranked.slice(0, FIRST_ROWS);
}

const isFiltered = ({ params }) => [...Object.values(wantedOf(params)), params.attention].some(Boolean);

function summary(ranked, model, seconds, ctx) {
  const live = ranked.filter(({ claims }) => claims.at(-1).ended_at === null).length;
  const urgent = ranked.filter(({ word }) => word).length;
  const parts = [plural(ranked.length, "job"), ` in the last ${span(seconds)}, ${grouped(live)} claimed now`];
  if (urgent) parts.push(`, ${urgent} ${urgent === 1 ? "needs" : "need"} attention`);
  if (model.more) parts.push("; there are more: narrow the filters to see them");
  if (isFiltered(ctx)) return [parts.join(""), "."]; // the last claim may not match the filters
  return [parts.join(""), ". Last claim: ", when(model.last_claim_at, "none found"), "."];
}

function nothing(model, ctx, seconds) {
  if (isFiltered(ctx)) return empty(["No claim matches these filters in the last ", span(seconds), ctx.params.owner && ". The owner must match exactly", ctx.params.queue && ". The queue must match exactly", "."]);
  return empty(
    [`Nobody has claimed anything in the last ${span(seconds)}. Last claim: `, when(model.last_claim_at, "none found"), ". To see one here:"],
    "octostore run my-first-job -- sleep 60",
    "octostore demo --here",
  );
}

function tableOf(ranked, now, judgedAt) {
  const last = ({ claims }) => claims.at(-1);
  return table(
    "Jobs and their claims",
    [
      ["Job", ({ row }) => jobLink(row.job_id, { "data-row": "" })],
      ["Status", ({ row, word }) => [word !== row.status && row.status, word && h("strong", { class: "chip" }, ATTENTION[word])]],
      ["Owner", (one) => visible(last(one).owner)],
      ["Claimed", (one) => when(last(one).claimed_at)],
      ["Heartbeat", (one) => when(last(one).heartbeat_at)],
      ["Attempt", (one) => last(one).attempt],
      ["In words", ({ claims }) => lineOf(claims, now, judgedAt)],
    ],
    ranked,
    ({ row }) => row.job_id,
  );
}
