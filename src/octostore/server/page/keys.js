// Keyboard shortcuts. They can be turned off, because they interfere with some assistive tools.

import { showDialog } from "./acting.js";
import { h } from "./dom.js";

const OFF = "octostore-keys-off";
const SHORTCUTS = [
  ["/", "filter"],
  ["j, k", "next row, previous row"],
  ["Enter", "open the row"],
  ["g", "switch between the picture and the table"],
  ["n, p", "next page, previous page"],
  ["?", "this help"],
];

const isOff = () => localStorage.getItem(OFF) !== null;

export function keysDialog(draw) {
  const set = (on) => {
    if (on) localStorage.removeItem(OFF);
    else localStorage.setItem(OFF, "1");
    keysDialog(draw);
  };
  showDialog(
    "Keyboard shortcuts",
    [
      h("dl", { class: "keys" }, SHORTCUTS.map(([key, does]) => [h("dt", null, h("kbd", null, key)), h("dd", null, does)])),
      h("p", null, h("label", null, h("input", { type: "checkbox", checked: !isOff(), onchange: (event) => set(event.target.checked) }), " Use single-key shortcuts")),
    ],
    { draw },
  );
}

export function handleKeys({ draw }) {
  document.addEventListener("keydown", (event) => {
    const { target } = event;
    const isTyping = target.matches?.("input, select, textarea") || document.querySelector("dialog[open]");
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping) return;
    if (event.key === "?") keysDialog(draw);
    else if (isOff()) return;
    else if (event.key === "/") document.querySelector("[data-filter]")?.focus();
    else if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (event.key === "g") document.querySelector("[data-switch]")?.click();
    else if (event.key === "n") document.querySelector("[data-next]")?.click();
    else if (event.key === "p") document.querySelector("[data-previous]")?.click();
    else return;
    event.preventDefault();
  });
}

/** Rows are links with `data-row`, so Enter opens the focused one. */
function step(by) {
  const rows = [...document.querySelectorAll("[data-row]")];
  const at = rows.indexOf(document.activeElement);
  rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by))]?.focus();
}
