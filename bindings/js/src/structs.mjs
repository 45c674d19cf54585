// The structs of include/gleed.h in their layout on wasm32: little-endian, fields aligned to their size.

const SIZES = { u32: 4, i32: 4, f32: 4, ptr: 4, size: 4, u64: 8, big: 8 };

/**
 * A struct, made from the list of its fields: "u32 tokens, u64 bytes, char[40] name". A `big` is a u64 that is read as a BigInt. A
 * `u64` has numbers far below 2^53. If the first field is `struct_size`, `write` sets it.
 */
export class Struct {
  constructor(text) {
    this.fields = [];
    let [at, most] = [0, 4];
    for (const field of text.split(",")) {
      const [, type, room, name] = field.match(/^\s*(\w+)(?:\[(\d+)\])?\s+(\w+)\s*$/);
      const size = room ? 1 : SIZES[type];
      at = Math.ceil(at / size) * size;
      this.fields.push({ type, name, at, room: Number(room ?? 0) });
      at += room ? Number(room) : size;
      most = Math.max(most, size);
    }
    this.align = most;
    this.size = Math.ceil(at / most) * most;
  }

  /** Writes an object, with 0 for fields that it leaves out. Fields that the struct does not have are refused. */
  write(memory, at, values = {}) {
    const unknown = Object.keys(values).find((name) => !this.fields.some((field) => field.name === name));
    if (unknown !== undefined) throw new TypeError(`there is no option '${unknown}'`);
    new Uint8Array(memory.buffer, at, this.size).fill(0);
    const view = new DataView(memory.buffer, at, this.size);
    for (const { type, name, at } of this.fields) {
      const value = name === "struct_size" ? this.size : values[name];
      if (value === undefined) continue;
      if (type === "f32") view.setFloat32(at, value, true);
      else if (type === "u64" || type === "big") view.setBigUint64(at, BigInt(value), true);
      else if (Number.isInteger(value) && value >= 0 && value < 2 ** 32) view.setUint32(at, value, true);
      else throw new RangeError(`${name} is ${value}, not a whole number below 2^32`);
    }
  }

  /** Returns the fields as an object, without `struct_size` and `reserved`. */
  read(memory, at) {
    const view = new DataView(memory.buffer, at, this.size);
    const values = {};
    for (const { type, name, at, room } of this.fields) {
      if (name === "struct_size" || name === "reserved") continue;
      if (room) values[name] = terminated(new Uint8Array(memory.buffer, view.byteOffset + at, room));
      else if (type === "big") values[name] = view.getBigUint64(at, true);
      else if (type === "u64") values[name] = Number(view.getBigUint64(at, true));
      else if (type === "i32") values[name] = view.getInt32(at, true);
      else if (type === "f32") values[name] = view.getFloat32(at, true);
      else values[name] = view.getUint32(at, true);
    }
    return values;
  }
}

/** Returns the text up to the first 0. */
export function terminated(bytes) {
  const end = bytes.indexOf(0);
  return new TextDecoder().decode(bytes.slice(0, end < 0 ? bytes.length : end));
}

const TIMES = (name) => ["count", "sum", "min", "max"].map((part) => `u64 ${name}_${part}`).join();
const PASSES = (name) => `u64 ${name}_count, u64 ${name}_rows, ${TIMES(`${name}_times`)}, u64 ${name}_p50, u64 ${name}_p99`;

export const ERROR = new Struct("u32 struct_size, i32 status, u64 at, u64 needed, u64 given, char[96] text");
export const MODEL = new Struct(
  "u32 struct_size, u32 layers, u32 vocab, u32 context, u32 hidden, u32 ffn, u32 heads, u32 kv_heads, u32 head_dim, u32 reserved, " +
    "big fingerprint, u64 file_bytes, char[32] architecture, char[96] name",
);
export const CONFIG = new Struct(
  "u32 struct_size, u32 sequences, u32 context, u32 rows, u32 kv_kind, u32 kv_type, u32 kv_blocks, u32 logit_rows, u32 window_sinks, " +
    "u32 window_last, u32 prefix_cache, u32 workers, u32 level, u32 adapters, u32 adapter_rank, u32 checkpoints, u32 checkpoint_every",
);
export const EXECUTOR = new Struct("u32 struct_size, u32 slots, ptr parallel_for, ptr ctx");
export const PLAN = new Struct(
  "u32 struct_size, u32 align, u64 bytes, u64 kv_bytes_per_token, u64 kv_bytes, u64 units_per_token, u32 sections, u32 sequences, " +
    "u32 context, u32 rows, u32 logit_rows, u32 kv_blocks, u32 workers, u32 level, u32 adapters, u32 adapter_rank, u32 checkpoints, " +
    "u32 checkpoint_every, u64 state_bytes",
);
export const SECTION = new Struct("u32 struct_size, u32 reserved, u64 offset, u64 bytes, char[40] name");
export const ENGINE = new Struct(
  "u32 struct_size, u32 sequences, u32 blocks, u32 blocks_used, u32 blocks_free, u32 blocks_reclaimable, u32 blocks_pinned, " +
    "u32 blocks_high_water, u32 is_busy, u32 results, u64 kv_bytes, u64 kv_bytes_used, u64 kv_bytes_high_water, u64 prefix_lookups, " +
    "u64 prefix_hits, u64 prefix_hit_tokens, u64 prefix_missed_tokens",
);
export const SEQUENCE = new Struct(
  "u32 struct_size, u32 tokens, u32 queued, u32 own_blocks, u32 shared_blocks, u32 is_busy, u64 units_done, u64 units_left, " +
    "u64 own_bytes, u64 shared_bytes",
);
export const BUDGET = new Struct(
  "u32 struct_size, u32 reserved, u64 units, u64 deadline, ptr clock, ptr clock_ctx, ptr cancel",
);
export const METRICS = new Struct(
  `u32 struct_size, u32 reserved, ${PASSES("prefill")}, ${PASSES("decode")}, ${PASSES("mixed")}, u64 dropped, ${TIMES("first_token")}, ` +
    "u64 decode_tokens, u64 rows_again, u64 saved_prefix, u64 saved_fork, u64 saved_checkpoint, u64 saved_conversation, " +
    `u64 guesses_proposed, u64 guesses_accepted, u64 steps, u64 yields, ${TIMES("overshoot")}, u64 blocks_used, u64 blocks_high_water, ` +
    "u64 slots_used, u64 slots_high_water",
);
export const SAMPLER = new Struct(
  "u32 struct_size, u32 top_k, f32 temperature, f32 top_p, f32 min_p, f32 repetition_penalty, f32 frequency_penalty, " +
    "f32 presence_penalty, u32 penalty_window, u32 reserved, big seed",
);
export const TURNS = new Struct("u32 struct_size, u32 writes_bos, char[32] name");
export const VOCAB = new Struct(
  "u32 struct_size, u32 tokens, u32 bos, u32 eos, u32 eot, u32 eom, u32 unknown, u32 max_text, u32 adds_bos, u32 adds_eos",
);
export const SNAPSHOT_OPTIONS = new Struct("u32 struct_size, u32 base, ptr state, size state_len");
export const SNAPSHOT = new Struct(
  "u32 struct_size, u32 tokens, u32 base, u32 state_len, u64 bytes, big fingerprint, char[256] state",
);
export const STRING = new Struct("ptr text, size text_len");
export const SHOWN = new Struct("u32 struct_size, u32 stop, ptr held, size held_len, size text_len");
export const ENTRY = new Struct("u32 role, u32 reserved, ptr text, size text_len, ptr name, size name_len, ptr id, size id_len");
export const DESK = new Struct("u32 struct_size, u32 context, u32 text, u32 word, u32 replies, u32 entries");
export const SCRIPT = new Struct(
  "u32 struct_size, u32 format, u32 think, u32 flags, ptr tools, size tools_len, ptr tool_format, size tool_format_len",
);
export const KEEP = new Struct(
  "u32 struct_size, u32 room, u32 first, u32 last, u32 target, u32 reserved, ptr summary, ptr summary_ctx",
);
export const UPDATE = new Struct(
  "u32 struct_size, u32 position, ptr tokens, size tokens_len, size left_out, size left_out_len",
);
