// What several views say and show.

import { h } from "./dom.js";
import { address } from "./url.js";

export const jobLink = (jobId, props = {}) => h("a", { href: address({ view: "job", job: jobId }), class: "name", ...props }, visible(jobId));

// As in core/visible.py. The first part is what says that the symbol before it is an emoji, anywhere else.
const UNSEEN = /(?<![#*0-9\u00a9\u00ae\u203c-\u3299\u{1f000}-\u{1faff}])\ufe0f|[\p{C}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0e\uffa0\u{1d159}\u{e0000}-\u{e0fff}]/gu;
const SHORT = { "\t": "\\t", "\n": "\\n", "\r": "\\r" };

/** Text from outside, with what cannot be seen, or would turn the line around, as a visible escape. */
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

/** All of its lines. */
export const lines = (text) => h("span", { class: "lines" }, String(text).split(/\r?\n/).map(visible).join("\n"));

/** "It failed. Try again.", of parts that may have no full stop and begin with a small letter. */
export function told(...parts) {
  const said = parts.filter(Boolean).map((part) => String(part).trim());
  return said.map((part) => `${part[0].toUpperCase()}${part.slice(1)}${/[.!?…]$/.test(part) ? "" : "."}`).join(" ");
}

export function loading() {
  return h("p", { key: "loading", class: "quiet", role: "status" }, "Loading…");
}

export function failed(failure, again) {
  return h(
    "div",
    { key: "failure", class: "problem", role: "alert" },
    h("p", null, told(failure.message, failure.details)),
    failure.kind === "refused" && h("p", null, h("button", { onclick: again }, "Try again")),
  );
}

/** Nothing to show: says so, and what to type next. */
export function empty(text, ...commands) {
  return h("div", { class: "empty" }, h("p", null, text), commands.length > 0 && h("pre", null, commands.join("\n")));
}

/** A count that may stop at a cap. */
/** "10,000", as `toLocaleString("en")` has it; but that makes the browser load its tables of languages first. */
export const grouped = (whole) => String(whole).replace(/\B(?=(\d{3})+$)/g, ",");

export const capped = (number, cap) => (number >= cap ? `${grouped(cap)}+` : grouped(number));

export const plural = (number, one, many = `${one}s`) => `${grouped(number)} ${number === 1 ? one : many}`;

const TYPING_MS = 250;
const typing = new Map(); // by field: what goes into the address when nobody types any more
const begun = new Set(); // fields that have an entry in the history since somebody began to type there

/** A row of filters, each a part of the address: `[{ name, label, options? }]`. */
export function filters(fields, ctx, ...more) {
  const set = (name, value, options) => ctx.go(ctx.href({ [name]: value, cursor: null, after: null }), options);
  const typed = (field) => {
    clearTimeout(typing.get(field.name));
    if (!typing.delete(field.name) || !field.isConnected) return;
    set(field.name, field.value, { replace: begun.has(field.name) }); // so that Back undoes all of it
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

/** A table that becomes a list of cards on a phone: `columns` are [head, cell(row)], `key(row)` tells rows apart. */
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

/** A document, folded and pretty-printed, as text. */
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
