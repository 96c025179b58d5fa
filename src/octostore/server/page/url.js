// All of the page's state is in its query string: reloading or sharing the URL shows the same view.

/** The current query parameters. */
export function params() {
  return Object.fromEntries(new URLSearchParams(location.search));
}

/** The current URL with these changes; `null` or "" removes a parameter. */
export function href(changes) {
  return address({ ...params(), ...changes });
}

/** The URL with only these parameters. */
export function address(wanted) {
  const kept = Object.entries(wanted).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(kept).toString();
  return query ? `?${query}` : "./";
}

const WINDOW_MAX = 604_800;

/** The window in seconds; `fallback` if it is missing or invalid. */
export function windowSeconds({ window }, fallback) {
  const seconds = Number(window);
  return seconds >= 1 && seconds <= WINDOW_MAX ? seconds : fallback;
}

/** Navigate as a link would; with `replace`, without a new history entry. */
export function go(to, { replace = false } = {}) {
  if (to === location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", to === "./" ? location.pathname : to);
  dispatchEvent(new Event("went"));
}

/** Call `changed` when the URL changes: with true for the back button, with false for a link or `go`. */
export function onNavigation(changed) {
  addEventListener("popstate", () => {
    document.activeElement?.blur?.(); // otherwise a focused field would keep its text
    changed(true);
  });
  addEventListener("went", () => changed(false));
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    const to = link?.getAttribute("href");
    const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (!link || !isPlain || link.target || !(to.startsWith("?") || to === "./")) return;
    event.preventDefault();
    go(to);
  });
}
