// One job: its state, its history, and actions for operators.

import { path } from "../api.js";
import { h } from "../dom.js";
import { now as storeNow, ms, span, when } from "../clock.js";
import { attention, applyHeartbeat, applyEvent } from "../now/model.js";
import { HOW, picture, progressOf, stuck } from "../now/picture.js";
import { sentence } from "../story.js";
import { address } from "../url.js";
import { commands, empty, folded, gist, lines, table, visible } from "../words.js";

export const title = "Job";
export const heading = (params) => visible(params.job ?? "Job");

const PAGE = 500;
const PAGES = 4;
const EVENTS_SHOWN = 200;
const ATTEMPTS_KEPT = 5; // the store returns this many; the history of a job with more begins with the oldest of them

export async function load(ctx) {
  const jobId = ctx.params.job ?? "";
  const job = await ctx.get(path("jobs", jobId));
  const oldest = job.previous.length < ATTEMPTS_KEPT ? null : job.previous.at(-1).claimed_at;
  const events = await eventsOf(jobId, oldest, ctx);
  const model = { rows: new Map(), seq: 0, more: false, last_claim_at: null };
  for (const event of events) applyEvent(model, event, {});
  const claim = model.rows.get(jobId)?.claims.at(-1);
  if (job.claim && claim?.ended_at === null && claim.fencing_token === job.claim.fencing_token) Object.assign(claim, job.claim);
  const similar = job.is_known ? [] : (await ctx.get(`${path("jobs", jobId)}/similar`)).similar;
  return { job, events, model, similar, oldest, seq: events.at(-1)?.seq ?? 0 };
}

async function eventsOf(jobId, since, ctx) {
  const found = [];
  let from = since === null ? { after: 0 } : { since };
  for (let page = 0; page < PAGES; page += 1) {
    const response = await ctx.get("events", { job: jobId, ...from, limit: PAGE });
    found.push(...response.events);
    from = { after: response.after };
    if (response.events.length < PAGE) break;
  }
  return found;
}

export function follow(data) {
  return { after: data.seq, job: data.job.job_id, heartbeats: data.job.claim ? data.job.job_id : "" };
}

export function onEvent(data, event, ctx) {
  data.events = [...data.events, event].slice(-PAGE * PAGES);
  applyEvent(data.model, event, {});
  ctx.reload(); // events do not contain the payload, result and other documents
}

export function onHeartbeat(data, heartbeat) {
  applyHeartbeat(data.model, heartbeat);
  if (data.job.claim) Object.assign(data.job.claim, { heartbeat_at: heartbeat.heartbeat_at, expires_at: heartbeat.expires_at, progress: heartbeat.progress ?? data.job.claim.progress });
}

export function render(data, ctx) {
  const { job } = data;
  if (!job.is_known) return unknown(job, data.similar);
  return [
    actions(job, ctx),
    facts(job),
    timeline(data, ctx.judgedAt()),
    job.previous.length > 0 && [h("h2", null, "Earlier attempts"), attempts(data)],
    h("h2", null, "Documents"),
    documents(job),
    h("h2", null, "What happened"),
    story(data),
    h("h2", null, "From a terminal"),
    commands("octostore", cli(job)),
    commands("curl", curl(job)),
  ];
}

function unknown(job, similar) {
  return empty(
    ["There is no job with this name: it was never claimed or enqueued.", similar.length > 0 && [" Did you mean ", similar.map((name, index) => [index > 0 && ", ", h("a", { href: address({ view: "job", job: name }) }, visible(name))]), "?"]],
    `octostore run ${quoted(job.job_id)} -- COMMAND`,
  );
}

const WHY = { cancelled: "Cancelled because", discarded: "Discarded because" };
const of = (number, most) => (most === null ? String(number) : `${number} of ${most}`);

function facts(job) {
  const { claim } = job;
  const known = [
    ["Status", job.status],
    claim && ["Owner", `${visible(claim.owner)}${claim.principal === claim.owner ? "" : ` (token: ${visible(claim.principal)})`}`],
    claim && ["Claimed", when(claim.claimed_at)],
    claim && ["Last heartbeat", [when(claim.heartbeat_at), claim.stuck && [" ", h("strong", null, stuck(claim, storeNow()))]]],
    claim && ["Expires", [when(claim.expires_at), " unless a heartbeat arrives"]],
    claim?.progress && ["Progress", [progressOf(claim.progress), ", ", when(claim.progress.at)]],
    claim?.host && ["Process", `${claim.pid ?? "?"} on ${visible(claim.host)}`],
    claim?.session_id && ["Session", visible(claim.session_id)],
    claim && ["Fencing token", String(claim.fencing_token)],
    claim?.stop_requested && ["Asked to stop", [when(claim.stop_requested.requested_at), ` by ${visible(claim.stop_requested.requested_by)}`, claim.stop_requested.reason && `: ${visible(claim.stop_requested.reason)}`]],
    job.queue && ["Queue", h("a", { href: address({ view: "queues", queue: job.queue }) }, visible(job.queue))],
    job.kind && ["Kind", visible(job.kind)],
    job.priority !== null && ["Priority", String(job.priority)],
    claim ? ["Attempt", of(claim.attempt, job.max_attempts)] : ["Attempts used", of(job.attempts, job.max_attempts)],
    job.status === "queued" && job.available_at && ["Due", when(job.available_at)],
    job.last_outcome && ["Last outcome", HOW[job.last_outcome] ?? job.last_outcome],
    job.error && [WHY[job.last_outcome] ?? "Error", lines(job.error)],
    job.note && ["Note", lines(job.note)],
    job.created_at && ["Created", when(job.created_at)],
  ];
  return h("dl", { class: "facts" }, known.filter(Boolean).map(([name, value]) => [h("dt", null, name), h("dd", null, value)]));
}

function timeline({ job, model }, judgedAt) {
  const row = model.rows.get(job.job_id);
  if (row === undefined || row.claims.length === 0) return null;
  const now = storeNow();
  const seconds = Math.max(10, ((now - ms(row.claims[0].claimed_at)) / 1_000) * 1.02);
  return [h("h2", null, "Claims"), picture([{ row, claims: row.claims, word: attention(row, judgedAt) }], now, judgedAt, seconds)];
}

function attempts({ job, model }) {
  const claims = model.rows.get(job.job_id)?.claims ?? [];
  const reasonOf = (one) => claims.find((claim) => claim.fencing_token === one.fencing_token)?.reason; // the evidence of an expiry
  return table(
    "Earlier attempts",
    [
      ["Attempt", (one) => one.attempt],
      ["Owner", (one) => visible(one.owner)],
      ["Ended", (one) => when(one.ended_at)],
      ["After", (one) => span((ms(one.ended_at) - ms(one.claimed_at)) / 1_000)],
      ["How", (one) => HOW[one.how] ?? one.how],
      ["Why", (one) => gist(one.error ?? one.reason ?? reasonOf(one) ?? "")],
      ["Note", (one) => gist(one.note ?? "")],
    ],
    job.previous,
    (one) => one.fencing_token,
  );
}

function documents(job) {
  const found = [["Payload", job.payload], ["Checkpoint", job.checkpoint], ["Result", job.result], ["Metadata", job.claim?.metadata]];
  const shown = found.map(([name, value]) => folded(name, value)).filter(Boolean);
  return shown.length > 0 ? shown : h("p", { class: "quiet" }, "No payload, checkpoint, result or metadata.");
}

function story({ events, oldest, job }) {
  const shown = events.slice(-EVENTS_SHOWN).reverse();
  const isCut = oldest !== null || events.length > EVENTS_SHOWN;
  return [
    h("ul", { class: "story" }, shown.map((event) => h("li", { key: event.seq }, when(event.at), ": ", sentence(event)))),
    isCut && h("p", { class: "quiet" }, "There are older events: ", h("code", null, `octostore events --job ${quoted(job.job_id)}`)),
  ];
}

function actions(job, ctx) {
  if (!ctx.may("admin")) return null;
  const at = (what) => `${path("jobs", job.job_id)}/${what}`;
  const name = visible(job.job_id);
  const owner = job.claim ? visible(job.claim.owner) : "";
  const loses = owner && `${owner} loses the job at once, even if it is alive`;
  const known = {
    stop: { verb: "Ask to stop", where: at("stop"), says: `${owner} is asked to wrap up and release the job. It keeps the job until it does.`, done: `${owner} was asked to stop.` },
    force: {
      verb: "Force-release",
      isDanger: true,
      where: at("force-release"),
      says: `${loses}. OctoStore refuses its later writes; other systems can do so only if they check the fencing token. ${job.queue === null ? "Then anyone can claim the job" : "Then the next worker gets the job"}, possibly ${owner} again: to prevent that, cancel the job${job.queue === null ? "" : " or pause its queue"}.`,
      done: `${name} was taken away from ${owner}.`,
    },
    cancel: { verb: "Cancel the job", isDanger: true, where: at("cancel"), says: `${loses ? `${loses}. ` : ""}The job becomes a dead letter: nobody can claim it until it is requeued.`, done: `${name} was cancelled.` },
    drain: { verb: "Stop, then cancel", where: at("cancel"), body: ({ reason }) => ({ reason, drain: true }), says: `${owner} is asked to stop, and keeps the job until it does. Then the job becomes a dead letter, unless it is done.`, done: `${name} will be cancelled when ${owner} stops.` },
    requeue: { verb: "Requeue", where: at("requeue"), says: "The job is queued again and gets all its attempts back.", done: `${name} was requeued.` },
    discard: { verb: "Discard", isDanger: true, where: at("discard"), says: "The job is removed from its queue for good, and its name is free again.", done: `${name} was discarded.` },
  };
  const offered = { claimed: ["stop", "drain", "force", "cancel"], queued: ["cancel"], dead: ["requeue", "discard"], done: ["requeue"], free: [] }[job.status];
  if (offered.length === 0) return null;
  return h("p", { class: "buttons" }, offered.map((key) => h("button", { key, class: known[key].isDanger ? "danger" : null, onclick: () => ctx.act({ title: `${known[key].verb}: ${name}`, ...known[key] }) }, known[key].verb)));
}

const quoted = (text) => (/^[\w./#:@+=-]+$/.test(text) && !text.startsWith("#") ? text : `'${text.replaceAll("'", "'\\''")}'`);

function cli(job) {
  const name = quoted(job.job_id);
  const also = { claimed: [`octostore stop ${name} --reason WHY`, `octostore force-release ${name} --reason WHY`], dead: [`octostore requeue ${name} --reason WHY`, `octostore discard ${name} --reason WHY`], queued: [`octostore cancel ${name} --reason WHY`] };
  return [`octostore owner ${name}`, `octostore events --job ${name} --follow`, ...(also[job.status] ?? [])];
}

function curl(job) {
  const at = `"$OCTOSTORE_URL/${path("jobs", job.job_id)}`;
  const auth = '-H "Authorization: Bearer $OCTOSTORE_TOKEN"';
  return [`curl ${auth} ${at}"`, `curl ${auth} "$OCTOSTORE_URL/events?job=${encodeURIComponent(job.job_id)}"`];
}
