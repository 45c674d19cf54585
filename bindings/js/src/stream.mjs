const SLICE = 12; // Milliseconds of work between which others have a turn.

/** Lets timers, events and messages run. */
const breathe =
  typeof setImmediate === "function"
    ? () => new Promise((resolve) => setImmediate(resolve))
    : () =>
        new Promise((resolve) => {
          const { port1, port2 } = new MessageChannel();
          port1.onmessage = () => (port1.close(), resolve());
          port2.postMessage(0);
        });

/**
 * A text that is being generated: `for await (const piece of stream)`. Nothing is computed before the program asks for a piece.
 * Leaving the loop ends the text, and so does `cancel`. The signal ends it, too, and then the loop throws its reason.
 */
export class Stream {
  #work;
  #progress;
  #signal;
  #since = 0;

  /** `work` yields pieces of text, or undefined after a slice of work. `progress` has the ids and the reason of the text so far. */
  constructor(progress, work, signal) {
    this.#progress = progress;
    this.#work = work;
    this.#signal = signal;
    progress.slice = SLICE;
  }

  /** The ids of the tokens so far. */
  get ids() {
    return [...this.#progress.ids];
  }

  /** The reason why the text has ended: "end", "length", "context", "full", "stop" or "cancelled". Null before its end. */
  get reason() {
    return this.#progress.reason;
  }

  /** Works for about this number of milliseconds, or to the end of the text. Returns the text that is ready. */
  step(milliseconds = SLICE) {
    const until = performance.now() + milliseconds;
    this.#progress.slice = milliseconds;
    let text = "";
    do {
      this.#check();
      const { value, done } = this.#work.next();
      if (done) break;
      text += value ?? "";
      this.#progress.slice = Math.max(until - performance.now(), 0.1);
    } while (performance.now() < until);
    return text;
  }

  async next() {
    this.#progress.slice = SLICE;
    for (;;) {
      if (performance.now() - this.#since > SLICE) {
        await breathe();
        this.#since = performance.now();
      }
      this.#check();
      const { value, done } = this.#work.next();
      if (done) return { value: undefined, done: true };
      if (value) return { value, done: false };
    }
  }

  /** Ends the text. The session then goes on from what has been generated. */
  cancel() {
    this.#progress.reason ??= "cancelled";
    this.#work.return();
  }

  /** Returns the rest of the text. */
  async read() {
    let text = "";
    for await (const piece of this) text += piece;
    return text;
  }

  async return() {
    this.cancel();
    return { value: undefined, done: true };
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  #check() {
    if (!this.#signal?.aborted || this.#progress.reason !== null) return;
    this.cancel();
    throw this.#signal.reason;
  }
}
