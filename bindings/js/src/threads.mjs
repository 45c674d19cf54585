// Threads that compute beside the calling thread: workers with instances of the module over the same memory. Gleed divides the work. A call of
// the library hands it out here (gleed_parallel_for), and takes part in it.
import { GleedError } from "./error.mjs";
import { EXECUTOR } from "./structs.mjs";

/**
 * Words of 32 bits that all threads share: the number of the run, a bit for each slot that is not taken yet, the number of finished slots, ...
 */
export const WORD = { run: 0, left: 1, done: 2, failed: 3, body: 4, arg: 5 };
const WORDS = 6;
/** Bytes of the stack of a thread. wasm-ld gives the module the same by default. */
const STACK = 65536;
/** Number of times that a thread reads a word before it sleeps. To wake it takes longer than most pieces of the work. */
export const SPINS = 4000;
/** Largest default number of threads. More do not help if the memory is the limit. */
const MOST = 8;
/** Largest number of slots: each has a bit in one word. */
const LIMIT = 32;

/** Returns the reason why threads cannot run here, or undefined. */
export function whyNoThreads() {
  if (typeof SharedArrayBuffer === "undefined" || globalThis.crossOriginIsolated === false) {
    return "threads need a page that is isolated from other origins (crossOriginIsolated)";
  }
  // A page may not wait for another thread.
  return globalThis.document ? "threads need a worker: { worker: true }" : undefined;
}

/** Returns the default number of threads: in the worker of an isolated page one for each core, elsewhere one. */
export function usualThreads() {
  if (!globalThis.WorkerGlobalScope || globalThis.crossOriginIsolated !== true) return 1;
  return Math.min(MOST, globalThis.navigator?.hardwareConcurrency ?? 1);
}

/** Returns `count` if this number of threads can run here. */
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

  /** Starts the threads of a model: `count`, including the calling thread. */
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

  /** Lets the threads compute for an engine. */
  lend(engine) {
    const lib = this.#lib;
    lib.scope((take) => {
      const executor = take(EXECUTOR.size);
      EXECUTOR.write(lib.memory, executor, { slots: this.#workers.length + 1, parallel_for: this.#parallelFor });
      lib.check(lib.c.gleed_set_executor(engine, executor, lib.error));
    });
  }

  /** Ends the threads. Their engines may not be used any more. */
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
    // Waiting threads do not keep a program from ending.
    worker.unref?.();
  }

  /** gleed_parallel_for: this thread runs slot 0, and threads that come in time run the others. It returns when all of them have finished. */
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
    // Threads that have not taken their slot by now have nothing to do any more.
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
  // Options of Node for the program itself, such as `--input-type`, are not passed on to the worker.
  return new threads.Worker(new URL("./thread.mjs", import.meta.url), { execArgv: [] });
}
