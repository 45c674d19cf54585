import { makeDesk } from "./conversation.mjs";
import { GleedError } from "./error.mjs";
import { Session } from "./session.mjs";
import { BUDGET, ENGINE, METRICS } from "./structs.mjs";

const READY = 4;
const STOPPED = 3;

/** An engine: sequences over one model that share blocks of keys and values. */
export class Pool {
  #engine;
  #budget;
  #unitsOfMillisecond;
  #desk;
  #sessions = new Set();
  /** Sessions whose tokens are queued. */
  #waiting = new Set();

  constructor(model, tokenizer, engine, plan) {
    this.model = model;
    this.tokenizer = tokenizer;
    this.plan = plan;
    this.#engine = engine;
    const { lib } = model;
    // A guess until a step has shown the speed of this machine.
    this.#unitsOfMillisecond = plan.units_per_token / 10;
    lib.check(lib.c.gleed_set_clock(engine.at, lib.clock, 0, lib.error));
    this.#budget = lib.heap.take(BUDGET.size);
  }

  /** Opens an empty sequence, and a session in it. */
  async session(options = {}) {
    const { lib } = this;
    lib.check(lib.c.gleed_seq_open(this.engine, lib.out, lib.error));
    return this.adopt(lib.word(), options);
  }

  /** Opens a session from the bytes of `Session.snapshot`. */
  async restore(bytes, options = {}) {
    return this.adopt(undefined, options, (session) => session.load(bytes));
  }

  /** Returns the state of the engine: its sequences, and its blocks by their use. */
  async info() {
    const { lib } = this;
    const info = lib.describe(ENGINE, (at) => lib.c.gleed_engine_describe(this.engine, at, lib.error));
    return {
      sequences: info.sequences,
      blocks: info.blocks,
      blocksUsed: info.blocks_used,
      blocksFree: info.blocks_free,
      blocksReclaimable: info.blocks_reclaimable,
      blocksPinned: info.blocks_pinned,
      blocksHighWater: info.blocks_high_water,
      kvBytes: info.kv_bytes,
      kvBytesUsed: info.kv_bytes_used,
      kvBytesHighWater: info.kv_bytes_high_water,
      prefixLookups: info.prefix_lookups,
      prefixHits: info.prefix_hits,
      prefixHitTokens: info.prefix_hit_tokens,
      prefixMissedTokens: info.prefix_missed_tokens,
    };
  }

  /** Returns the engine's counts and times in microseconds, with the names of gleed.h (docs/metrics.md). */
  async metrics({ reset = false } = {}) {
    const { lib } = this;
    const metrics = lib.describe(METRICS, (at) => lib.c.gleed_engine_metrics(this.engine, at, lib.error));
    if (reset) lib.check(lib.c.gleed_engine_reset_metrics(this.engine, lib.error));
    return metrics;
  }

  /** Ends all sessions and gives the memory back to the model. */
  async close() {
    this.end();
    this.model.forget(this);
  }

  end() {
    if (!this.#engine) return;
    for (const session of this.#sessions) session.end();
    const { lib } = this;
    lib.heap.give(this.#engine.memory);
    lib.heap.give(this.#budget);
    if (this.#desk) lib.heap.give(this.#desk.memory);
    this.#engine = undefined;
  }

  /** For the package only, like all members below. */
  get lib() {
    return this.model.lib;
  }

  get desk() {
    this.#desk ??= makeDesk(this);
    return this.#desk.at;
  }

  get engine() {
    if (!this.#engine) throw new GleedError("the pool is closed");
    return this.#engine.at;
  }

  /**
   * Adds a session for a sequence that is open, or that `prepare` opens. If this fails, the session and the sequence
   * are closed.
   */
  adopt(sequence, options, prepare = () => {}) {
    let session;
    try {
      session = new Session(this, sequence, options);
      this.#sessions.add(session);
      prepare(session);
      return session;
    } catch (error) {
      if (session) session.end();
      else if (sequence !== undefined) this.lib.check(this.lib.c.gleed_seq_close(this.engine, sequence, this.lib.error));
      throw error;
    }
  }

  forget(session) {
    this.#sessions.delete(session);
    this.#waiting.delete(session);
  }

  /** Queues tokens of a session. `Session.arrived` is called when their logits are ready. */
  queue(session, ids) {
    const { lib } = this;
    lib.scope((take) => {
      const tokens = take(4 * ids.length);
      lib.words(tokens, ids.length).set(ids);
      lib.check(lib.c.gleed_queue(this.engine, session.sequence, tokens, ids.length, 0, lib.error));
    });
    this.#waiting.add(session);
  }

  /** Drops the queued tokens of a session. */
  drop(session) {
    if (!this.#waiting.delete(session)) return;
    this.lib.check(this.lib.c.gleed_cancel(this.engine, session.sequence, this.lib.error));
  }

  /** Computes for about this number of milliseconds, for all sessions with queued tokens. */
  step(milliseconds) {
    const { lib } = this;
    // 0: no limit.
    const units = milliseconds === Infinity ? 0 : Math.max(1, Math.round(this.#unitsOfMillisecond * milliseconds));
    BUDGET.write(lib.memory, this.#budget, { units });
    const started = performance.now();
    const status = lib.c.gleed_step(this.engine, this.#budget, lib.error);
    if (status < 0) this.#waiting.clear();
    if (status !== 1 && status !== READY && status !== STOPPED) lib.check(status);
    this.#learn(units, status, performance.now() - started);
    if (status !== READY) return;
    for (const session of [...this.#waiting]) {
      if (lib.c.gleed_logits(this.engine, session.sequence, lib.out, lib.out + 4, lib.error) !== 0) continue;
      this.#waiting.delete(session);
      session.arrived(lib.word(0), lib.word(1));
    }
  }

  isWaiting(session) {
    return this.#waiting.has(session);
  }

  /** Learns the number of units per millisecond from a step that used up its units. */
  #learn(units, status, took) {
    if (status !== 1) return;
    const seen = units / Math.max(took, 0.01);
    this.#unitsOfMillisecond = (this.#unitsOfMillisecond + seen) / 2;
  }
}
