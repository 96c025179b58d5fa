// Operator actions: a dialog explains the action, asks for a reason, runs it and reports the result.

import { send, Failure } from "./api.js";
import { h } from "./dom.js";
import { sentences } from "./words.js";

let current = null; // the open dialog
let tools = null;

/**
 * Ask for confirmation, then run the action. An action has
 *   title     "Force-release build-42"
 *   says      what will happen, in a sentence
 *   verb      the button's label, "Force-release"
 *   isDanger  whether it cannot be undone, or takes something away
 *   fields    more inputs: [{ name, label, kind: "text" | "number" | "checkbox" | "select", value, options, hint, optional }]
 *   reason    false if it needs none
 *   run       async (given, progress) -> a sentence about the result; `given` has the reason and the fields
 * or, instead of `run`, the request: method, where, body(given) and done (the sentence).
 */
export function confirmAction(action, given) {
  tools = given;
  const values = Object.fromEntries((action.fields ?? []).map((field) => [field.name, field.value ?? ""]));
  current = { action, values, failure: null, isRunning: false, progress: null, isStopped: false };
  tools.draw();
}

/** Show a dialog without an action, like the help. */
export function showDialog(title, content, given) {
  tools = given;
  current = { action: { title, content }, values: {}, failure: null, isRunning: false, progress: null };
  tools.draw();
}

function close() {
  if (current?.isRunning) current.isStopped = true;
  current = null;
  tools.draw();
}

/** Close the dialog on navigation, unless its action is running. */
export function dismiss() {
  if (!current?.isRunning) current = null;
}

export function dialog() {
  if (current === null) return null;
  const { action } = current;
  return h(
    "dialog",
    {
      key: "dialog",
      "aria-labelledby": "dialog-title",
      ref: (node) => queueMicrotask(() => node.isConnected && !node.open && node.showModal()),
      onclose: close,
      oncancel: (event) => current?.isRunning && event.preventDefault(),
    },
    h("h2", { id: "dialog-title" }, action.title),
    action.content ? [action.content, buttons([h("button", { type: "button", onclick: close }, "Close")])] : form(action),
  );
}

const buttons = (content) => h("p", { class: "buttons" }, content);

function form(action) {
  return h(
    "form",
    { onsubmit: submit },
    h("p", null, action.says),
    (action.fields ?? []).map((field) => input(field)),
    action.reason !== false && input({ name: "reason", label: "Reason", kind: "text", hint: "Goes into the log, with your name." }),
    current.failure && h("p", { class: "problem", role: "alert" }, sentences(current.failure.message, current.failure.details)),
    current.progress && progressBar(current.progress),
    buttons([
      h("button", { type: "submit", class: action.isDanger ? "strong danger" : "strong", disabled: current.isRunning }, action.verb),
      h("button", { type: "button", onclick: close }, current.isRunning ? "Stop" : "Back"), // not "Cancel", which is an action on jobs
    ]),
  );
}

function progressBar({ done, total, text }) {
  return h("p", { role: "status" }, h("progress", total ? { max: total, value: Math.min(done, total), "aria-label": text } : { "aria-label": text }), " ", text);
}

function input(field) {
  const { values } = current;
  const shared = {
    id: `field-${field.name}`,
    name: field.name,
    "aria-describedby": field.hint ? `hint-${field.name}` : null,
    disabled: current.isRunning,
  };
  const set = (value) => {
    values[field.name] = value;
    tools.draw();
  };
  const control =
    field.kind === "select"
      ? h("select", { ...shared, onchange: (event) => set(event.target.value) }, field.options.map(([value, label]) => h("option", { value, selected: values[field.name] === value }, label)))
      : field.kind === "checkbox"
        ? h("input", { ...shared, type: "checkbox", checked: !!values[field.name], onchange: (event) => set(event.target.checked) })
        : h("input", { ...shared, type: field.kind, required: !field.optional, value: values[field.name] ?? "", autocomplete: "off", autofocus: field.name === "reason", min: field.min ?? null, maxlength: 1_000, oninput: (event) => (values[field.name] = event.target.value) });
  return h(
    "p",
    { class: `field ${field.kind}` },
    h("label", { for: shared.id }, field.label, field.optional && h("span", { class: "quiet" }, " (optional)")),
    control,
    field.hint && h("span", { id: `hint-${field.name}`, class: "quiet" }, field.hint),
  );
}

async function submit(event) {
  event.preventDefault();
  const submitted = current;
  const { action, values } = submitted;
  if (submitted.isRunning) return;
  Object.assign(submitted, { isRunning: true, failure: null });
  tools.draw();
  const progress = (state) => {
    submitted.progress = state;
    tools.draw();
    return !submitted.isStopped;
  };
  try {
    const text = action.run ? await action.run(values, progress) : await sendIt(action, values);
    if (current === submitted) current = null;
    tools.done(text);
    tools.reload();
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    Object.assign(submitted, { isRunning: false, failure: error });
    if (error.kind === "logged out") tools.reload();
  } finally {
    submitted.isRunning = false;
    tools.draw();
  }
}

async function sendIt(action, values) {
  await send(action.method ?? "POST", action.where, action.body ? action.body(values) : { reason: values.reason });
  return action.done;
}
