// API calls, below the page's own URL and with its cookie.

import { learn, learnRoughly } from "./clock.js";

const ROOT = "ui/api/";
const PATIENCE_MS = 20_000;
const TIMED = /^(claims|heartbeats)\b/; // their `at` is the current time; figures may be older

/** A failed call. `kind` distinguishes a refusal from a server that cannot be reached. */
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

/** `GET`, without the empty values in `query`. */
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
  const response = await fetchOk(ROOT + where, {
    method,
    headers: body === undefined ? { accept: "application/json" } : { accept: "application/json", "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: within(signal),
  });
  const received = performance.now();
  learnRoughly(response.headers.get("date"), sent, received);
  const content = response.status === 204 ? null : await read(response);
  if (content?.at && TIMED.test(where)) learn(content.at, sent, received);
  return content;
}

const within = (signal) => (signal ? AbortSignal.any([signal, AbortSignal.timeout(PATIENCE_MS)]) : AbortSignal.timeout(PATIENCE_MS));

/** Fetch. Throws a `Failure` unless the status is OK. */
export async function fetchOk(address, options) {
  let response;
  try {
    response = await fetch(address, { credentials: "same-origin", cache: "no-store", ...options });
  } catch (error) {
    if (options.signal?.aborted && options.signal.reason?.name !== "TimeoutError") throw error;
    throw new Failure("unreachable", "The server cannot be reached.", "The page retries automatically.");
  }
  if (response.ok) return response;
  throw await failureOf(response);
}

async function failureOf(response) {
  const content = await read(response).catch(() => ({}));
  const message = content?.error ?? `The server responded with status ${response.status}.`;
  const kind =
    response.status === 401 ? "logged out"
    : response.status === 403 ? "not allowed"
    : response.status >= 500 || response.status === 429 ? "unreachable"
    : "refused";
  return new Failure(kind, message, content?.details ?? null, response.status, content?.retry_after_ms ?? 0);
}

async function read(response) {
  try {
    return await response.json();
  } catch {
    throw new Failure("unreachable", "The response was cut off.", "The page retries automatically.", response.status);
  }
}

// Logging in and out

export async function logIn(credential) {
  await fetchOk("ui/login", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(credential),
    signal: within(undefined),
  });
}

export async function logOut() {
  await fetchOk("ui/logout", { method: "POST", signal: within(undefined) });
}
