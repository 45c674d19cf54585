// Threads that compute beside the one that calls: workers with instances of the module over the same memory. Gleed cuts the work; a call of the
// library hands it out here (gleed_parallel_for), and takes part in it.
import { GleedError } from "./error.mjs";
import { EXECUTOR } from "./structs.mjs";

/** Words of 32 bits that all of them share: the number of the run, a bit for each slot that nobody has taken yet, how many are done, ... */
export const WORD = { run: 0, left: 1, done: 2, failed: 3, body: 4, arg: 5 };
const WORDS = 6;
/** That of the module itself: wasm-ld's default. */
const STACK = 65536;
/** How often a word is read before a thread sleeps. Waking takes longer than most pieces of the work. */
export const SPINS = 4000;
/** More do not help where memory is what limits. */
const MOST = 8;
/** Slots have a bit of a word. */
const LIMIT = 32;

/** Returns why this place has no threads, or undefined. */
export function whyNoThreads() {
  if (typeof SharedArrayBuffer === "undefined" || globalThis.crossOriginIsolated === false) {
    return "threads need a page that is isolated from other origins (crossOriginIsolated)";
  }
  // A page may not wait for another thread.
  return globalThis.document ? "threads need a worker: { worker: true }" : undefined;
}

/** Returns how many threads there are if nobody says it: in the worker of an isolated page one for each core, elsewhere one. */
export function usualThreads() {
  if (!globalThis.WorkerGlobalScope || globalThis.crossOriginIsolated !== true) return 1;
  return Math.min(MOST, globalThis.navigator?.hardwareConcurrency ?? 1);
}

/** Returns `count` if it can be had here. */
export function checkThreads(count) {
  if (!Number.isInteger(count) || count < 1 || count > LIMIT) {
    throw new RangeError(`threads is ${count}, not a whole number from 1 to ${LIMIT}`);
  }
  const why = count > 1 ? whyNoThreads() : undefined;
  if (why) throw new GleedError(why, { given: count });
  return count;
}

export class Threads {
  #lib;
  #words;
  #at;
  #workers = [];
  #parallelFor;

  /** Starts the threads of a model: `count` with the one that calls. */
  static async start(lib, module, count) {
    const threads = new Threads(lib);
    try {
      await Promise.all(Array.from({ length: count - 1 }, (_, index) => threads.#add(module, index + 1)));
    } catch (error) {
      threads.stop();
      throw error;
    }
    return threads;
  }

  constructor(lib) {
    this.#lib = lib;
    this.#at = lib.heap.take(4 * WORDS);
    this.#words = new Int32Array(lib.memory.buffer, this.#at, WORDS).fill(0);
    this.#parallelFor = lib.callback((ctx, n, body, arg) => this.#run(n, body, arg), { parameters: "iiii" });
  }

  /** Lets them compute for an engine. */
  lend(engine) {
    const lib = this.#lib;
    lib.scope((take) => {
      const executor = take(EXECUTOR.size);
      EXECUTOR.write(lib.memory, executor, { slots: this.#workers.length + 1, parallel_for: this.#parallelFor });
      lib.check(lib.c.gleed_set_executor(engine, executor, lib.error));
    });
  }

  /** Ends them. Their engines may not be used any more. */
  stop() {
    this.#workers.forEach((worker) => worker.terminate());
    this.#workers = [];
  }

  async #add(module, slot) {
    const worker = await startThread();
    this.#workers.push(worker);
    const { heap, memory } = this.#lib;
    const ready = new Promise((resolve, reject) => {
      const failed = (cause) => reject(new GleedError("a thread could not be started", { cause: cause?.error ?? cause }));
      const answer = ({ error }) => (error ? failed(error) : resolve());
      if (worker.on) worker.on("message", answer).on("error", failed);
      else {
        worker.addEventListener("message", ({ data }) => answer(data));
        worker.addEventListener("error", failed);
      }
    });
    worker.postMessage({ module, memory, slot, words: this.#at, stack: heap.take(STACK) + STACK });
    await ready;
    // A program ends although its threads wait.
    worker.unref?.();
  }

  /** gleed_parallel_for: slot 0 is done here, the others by threads that come in time. It returns when all of those have. */
  #run(slots, body, arg) {
    const words = this.#words;
    const helpers = Math.min(slots - 1, this.#workers.length);
    words[WORD.body] = body;
    words[WORD.arg] = arg;
    words[WORD.done] = 0;
    Atomics.store(words, WORD.left, 2 ** (helpers + 1) - 2);
    Atomics.add(words, WORD.run, 1);
    if (helpers > 0) Atomics.notify(words, WORD.run, helpers);
    this.#lib.c.__indirect_function_table.get(body)(arg, 0);
    // Whoever has not come by now has nothing to do any more.
    const came = helpers - bits(Atomics.exchange(words, WORD.left, 0));
    for (let spins = 0, done; (done = Atomics.load(words, WORD.done)) < came; spins++) {
      if (spins > SPINS) Atomics.wait(words, WORD.done, done);
    }
    if (Atomics.load(words, WORD.failed)) throw new GleedError("a thread has failed: the model cannot be used any more");
  }
}

const bits = (word) => {
  let count = 0;
  for (; word !== 0; word &= word - 1) count++;
  return count;
};

async function startThread() {
  // Bundlers look for this form.
  if (globalThis.Worker) return new Worker(new URL("./thread.mjs", import.meta.url), { type: "module" });
  const threads = await import(/* webpackIgnore: true */ /* @vite-ignore */ "node:worker_threads");
  // Options of Node that are for the program's own text, `--input-type` for example, are not for it.
  return new threads.Worker(new URL("./thread.mjs", import.meta.url), { execArgv: [] });
}
