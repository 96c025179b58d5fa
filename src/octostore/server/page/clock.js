// The store's time. Every age on the page is measured by it, and not by the clock of this machine.

import { h } from "./dom.js";

let offset = 0;
let bestTrip = Infinity; // until the store itself has told its time
const DATE_MS = 1_000; // a Date header has whole seconds

/**
 * The store said it was `at` in an answer to what was sent and received at these moments (of `performance.now`).
 * The quickest answer says most, until a slower one contradicts it: the machine has slept, or clocks have drifted apart.
 */
export function learn(at, sent, received) {
  const trip = received - sent;
  const told = offsetAt(Date.parse(at), sent, received);
  if (trip > bestTrip && Math.abs(told - offset) <= trip / 2) return;
  bestTrip = trip;
  offset = told;
}

/** The same from the `Date` of any answer: roughly, by the clock of the server, and only until the store tells more. */
export function learnRoughly(date, sent, received) {
  if (bestTrip < Infinity || date === null) return;
  const told = offsetAt(Date.parse(date) + DATE_MS / 2, sent, received);
  if (Math.abs(told - offset) > DATE_MS + received - sent) offset = told;
}

const offsetAt = (moment, sent, received) => moment - (performance.timeOrigin + (sent + received) / 2);

/** Now, in milliseconds, as the store has it. */
export function now() {
  return performance.timeOrigin + performance.now() + offset;
}

export const ms = (moment) => (moment === null || moment === undefined ? null : Date.parse(moment));

const UNITS = [
  ["d", 86_400],
  ["h", 3_600],
  ["min", 60],
];

/** "42 s", "4 min 10 s", "3 h 5 min": two units at most, the smaller one only while it says something. */
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

/** A moment that keeps counting, with UTC on hover; `none` where there is none. */
export function when(moment, none = "never") {
  if (moment === null || moment === undefined) return none;
  return h("time", { datetime: moment, title: utc(moment) }, ago(moment));
}
