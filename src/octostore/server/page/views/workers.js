// Workers, by owner name, and sessions: the jobs of each, and its last heartbeat.

import { h } from "../dom.js";
import { ms, now as storeNow, when } from "../clock.js";
import { progressOf } from "../now/picture.js";
import { address } from "../url.js";
import { empty, filters, gist, grouped, jobLink, plural, table, visible } from "../words.js";

export const title = "Workers";
export const every = 10;

const SESSIONS = [["open", "open"], ["expired", "expired"], ["closed", "closed"]];
const SHOWN = 5;

export async function load(ctx) {
  const { prefix, owner, sessions = "open", cursor } = ctx.params;
  const [claimed, live, known] = await Promise.all([
    ctx.get("jobs", { status: "claimed", prefix, owner, limit: 1_000 }),
    ctx.get("claims", { window: 1, status: "claimed", prefix, owner, limit: 200 }), // says which claims are late
    ctx.get("sessions", { status: sessions, cursor, limit: 100 }),
  ]);
  const late = new Map(live.rows.map(({ claims }) => [claims.at(-1).fencing_token, claims.at(-1).late]));
  return { late, jobs: claimed.jobs, more: claimed.cursor !== null, sessions: known.sessions, cursor: known.cursor };
}

export function render(data, ctx) {
  const workers = workersOf(data.jobs, data.late);
  return [
    filters([{ name: "prefix", label: "Job begins with" }, { name: "owner", label: "Owner", hint: "exact name" }, { name: "sessions", label: "Sessions", options: SESSIONS }], { ...ctx, params: { sessions: "open", ...ctx.params } }),
    h("h2", null, "Workers"),
    data.more && h("p", { class: "quiet" }, "Only the first 1,000 claimed jobs are shown; narrow the filters to see others."),
    workers.length === 0 ? empty("No job is claimed now. To start a worker for a queue:", "octostore work default -- ./handle-job") : workerTable(workers),
    h("h2", null, "Sessions"),
    data.sessions.length === 0 ? empty(`No session is ${ctx.params.sessions ?? "open"}. A session keeps an agent's context, and its claims end with it:`, "octostore sessions --help") : sessionTable(data.sessions),
    data.cursor && h("p", null, h("a", { class: "button", href: ctx.href({ cursor: data.cursor }), "data-next": "" }, "Next page")),
  ];
}

function workersOf(jobs, late) {
  const found = new Map();
  for (const { claim, job_id: jobId } of jobs) {
    if (claim === null) continue;
    const key = JSON.stringify([claim.owner, claim.host, claim.pid]);
    const worker = found.get(key) ?? { key, owner: claim.owner, host: claim.host, pid: claim.pid, jobs: [], heartbeat_at: claim.heartbeat_at, late: 0, alive: 0, stuck: 0, stopping: 0, progress: null };
    worker.jobs.push(jobId);
    worker.late += late.get(claim.fencing_token) === true ? 1 : 0;
    worker.alive += late.get(claim.fencing_token) === false ? 1 : 0;
    worker.stuck += claim.stuck ? 1 : 0;
    worker.stopping += claim.stop_requested ? 1 : 0;
    if (ms(claim.heartbeat_at) > ms(worker.heartbeat_at)) worker.heartbeat_at = claim.heartbeat_at;
    if (claim.progress && (!worker.progress || ms(claim.progress.at) > ms(worker.progress.at))) worker.progress = claim.progress;
    found.set(key, worker);
  }
  return [...found.values()].sort((a, b) => b.stuck - a.stuck || b.late - a.late || ms(a.heartbeat_at) - ms(b.heartbeat_at));
}

function workerTable(workers) {
  return table(
    "Workers",
    [
      ["Owner", (worker) => h("a", { href: address({ owner: worker.owner }), "data-row": "" }, visible(worker.owner))],
      ["Heartbeat", (worker) => [when(worker.heartbeat_at), stateOf(worker), worker.stuck > 0 && h("strong", { class: "chip" }, "stuck"), worker.stopping > 0 && h("span", { class: "chip" }, "asked to stop")]],
      ["Holds", (worker) => jobList(worker.jobs)],
      ["Progress", (worker) => (worker.progress ? [progressOf(worker.progress), ", ", when(worker.progress.at)] : "none")],
      ["Process", (worker) => (worker.host ? `${worker.pid ?? ""} ${worker.pid ? "on " : ""}${visible(worker.host)}` : "unknown")],
    ],
    workers,
    (worker) => worker.key,
  );
}

/** Unknown beyond the first 200 claims. */
function stateOf({ late, alive }) {
  if (late > 0) return h("strong", { class: "chip" }, "late");
  return alive > 0 && h("span", { class: "chip" }, "alive");
}

const jobList = (jobs) => [jobs.slice(0, SHOWN).map((jobId) => [jobLink(jobId), " "]), jobs.length > SHOWN && `and ${jobs.length - SHOWN} more`];

function sessionTable(sessions) {
  return table(
    "Sessions",
    [
      ["Session", (session) => h("span", { class: "name" }, visible(session.session_id))],
      ["Agent", (session) => visible(session.agent)],
      ["Phase", (session) => session.phase],
      ["Heartbeat", (session) => [when(session.heartbeat_at), session.status === "open" && ms(session.expires_at) < storeNow() && h("strong", { class: "chip" }, "gone")]],
      ["Holds", (session) => (session.jobs.length > 0 ? jobList(session.jobs) : "nothing")],
      ["Context", (session) => (session.context_bytes ? `${grouped(session.context_bytes)} bytes` : session.context_seq === null ? "none saved" : "saved")],
      ["Hand-over", (session) => handOver(session)],
    ],
    sessions,
    (session) => `${session.principal} ${session.session_id}`,
  );
}

function handOver(session) {
  const parts = [];
  if (session.offered) parts.push(`waiting for ${visible(session.agent)} to open it`);
  if (session.note) parts.push(gist(session.note));
  if (session.in_flight.length > 0) parts.push(`lost while working on ${plural(session.in_flight.length, "job")}: ${session.in_flight.map(visible).join(", ")}`);
  return parts.join("; ");
}
