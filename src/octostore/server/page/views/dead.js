// Dead letters: jobs that have exhausted their attempts or were cancelled, and need a person.

import { send } from "../api.js";
import { h } from "../dom.js";
import { when } from "../clock.js";
import { capped, empty, filters, gist, jobLink, plural, table, visible } from "../words.js";

export const title = "Dead letters";
export const every = 30;

const PAGE = 100;
const BATCH = 250;

/** Load the jobs. Their total number follows later: counting takes a while. */
export async function load(ctx) {
  const { prefix, queue, kind, cursor } = ctx.params;
  const page = await ctx.get("jobs", { status: "dead", prefix, queue, kind, cursor, limit: PAGE });
  if (page.cursor || cursor)
    counts(ctx).then((counted) => {
      page.counted = counted;
      ctx.redraw();
    });
  return page;
}

/** Null for counts that are unavailable, or not allowed for a token limited to a prefix. */
async function counts(ctx) {
  const requests = [ctx.get("queues"), ctx.get("figures", { max_age: 10 })];
  const [queues, figures] = (await Promise.allSettled(requests)).map((one) => one.value ?? null);
  return { queues, figures };
}

const QUEUES_NAMED = 5;

/** "52 dead jobs: 40 in mail, 12 in imports, counted 3 s ago"; less if there is no count for these filters. */
function countOf({ jobs, cursor, counted }, { prefix, kind, queue, cursor: from }) {
  if (!cursor && !from) return [plural(jobs.length, "dead job")];
  const { queues, figures } = counted ?? {};
  const some = [`${plural(jobs.length, "dead job")} or more`];
  if (prefix || kind) return some;
  const most = queues?.counted_to ?? Infinity;
  const say = (number) => `${capped(number, most)} dead ${number === 1 ? "job" : "jobs"}`;
  if (queue) {
    const found = queues?.queues.find((one) => one.queue === queue);
    return found ? [say(found.dead), ", counted ", when(queues.counted_at)] : some;
  }
  if (!figures) return some;
  const longest = (queues?.queues ?? []).filter((one) => one.dead > 0).sort((one, other) => other.dead - one.dead);
  const named = longest.slice(0, QUEUES_NAMED).map((one) => `${capped(one.dead, most)} in ${visible(one.queue)}`);
  return [say(figures.dead), named.length > 0 && `: ${named.join(", ")}`, ", counted ", when(figures.at)];
}

export function render(page, ctx) {
  const { prefix, queue, kind } = ctx.params;
  const isFiltered = !!(prefix || queue || kind);
  return [
    filters([{ name: "prefix", label: "Job begins with" }, { name: "queue", label: "Queue", hint: "exact name" }, { name: "kind", label: "Kind", hint: "exact name" }], ctx),
    page.jobs.length > 0 && h("p", { class: "quiet" }, countOf(page, ctx.params), ". Cancelled jobs are dead letters too."),
    ctx.may("admin") && page.jobs.length > 0 && h("p", { class: "buttons" }, h("button", { onclick: () => ctx.act(bulk("requeue", { prefix, queue, kind }, countOf(page, ctx.params))) }, isFiltered ? "Requeue all that match" : "Requeue all"), h("button", { class: "danger", onclick: () => ctx.act(bulk("discard", { prefix, queue, kind }, countOf(page, ctx.params))) }, isFiltered ? "Discard all that match" : "Discard all")),
    page.jobs.length === 0 ? empty(isFiltered ? "No dead job matches these filters." : "There are no dead letters: no job has exhausted its attempts or been cancelled.", "octostore dead") : tableOf(page.jobs),
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

/** Change all matching jobs, batch by batch. Stopping leaves the rest unchanged. */
function bulk(what, match, count) {
  const verb = what === "requeue" ? "Requeue" : "Discard";
  const scope = Object.entries(match).filter(([, value]) => value).map(([name, value]) => `${name} ${visible(value)}`).join(", ");
  return {
    title: `${verb} dead jobs`,
    verb: `${verb} all`,
    isDanger: what === "discard",
    says: [`${scope ? `All dead jobs that match (${scope})` : "All dead jobs"}, cancelled ones included, ${what === "requeue" ? "are queued again and get all their attempts back" : "are removed from their queues for good"}. That is `, count, `. You can stop midway; jobs that were already changed stay changed.`],
    async run({ reason }, progress) {
      let done = 0;
      let after = null;
      const given = Object.fromEntries(Object.entries({ ...match, reason }).filter(([, value]) => value));
      do {
        const response = await send("POST", `jobs/${what}`, { ...given, limit: BATCH, ...(after && { after }) });
        done += response.changed;
        after = response.after;
        if (!progress({ done, text: `${plural(done, "job")} so far` })) break;
      } while (after !== null);
      return `${plural(done, "job was", "jobs were")} ${what === "requeue" ? "requeued" : "discarded"}${after === null ? "." : "; stopped before the end."}`;
    },
  };
}
