// A thread of threads.mjs: an instance of the module over the shared memory, with its own stack. It waits for work
// until it is terminated.
import { SPINS, WORD } from "./threads.mjs";

const port = globalThis.WorkerGlobalScope ? globalThis : (await import(/* webpackIgnore: true */ /* @vite-ignore */ "node:worker_threads")).parentPort;

port.addEventListener("message", ({ data: { module, memory, slot, words: at, stack } }) => {
  try {
    const { exports } = new WebAssembly.Instance(module, { env: { memory } });
    exports.__stack_pointer.value = stack;
    const words = new Int32Array(memory.buffer, at);
    const seen = Atomics.load(words, WORD.run);
    port.postMessage({});
    work(words, exports.__indirect_function_table, slot, seen);
  } catch (error) {
    port.postMessage({ error });
  }
});
port.start?.();

function work(words, table, slot, seen) {
  for (;;) {
    seen = next(words, seen);
    // A slot whose bit was set belongs to the newest run, whose words are all written. The bit is not set if the run
    // needs fewer slots, or is over.
    if ((Atomics.and(words, WORD.left, ~(1 << slot)) & (1 << slot)) === 0) continue;
    try {
      table.get(words[WORD.body])(words[WORD.arg], slot);
    } catch {
      Atomics.store(words, WORD.failed, 1);
    }
    Atomics.add(words, WORD.done, 1);
    Atomics.notify(words, WORD.done);
  }
}

/** Waits for a run other than the last one seen, and returns its number. */
function next(words, seen) {
  for (let spins = 0; ; spins++) {
    const run = Atomics.load(words, WORD.run);
    if (run !== seen) return run;
    if (spins > SPINS) Atomics.wait(words, WORD.run, seen);
  }
}
