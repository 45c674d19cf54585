// A thread of threads.mjs: an instance of the module over the memory of all of them, with a stack of its own. It waits for work until it is ended.
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
    // A slot that is taken belongs to the newest run, whose words are all there. Its bit is gone where the run needs fewer, or is over.
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

/** Waits for another run than the one that was seen last, and returns its number. */
function next(words, seen) {
  for (let spins = 0; ; spins++) {
    const run = Atomics.load(words, WORD.run);
    if (run !== seen) return run;
    if (spins > SPINS) Atomics.wait(words, WORD.run, seen);
  }
}
