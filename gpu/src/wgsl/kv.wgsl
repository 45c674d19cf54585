// Where keys and values are. The pool: block, layer, head, keys, values.

struct Shape {
    heads: u32, kv_heads: u32, dim: u32, qkv_stride: u32,
    layer: u32, layers: u32, group: u32, k_type: u32,
    v_type: u32, k_words: u32, v_words: u32, sinks: u32,
    ring: u32, unused_0: u32, unused_1: u32, unused_2: u32,
}
// The kernel says what its Params are; `shape` is one of them.
@group(0) @binding(0) var<storage, read> P: Params;
@group(0) @binding(1) var<storage, read> B: array<u32>;
@group(0) @binding(2) var<storage, read> TABLE: array<u32>;

const F16 = 0u;
const Q8_0 = 1u;
const ROWS = 16u;

fn position_of(row: u32) -> u32 { return B[ROWS + 4u * row]; }

// The entry of a table for a block of a sequence: behind those that are always seen they take turns where there is a ring.
fn entry(index: u32) -> u32 {
    if (P.shape.ring == 0u || index < P.shape.sinks) { return index; }
    return P.shape.sinks + (index - P.shape.sinks) % P.shape.ring;
}

// The first word of the tile that holds a position of the sequence of a row.
fn tile_at(row: u32, position: u32, kv_head: u32) -> u32 {
    let block = TABLE[B[ROWS + 4u * row + 2u + P.shape.group] + entry(position / 16u)];
    let tile = (block * P.shape.layers + P.shape.layer) * P.shape.kv_heads + kv_head;
    return tile * (P.shape.k_words + P.shape.v_words);
}
