// What an operator does: each action says what it will do, asks for a reason, and tells what came of it.

import { send, Failure } from "./api.js";
import { h } from "./dom.js";
import { told } from "./words.js";

let current = null; // the action that is being asked about
let tools = null;

/**
 * Ask, and then do it. An action has
 *   title     "Force-release build-42"
 *   says      what will happen, in a sentence
 *   verb      what the button says, "Force-release"
 *   isDanger  whether it cannot be undone, or takes something away
 *   fields    more to ask for: [{ name, label, kind: "text" | "number" | "checkbox" | "select", value, options, hint, optional }]
 *   reason    false where none is asked for
 *   run       async (given, progress) -> a sentence that tells what happened; `given` has the reason and the fields
 * or, in place of `run`, what is sent: method, where, body(given) and done (the sentence).
 */
export function acting(action, given) {
  tools = given;
  const values = Object.fromEntries((action.fields ?? []).map((field) => [field.name, field.value ?? ""]));
  current = { action, values, failure: null, isRunning: false, progress: null, isStopped: false };
  tools.draw();
}

/** Dialogs of other modules, such as the help. */
export function telling(title, content, given) {
  tools = given;
  current = { action: { title, content }, values: {}, failure: null, isRunning: false, progress: null };
  tools.draw();
}

function close() {
  if (current?.isRunning) current.isStopped = true;
  current = null;
  tools.draw();
}

/** Who goes elsewhere is no longer asked. What is being done goes on. */
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
    action.reason !== false && input({ name: "reason", label: "Reason", kind: "text", hint: "The log keeps it, with your name." }),
    current.failure && h("p", { class: "problem", role: "alert" }, told(current.failure.message, current.failure.details)),
    current.progress && progressBar(current.progress),
    buttons([
      h("button", { type: "submit", class: action.isDanger ? "strong danger" : "strong", disabled: current.isRunning }, action.verb),
      h("button", { type: "button", onclick: close }, current.isRunning ? "Stop" : "Back"), // "Cancel" is what is done to jobs
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
  const asked = current;
  const { action, values } = asked;
  if (asked.isRunning) return;
  Object.assign(asked, { isRunning: true, failure: null });
  tools.draw();
  const progress = (told) => {
    asked.progress = told;
    tools.draw();
    return !asked.isStopped;
  };
  try {
    const text = action.run ? await action.run(values, progress) : await sendIt(action, values);
    if (current === asked) current = null;
    tools.done(text);
    tools.reload();
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    Object.assign(asked, { isRunning: false, failure: error });
    if (error.kind === "logged out") tools.reload();
  } finally {
    asked.isRunning = false;
    tools.draw();
  }
}

async function sendIt(action, values) {
  await send(action.method ?? "POST", action.where, action.body ? action.body(values) : { reason: values.reason });
  return action.done;
}
