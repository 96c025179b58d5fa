// Calls to the API, under the page's own address and with its cookie.

import { learn, learnRoughly } from "./clock.js";

const ROOT = "ui/api/";
const PATIENCE_MS = 20_000;
const TIMED = /^(claims|heartbeats)\b/; // their `at` is when they were given; figures may have been counted before

/** What the server answered, or why there was no answer. `kind` keeps "no" apart from "not reachable". */
export class Failure extends Error {
  constructor(kind, message, details = null, status = 0, retryAfterMs = 0) {
    super(message);
    this.kind = kind; // "unreachable" | "logged out" | "not allowed" | "refused"
    this.details = details;
    this.status = status;
    this.retryAfterMs = retryAfterMs;
  }
}

export const path = (...segments) => segments.map(encodeURIComponent).join("/");

/** `GET`: `query` without what is empty. */
export function get(where, query = {}, signal = undefined) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(given).toString();
  return call("GET", text ? `${where}?${text}` : where, undefined, signal);
}

export function send(method, where, body = {}) {
  return call(method, where, body);
}

async function call(method, where, body, signal) {
  const sent = performance.now();
  const response = await fetched(ROOT + where, {
    method,
    headers: body === undefined ? { accept: "application/json" } : { accept: "application/json", "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: within(signal),
  });
  const received = performance.now();
  learnRoughly(response.headers.get("date"), sent, received);
  const answer = response.status === 204 ? null : await read(response);
  if (answer?.at && TIMED.test(where)) learn(answer.at, sent, received);
  return answer;
}

const within = (signal) => (signal ? AbortSignal.any([signal, AbortSignal.timeout(PATIENCE_MS)]) : AbortSignal.timeout(PATIENCE_MS));

/** The response if it is a good one. */
export async function fetched(address, options) {
  let response;
  try {
    response = await fetch(address, { credentials: "same-origin", cache: "no-store", ...options });
  } catch (error) {
    if (options.signal?.aborted && options.signal.reason?.name !== "TimeoutError") throw error;
    throw new Failure("unreachable", "The server cannot be reached.", "The page tries again by itself.");
  }
  if (response.ok) return response;
  throw await failureOf(response);
}

async function failureOf(response) {
  const told = await read(response).catch(() => ({}));
  const message = told?.error ?? `The server answered ${response.status}.`;
  const kind =
    response.status === 401 ? "logged out"
    : response.status === 403 ? "not allowed"
    : response.status >= 500 || response.status === 429 ? "unreachable"
    : "refused";
  return new Failure(kind, message, told?.details ?? null, response.status, told?.retry_after_ms ?? 0);
}

async function read(response) {
  try {
    return await response.json();
  } catch {
    throw new Failure("unreachable", "The answer was cut off.", "The page tries again by itself.", response.status);
  }
}

// Getting in and out

export async function logIn(credential) {
  await fetched("ui/login", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(credential),
    signal: within(undefined),
  });
}

export async function logOut() {
  await fetched("ui/logout", { method: "POST", signal: within(undefined) });
}
