import { GleedError } from "./error.mjs";

const PAGE = 65536;
const ALIGN = 64;

/**
 * An allocator for the part of a module's memory after the module's own data. The memory grows but never shrinks. It
 * is freed with the module.
 */
export class Heap {
  #memory;
  #top;
  #free = []; // { at, size }, by address, never two that touch
  #taken = new Map(); // address: size

  constructor(memory) {
    this.#memory = memory;
    this.#top = memory.buffer.byteLength;
  }

  /** Size of the memory in bytes, including the module's own data. */
  get bytes() {
    return this.#memory.buffer.byteLength;
  }

  /** Number of bytes in use. */
  get used() {
    return [...this.#taken.values()].reduce((sum, size) => sum + size, 0);
  }

  /** Allocates this number of bytes and returns their address, a multiple of 64. */
  take(bytes) {
    const size = Math.max(1, Math.ceil(bytes / ALIGN)) * ALIGN;
    const index = this.#free.findIndex((piece) => piece.size >= size);
    let at = this.#top;
    if (index >= 0) {
      const piece = this.#free[index];
      at = piece.at;
      piece.at += size;
      piece.size -= size;
      if (piece.size === 0) this.#free.splice(index, 1);
    } else {
      const last = this.#free.at(-1);
      if (last && last.at + last.size === this.#top) at = last.at;
      this.#grow(at + size);
      if (at < this.#top) this.#free.pop();
      this.#top = at + size;
    }
    this.#taken.set(at, size);
    return at;
  }

  /** Changes the size of the last piece without moving it. */
  resize(at, bytes) {
    const size = Math.max(1, Math.ceil(bytes / ALIGN)) * ALIGN;
    if (at + this.#taken.get(at) !== this.#top) throw new GleedError("only the last piece of the memory can change its size");
    this.#grow(at + size);
    this.#top = at + size;
    this.#taken.set(at, size);
  }

  /** Frees a piece. */
  give(at) {
    let size = this.#taken.get(at);
    if (size === undefined) return;
    this.#taken.delete(at);
    let index = this.#free.findIndex((piece) => piece.at > at);
    if (index < 0) index = this.#free.length;
    const next = this.#free[index];
    if (next && at + size === next.at) {
      size += next.size;
      this.#free.splice(index, 1);
    }
    const before = this.#free[index - 1];
    if (before && before.at + before.size === at) before.size += size;
    else this.#free.splice(index, 0, { at, size });
  }

  #grow(end) {
    const missing = end - this.#memory.buffer.byteLength;
    if (missing <= 0) return;
    try {
      this.#memory.grow(Math.ceil(missing / PAGE));
    } catch (cause) {
      const given = this.#memory.buffer.byteLength;
      throw new GleedError(`WebAssembly's memory ends at 4 GiB: ${end} bytes are needed`, { status: -102, needed: end, given, cause });
    }
  }
}
