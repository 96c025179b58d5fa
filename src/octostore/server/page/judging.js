// As of when owners are judged to be alive, late or gone. What nobody has told the page says nothing about them.

export const LAG_MS = 4_000; // heartbeats arrive every 2 s, and may be held up on the way
const SPEAKS_MS = 16_000; // the server says something every 15 s: while it is silent for longer, nothing is known

export class Judge {
  constructor() {
    this.judgedAt = -Infinity; // as the store has it
  }

  /** All data is new. */
  loaded(now) {
    this.judgedAt = now;
  }

  /**
   * Goes on while a stream brings heartbeats; stands still while there is none, and until a new one has brought them all.
   * `liveFor` and `silentFor` are of the stream, in milliseconds; null while it is not live.
   */
  at(now, liveFor, silentFor) {
    if (liveFor !== null && liveFor >= LAG_MS) {
      const known = now - Math.max(LAG_MS, silentFor - SPEAKS_MS);
      this.judgedAt = Math.max(this.judgedAt, known);
    }
    return this.judgedAt;
  }
}
