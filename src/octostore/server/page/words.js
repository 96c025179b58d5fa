// Texts and elements that several views share.

import { h } from "./dom.js";
import { address } from "./url.js";

export const jobLink = (jobId, props = {}) => h("a", { href: address({ view: "job", job: jobId }), class: "name", ...props }, visible(jobId));

// As in core/visible.py. The first alternative is the emoji variation selector where no emoji precedes it.
const UNSEEN = /(?<![#*0-9\u00a9\u00ae\u203c-\u3299\u{1f000}-\u{1faff}])\ufe0f|[\p{C}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0e\uffa0\u{1d159}\u{e0000}-\u{e0fff}]/gu;
const SHORT = { "\t": "\\t", "\n": "\\n", "\r": "\\r" };

/** Text from outside, with invisible characters, and those that reverse the text direction, escaped. */
export function visible(text) {
  return String(text).replace(UNSEEN, (char) => {
    const code = char.codePointAt(0);
    const [letter, digits] = code < 0x100 ? ["x", 2] : code < 0x10000 ? ["u", 4] : ["U", 8];
    return SHORT[char] ?? `\\${letter}${code.toString(16).padStart(digits, "0")}`;
  });
}

/** The first and the last line: errors usually say what is wrong in the last one. Our own advice is left out. */
export function gist(text) {
  const isShown = (line) => line && !line.startsWith("octostore:   ");
  const found = String(text).split(/\r?\n/).map((line) => line.trim()).filter(isShown);
  return (found.length <= 2 ? found : [found[0], found.at(-1)]).map(visible).join(" … ");
}

/** The text with its line breaks. */
export const lines = (text) => h("span", { class: "lines" }, String(text).split(/\r?\n/).map(visible).join("\n"));

/** Join parts as sentences: "it failed", "try again" becomes "It failed. Try again." */
export function sentences(...parts) {
  const texts = parts.filter(Boolean).map((part) => String(part).trim());
  return texts.map((part) => `${part[0].toUpperCase()}${part.slice(1)}${/[.!?…]$/.test(part) ? "" : "."}`).join(" ");
}

export function loading() {
  return h("p", { key: "loading", class: "quiet", role: "status" }, "Loading…");
}

export function failed(failure, again) {
  return h(
    "div",
    { key: "failure", class: "problem", role: "alert" },
    h("p", null, sentences(failure.message, failure.details)),
    failure.kind === "refused" && h("p", null, h("button", { onclick: again }, "Try again")),
  );
}

/** There is nothing to show: say so, and what to type next. */
export function empty(text, ...commands) {
  return h("div", { class: "empty" }, h("p", null, text), commands.length > 0 && h("pre", null, commands.join("\n")));
}

/** "10,000", like `toLocaleString("en")`, but without making the browser load its language tables. */
export const grouped = (whole) => String(whole).replace(/\B(?=(\d{3})+$)/g, ",");

export const capped = (number, cap) => (number >= cap ? `${grouped(cap)}+` : grouped(number));

export const plural = (number, one, many = `${one}s`) => `${grouped(number)} ${number === 1 ? one : many}`;

const TYPING_MS = 250;
const typing = new Map(); // by field: the timer that updates the URL when the user stops typing
const begun = new Set(); // fields that got a history entry since the user began to type

/** A row of filters, each a query parameter: `[{ name, label, options?, hint? }]`. */
export function filters(fields, ctx, ...more) {
  const set = (name, value, options) => ctx.go(ctx.href({ [name]: value, cursor: null, after: null }), options);
  const typed = (field) => {
    clearTimeout(typing.get(field.name));
    if (!typing.delete(field.name) || !field.isConnected) return;
    set(field.name, field.value, { replace: begun.has(field.name) }); // so that Back undoes all of the typing
    begun.add(field.name);
  };
  return h(
    "form",
    { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() },
    fields.map(({ name, label, options, hint }, index) =>
      h(
        "label",
        { key: name },
        h("span", null, label),
        options
          ? h("select", { name, onchange: (event) => set(name, event.target.value) }, options.map(([value, text]) => h("option", { value, selected: (ctx.params[name] ?? "") === value }, text)))
          : h("input", {
              name,
              type: "search",
              placeholder: hint ?? null,
              value: ctx.params[name] ?? "",
              "data-filter": index === 0 ? "" : null,
              oninput: ({ target }) => {
                clearTimeout(typing.get(name));
                typing.set(name, setTimeout(() => typed(target), TYPING_MS));
              },
              onblur: ({ target }) => {
                typed(target);
                begun.delete(name);
              },
            }),
      ),
    ),
    more,
  );
}

/** A table that becomes a list of cards on a phone: `columns` are [head, cell(row)], `key(row)` identifies a row. */
export function table(caption, columns, rows, key) {
  return h(
    "div",
    { class: "wide", tabindex: 0, role: "region", "aria-label": caption },
    h(
      "table",
      null,
      h("caption", { class: "hidden" }, caption),
      h("thead", null, h("tr", null, columns.map(([head]) => h("th", { scope: "col" }, head)))),
      h("tbody", null, rows.map((row) => h("tr", { key: key(row) }, columns.map(([head, cell]) => h("td", { "data-label": head }, cell(row)))))),
    ),
  );
}

/** A JSON document, folded and indented. */
export function folded(title, value) {
  if (value === null || value === undefined) return null;
  const text = JSON.stringify(value, null, 2);
  return h(
    "details",
    { key: title },
    h("summary", null, title, h("span", { class: "quiet" }, ` ${grouped(text.length)} characters`)),
    h("pre", { tabindex: 0 }, text.split("\n").map(visible).join("\n")),
  );
}

/** Commands to copy. */
export const commands = (title, lines) => h("details", null, h("summary", null, title), h("pre", { tabindex: 0 }, lines.join("\n")));
