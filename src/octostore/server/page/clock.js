// The store's clock. The page measures every age by it, and not by this machine's clock.

import { h } from "./dom.js";

let offset = 0;
let bestTrip = Infinity; // until a response contains the store's time
const DATE_MS = 1_000; // a Date header has whole seconds

/**
 * Learn the store's time: a response sent and received at these times (by `performance.now`) says it was `at`.
 * The fastest response is the most precise, until a slower one contradicts it: the machine slept, or clocks drifted.
 */
export function learn(at, sent, received) {
  const trip = received - sent;
  const measured = offsetAt(Date.parse(at), sent, received);
  if (trip > bestTrip && Math.abs(measured - offset) <= trip / 2) return;
  bestTrip = trip;
  offset = measured;
}

/** Learn the time roughly, from the `Date` header of any response, until a response contains the store's time. */
export function learnRoughly(date, sent, received) {
  if (bestTrip < Infinity || date === null) return;
  const measured = offsetAt(Date.parse(date) + DATE_MS / 2, sent, received);
  if (Math.abs(measured - offset) > DATE_MS + received - sent) offset = measured;
}

const offsetAt = (moment, sent, received) => moment - (performance.timeOrigin + (sent + received) / 2);

/** The store's time in milliseconds. */
export function now() {
  return performance.timeOrigin + performance.now() + offset;
}

export const ms = (moment) => (moment === null || moment === undefined ? null : Date.parse(moment));

const UNITS = [
  ["d", 86_400],
  ["h", 3_600],
  ["min", 60],
];

/** "42 s", "4 min 10 s", "3 h 5 min": at most two units, without a zero. */
export function span(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  for (let at = 0; at < UNITS.length; at += 1) {
    const [unit, size] = UNITS[at];
    if (whole < size) continue;
    const [smaller, part] = UNITS[at + 1] ?? ["s", 1];
    const rest = Math.floor((whole % size) / part);
    return rest ? `${Math.floor(whole / size)} ${unit} ${rest} ${smaller}` : `${Math.floor(whole / size)} ${unit}`;
  }
  return `${whole} s`;
}

/** "3 s ago", "in 2 min"; just "now" within a second. */
export function ago(moment) {
  const seconds = (now() - ms(moment)) / 1_000;
  if (Math.abs(seconds) < 1) return "now";
  return seconds > 0 ? `${span(seconds)} ago` : `in ${span(-seconds)}`;
}

export function utc(moment) {
  return new Date(ms(moment)).toISOString().replace("T", " ").replace("Z", " UTC");
}

/** A live "3 s ago", with UTC on hover; `none` for no time. */
export function when(moment, none = "never") {
  if (moment === null || moment === undefined) return none;
  return h("time", { datetime: moment, title: utc(moment) }, ago(moment));
}
