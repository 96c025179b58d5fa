// Who had which job when: rows of claims, loaded once and then kept true by the log.

import { ms } from "../clock.js";

const ROWS_MAX = 200;
const CLAIMS_MAX = 50;
const ENDS = new Set(["released", "done", "failed", "deferred", "expired", "force_released", "cancelled", "undone"]);
export const LOSSES = new Set(["expired", "force_released"]);

/** The answer of GET /claims, with rows by job. */
export function modelOf(page) {
  return { ...page, rows: new Map(page.rows.map((row) => [row.job_id, row])) };
}

/** Change the model by one event. `wanted` are the filters, as far as a row can be checked against them here. */
export function hear(model, event, wanted) {
  if (event.job_id === null) return;
  if (event.type === "claimed") return onClaimed(model, event, wanted);
  const row = model.rows.get(event.job_id);
  if (row === undefined) return;
  if (event.data.status) row.status = event.data.status;
  if (event.type === "discarded") row.status = "free";
  if (event.type === "cancelled") row.status = "dead";
  const claim = row.claims.find((one) => one.fencing_token === event.data.fencing_token);
  if (claim === undefined) return;
  if (ENDS.has(event.type)) onEnded(row, claim, event);
  else if (event.type === "stuck") Object.assign(claim, { stuck: true });
  else if (event.type === "stop_requested") claim.stop_requested = { reason: event.reason, requested_at: event.at, requested_by: event.actor };
  row.attention = attentionOf(row) ?? row.attention;
}

function onClaimed(model, event, wanted) {
  const { data } = event;
  model.last_claim_at = event.at;
  let row = model.rows.get(event.job_id);
  if (row === undefined) {
    if (!matches(event, wanted)) return;
    if (model.rows.size >= ROWS_MAX) {
      model.more = true;
      return;
    }
    row = { job_id: event.job_id, queue: event.queue, kind: null, status: "claimed", attention: null, claims: [], more: false };
    model.rows.set(event.job_id, row);
  }
  row.status = "claimed";
  row.attention = null;
  row.claims.push({
    owner: data.owner,
    principal: event.actor,
    fencing_token: event.seq,
    attempt: data.attempt,
    claimed_at: event.at,
    heartbeat_at: event.at,
    ttl: data.ttl_ms / 1_000,
    expires_at: data.expires_at ?? null,
    late_at: null,
    ended_at: null,
    how: null,
    reason: null,
    note: null,
    took_over_from: data.took_over_from ?? null,
    progress: null,
    late: false,
    stuck: false,
    stop_requested: null,
    session_id: event.session_id,
    host: data.host ?? null,
    pid: data.pid ?? null,
  });
  if (row.claims.length > CLAIMS_MAX) row.claims.shift();
}

function onEnded(row, claim, event) {
  Object.assign(claim, {
    ended_at: event.data.ended_at ?? event.at,
    heartbeat_at: event.data.heartbeat_at ?? claim.heartbeat_at,
    how: event.type,
    reason: event.reason,
    note: event.data.note ?? null,
    expires_at: null,
    late: false,
    stuck: false,
  });
  row.attention = null;
}

/** What needs somebody's eyes, as far as the events of this page tell; the server's word comes with every load. */
function attentionOf(row) {
  const last = row.claims.at(-1);
  if (last === undefined) return null;
  if (LOSSES.has(last.how)) return "lost";
  if (row.status === "dead") return "dead";
  if (last.how === "failed") return "failed";
  if (last.how !== null) return null;
  return last.stuck ? "stuck" : last.stop_requested ? "stopping" : null;
}

const matches = (event, { prefix, queue, owner, status, lost }) =>
  !lost &&
  (!status || status === "claimed") &&
  (!prefix || event.job_id.startsWith(prefix)) &&
  (!queue || event.queue === queue) &&
  (!owner || event.data.owner === owner);

export function beat(model, heartbeat) {
  const claim = model.rows.get(heartbeat.job_id)?.claims.find((one) => one.fencing_token === heartbeat.fencing_token);
  if (claim === undefined || claim.ended_at !== null) return;
  const { heartbeat_at, expires_at, late_at, progress, late, stuck } = heartbeat;
  Object.assign(claim, { heartbeat_at, expires_at, late_at, late, stuck, progress: progress ?? claim.progress });
}

/** Live, and then how long ago it was heard of: "alive", "late" or "gone"; null once it has ended. */
export function life(claim, now) {
  if (claim.ended_at !== null) return null;
  if (claim.expires_at !== null && now >= ms(claim.expires_at)) return "gone";
  const lateAt = ms(claim.late_at);
  return claim.late || (lateAt !== null && now >= lateAt) ? "late" : "alive";
}

const URGENCY = ["lost", "gone", "stuck", "late", "stopping", "failed", "dead"];

/** What stands beside a row's name, if something is not as it should be. */
export function attention(row, now) {
  const last = row.claims.at(-1);
  const state = last && last.ended_at === null ? life(last, now) : null;
  if (state === "gone" || state === "late") return state;
  if (row.attention === "late") return null; // it has been heard of since
  return row.attention;
}

/** Rows that overlap the window, in the order of the page: what needs attention, what is live, what ended last. */
export function rowsAt(model, now, windowSeconds) {
  const since = now - windowSeconds * 1_000;
  const ranked = [];
  for (const row of model.rows.values()) {
    const claims = row.claims.filter((claim) => claim.ended_at === null || ms(claim.ended_at) >= since);
    if (claims.length === 0) continue;
    const urgent = URGENCY.indexOf(attention(row, now));
    const last = claims.at(-1);
    const rank = urgent >= 0 ? urgent : last.ended_at === null ? URGENCY.length : URGENCY.length + 1;
    const at = last.ended_at === null ? ms(last.claimed_at) : ms(last.ended_at);
    ranked.push({ row, claims, rank, at });
  }
  return ranked.sort((a, b) => a.rank - b.rank || b.at - a.at || (a.row.job_id < b.row.job_id ? -1 : 1));
}

/** The jobs somebody holds: theirs are the heartbeats to follow. As many as fit in an address. */
export function held(model, room = 8_000) {
  const names = [];
  for (const row of model.rows.values()) {
    if (row.claims.at(-1)?.ended_at !== null) continue;
    room -= encodeURIComponent(row.job_id).length + 3;
    if (room < 0) break;
    names.push(row.job_id);
  }
  return names.sort();
}
