// The event stream: one for the whole page. After an interruption it resumes without a gap.

import { fetchOk, Failure } from "./api.js";

const SILENCE_MS = 45_000; // the server sends something at least every 15 s
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 10_000;
const STALE_MS = 60_000; // after this long without a stream, loading the view again is faster than catching up

export class Stream {
  /** `on` has callbacks: `event`, `heartbeat`, `state` (of the connection), `stale` and `failed`. */
  constructor(on) {
    this.on = on;
    this.state = "off"; // "off" | "connecting" | "live" | "lost"
    this.heardAt = null; // by performance.now: when data last arrived
    this.liveAt = null; // when it became live
    this.log = null; // the filters of the log
    this.heartbeats = "";
    this.after = 0;
    this.closing = null;
    this.silence = null; // aborts the current request, after which the stream reconnects
  }

  /**
   * Follow the log after `after`: one `job`, or a `prefix`, some `types`, and the `heartbeats` of some jobs.
   * Returns true if the same log is already being followed. Then `after` is ignored: its events have been delivered.
   */
  follow({ after, heartbeats = "", ...log }) {
    const continues = this.state !== "off" && JSON.stringify(log) === JSON.stringify(this.log);
    if (continues && heartbeats === this.heartbeats) return true;
    if (!continues) this.stop();
    this.closing?.abort();
    Object.assign(this, { log, heartbeats, after: continues ? this.after : after, closing: new AbortController() });
    this.run({ ...log, heartbeats }, this.closing.signal);
    return continues;
  }

  stop() {
    this.closing?.abort();
    this.closing = null;
    this.set("off");
  }

  /** The network is down; the stream itself would only notice the silence. */
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
    if (this.state === "off") this.set("connecting"); // if only the heartbeats change, it stays live
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
      this.set(isClosed ? "connecting" : "lost"); // if the server closed it, the next request says why
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
    const response = await fetchOk(`ui/api/events?${new URLSearchParams(given)}`, {
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
        for (const frame of frames) if (!signal.aborted) this.deliver(frame);
      }
    } finally {
      clearTimeout(timer);
    }
  }

  deliver(frame) {
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
