// Rows of claims by job, loaded once and then updated from the log.

import { ms } from "../clock.js";

const ROWS_MAX = 200;
const CLAIMS_MAX = 50;
const WAITING = new Set(["free", "queued"]);
const SETTLED = new Set(["requeued", "discarded"]); // by an operator: earlier losses need no attention any more
/** The order of rows, as in core/claims_window.py; plus "gone", for an expiry that the store has not recorded yet. */
const ORDER = ["lost", "gone", "stuck", "late", "stopping", "taken over", "live", "failed", "dead", "ended"];
export const LOSSES = new Set(["expired", "force_released"]);

/** The response of GET /claims, with rows by job. */
export function modelOf(page) {
  return { ...page, rows: new Map(page.rows.map((row) => [row.job_id, row])) };
}

/** Apply an event to the model. `wanted` has the filters that can be checked here. */
export function applyEvent(model, event, wanted) {
  if (event.job_id === null) return;
  const { type, data } = event;
  const isEnd = data.ended_at !== undefined;
  if (type === "claimed") model.last_claim_at = event.at;
  const row = model.rows.get(event.job_id) ?? ((type === "claimed" || isEnd) && added(model, event, wanted));
  if (!row) return;
  row.version = (row.version ?? 0) + 1;
  row.status = statusAfter(type, data) ?? row.status;
  if (type === "enqueued") Object.assign(row, { queue: event.queue, kind: data.kind });
  if (type === "claimed") put(row, claimOf(event));
  else if (isEnd) put(row, endOf(event, row.claims.find((one) => one.fencing_token === data.fencing_token)));
  else changeLive(row, event);
  row.attention = SETTLED.has(type) ? null : attentionOf(row);
}

const statusAfter = (type, data) => ({ claimed: "claimed", discarded: "free", cancelled: "dead" })[type] ?? data.status;

/** Add a row if it matches, dropping a less important one if the model is full. */
function added(model, event, wanted) {
  if (!matches(event, wanted)) return null;
  const row = { job_id: event.job_id, queue: event.queue, kind: null, status: "", attention: null, claims: [], more: false };
  if (model.rows.size >= ROWS_MAX) {
    model.more = true;
    const last = leastImportant(model, wanted);
    if (last === null) return null;
    model.rows.delete(last);
  }
  model.rows.set(event.job_id, row);
  return row;
}

/** The oldest row that has ended and needs no attention; null if there is none. */
function leastImportant(model, { lost }) {
  let found = null;
  let oldest = Infinity;
  for (const row of model.rows.values()) {
    const last = row.claims.at(-1);
    if (!lost && (last.ended_at === null || row.attention !== null)) continue;
    const at = ms(last.ended_at ?? last.claimed_at);
    if (at < oldest) [found, oldest] = [row.job_id, at];
  }
  return found;
}

function matches({ type, job_id, queue, data }, wanted) {
  const status = statusAfter(type, data);
  return (
    (!wanted.lost || LOSSES.has(type)) &&
    (!wanted.status || status === wanted.status) &&
    (!wanted.prefix || job_id.startsWith(wanted.prefix)) &&
    (!wanted.queue || queue === wanted.queue) &&
    (!wanted.owner || data.owner === wanted.owner)
  );
}

/** Replace the claim of the same fencing token, or add it as the newest. */
function put(row, claim) {
  const at = row.claims.findIndex((one) => one.fencing_token >= claim.fencing_token);
  if (at < 0) row.claims.push(claim);
  else row.claims.splice(at, row.claims[at].fencing_token === claim.fencing_token ? 1 : 0, claim);
  if (row.claims.length > CLAIMS_MAX) row.more = !!row.claims.shift();
}

const NEW = { ttl: null, expires_at: null, late_at: null, ended_at: null, how: null, reason: null, note: null, took_over_from: null, handed_over_by: null, progress: null, late: false, stuck: false, max_silence: null, stop_requested: null, host: null, pid: null };

function claimOf({ seq, at, actor, session_id, data }) {
  const { owner, attempt, ttl_ms, expires_at = null, took_over_from = null, handed_over_by = null, host = null, pid = null, max_silence_ms = null } = data;
  return { ...NEW, owner, principal: actor, fencing_token: seq, attempt, claimed_at: at, heartbeat_at: at, ttl: ttl_ms / 1_000, expires_at, took_over_from, handed_over_by, session_id, host, pid, max_silence: max_silence_ms && max_silence_ms / 1_000 };
}

function endOf({ type, at, session_id, reason, data }, known) {
  const { owner, fencing_token, attempt, claimed_at, heartbeat_at, ended_at, note = null } = data;
  const before = known ?? { ...NEW, owner, principal: null, fencing_token, attempt, claimed_at, session_id };
  return { ...before, heartbeat_at, ended_at: ended_at ?? at, how: type, reason, note, expires_at: null, late_at: null, late: false, stuck: false };
}

function changeLive(row, { type, at, actor, reason, data }) {
  const claim = row.claims.find((one) => one.fencing_token === data.fencing_token);
  if (claim === undefined) return;
  if (type === "stuck") claim.stuck = true;
  if (type === "stop_requested") claim.stop_requested = { reason, requested_at: at, requested_by: actor };
}

const ofLive = (claim) => (claim.stuck ? "stuck" : claim.stop_requested ? "stopping" : null);

/** Why a row needs attention, apart from reasons that depend on the time. */
function attentionOf(row) {
  const last = row.claims.at(-1);
  if (last?.ended_at === null) return ofLive(last);
  if (row.status === "dead") return "dead";
  if (!WAITING.has(row.status)) return null;
  const how = (row.claims.findLast((claim) => claim.how !== "undone") ?? last)?.how;
  return LOSSES.has(how) ? "lost" : how === "failed" ? "failed" : null;
}

export function applyHeartbeat(model, heartbeat) {
  const row = model.rows.get(heartbeat.job_id);
  const claim = row?.claims.at(-1);
  if (claim?.fencing_token !== heartbeat.fencing_token || claim.ended_at !== null) return;
  row.version = (row.version ?? 0) + 1;
  const { heartbeat_at, expires_at, late_at, progress, late, stuck } = heartbeat;
  Object.assign(claim, { heartbeat_at, expires_at, late_at, late, stuck, progress: progress ?? claim.progress });
}

/** "alive", "late" or "gone" at `judgedAt` (see judging.js); null once the claim has ended. */
export function life(claim, judgedAt) {
  if (claim.ended_at !== null) return null;
  if (claim.expires_at !== null && judgedAt >= ms(claim.expires_at)) return "gone";
  const lateAt = ms(claim.late_at);
  return claim.late || (lateAt !== null && judgedAt >= lateAt) ? "late" : "alive";
}

/** Why a row needs attention, shown beside its name; null if it does not. */
export function attention(row, judgedAt) {
  const last = row.claims.at(-1);
  if (last === undefined || last.ended_at !== null) return row.attention;
  const state = life(last, judgedAt);
  return state === "gone" || (state === "late" && !last.stuck) ? state : ofLive(last);
}

function groupOf(claims, word) {
  if (word !== null) return word;
  if (claims.at(-1).ended_at !== null) return "ended";
  return claims.some((claim) => LOSSES.has(claim.how)) ? "taken over" : "live";
}

/** The rows that overlap the window, by group, newest first. */
export function rowsAt(model, now, judgedAt, windowSeconds, { status, attention: wanted } = {}) {
  const since = now - windowSeconds * 1_000;
  const ranked = [];
  for (const row of model.rows.values()) {
    if (status && row.status !== status) continue;
    const first = row.claims.findIndex((claim) => claim.ended_at === null || ms(claim.ended_at) >= since);
    if (first < 0) continue;
    const claims = first === 0 ? row.claims : row.claims.slice(first);
    const word = attention(row, judgedAt);
    if (wanted && word !== wanted) continue;
    const last = claims.at(-1);
    ranked.push({ row, claims, word, rank: ORDER.indexOf(groupOf(claims, word)), at: ms(last.ended_at ?? last.claimed_at) });
  }
  return ranked.sort((a, b) => a.rank - b.rank || b.at - a.at || (a.row.job_id < b.row.job_id ? -1 : 1));
}

/** The claimed jobs, whose heartbeats to follow: as many as fit in a URL. */
export function held(model, room = 8_000) {
  const names = [];
  for (const row of model.rows.values()) {
    if (!isHeld(row)) continue;
    room -= encodeURIComponent(row.job_id).length + 3;
    if (room < 0) break;
    names.push(row.job_id);
  }
  return names.sort();
}

export const holders = (model) => [...model.rows.values()].filter(isHeld).length;

const isHeld = (row) => row.claims.at(-1)?.ended_at === null;
