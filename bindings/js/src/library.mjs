// The C library in a module of WebAssembly: its memory, its errors, and its clock.
import { GleedError } from "./error.mjs";
import { Heap } from "./heap.mjs";
import { ERROR, terminated } from "./structs.mjs";

// (func (result v128) i32.const 0 i8x16.splat i8x16.popcnt): only an engine with SIMD accepts this module.
const SIMD = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11];
/** Numbers of the types in signatures. */
const TYPES = { i: 127, I: 126 };
// The size of the struct, which calls compare. So a library of another version than this package is refused at once.
const ABI_VERSION = 1;

// Whole expressions, because bundlers look for them.
const BUILDS = {
  threads: () => new URL("./gleed-threads.wasm", import.meta.url),
  simd: () => new URL("./gleed-simd.wasm", import.meta.url),
  plain: () => new URL("./gleed-plain.wasm", import.meta.url),
};
const modules = new Map();
/** The initial and the largest number of memory pages for which build.sh links the module with threads. */
const SHARED = { initial: 32, maximum: 65536 };

/** Returns whether this machine supports WebAssembly's 128-bit vectors. */
export const hasSimd = () => WebAssembly.validate(new Uint8Array(SIMD));

/** Returns the module of the build that fits this machine, or of `build`: "threads", "simd" or "plain". It is compiled once. */
export async function compile(build = hasSimd() ? "simd" : "plain") {
  if (!Object.hasOwn(BUILDS, build)) throw new TypeError(`there is no build '${build}'`);
  if (!modules.has(build)) {
    const compiled = compileFrom(BUILDS[build]());
    modules.set(build, compiled);
    compiled.catch(() => modules.delete(build));
  }
  return { build, module: await modules.get(build) };
}

async function compileFrom(url) {
  if (url.protocol === "file:" && globalThis.process?.versions?.node) {
    const { readFile } = await import(/* webpackIgnore: true */ /* @vite-ignore */ "node:fs/promises");
    return WebAssembly.compile(await readFile(url));
  }
  const response = await fetch(url);
  if (!response.ok) throw new GleedError(`${url} is not there (status ${response.status})`, { given: response.status });
  // compileStreaming refuses a file if the server does not send it with the type application/wasm.
  return response.headers.get("content-type")?.startsWith("application/wasm")
    ? WebAssembly.compileStreaming(response)
    : WebAssembly.compile(await response.arrayBuffer());
}

/** An instance of the library with its own memory. It is freed when nothing refers to it. */
export class Library {
  constructor(module) {
    // Only the module with threads imports its memory, because threads share it.
    const env = WebAssembly.Module.imports(module).length > 0 ? { memory: sharedMemory() } : {};
    const { exports } = new WebAssembly.Instance(module, { env });
    this.c = exports;
    this.memory = env.memory ?? exports.memory;
    this.heap = new Heap(this.memory);
    if (exports.gleed_abi_version() !== ABI_VERSION) throw new GleedError("the module is of another version than the package");
    this.error = this.heap.take(ERROR.size);
    ERROR.write(this.memory, this.error);
    this.out = this.heap.take(64); // Where functions put up to 16 words.
    // Microseconds.
    this.clock = this.callback(() => BigInt(Math.round(performance.now() * 1000)), { parameters: "i", result: "I" });
  }

  /** Throws the error of a refused call. GLEED_FULL is an error, too, unless the caller expects it. */
  check(status) {
    if (status === 0) return;
    const { at, needed, given, text } = ERROR.read(this.memory, this.error);
    throw new GleedError(`${this.string(this.c.gleed_status_text(status))}: ${text}`, { status, at, needed, given });
  }

  /** Returns the number that the last error says is needed. */
  needed() {
    return ERROR.read(this.memory, this.error).needed;
  }

  /**
   * Returns word `index` of a function's outputs. It makes a new view each time, because views end when the memory
   * grows.
   */
  word(index = 0) {
    return new DataView(this.memory.buffer).getUint32(this.out + 4 * index, true);
  }

  /** Calls `body` with a function that allocates memory, and frees all of this memory afterwards. */
  scope(body) {
    const pieces = [];
    try {
      return body((bytes) => {
        pieces.push(this.heap.take(bytes));
        return pieces.at(-1);
      });
    } finally {
      pieces.forEach((at) => this.heap.give(at));
    }
  }

  /** Returns a view of bytes of the memory. */
  bytes(at, length) {
    return new Uint8Array(this.memory.buffer, at, length);
  }

  /** Returns a view of numbers of 32 bits. */
  words(at, length) {
    return new Uint32Array(this.memory.buffer, at, length);
  }

  /** Returns the text in this number of bytes. */
  text(at, length) {
    // A copy, because TextDecoder accepts no view of shared memory.
    return new TextDecoder().decode(this.bytes(at, length).slice());
  }

  /** Writes a text to memory from `take`, and returns its address and its number of bytes. */
  put(take, text) {
    const bytes = new TextEncoder().encode(text);
    const at = take(bytes.length);
    this.bytes(at, bytes.length).set(bytes);
    return [at, bytes.length];
  }

  /** Returns a struct that `call` fills. */
  describe(struct, call) {
    return this.scope((take) => {
      const at = take(struct.size);
      struct.write(this.memory, at);
      this.check(call(at));
      return struct.read(this.memory, at);
    });
  }

  /**
   * Returns an object of the library in new memory. `size(out, out + 4)` returns its size, `init(memory, bytes)` makes
   * it.
   */
  object(size, init) {
    this.check(size(this.out, this.out + 4));
    const bytes = this.word();
    const memory = this.heap.take(bytes);
    try {
      this.check(init(memory, bytes));
    } catch (error) {
      this.heap.give(memory);
      throw error;
    }
    return { at: this.word(), memory };
  }

  /** Returns a zero-terminated text of the library. */
  string(at) {
    return terminated(this.bytes(at, Math.min(256, this.memory.buffer.byteLength - at)));
  }

  /**
   * Adds a function of JavaScript to the module's table and returns its index, which C uses as a pointer. "i" is 32
   * bits, "I" 64.
   */
  callback(f, { parameters, result = "" }) {
    const table = this.c.__indirect_function_table;
    const { exports } = new WebAssembly.Instance(new WebAssembly.Module(adapter(parameters, result)), { e: { f } });
    const index = table.grow(1);
    table.set(index, exports.f);
    return index;
  }
}

/**
 * Returns a module that imports e.f and exports it. It turns a function of JavaScript into one that a table accepts.
 */
function adapter(parameters, result) {
  const types = (text) => [text.length, ...Array.from(text, (letter) => TYPES[letter])];
  const type = [1, 96, ...types(parameters), ...types(result)];
  const head = [0, 97, 115, 109, 1, 0, 0, 0];
  return new Uint8Array([...head, 1, type.length, ...type, 2, 7, 1, 1, 101, 1, 102, 0, 0, 7, 5, 1, 1, 102, 0, 0]);
}

/** Makes the shared memory. Its largest size is reserved at once, and some systems do not have all of it. */
function sharedMemory() {
  for (let { initial, maximum } = SHARED; ; maximum /= 2) {
    try {
      return new WebAssembly.Memory({ initial, maximum, shared: true });
    } catch (error) {
      if (maximum < 4096) throw error;
    }
  }
}
