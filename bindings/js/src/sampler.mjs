import { SAMPLER } from "./structs.mjs";

/** The names of options in JavaScript, and the fields of gleed_sampler_params. */
const PARAMS = {
  temperature: "temperature",
  topK: "top_k",
  topP: "top_p",
  minP: "min_p",
  repetitionPenalty: "repetition_penalty",
  frequencyPenalty: "frequency_penalty",
  presencePenalty: "presence_penalty",
  penaltyWindow: "penalty_window",
  seed: "seed",
};
// The largest number of last tokens that penalties count.
const WINDOW = 256;

/**
 * Chooses a token from logits: the most probable one, or with a temperature a drawn one. The same seed draws the same
 * tokens.
 */
export class Sampler {
  #lib;
  #params = {};
  #memory;
  #bytes;
  #scratch;
  #at;

  constructor(pool, options) {
    const { lib } = pool;
    for (const [name, value] of Object.entries(options)) {
      if (!PARAMS[name]) throw new TypeError(`there is no option '${name}' of a session`);
      if (value !== undefined) this.#params[PARAMS[name]] = value;
    }
    this.#lib = lib;
    lib.check(lib.c.gleed_sampler_size(lib.out, lib.out + 4, lib.error));
    this.#bytes = lib.word();
    this.#memory = lib.heap.take(this.#bytes);
    try {
      this.#scratch = lib.heap.take(8 * pool.model.info.vocab);
      this.restart();
    } catch (error) {
      this.free();
      throw error;
    }
  }

  /** Resets the sampler to its seed, with no tokens before. */
  restart() {
    const { c, out, error } = this.#lib;
    this.#lib.scope((take) => {
      const params = take(SAMPLER.size);
      SAMPLER.write(this.#lib.memory, params, this.#params);
      this.#lib.check(c.gleed_sampler_init(params, this.#memory, this.#bytes, out, error));
      this.#at = this.#lib.word();
    });
  }

  /** Makes these tokens the only ones that the penalties count. The random generator goes on. */
  read(tokens) {
    const { state } = this;
    this.restart();
    tokens.slice(-WINDOW).forEach((token) => this.accept(token));
    this.state = state;
  }

  accept(token) {
    this.#lib.check(this.#lib.c.gleed_sampler_accept(this.#at, token, this.#lib.error));
  }

  choose(logits, length) {
    const { c, out, error } = this.#lib;
    this.#lib.check(c.gleed_sample(this.#at, logits, length, this.#scratch, length, out, 0, error));
    return this.#lib.word();
  }

  get state() {
    const { c, out, error, memory } = this.#lib;
    this.#lib.check(c.gleed_sampler_state(this.#at, out, error));
    return new DataView(memory.buffer).getBigUint64(out, true);
  }

  set state(state) {
    this.#lib.check(this.#lib.c.gleed_sampler_set_state(this.#at, state, this.#lib.error));
  }

  free() {
    this.#lib.heap.give(this.#memory);
    this.#lib.heap.give(this.#scratch);
  }
}
