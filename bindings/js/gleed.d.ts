/** Types of Gleed for JavaScript. The README of the package says how it is used. */

/** A URL, a path (not in a browser), a File or Blob, bytes, or a stream of bytes. */
export type ModelSource = string | URL | Blob | ArrayBuffer | ArrayBufferView | ReadableStream<Uint8Array>;

export interface OpenOptions {
  /** Called while the file is read. `total` is missing where the server does not say it. */
  progress?: (progress: { loaded: number; total?: number }) => void;
  /** Ends the reading. `open` then throws the signal's reason. */
  signal?: AbortSignal;
  /** Whether a browser keeps a file of a URL in its origin's private file system. Default: true. */
  cache?: boolean;
  /** Which build computes. Default: what `threads` needs, "simd" where the machine takes it. All compute the same bits. */
  build?: "threads" | "simd" | "plain";
  /**
   * How many threads compute, at most 32. Default: in the worker of a page that is isolated from other origins one for each core, at most 8;
   * elsewhere 1. More than one need SharedArrayBuffer, and on a page `worker`.
   */
  threads?: number;
  /** Whether the work is done in a worker, so that the page never waits. A bundler may want to make the Worker of worker.mjs itself. */
  worker?: boolean | Worker;
}

/** The limits of a pool. What is left out has the default of `gleed_config` in gleed.h. */
export interface Limits {
  /** Sequences that can be open at the same time: one, and one for each fork. Default: 1. */
  sequences?: number;
  /** Tokens per sequence. Default: those that the model was trained on, at most 4096. */
  context?: number;
  /** Tokens that are computed together. Default: 256. Fewer need less memory. */
  rows?: number;
  /** Blocks of 16 tokens in the pool. Default: enough for all sequences at full length. */
  blocks?: number;
  /** The element type of keys and values. The builds of this package have f16. */
  kvType?: "f16";
  /** Default: "paged", blocks on demand, which forks share. */
  kvKind?: "paged" | "basic" | "off";
  windowSinks?: number;
  windowLast?: number;
  /** 1: prompts reuse blocks of cached prefixes. */
  prefixCache?: 0 | 1;
  /** Checkpoints of recurrent layers' states. */
  checkpoints?: number;
  checkpointEvery?: number;
}

/** How tokens are chosen. Without a temperature it is the most probable one each time. */
export interface Choice {
  temperature?: number;
  topK?: number;
  topP?: number;
  minP?: number;
  repetitionPenalty?: number;
  frequencyPenalty?: number;
  presencePenalty?: number;
  /** Tokens that the penalties look back on, at most 256. Default: 64. */
  penaltyWindow?: number;
  /** The same seed gives the same text, on every machine. */
  seed?: number | bigint;
}

export interface SessionOptions extends Choice {
  /** Instructions to the model before the conversation. */
  system?: string;
  /** The name of the turn format, "chatml" for example. Default: that of the model's file. */
  turns?: string;
  /** What becomes of a conversation that does not fit the context (`gleed_keep`). Default: it is refused. */
  keep?: { room?: number; first?: number; last?: number; target?: number };
  /** Whether all logits are hashed: `Session.logitsHash`. It takes time that grows with the vocabulary. */
  hash?: boolean;
}

export interface WriteOptions {
  /** The most tokens. */
  tokens?: number;
  /** Strings that end the text. They are not part of it. At most 16. */
  stop?: string | Iterable<string>;
  /** Ends the text; the loop then throws the signal's reason. */
  signal?: AbortSignal;
}

export interface ModelInfo {
  name: string;
  architecture: string;
  layers: number;
  vocab: number;
  context: number;
  hidden: number;
  ffn: number;
  heads: number;
  kvHeads: number;
  headDim: number;
  /** Tells models apart: 16 hexadecimal digits. */
  fingerprint: string;
  /** Bytes of the file. */
  bytes: number;
  /** The turn format of the file, or null: then `ask` needs `turns`. */
  turns: string | null;
  from: "network" | "cache" | "file" | "stream" | "memory";
  build: "threads" | "simd" | "plain";
  threads: number;
  arithmetic: number;
  version: string;
  /** Why the file could not be kept for the next time. */
  cacheError?: string;
}

export interface MemoryPlan {
  /** Bytes of the pool. The file's bytes are in memory, too: `file`. */
  bytes: number;
  file: number;
  kvBytes: number;
  kvBytesPerToken: number;
  stateBytes: number;
  unitsPerToken: number;
  sequences: number;
  context: number;
  rows: number;
  blocks: number;
  sections: { name: string; offset: number; bytes: number }[];
}

export interface PoolInfo {
  sequences: number;
  /** Blocks of 16 tokens: blocksUsed + blocksFree + blocksReclaimable. */
  blocks: number;
  blocksUsed: number;
  blocksFree: number;
  blocksReclaimable: number;
  blocksPinned: number;
  blocksHighWater: number;
  kvBytes: number;
  kvBytesUsed: number;
  kvBytesHighWater: number;
  prefixLookups: number;
  prefixHits: number;
  prefixHitTokens: number;
  prefixMissedTokens: number;
}

export interface SessionInfo {
  /** Tokens of the text, prompt included. */
  tokens: number;
  /** Those of them whose keys and values are in blocks: all, or all but the last. */
  computed: number;
  /** Blocks that only this session holds. */
  ownBlocks: number;
  /** Blocks that others hold, too. */
  sharedBlocks: number;
  ownBytes: number;
  sharedBytes: number;
}

export interface Message {
  role: "system" | "user" | "assistant";
  text: string;
}

/**
 * A text in the making: `for await (const piece of stream)`. Nothing is computed before a piece is asked for, and leaving the loop ends
 * the text.
 */
export interface Stream extends AsyncIterableIterator<string> {
  /** The ids of the tokens so far. */
  readonly ids: number[];
  /** Why the text has ended; null while it has not. "context": the sequence is as long as it can be; "full": the pool has no free block. */
  readonly reason: "end" | "length" | "stop" | "context" | "full" | "cancelled" | null;
  /** Returns the rest of the text. */
  read(): Promise<string>;
  /** Ends the text. The session goes on from what has been generated. */
  cancel(): void;
  /** Works for about so many milliseconds and returns the text that is ready: for a game's frame. Not in a worker. */
  step?(milliseconds?: number): string;
}

/** A sequence, and how its tokens are chosen. One text is in the making at a time: another one ends it. */
export interface Session {
  readonly pool: Pool;
  /** Begins a new text and returns what follows `text`. */
  tell(text: string, options?: WriteOptions): Stream;
  /** Says something to the model and returns its reply. The conversation goes on with the next call. */
  ask(text: string, options?: WriteOptions): Stream;
  /** Returns the reply to the messages as they are: after `setMessages`. */
  reply(options?: WriteOptions): Stream;
  /** Goes on with a text that ended before the model ended it. */
  resume(options?: WriteOptions): Stream;
  /** Returns the ids of the text so far, prompt included. */
  tokens(): Promise<number[]>;
  messages(): Promise<Message[]>;
  /** Replaces the messages of the conversation. What stays the same is not read again. */
  setMessages(messages: Message[]): Promise<void>;
  info(): Promise<SessionInfo>;
  /** Opens a second session that begins like this one: blocks are shared, nothing is computed. */
  fork(options?: SessionOptions): Promise<Session>;
  /** Keeps only the first `keep` tokens. `resume` goes on from there. */
  rewind(keep: number): Promise<void>;
  /** Returns the session as bytes, for `Pool.restore`. Of a conversation the sampler's state is not part. */
  snapshot(): Promise<Uint8Array>;
  /** Returns the xxHash64 of all logits of the text: the same on every machine. The session has `hash: true`. */
  logitsHash(): Promise<string>;
  close(): Promise<void>;
}

/** Sequences over one model that share blocks of keys and values. */
export interface Pool {
  session(options?: SessionOptions): Promise<Session>;
  /** Opens a session that goes on where `Session.snapshot` was. All of the bytes are verified first. */
  restore(bytes: Uint8Array, options?: SessionOptions): Promise<Session>;
  info(): Promise<PoolInfo>;
  /** Returns counts, and times in microseconds, with the names of `gleed_metrics` (docs/metrics.md): `decode_tokens`, ... */
  metrics(options?: { reset?: boolean }): Promise<Record<string, number>>;
  close(): Promise<void>;
}

export interface Model {
  readonly info: ModelInfo;
  readonly vocab: Record<string, number>;
  /** Makes a pool and a session in it. */
  session(options?: Limits & SessionOptions): Promise<Session>;
  pool(limits?: Limits): Promise<Pool>;
  /** Returns what a pool with these limits needs. Nothing is taken. */
  memoryPlan(limits?: Limits): Promise<MemoryPlan>;
  encode(text: string, options?: { special?: boolean }): Promise<number[]>;
  decode(ids: number[], options?: { continues?: boolean }): Promise<string>;
  /** Returns bytes of WebAssembly's memory, and how many of them are taken. */
  memory(): Promise<{ bytes: number; used: number }>;
  /** Ends all sessions and gives the memory back: that of a worker at once, else with the next garbage collection. */
  close(): Promise<void>;
}

export const Gleed: {
  /** Opens a model. Its file's bytes go straight into WebAssembly's memory: there is no second copy. */
  open(source: ModelSource, options?: OpenOptions): Promise<Model>;
};

/** What a call refused. `status` is the number of gleed.h, or 0 where the package itself refuses. */
export class GleedError extends Error {
  readonly status: number;
  readonly at: number;
  readonly needed: number;
  readonly given: number;
}

/** Returns whether this machine computes with 128-bit vectors. */
export function hasSimd(): boolean;
/** Returns the files that the browser keeps. */
export function cachedModels(): Promise<{ url: string; bytes: number }[]>;
/** Removes the kept file of a URL. Returns whether there was one. */
export function forgetModel(url: string | URL): Promise<boolean>;

/** xxHash64 of rows of logits. */
export class Xxh64 {
  update(row: Float32Array): void;
  copy(): Xxh64;
  hex(): string;
}
