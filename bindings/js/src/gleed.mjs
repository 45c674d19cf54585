/**
 * Gleed for JavaScript: GGUF models in a browser, in Node, in Deno. It is a thin layer over the C functions of
 * include/gleed.h.
 */
import { GleedError } from "./error.mjs";
import { compile, hasSimd, Library } from "./library.mjs";
import { Pool } from "./pool.mjs";
import { openInWorker } from "./remote.mjs";
import { load } from "./source.mjs";
import { CONFIG, MODEL, PLAN, SECTION, TURNS, VOCAB } from "./structs.mjs";
import { Text } from "./text.mjs";
import { checkThreads, Threads, usualThreads } from "./threads.mjs";

export { cachedModels, forgetModel } from "./cache.mjs";
export { GleedError } from "./error.mjs";
export { Xxh64 } from "./hash.mjs";
export { hasSimd } from "./library.mjs";

const ADD_SPECIAL = 1;
const NO_TURNS = 0xffffffff;
const CHOICES = { kv_type: { f16: 0, f32: 1, q8_0: 2, q4_0: 3 }, kv_kind: { paged: 0, basic: 1, off: 2 } };
/** The names of limits in JavaScript, and the fields of gleed_config. */
const LIMITS = {
  sequences: "sequences",
  context: "context",
  rows: "rows",
  blocks: "kv_blocks",
  kvType: "kv_type",
  kvKind: "kv_kind",
  windowSinks: "window_sinks",
  windowLast: "window_last",
  prefixCache: "prefix_cache",
  checkpoints: "checkpoints",
  checkpointEvery: "checkpoint_every",
};

/** A model: the bytes of its file in the memory of its own instance of the library. */
export class Gleed {
  #lib;
  #model;
  #tokenizer;
  #threads;
  #pools = new Set();

  /** Opens a model: a URL, a path (not in a browser), a File or Blob, bytes, or a stream of bytes. */
  static async open(source, { worker = false, build, threads, ...options } = {}) {
    if (worker) return openInWorker(source, { build, threads, ...options }, worker);
    const { module, build: found, count } = await choose(build, threads);
    const lib = new Library(module);
    const file = await load(lib, source, options);
    const started = count > 1 ? await Threads.start(lib, module, count) : undefined;
    try {
      return new Gleed(lib, file, { build: found, threads: count }, started);
    } catch (error) {
      started?.stop();
      throw error;
    }
  }

  constructor(lib, file, computes, threads) {
    const { c } = lib;
    this.#lib = lib;
    this.#threads = threads;
    const model = lib.object(
      (size, align) => c.gleed_model_size(size, align, lib.error),
      (memory, bytes) => c.gleed_model_open(file.at, file.length, memory, bytes, lib.out, lib.error),
    );
    this.#model = model.at;
    const tokenizer = lib.object(
      (size, align) => c.gleed_tokenizer_size(this.#model, size, align, lib.error),
      (memory, bytes) => c.gleed_tokenizer_init(this.#model, memory, bytes, lib.out, lib.error),
    );
    this.#tokenizer = tokenizer.at;
    const { fingerprint, file_bytes, head_dim, kv_heads, ...info } = this.lib.describe(MODEL, (at) =>
      c.gleed_model_describe(this.#model, at, lib.error),
    );
    this.vocab = this.lib.describe(VOCAB, (at) => c.gleed_tokenizer_describe(this.#tokenizer, at, lib.error));
    this.info = {
      ...info,
      headDim: head_dim,
      kvHeads: kv_heads,
      fingerprint: fingerprint.toString(16).padStart(16, "0"),
      bytes: file_bytes,
      turns: this.#turnsName(),
      from: file.from,
      ...computes,
      arithmetic: c.gleed_arithmetic_version(),
      version: lib.string(c.gleed_version()),
      ...(file.cacheError && { cacheError: String(file.cacheError) }),
    };
  }

  /**
   * Makes a pool of sequences and a session in it. Options are the limits of the pool and the options of the session.
   */
  async session(options = {}) {
    const [limits, rest] = split(options);
    const pool = await this.pool(limits);
    try {
      return await pool.session(rest);
    } catch (error) {
      pool.close();
      throw error;
    }
  }

  /** Makes an engine: memory for sequences that share blocks of keys and values. */
  async pool(limits = {}) {
    const { lib } = this;
    const [engine, plan] = lib.scope((take) => {
      const config = this.#config(take, limits);
      const plan = lib.describe(PLAN, (at) => lib.c.gleed_plan_describe(this.#model, config, at, lib.error));
      const engine = lib.object(
        (size, align) => lib.c.gleed_plan(this.#model, config, size, align, lib.error),
        (memory, bytes) => lib.c.gleed_engine_init(this.#model, config, memory, bytes, lib.out, lib.error),
      );
      return [engine, plan];
    });
    try {
      this.#threads?.lend(engine.at);
      const pool = new Pool(this, this.#tokenizer, engine, plan);
      this.#pools.add(pool);
      return pool;
    } catch (error) {
      lib.heap.give(engine.memory);
      throw error;
    }
  }

  /** Returns the bytes that an engine with these limits needs, in total and for each section. No engine is made. */
  async memoryPlan(limits = {}) {
    const { c, error } = this.lib;
    return this.lib.scope((take) => {
      const config = this.#config(take, limits);
      const plan = this.lib.describe(PLAN, (at) => c.gleed_plan_describe(this.#model, config, at, error));
      const sections = Array.from({ length: plan.sections }, (_, index) =>
        this.lib.describe(SECTION, (at) => c.gleed_plan_section(this.#model, config, index, at, error)),
      );
      return {
        bytes: plan.bytes,
        file: this.info.bytes,
        kvBytes: plan.kv_bytes,
        kvBytesPerToken: plan.kv_bytes_per_token,
        stateBytes: plan.state_bytes,
        unitsPerToken: plan.units_per_token,
        sequences: plan.sequences,
        context: plan.context,
        rows: plan.rows,
        blocks: plan.kv_blocks,
        sections,
      };
    });
  }

  /** Returns the ids of a text's tokens. `special` adds the tokens that begin and end a text. */
  async encode(text, { special = true } = {}) {
    return this.encodeNow(text, special);
  }

  /** Returns the text of tokens. */
  async decode(ids, { continues = false } = {}) {
    const text = new Text(this.lib, this.#tokenizer, this.vocab, { continues });
    try {
      return ids.map((id) => text.push(id)).join("") + text.finish();
    } finally {
      text.free();
    }
  }

  /** Returns the size of the module's memory in bytes, and the number of bytes in use. */
  async memory() {
    const { bytes, used } = this.lib.heap;
    return { bytes, used };
  }

  /** Ends the model with all of its pools. The garbage collector gives the memory back to the system. */
  async close() {
    for (const pool of this.#pools) pool.end();
    this.#pools.clear();
    this.#threads?.stop();
    this.#lib = undefined;
  }

  async [Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]() {
    await this.close();
  }

  /** The library, while the model is open. For the package only. */
  get lib() {
    if (!this.#lib) throw new GleedError("the model is closed");
    return this.#lib;
  }

  /** For the package only. */
  encodeNow(text, special) {
    const { lib } = this;
    const flags = special ? ADD_SPECIAL : 0;
    return lib.scope((take) => {
      const [at, length] = lib.put(take, text);
      const room = length + 8;
      const tokens = take(4 * room);
      let [scratch, elements] = [take(4 * 2000), 2000];
      for (;;) {
        const status = lib.c.gleed_encode(
          this.#tokenizer, at, length, flags, scratch, elements, tokens, room, lib.out, lib.error,
        );
        try {
          lib.check(status);
          return Array.from(lib.words(tokens, lib.word()));
        } catch (error) {
          if (error.status !== -103 || error.needed <= elements) throw error;
          [scratch, elements] = [take(4 * error.needed), error.needed];
        }
      }
    });
  }

  /** Returns the number of a turn format, by name, or from the file. For the package only. */
  turnsFormat(name) {
    const { lib } = this;
    lib.scope((take) => {
      if (name === undefined) lib.check(lib.c.gleed_turns_find(this.#model, this.#tokenizer, lib.out, lib.error));
      else lib.check(lib.c.gleed_turns_named(...lib.put(take, name), lib.out, lib.error));
    });
    const format = lib.word();
    return format === NO_TURNS ? undefined : format;
  }

  /** For the package only. */
  forget(pool) {
    this.#pools.delete(pool);
  }

  #turnsName() {
    const format = this.turnsFormat();
    if (format === undefined) return null;
    const { lib } = this;
    return lib.describe(TURNS, (at) => lib.c.gleed_turns_describe(format, at, lib.error)).name;
  }

  #config(take, limits) {
    const values = { workers: this.info.threads };
    for (const [name, value] of Object.entries(limits)) {
      const field = LIMITS[name];
      if (!field) throw new TypeError(`there is no limit '${name}'`);
      if (value === undefined) continue;
      values[field] = CHOICES[field] ? CHOICES[field][value] : Number(value);
      if (values[field] === undefined) throw new TypeError(`${name} cannot be '${value}'`);
    }
    const at = take(CONFIG.size);
    CONFIG.write(this.lib.memory, at, values);
    return at;
  }
}

/**
 * Returns the build that computes, and the number of threads. If the module with threads is missing, threads are left
 * out, unless the program asked for them.
 */
async function choose(build, threads) {
  const isFree = (build === undefined || build === "threads") && hasSimd();
  const count = threads === undefined ? (isFree ? usualThreads() : 1) : checkThreads(threads);
  if (count === 1) return { ...(await compile(build)), count };
  if (build !== undefined && build !== "threads") throw new TypeError(`the build '${build}' has one thread`);
  try {
    return { ...(await compile("threads")), count };
  } catch (error) {
    if (threads !== undefined || build !== undefined || !(error instanceof GleedError)) throw error;
    return { ...(await compile()), count: 1 };
  }
}

/** Splits options into the limits of a pool and the rest. */
function split(options) {
  const entries = Object.entries(options);
  return [true, false].map((isLimit) => Object.fromEntries(entries.filter(([name]) => Object.hasOwn(LIMITS, name) === isLimit)));
}
