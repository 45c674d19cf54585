// Reads the bytes of a model's file straight into the memory of the library, without a second copy.
import { openCached, storeCached } from "./cache.mjs";
import { GleedError } from "./error.mjs";

const CHUNK = 4 << 20;
const NOT_KNOWN = 16 << 20;

/**
 * Reads a source into memory of the heap. Returns the address, the length and the origin: "network", "cache", "file", "stream" or
 * "memory". The result has `cacheError` if the file could not be kept for the next time.
 */
export async function load(lib, source, { progress, signal, cache = true } = {}) {
  signal?.throwIfAborted();
  const found = await find(source, { signal, cache });
  let into;
  try {
    into = new Destination(lib, found.length, progress);
    let cacheError;
    if (found.read) await found.read(into, signal);
    else cacheError = await drain(found, into, signal);
    into.end();
    return { at: into.at, length: into.loaded, from: found.from, ...(cacheError && { cacheError }) };
  } catch (error) {
    if (into) lib.heap.give(into.at);
    // A stream that somebody reads is cancelled by its reader.
    await found.stream?.cancel().catch(() => {});
    throw error;
  } finally {
    await found.close?.();
  }
}

class Destination {
  #lib;
  #length;
  #room;
  #progress;
  loaded = 0;

  constructor(lib, length, progress) {
    this.#lib = lib;
    this.#length = length;
    this.#room = length ?? NOT_KNOWN;
    this.#progress = progress;
    this.at = lib.heap.take(this.#room);
  }

  get left() {
    return this.#room - this.loaded;
  }

  /** Appends bytes. */
  push(bytes) {
    if (bytes.length > this.left) {
      if (this.#length !== undefined) throw new GleedError("the file is longer than was said", { needed: this.#length });
      this.#room = this.loaded + Math.max(bytes.length, NOT_KNOWN);
      this.#lib.heap.resize(this.at, this.#room);
    }
    this.#lib.bytes(this.at + this.loaded, bytes.length).set(bytes);
    this.count(bytes.length);
  }

  /** Returns a view of the memory for the next bytes. Call `count` with the number of bytes that were written there. */
  next(most) {
    return this.#lib.bytes(this.at + this.loaded, Math.min(most, this.left));
  }

  count(bytes) {
    this.loaded += bytes;
    this.#progress?.({ loaded: this.loaded, total: this.#length });
  }

  end() {
    if (this.#length !== undefined && this.loaded !== this.#length) {
      throw new GleedError("the file ended too early", { needed: this.#length, given: this.loaded });
    }
    // The rest of the memory, if the file is shorter than it, is free for the pools.
    this.#lib.heap.resize(this.at, this.loaded);
  }
}

async function find(source, { signal, cache }) {
  if (source instanceof ArrayBuffer) return inMemory(new Uint8Array(source));
  if (ArrayBuffer.isView(source)) return inMemory(new Uint8Array(source.buffer, source.byteOffset, source.byteLength));
  if (typeof Blob !== "undefined" && source instanceof Blob) {
    return { from: "file", length: source.size, stream: source.stream() };
  }
  if (source instanceof ReadableStream) return { from: "stream", stream: source };
  if (typeof source !== "string" && !(source instanceof URL)) {
    throw new TypeError("a model is a URL, a path, a File or Blob, bytes, or a stream of bytes");
  }
  const url = asUrl(source);
  if (globalThis.process?.versions?.node && (url === undefined || url.protocol === "file:")) return onDisk(url ?? source);
  return fromNetwork(url, { signal, cache });
}

function asUrl(source) {
  if (source instanceof URL) return source;
  // On a page a string is a URL relative to the page. Elsewhere a string without a scheme is a path. C:\ is no scheme.
  if (globalThis.location) return new URL(source, globalThis.location.href);
  return /^[a-z][a-z0-9+.-]+:/i.test(source) ? new URL(source) : undefined;
}

function inMemory(bytes) {
  return {
    from: "memory",
    length: bytes.length,
    read: async (into) => {
      for (let at = 0; at < bytes.length; at += CHUNK) into.push(bytes.subarray(at, at + CHUNK));
    },
  };
}

async function onDisk(path) {
  const { open } = await import(/* webpackIgnore: true */ /* @vite-ignore */ "node:fs/promises");
  const file = await open(path);
  const { size: length } = await file.stat();
  return {
    from: "file",
    length,
    read: async (into, signal) => {
      while (into.left > 0) {
        signal?.throwIfAborted();
        const { bytesRead } = await file.read(into.next(CHUNK));
        if (bytesRead === 0) return;
        into.count(bytesRead);
      }
    },
    close: () => file.close(),
  };
}

async function fromNetwork(url, { signal, cache }) {
  const cached = cache ? await openCached(url, signal) : undefined;
  if (cached) return { from: "cache", length: cached.size, stream: cached.stream() };
  const response = await fetch(url, { signal });
  if (!response.ok) throw new GleedError(`${url} is not there (status ${response.status})`, { given: response.status });
  // With a content encoding, this length is that of the encoded bytes.
  const said = response.headers.get("content-encoding") ? null : response.headers.get("content-length");
  const length = said === null ? undefined : Number(said);
  return { from: "network", length, stream: response.body, keep: cache ? () => storeCached(url, response) : undefined };
}

/** Reads a stream to its end. Returns the error of keeping the file, if there was one. The model can be used nevertheless. */
async function drain(found, into, signal) {
  const reader = found.stream.getReader();
  const stop = () => reader.cancel(signal.reason).catch(() => {});
  signal?.addEventListener("abort", stop);
  let kept;
  let failed;
  const keep = async (work) => {
    if (failed === undefined) await work().catch((error) => (failed = error));
  };
  try {
    await keep(async () => (kept = await found.keep?.()));
    for (;;) {
      const { value, done } = await reader.read();
      signal?.throwIfAborted();
      if (done) break;
      into.push(value);
      if (kept) await keep(() => kept.write(value));
    }
    into.end();
    if (kept) await keep(() => kept.close(into.loaded));
  } catch (error) {
    await kept?.abort().catch(() => {});
    await reader.cancel().catch(() => {});
    throw error;
  } finally {
    signal?.removeEventListener("abort", stop);
  }
  if (failed) await kept?.abort().catch(() => {});
  return failed;
}
