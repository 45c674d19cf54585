/** Types of Gleed for JavaScript. The README of the package says how it is used. */

/** A URL, a path (not in a browser), a File or Blob, bytes, or a stream of bytes. */
export type ModelSource = string | URL | Blob | ArrayBuffer | ArrayBufferView | ReadableStream<Uint8Array>;

export interface OpenOptions {
  /** Called while the file is read. `total` is missing if the server does not send it. */
  progress?: (progress: { loaded: number; total?: number }) => void;
  /** Ends the reading. `open` then throws the reason of the signal. */
  signal?: AbortSignal;
  /** Whether a browser keeps the file of a URL in its origin's private file system. Default: true. */
  cache?: boolean;
  /**
   * The build that computes. Default: "threads" if `threads` needs it, otherwise "simd" if the machine has it. All compute the same bits.
   */
  build?: "threads" | "simd" | "plain";
  /**
   * Number of threads that compute, at most 32. Default: one for each core, at most 8, in the worker of a page that is isolated from other
   * origins; elsewhere 1. More than one need SharedArrayBuffer, and on a page `worker`.
   */
  threads?: number;
  /** Whether a worker does the work, so that the page never waits. If a bundler makes the Worker of worker.mjs itself, pass the Worker. */
  worker?: boolean | Worker;
}

/** The limits of a pool. Members that are left out have the defaults of `gleed_config` in gleed.h. */
export interface Limits {
  /** Largest number of open sequences: one, and one for each fork. Default: 1. */
  sequences?: number;
  /** Largest number of tokens per sequence. Default: the context that the model was trained on, at most 4096. */
  context?: number;
  /** Largest number of tokens that are computed together. Default: 256. A smaller number needs less memory. */
  rows?: number;
  /** Number of blocks of 16 tokens in the pool. Default: enough for all sequences at full length. */
  blocks?: number;
  /** The element type of keys and values. The builds of this package have f16. */
  kvType?: "f16";
  /** The kind of cache. Default: "paged", which hands out blocks on demand, and whose forks share blocks. */
  kvKind?: "paged" | "basic" | "off";
  windowSinks?: number;
  windowLast?: number;
  /** 1: prompts reuse blocks of cached prefixes. */
  prefixCache?: 0 | 1;
  /** Largest number of checkpoints of recurrent layers' states. */
  checkpoints?: number;
  checkpointEvery?: number;
}

/** The parameters for the choice of tokens. Without a temperature the most probable token is taken each time. */
export interface Choice {
  temperature?: number;
  topK?: number;
  topP?: number;
  minP?: number;
  repetitionPenalty?: number;
  frequencyPenalty?: number;
  presencePenalty?: number;
  /** Number of last tokens that the penalties count, at most 256. Default: 64. */
  penaltyWindow?: number;
  /** The same seed gives the same text, on every machine. */
  seed?: number | bigint;
}

export interface SessionOptions extends Choice {
  /** Instructions to the model before the conversation. */
  system?: string;
  /** The name of the turn format, "chatml" for example. Default: the turn format of the model's file. */
  turns?: string;
  /** The turns that stay if a conversation does not fit the context (`gleed_keep`). Default: such a conversation is refused. */
  keep?: { room?: number; first?: number; last?: number; target?: number };
  /** Whether all logits are hashed: `Session.logitsHash`. It takes time that grows with the vocabulary. */
  hash?: boolean;
}

export interface WriteOptions {
  /** Largest number of tokens. */
  tokens?: number;
  /** Strings that end the text. They are not part of it. At most 16. */
  stop?: string | Iterable<string>;
  /** Ends the text. The loop then throws the reason of the signal. */
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
  /** Identifies the model: 16 hexadecimal digits. */
  fingerprint: string;
  /** Size of the file in bytes. */
  bytes: number;
  /** The turn format of the file, or null. If it is null, `ask` needs `turns`. */
  turns: string | null;
  from: "network" | "cache" | "file" | "stream" | "memory";
  build: "threads" | "simd" | "plain";
  threads: number;
  arithmetic: number;
  version: string;
  /** The reason why the file could not be kept for the next time. */
  cacheError?: string;
}

export interface MemoryPlan {
  /** Size of the pool in bytes. The file is in memory, too: `file` is its size. */
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
  /** Number of blocks of 16 tokens: blocksUsed + blocksFree + blocksReclaimable. */
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
  /** Number of tokens of the text, including the prompt. */
  tokens: number;
  /** Number of tokens whose keys and values are in blocks: all, or all but the last. */
  computed: number;
  /** Number of blocks that only this session holds. */
  ownBlocks: number;
  /** Number of blocks that other sessions hold, too. */
  sharedBlocks: number;
  ownBytes: number;
  sharedBytes: number;
}

export interface Message {
  role: "system" | "user" | "assistant";
  text: string;
}

/**
 * A text that is being generated: `for await (const piece of stream)`. Nothing is computed before the program asks for a piece, and leaving
 * the loop ends the text.
 */
export interface Stream extends AsyncIterableIterator<string> {
  /** The ids of the tokens so far. */
  readonly ids: number[];
  /**
   * The reason why the text has ended, or null before its end. "context": the sequence has its greatest length; "full": the pool has no
   * free block.
   */
  readonly reason: "end" | "length" | "stop" | "context" | "full" | "cancelled" | null;
  /** Returns the rest of the text. */
  read(): Promise<string>;
  /** Ends the text. The session goes on from what has been generated. */
  cancel(): void;
  /** Works for about this number of milliseconds, for example in a game's frame, and returns the text that is ready. Not in a worker. */
  step?(milliseconds?: number): string;
}

/** A sequence and its sampler. A session writes one text at a time. A new text ends the one before. */
export interface Session {
  readonly pool: Pool;
  /** Begins a new text and returns its continuation after `text`. */
  tell(text: string, options?: WriteOptions): Stream;
  /** Says something to the model and returns its reply. The conversation goes on with the next call. */
  ask(text: string, options?: WriteOptions): Stream;
  /** Returns the reply to the present messages, for example after `setMessages`. */
  reply(options?: WriteOptions): Stream;
  /** Goes on with a text that the model has not ended itself. */
  resume(options?: WriteOptions): Stream;
  /** Returns the ids of the text so far, including the prompt. */
  tokens(): Promise<number[]>;
  messages(): Promise<Message[]>;
  /** Replaces the messages of the conversation. Unchanged messages are not read again. */
  setMessages(messages: Message[]): Promise<void>;
  info(): Promise<SessionInfo>;
  /** Opens a second session with the same text. The two share blocks, and nothing is computed. */
  fork(options?: SessionOptions): Promise<Session>;
  /** Keeps only the first `keep` tokens. `resume` goes on from there. */
  rewind(keep: number): Promise<void>;
  /** Returns the session as bytes, for `Pool.restore`. The bytes of a conversation do not contain the sampler's state. */
  snapshot(): Promise<Uint8Array>;
  /** Returns the xxHash64 of all logits of the text, which is the same on every machine. The session needs `hash: true`. */
  logitsHash(): Promise<string>;
  close(): Promise<void>;
}

/** Sequences over one model that share blocks of keys and values. */
export interface Pool {
  session(options?: SessionOptions): Promise<Session>;
  /** Opens a session from the bytes of `Session.snapshot`. All of the bytes are verified first. */
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
  /** Returns the memory that a pool with these limits needs. No memory is taken. */
  memoryPlan(limits?: Limits): Promise<MemoryPlan>;
  encode(text: string, options?: { special?: boolean }): Promise<number[]>;
  decode(ids: number[], options?: { continues?: boolean }): Promise<string>;
  /** Returns the size of WebAssembly's memory in bytes, and the number of bytes in use. */
  memory(): Promise<{ bytes: number; used: number }>;
  /** Ends all sessions and gives the memory back: at once if it belongs to a worker, otherwise with the next garbage collection. */
  close(): Promise<void>;
}

export const Gleed: {
  /** Opens a model. The bytes of its file go straight into WebAssembly's memory, without a second copy. */
  open(source: ModelSource, options?: OpenOptions): Promise<Model>;
};

/** The error of a refused call. `status` is the number of gleed.h, or 0 if the package itself refused. */
export class GleedError extends Error {
  readonly status: number;
  readonly at: number;
  readonly needed: number;
  readonly given: number;
}

/** Returns whether this machine supports WebAssembly's 128-bit vectors. */
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
