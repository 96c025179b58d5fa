// The log as it is written. One stream for the whole page; it resumes where it was cut off, without a gap.

import { fetched, Failure } from "./api.js";

const SILENCE_MS = 45_000; // the server speaks at least every 15 s
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 10_000;
const STALE_MS = 60_000; // after so long without a stream, it is quicker to load the view again than to catch up

export class Stream {
  /** `on` has `event`, `heartbeat`, `state` (something changed about the connection), `stale` and `failed`. */
  constructor(on) {
    this.on = on;
    this.state = "off"; // "off" | "connecting" | "live" | "lost"
    this.heardAt = null; // of performance.now: how old the data may be
    this.liveAt = null; // since when it is live
    this.log = null; // which part of it
    this.heartbeats = "";
    this.after = 0;
    this.closing = null;
    this.silence = null; // aborts the request that is under way, and not what is wanted
  }

  /**
   * Follow the log after `after`: of one `job`, or a `prefix`, some `types`, with the `heartbeats` of some jobs.
   * Whether that goes on where it was: then `after` is not heeded, and what came since then has been heard already.
   */
  follow({ after, heartbeats = "", ...log }) {
    const goesOn = this.state !== "off" && JSON.stringify(log) === JSON.stringify(this.log);
    if (goesOn && heartbeats === this.heartbeats) return true;
    if (!goesOn) this.stop();
    this.closing?.abort();
    Object.assign(this, { log, heartbeats, after: goesOn ? this.after : after, closing: new AbortController() });
    this.run({ ...log, heartbeats }, this.closing.signal);
    return goesOn;
  }

  stop() {
    this.closing?.abort();
    this.closing = null;
    this.set("off");
  }

  /** The network is gone, which the stream itself would only notice by silence. */
  cut() {
    this.silence?.abort();
  }

  set(state) {
    if (this.state === state) return;
    this.state = state;
    this.liveAt = state === "live" ? performance.now() : null;
    this.on.state(state);
  }

  async run(query, signal) {
    let pause = FIRST_PAUSE_MS;
    if (this.state === "off") this.set("connecting"); // one that only follows other heartbeats stays live
    while (!signal.aborted) {
      const startedAt = performance.now();
      let isClosed = false;
      try {
        await this.readOnce(query, signal);
        isClosed = this.state === "live";
        if (isClosed) pause = FIRST_PAUSE_MS;
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof Failure && error.kind !== "unreachable") {
          this.stop();
          this.on.failed(error);
          return;
        }
      }
      if (signal.aborted) return;
      if (this.state === "live" && performance.now() - startedAt > 5_000) pause = FIRST_PAUSE_MS;
      this.set(isClosed ? "connecting" : "lost"); // by the server, which says why as soon as it is asked again
      await sleep(pause * (0.75 + Math.random() / 2), signal);
      pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
    }
  }

  async readOnce(query, signal) {
    if (this.heardAt !== null && performance.now() - this.heardAt > STALE_MS && this.state === "lost") {
      this.on.stale();
      return;
    }
    const silence = (this.silence = new AbortController());
    const given = Object.entries(query).filter(([, value]) => value);
    const response = await fetched(`ui/api/events?${new URLSearchParams(given)}`, {
      headers: { accept: "text/event-stream", "last-event-id": String(this.after) },
      signal: AbortSignal.any([signal, silence.signal]),
    });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    let timer;
    try {
      for (;;) {
        timer = setTimeout(() => silence.abort(), SILENCE_MS);
        const { value, done } = await reader.read();
        clearTimeout(timer);
        if (done || signal.aborted) return;
        this.heardAt = performance.now();
        this.set("live");
        const frames = (rest + value).split("\n\n");
        rest = frames.pop();
        for (const frame of frames) if (!signal.aborted) this.take(frame);
      }
    } finally {
      clearTimeout(timer);
    }
  }

  take(frame) {
    let type = "message";
    let data = "";
    for (const line of frame.split("\n")) {
      if (line.startsWith("event: ")) type = line.slice(7);
      else if (line.startsWith("data: ")) data += line.slice(6);
      else if (line.startsWith("id: ")) this.after = Number(line.slice(4));
    }
    if (!data) return;
    if (type === "heartbeat") this.on.heartbeat(JSON.parse(data));
    else this.on.event(JSON.parse(data));
  }
}

function sleep(milliseconds, signal) {
  return new Promise((done) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      done();
    };
    const timer = setTimeout(end, milliseconds);
    signal.addEventListener("abort", end);
  });
}
