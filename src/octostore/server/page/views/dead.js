// Dead letters: jobs that are out of attempts or were cancelled, and need a person.

import { send } from "../api.js";
import { h } from "../dom.js";
import { when } from "../clock.js";
import { capped, empty, filters, gist, jobLink, plural, table, visible } from "../words.js";

export const title = "Dead letters";
export const every = 30;

const PAGE = 100;
const BATCH = 250;

export async function load(ctx) {
  const { prefix, queue, kind, cursor } = ctx.params;
  const [page, { queues, counted_to: countedTo }, figures] = await Promise.all([ctx.get("jobs", { status: "dead", prefix, queue, kind, cursor, limit: PAGE }), ctx.get("queues"), ctx.get("figures", { max_age: 10 })]);
  return { ...page, told: countOf(page, ctx.params, queues.filter((one) => one.dead > 0), figures.dead, countedTo) };
}

const QUEUES_NAMED = 5;

/** "52 dead jobs: 40 in mail, 12 in imports"; as far as somebody has counted what these filters match. */
function countOf({ jobs, cursor }, { prefix, kind, queue, cursor: from }, queues, all, countedTo) {
  const say = (number) => `${capped(number, countedTo)} dead ${number === 1 ? "job" : "jobs"}`;
  if (!cursor && !from) return say(jobs.length);
  if (prefix || kind) return `more than ${plural(PAGE, "dead job")}`;
  if (queue) return say(queues.find((one) => one.queue === queue)?.dead ?? jobs.length);
  const named = queues.sort((a, b) => b.dead - a.dead).slice(0, QUEUES_NAMED).map((one) => `${capped(one.dead, countedTo)} in ${visible(one.queue)}`);
  return `${say(all)}${named.length > 0 ? `: ${named.join(", ")}` : ""}`;
}

export function render(page, ctx) {
  const { prefix, queue, kind } = ctx.params;
  const isFiltered = !!(prefix || queue || kind);
  return [
    filters([{ name: "prefix", label: "Job begins with" }, { name: "queue", label: "Queue", hint: "exact name" }, { name: "kind", label: "Kind", hint: "exact name" }], ctx),
    page.jobs.length > 0 && h("p", { class: "quiet" }, `${page.told}. Cancelled jobs are dead letters, too.`),
    ctx.may("admin") && page.jobs.length > 0 && h("p", { class: "buttons" }, h("button", { onclick: () => ctx.act(bulk("requeue", { prefix, queue, kind }, page.told)) }, isFiltered ? "Requeue all that match" : "Requeue all"), h("button", { class: "danger", onclick: () => ctx.act(bulk("discard", { prefix, queue, kind }, page.told)) }, isFiltered ? "Discard all that match" : "Discard all")),
    page.jobs.length === 0 ? empty(isFiltered ? "No dead job matches these filters." : "There are no dead letters: no job has run out of attempts, and none was cancelled.", "octostore dead") : tableOf(page.jobs),
    h("p", { class: "buttons" }, ctx.params.cursor && h("a", { class: "button", href: ctx.href({ cursor: null }), "data-previous": "" }, "First page"), page.cursor && h("a", { class: "button", href: ctx.href({ cursor: page.cursor }), "data-next": "" }, "Next page")),
  ];
}

function tableOf(jobs) {
  return table(
    "Dead jobs",
    [
      ["Job", (job) => jobLink(job.job_id, { "data-row": "" })],
      ["Queue", (job) => visible(job.queue ?? "")],
      ["Kind", (job) => visible(job.kind ?? "")],
      ["Attempts", (job) => job.attempts],
      ["Last owner", (job) => visible(job.previous[0]?.owner ?? "none")],
      ["Last claim ended", (job) => when(job.previous[0]?.ended_at, "never claimed")],
      ["Why", (job) => gist(job.error ?? job.previous[0]?.reason ?? job.last_outcome ?? "")],
    ],
    jobs,
    (job) => job.job_id,
  );
}

/** All that match, by the server, a batch at a time. Stopping leaves the rest as it is. */
function bulk(what, match, count) {
  const verb = what === "requeue" ? "Requeue" : "Discard";
  const scope = Object.entries(match).filter(([, value]) => value).map(([name, value]) => `${name} ${visible(value)}`).join(", ");
  return {
    title: `${verb} dead jobs`,
    verb: `${verb} all`,
    isDanger: what === "discard",
    says: `${scope ? `All dead jobs that match (${scope})` : "All dead jobs"}, cancelled ones included, ${what === "requeue" ? "are queued again and get all their attempts back" : "are removed from their queues for good"}. That is ${count}. You can stop midway; jobs that were already changed stay changed.`,
    async run({ reason }, progress) {
      let done = 0;
      let after = null;
      const given = Object.fromEntries(Object.entries({ ...match, reason }).filter(([, value]) => value));
      do {
        const answer = await send("POST", `jobs/${what}`, { ...given, limit: BATCH, ...(after && { after }) });
        done += answer.changed;
        after = answer.after;
        if (!progress({ done, text: `${plural(done, "job")} so far` })) break;
      } while (after !== null);
      return `${plural(done, "job was", "jobs were")} ${what === "requeue" ? "requeued" : "discarded"}${after === null ? "." : "; stopped before the end."}`;
    },
  };
}
