// The places of keys and values. Order in the pool: block, layer, head, keys, values.

struct Shape {
    heads: u32, kv_heads: u32, dim: u32, qkv_stride: u32,
    layer: u32, layers: u32, group: u32, k_type: u32,
    v_type: u32, k_words: u32, v_words: u32, sinks: u32,
    ring: u32, unused_0: u32, unused_1: u32, unused_2: u32,
}
// The kernel defines Params, which has `shape`.
@group(0) @binding(0) var<storage, read> P: Params;
@group(0) @binding(1) var<storage, read> B: array<u32>;
@group(0) @binding(2) var<storage, read> TABLE: array<u32>;

const F16 = 0u;
const Q8_0 = 1u;
const F32 = 2u;
const Q4_0 = 3u;
const ROWS = 16u;

const ROW = 5u; // words of a row of the batch

fn position_of(row: u32) -> u32 { return B[ROWS + ROW * row]; }

// The entry of a table for a block of a sequence. Where there is a ring, blocks behind the sinks take turns.
fn entry(index: u32) -> u32 {
    if (P.shape.ring == 0u || index < P.shape.sinks) { return index; }
    return P.shape.sinks + (index - P.shape.sinks) % P.shape.ring;
}

// The first word of the tile that holds a position of the sequence of a row.
fn tile_at(row: u32, position: u32, kv_head: u32) -> u32 {
    let block = TABLE[B[ROWS + ROW * row + 2u + P.shape.group] + entry(position / 16u)];
    let tile = (block * P.shape.layers + P.shape.layer) * P.shape.kv_heads + kv_head;
    return tile * (P.shape.k_words + P.shape.v_words);
}

// The index of an element in a tile: keys are [dim][16], values [16][dim].
fn index(i: u32, slot: u32, is_value: bool) -> u32 {
    return select(i * 16u + slot, slot * P.shape.dim + i, is_value);
}

// The index of the half of a byte that has a code of Q4_0. Two elements of keys share a byte, and two tokens of values.
fn nibble(i: u32, slot: u32, is_value: bool) -> u32 {
    return select(((i >> 1u) * 16u + slot) * 2u + (i & 1u), ((slot >> 1u) * P.shape.dim + i) * 2u + (slot & 1u), is_value);
}

// Words of the codes of a tile. Scales follow, one for 32 elements of a token.
fn code_words(element_type: u32, is_value: bool) -> u32 {
    if (element_type == Q8_0) { return 4u * P.shape.dim; }
    return select(4u * ((P.shape.dim + 1u) / 2u), 2u * P.shape.dim, is_value);
}
