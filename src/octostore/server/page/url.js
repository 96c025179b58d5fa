// All of the page's state is in its query string: reloading or sharing the address gives the same view.

/** What the address says now. */
export function params() {
  return Object.fromEntries(new URLSearchParams(location.search));
}

/** The address with these changes; `null` or "" removes one. */
export function href(changes) {
  return address({ ...params(), ...changes });
}

/** The address of a view with nothing but these. */
export function address(wanted) {
  const kept = Object.entries(wanted).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(kept).toString();
  return query ? `?${query}` : "./";
}

const WINDOW_MAX = 604_800;

/** How many seconds back an address asks for; `usual` where it says nothing, or nonsense. */
export function windowIn({ window }, usual) {
  const seconds = Number(window);
  return seconds >= 1 && seconds <= WINDOW_MAX ? seconds : usual;
}

/** Go there, as if a link had been followed; with `replace`, without a new entry in the history. */
export function go(to, { replace = false } = {}) {
  if (to === location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", to === "./" ? location.pathname : to);
  dispatchEvent(new Event("went"));
}

/** Calls `heard` whenever the address has changed, by a link of the page, by `go`, or by the back button: then with true. */
export function onNavigation(heard) {
  addEventListener("popstate", () => {
    document.activeElement?.blur?.(); // or a field would keep what was typed there
    heard(true);
  });
  addEventListener("went", () => heard(false));
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    const to = link?.getAttribute("href");
    const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (!link || !isPlain || link.target || !(to.startsWith("?") || to === "./")) return;
    event.preventDefault();
    go(to);
  });
}
