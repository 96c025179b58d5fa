// Events as sentences.

import { gist, grouped, visible } from "./words.js";

const said = (text) => (text ? `: ${gist(text)}` : "");
const noted = (text) => (text ? ` (${gist(text)})` : "");
const after = (data) => ({ dead: "; the job is dead now", queued: "; the job is back in its queue" })[data.status] ?? "";
const ended = (how) => (event, data) => `${visible(data.owner)} ${how}${said(data.error ?? data.reason)}${noted(data.note)}${after(data)}`;
const byOperator = (how) => (event, data) => `${how}${data.owner ? ` from ${visible(data.owner)}` : ""} by ${visible(event.actor)}${said(data.reason)}`;
const attempt = (data) => (data.attempt > 1 ? ` (attempt ${data.attempt})` : "");
const phase = (data) => (data.phase ? `; phase ${data.phase_before ? `${data.phase_before} → ` : ""}${data.phase}` : "");

function claimed(event, data) {
  if (data.handed_over_by) return `${visible(data.owner)} got it from ${visible(data.handed_over_by)}, with the session${attempt(data)}`;
  if (data.took_over_from) return `${visible(data.owner)} took over from ${visible(data.took_over_from)}${attempt(data)}`;
  return `${visible(data.owner)} claimed it${attempt(data)}`;
}


function released(event, data) {
  if (data.handed_over_to) return `${visible(data.owner)} handed it over to ${visible(data.handed_over_to)}${noted(data.note)}`;
  return ended("released it")(event, data);
}

const SENTENCES = {
  enqueued: (event, data) => `enqueued in ${visible(event.queue)} as ${visible(data.kind)}`,
  claimed,
  released,
  done: ended("finished it"),
  failed: ended("failed"),
  deferred: ended("deferred it"),
  expired: (event, data) => `${visible(data.owner)} disappeared${said(event.reason)}${noted(data.note)}${after(data)}`,
  undone: (event, data) => `${visible(data.owner)}'s claim was undone: the owner disconnected before the reply${after(data)}`,
  stuck: (event, data) => `${visible(data.owner)} is stuck: alive, but ${visible(event.reason)}${noted(data.note)}`,
  force_released: byOperator("taken away"),
  cancelled: (event, data) => byOperator(data.owner ? "cancelled and taken" : "cancelled")(event, data),
  discarded: byOperator("discarded"),
  requeued: byOperator("requeued"),
  stop_requested: (event, data) => `${visible(event.actor)} asked ${visible(data.owner)} to stop${data.cancels ? " (the job will then be cancelled)" : ""}${said(data.reason)}`,
  stop_delivered: (event, data) => `${visible(data.owner)} received the stop request`,
  queue_limited: (event, data) => `queue ${visible(event.queue)}: ${limits(data)}, by ${visible(event.actor)}${said(data.reason)}`,
  session_opened: (event, data) => `${visible(data.agent)} ${data.resumed ? "resumed" : "opened"} its session${phase(data)}`,
  session_saved: (event, data) => `${data.agent ? `${visible(data.agent)} saved its context` : "context saved"} (${grouped(data.context_bytes)} bytes)${phase(data)}`,
  session_handed_over: (event, data) => `${visible(data.agent)}'s session was handed over to ${visible(data.to_agent)}${noted(data.note)}`,
  session_closed: (event, data) => `${visible(data.agent)}'s session was closed${phase(data)}`,
  session_expired: (event, data) => `${visible(data.agent)} disappeared with its session${said(event.reason)}${phase(data)}`,
  session_undone: (event, data) => `${visible(data.agent)}'s session was undone: the agent disconnected before the reply`,
  restored: (event, data) => `restored from a backup that ended with event ${data.after}`,
  token_created: (event, data) => `${visible(event.actor)} created a token for ${visible(data.name)}`,
  token_rotated: (event, data) => `${visible(data.name)}'s token was rotated`,
  token_revoked: (event, data) => `${visible(event.actor)} revoked ${visible(data.name)}'s token`,
};

function limits({ paused = null, max_claimed: most = null }) {
  const changes = paused === null ? [] : [paused ? "paused" : "resumed"];
  if (most !== null || paused === null) changes.push(most === null ? "no limit" : `at most ${most} at a time`);
  return changes.join(", ");
}

export const TYPES = Object.keys(SENTENCES);

/** The event as a sentence, without its time and job. An unknown type, from a newer server, appears by its name. */
export function sentence(event) {
  const describe = SENTENCES[event.type];
  return describe ? describe(event, event.data) : `${event.type}${event.agent ? noted(event.agent) : ""}${said(event.reason)}`;
}
