// The other end of remote.mjs: a model in a worker, so that the page never waits. It answers messages { id, handle, method, args }.
import { Gleed } from "./gleed.mjs";
import { GleedError } from "./error.mjs";
import { Pool } from "./pool.mjs";
import { Session } from "./session.mjs";
import { Stream } from "./stream.mjs";

const port = globalThis.WorkerGlobalScope ? globalThis : (await import(/* webpackIgnore: true */ /* @vite-ignore */ "node:worker_threads")).parentPort;
const objects = new Map();
const handles = new Map();
let last = 0;
/** The downloads that can be aborted, by the number of their message. */
const aborts = new Map();

port.addEventListener("message", async ({ data: { id, handle, method, args } }) => {
  try {
    const { value, transfer } = await answer(id, handle, method, args);
    port.postMessage({ id, value }, transfer);
  } catch (error) {
    port.postMessage({ id, error: error instanceof GleedError ? { gleed: error.toJSON() } : { other: error } });
  }
});
port.start?.();

async function answer(id, handle, method, args) {
  if (method === "open") return { value: await open(id, ...args) };
  if (method === "abort") return { value: aborts.get(args[0])?.abort(args[1]) };
  const object = objects.get(handle);
  if (!object && method === "close") return { value: {} };
  if (!object) throw new GleedError("it is closed");
  if (object instanceof Stream) return { value: await stream(handle, object, method) };
  const value = await object[method](...args);
  if (method === "close") release(handle);
  return { value: describe(value), transfer: value instanceof Uint8Array ? [value.buffer] : [] };
}

async function open(id, source, { hasProgress, ...options }) {
  const abort = new AbortController();
  aborts.set(id, abort);
  const progress = hasProgress ? (progress) => port.postMessage({ id, progress }) : undefined;
  try {
    const model = await Gleed.open(source, { ...options, progress, signal: abort.signal });
    return { model: keep(model), info: model.info, vocab: model.vocab };
  } finally {
    aborts.delete(id);
  }
}

/** Returns the next piece of a text, or its end, with the ids and the reason so far. */
async function stream(handle, object, method) {
  const { value, done } = method === "cancel" ? await object.return() : await object.next();
  if (done) release(handle);
  return { piece: value, done, ids: object.ids, reason: object.reason };
}

/** Returns handles for objects, which stay in the worker. */
function describe(value) {
  if (value instanceof Session) return { session: keep(value), pool: keep(value.pool), plan: value.pool.plan };
  if (value instanceof Pool) return { pool: keep(value), plan: value.plan };
  if (value instanceof Stream) return { stream: keep(value) };
  return { value };
}

function keep(object) {
  if (!handles.has(object)) {
    handles.set(object, ++last);
    objects.set(handles.get(object), object);
  }
  return handles.get(object);
}

function release(handle) {
  handles.delete(objects.get(handle));
  objects.delete(handle);
}
