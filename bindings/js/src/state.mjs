// The host's bytes in the snapshot of a story: the sampler's state (u64), the kind of the text (u32: 0, a story), and the last chosen token
// (u32). Python's Session.save writes the same.
import { GleedError } from "./error.mjs";
import { SNAPSHOT } from "./structs.mjs";

const NO_TOKEN = 0xffffffff;
const BYTES = 16;

/** Writes the state to memory from `take`, and returns its address and its number of bytes. */
export function writeState(lib, take, { sampler, pending }) {
  const at = take(BYTES);
  const view = new DataView(lib.memory.buffer, at, BYTES);
  view.setBigUint64(0, sampler, true);
  view.setUint32(8, 0, true);
  view.setUint32(12, pending ?? NO_TOKEN, true);
  return [at, BYTES];
}

/** Reads the state from a gleed_snapshot_info. */
export function readState(lib, info) {
  const { state_len: length } = SNAPSHOT.read(lib.memory, info);
  if (length !== BYTES) throw new GleedError("the snapshot is not one of a session", { needed: BYTES, given: length });
  const { at } = SNAPSHOT.fields.find(({ name }) => name === "state");
  const view = new DataView(lib.memory.buffer, info + at, BYTES);
  const pending = view.getUint32(12, true);
  return { sampler: view.getBigUint64(0, true), pending: pending === NO_TOKEN ? null : pending };
}
