// Models, pools, sessions and streams whose work a worker does. They have the methods of the classes in gleed.mjs, pool.mjs,
// session.mjs and stream.mjs, except Stream.step.
import { GleedError } from "./error.mjs";

/** Opens a model in a new worker, or in `worker` if that is a Worker. */
export async function openInWorker(source, { progress, signal, ...options }, worker) {
  signal?.throwIfAborted();
  const line = new Line(worker === true ? await startWorker() : worker);
  const onPage = typeof source === "string" && globalThis.location;
  const from = onPage ? new URL(source, globalThis.location.href).href : source instanceof URL ? source.href : source;
  try {
    const args = [from, { ...options, hasProgress: progress !== undefined }];
    return new RemoteModel(line, await line.call(0, "open", args, { progress, signal, transfer: streamOf(from) }));
  } catch (error) {
    line.close();
    throw error;
  }
}

const streamOf = (source) => (typeof ReadableStream !== "undefined" && source instanceof ReadableStream ? [source] : []);

async function startWorker() {
  // Bundlers look for this form.
  if (globalThis.Worker) return new Worker(new URL("./worker.mjs", import.meta.url), { type: "module" });
  const threads = await import(/* webpackIgnore: true */ /* @vite-ignore */ "node:worker_threads");
  // Options of Node for the program itself, such as `--input-type`, are not passed on to the worker.
  return new threads.Worker(new URL("./worker.mjs", import.meta.url), { execArgv: [] });
}

/** Messages to a worker and its answers. */
class Line {
  #worker;
  #calls = new Map();
  #last = 0;
  #closed;
  #pools = new Map();

  constructor(worker) {
    this.#worker = worker;
    const message = (data) => this.#answer(data);
    const failed = (error) => this.#fail(error?.error ?? error);
    if (worker.on) worker.on("message", message).on("error", failed).on("exit", () => this.#fail());
    else {
      worker.addEventListener("message", (event) => message(event.data));
      worker.addEventListener("error", failed);
    }
  }

  call(handle, method, args = [], { progress, signal, transfer = [] } = {}) {
    if (this.#closed) return Promise.reject(this.#closed);
    const id = ++this.#last;
    return new Promise((resolve, reject) => {
      const abort = () => {
        this.#calls.delete(id);
        reject(signal.reason);
        this.#worker.postMessage({ id: ++this.#last, handle: 0, method: "abort", args: [id] });
      };
      signal?.addEventListener("abort", abort, { once: true });
      const settle = (settled) => (value) => (signal?.removeEventListener("abort", abort), settled(value));
      this.#calls.set(id, { resolve: settle(resolve), reject: settle(reject), progress });
      this.#worker.postMessage({ id, handle, method, args }, transfer);
    });
  }

  /** Returns the result of a method, with objects in place of handles. */
  async object(handle, method, args, transfer) {
    const { session, pool, plan, value } = await this.call(handle, method, args, { transfer });
    if (session !== undefined) return new RemoteSession(this, session, this.#pool(pool, plan));
    return pool === undefined ? value : this.#pool(pool, plan);
  }

  close() {
    this.#fail(new GleedError("the model is closed"));
    this.#worker.terminate();
  }

  #pool(handle, plan) {
    if (!this.#pools.has(handle)) this.#pools.set(handle, new RemotePool(this, handle, plan));
    return this.#pools.get(handle);
  }

  #answer({ id, value, error, progress }) {
    const call = this.#calls.get(id);
    if (!call) return;
    if (progress) {
      call.progress(progress);
      return;
    }
    this.#calls.delete(id);
    if (error) call.reject(error.gleed ? GleedError.from(error.gleed) : error.other);
    else call.resolve(value);
  }

  #fail(cause) {
    this.#closed ??= cause instanceof GleedError ? cause : new GleedError("the worker has ended", { cause });
    for (const { reject } of this.#calls.values()) reject(this.#closed);
    this.#calls.clear();
  }
}

class RemoteModel {
  #line;
  #handle;

  constructor(line, { model, info, vocab }) {
    this.#line = line;
    this.#handle = model;
    this.info = info;
    this.vocab = vocab;
  }

  session = (options) => this.#line.object(this.#handle, "session", [options]);
  pool = (limits) => this.#line.object(this.#handle, "pool", [limits]);
  memoryPlan = (limits) => this.#line.object(this.#handle, "memoryPlan", [limits]);
  encode = (text, options) => this.#line.object(this.#handle, "encode", [text, options]);
  decode = (ids, options) => this.#line.object(this.#handle, "decode", [ids, options]);
  memory = () => this.#line.object(this.#handle, "memory", []);
  /** Ends the worker, which gives its memory back to the system at once. */
  close = async () => this.#line.close();
  [Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")] = () => this.close();
}

class RemotePool {
  #line;
  #handle;

  constructor(line, handle, plan) {
    this.#line = line;
    this.#handle = handle;
    this.plan = plan;
  }

  session = (options) => this.#line.object(this.#handle, "session", [options]);
  restore = (bytes, options) => this.#line.object(this.#handle, "restore", [bytes, options]);
  info = () => this.#line.object(this.#handle, "info", []);
  metrics = (options) => this.#line.object(this.#handle, "metrics", [options]);
  close = () => this.#line.object(this.#handle, "close", []);
}

class RemoteSession {
  #line;
  #handle;

  constructor(line, handle, pool) {
    this.#line = line;
    this.#handle = handle;
    this.pool = pool;
  }

  tell = (text, options) => this.#stream("tell", options, text);
  ask = (text, options) => this.#stream("ask", options, text);
  reply = (options) => this.#stream("reply", options);
  resume = (options) => this.#stream("resume", options);
  tokens = () => this.#line.object(this.#handle, "tokens", []);
  messages = () => this.#line.object(this.#handle, "messages", []);
  setMessages = (messages) => this.#line.object(this.#handle, "setMessages", [messages]);
  info = () => this.#line.object(this.#handle, "info", []);
  fork = (options) => this.#line.object(this.#handle, "fork", [options]);
  rewind = (keep) => this.#line.object(this.#handle, "rewind", [keep]);
  snapshot = () => this.#line.object(this.#handle, "snapshot", []);
  logitsHash = () => this.#line.object(this.#handle, "logitsHash", []);
  close = () => this.#line.object(this.#handle, "close", []);

  #stream(method, { signal, ...options } = {}, ...first) {
    const call = this.#line.call(this.#handle, method, [...first, options]);
    // The error is thrown when a piece is asked for. If nobody asks, it must not count as unhandled.
    call.catch(() => {});
    return new RemoteStream(this.#line, call, signal);
  }
}

class RemoteStream {
  #line;
  #handle;
  #signal;
  #ended = false;
  ids = [];
  reason = null;

  constructor(line, call, signal) {
    this.#line = line;
    this.#handle = call.then(({ stream }) => stream);
    this.#handle.catch(() => {});
    this.#signal = signal;
    signal?.addEventListener("abort", () => this.cancel(), { once: true });
  }

  async next() {
    if (this.#ended) return this.#end();
    const { piece, done, ids, reason } = await this.#line.call(await this.#handle, "next");
    this.ids = ids;
    this.reason ??= reason;
    this.#ended ||= done;
    return done ? this.#end() : { value: piece, done: false };
  }

  /** Ends the text. The worker stops within a slice of work. */
  cancel() {
    if (this.#ended) return;
    this.reason ??= "cancelled";
    this.#ended = true;
    this.#handle.then((handle) => this.#line.call(handle, "cancel")).catch(() => {});
  }

  async read() {
    let text = "";
    for await (const piece of this) text += piece;
    return text;
  }

  async return() {
    this.cancel();
    return { value: undefined, done: true };
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  #end() {
    if (this.#signal?.aborted && this.reason === "cancelled") throw this.#signal.reason;
    return { value: undefined, done: true };
  }
}
