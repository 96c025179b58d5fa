// The time at which owners are judged to be alive, late or gone. While the page gets no data, it does not advance.

export const LAG_MS = 4_000; // heartbeats arrive every 2 s, and may be delayed
const SPEAKS_MS = 16_000; // the server sends something every 15 s; after a longer silence, nothing is known

export class Judge {
  constructor() {
    this.judgedAt = -Infinity; // in store time
  }

  /** All data has just been loaded. */
  loaded(now) {
    this.judgedAt = now;
  }

  /**
   * Advances while a stream delivers heartbeats. Stops while there is none, and until a new one has delivered them all.
   * `liveFor` and `silentFor` describe the stream, in milliseconds; null while it is not live.
   */
  at(now, liveFor, silentFor) {
    if (liveFor !== null && liveFor >= LAG_MS) {
      const known = now - Math.max(LAG_MS, silentFor - SPEAKS_MS);
      this.judgedAt = Math.max(this.judgedAt, known);
    }
    return this.judgedAt;
  }
}
