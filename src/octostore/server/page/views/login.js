// The login form, shown without a valid cookie.

import { Failure } from "../api.js";
import { h } from "../dom.js";
import { sentences } from "../words.js";

export const title = "Log in";

let problem = null;
let isBusy = false;

export function render(data, ctx) {
  const failure = problem ?? data.failure;
  return [
    h("h1", null, "OctoStore"),
    h("p", null, "Log in to see who owns which job, whether the owners are alive, and who took over."),
    failure && h("p", { class: "problem", role: "alert" }, sentences(failure.message, failure.details)),
    h(
      "form",
      { onsubmit: (event) => submit(event, ctx) },
      h("p", { class: "field" }, h("label", { for: "token" }, "Token"), h("input", { id: "token", name: "token", type: "password", required: true, autocomplete: "off", spellcheck: "false", autofocus: true })),
      h("p", { class: "buttons" }, h("button", { type: "submit", class: "strong", disabled: isBusy }, "Log in")),
    ),
    h("p", { class: "quiet" }, "If your terminal is set up for this server, this command opens the page and logs you in:"),
    h("pre", null, "octostore ui"),
    h("p", { class: "quiet" }, "To give someone else access, an admin can create a read-only token:"),
    h("pre", null, "octostore token create NAME --scope read"),
  ];
}

async function submit(event, ctx) {
  event.preventDefault();
  const field = event.target.elements.token;
  isBusy = true;
  problem = null;
  ctx.redraw();
  try {
    await ctx.enter({ token: field.value.trim() });
    field.value = "";
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    problem = error;
  } finally {
    isBusy = false;
    ctx.redraw();
  }
}
