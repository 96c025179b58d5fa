// Dead letters: jobs that are out of attempts or were cancelled, and need a person.

import { send } from "../api.js";
import { h } from "../dom.js";
import { when } from "../clock.js";
import { empty, filters, jobLink, plural, table, visible } from "../words.js";

export const title = "Dead letters";
export const every = 30;

const PAGE = 100;
const BATCH = 250;

export async function load(ctx) {
  const { prefix, queue, kind, cursor } = ctx.params;
  return ctx.get("jobs", { status: "dead", prefix, queue, kind, cursor, limit: PAGE });
}

export function render(page, ctx) {
  const { prefix, queue, kind } = ctx.params;
  const isFiltered = !!(prefix || queue || kind);
  return [
    filters([{ name: "prefix", label: "Job begins with" }, { name: "queue", label: "Queue" }, { name: "kind", label: "Kind" }], ctx),
    ctx.may("admin") && page.jobs.length > 0 && h("p", { class: "buttons" }, h("button", { onclick: () => ctx.act(bulk("requeue", { prefix, queue, kind })) }, isFiltered ? "Requeue all that match" : "Requeue all"), h("button", { class: "danger", onclick: () => ctx.act(bulk("discard", { prefix, queue, kind })) }, isFiltered ? "Discard all that match" : "Discard all")),
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
      ["Why", (job) => visible(job.error ?? job.previous[0]?.reason ?? job.last_outcome ?? "")],
    ],
    jobs,
    (job) => job.job_id,
  );
}

/** All that match, by the server, a batch at a time. Stopping leaves the rest as it is. */
function bulk(what, match) {
  const verb = what === "requeue" ? "Requeue" : "Discard";
  const scope = Object.entries(match).filter(([, value]) => value).map(([name, value]) => `${name} ${visible(value)}`).join(", ");
  return {
    title: `${verb} dead jobs`,
    verb: `${verb} all`,
    says: `${scope ? `All dead jobs that match (${scope})` : "All dead jobs"} ${what === "requeue" ? "are queued again and get all their attempts back" : "are removed from their queues for good"}. You can stop midway; jobs that were already changed stay changed.`,
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
