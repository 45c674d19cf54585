//!include num.wgsl
//!include sums.wgsl
//!include kv.wgsl
// Norms and rotates a head of queries, keys or values of a row. Queries stay; keys and values go to the pool.

struct Params {
    zero: u32, q_norm: u32, k_norm: u32, turned: u32,
    halves: u32, rotation_stride: u32, rotation_at: u32, epsilon: f32,
    norms: u32, flag: u32, unused_0: u32, unused_1: u32,
    shape: Shape,
}
@group(0) @binding(3) var<storage, read_write> QKV: array<f32>;
@group(0) @binding(4) var<storage, read> ROTATIONS: array<f32>;
@group(0) @binding(5) var<storage, read> V: array<f32>;
@group(0) @binding(6) var<storage, read_write> POOL: array<atomic<u32>>;
@group(0) @binding(7) var<storage, read_write> FLAG: array<atomic<u32>>;

const NORMS_Q = 1u;
const NORMS_K = 2u;

var<workgroup> HEAD: array<f32, 512>;

fn element(i: u32) -> f32 { return HEAD[i]; }

// Other tokens share the words of keys.
fn put_half(word: u32, half: u32, bits: u32) {
    let shift = (half & 1u) * 16u;
    let at = word + (half >> 1u);
    atomicAnd(&POOL[at], ~(0xffffu << shift));
    atomicOr(&POOL[at], bits << shift);
    if ((bits & 0x7c00u) == 0x7c00u) { atomicMax(&FLAG[P.flag], 1u); }
}

fn put_byte(word: u32, byte: u32, bits: u32) {
    let shift = (byte & 3u) * 8u;
    let at = word + (byte >> 2u);
    atomicAnd(&POOL[at], ~(0xffu << shift));
    atomicOr(&POOL[at], (bits & 0xffu) << shift);
}

// The index of an element of a tile.
fn index(i: u32, slot: u32, is_value: bool) -> u32 {
    return select(i * 16u + slot, slot * P.shape.dim + i, is_value);
}

fn store_halves(invocation: u32, word: u32, slot: u32, is_value: bool) {
    for (var i = invocation; i < P.shape.dim; i += 64u) {
        put_half(word, index(i, slot, is_value), f32_to_f16(settle(HEAD[i])));
    }
}

// Blocks of 32 elements, each by an invocation.
fn store_codes(invocation: u32, word: u32, slot: u32, is_value: bool) {
    let first = invocation * 32u;
    if (first >= P.shape.dim) { return; }
    let end = min(first + 32u, P.shape.dim);
    var largest = 0u;
    for (var i = first; i < end; i++) { largest = max(largest, magnitude(settle(HEAD[i]))); }
    var d = f32_to_f16(mul(number(largest), number(0x3c010204u)));
    if (less(mul(number(0x42fe0000u), f16_to_f32(d)), number(largest))) { d += 1u; }
    if (largest >= 0x7f800000u) { d = 0x7c00u; }
    let inverse = div(number(0x3f800000u), f16_to_f32(d));
    for (var i = first; i < end; i++) {
        let code = rounded_bits(mul(settle(HEAD[i]), inverse));
        put_byte(word, index(i, slot, is_value), select(code, 0u, largest == 0u));
    }
    put_half(word + 4u * P.shape.dim, invocation * 16u + slot, d);
}

fn rotate(invocation: u32, row: u32) {
    let half = P.turned / 2u;
    let table = row * P.rotation_stride + P.rotation_at;
    for (var i = invocation; i < half; i += 64u) {
        let a = select(2u * i, i, P.halves != 0u);
        let b = select(2u * i + 1u, i + half, P.halves != 0u);
        let cosine = ROTATIONS[table + i];
        let sine = ROTATIONS[table + half + i];
        let x = HEAD[a];
        let y = HEAD[b];
        HEAD[a] = sub(mul(x, cosine), mul(y, sine));
        HEAD[b] = add(mul(x, sine), mul(y, cosine));
    }
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
    let row = group.x;
    let head = group.y;
    let is_query = head < P.shape.heads;
    let is_value = head >= P.shape.heads + P.shape.kv_heads;
    let base = row * P.shape.qkv_stride + head * P.shape.dim;
    for (var i = invocation; i < P.shape.dim; i += 64u) { HEAD[i] = QKV[base + i]; }
    workgroupBarrier();
    let norms = !is_value && (P.norms & select(NORMS_K, NORMS_Q, is_query)) != 0u;
    // All workgroups of a dispatch go through the same barriers.
    if (P.norms != 0u) {
        norm(P.shape.dim, P.epsilon, invocation);
        if (norms) {
            for (var i = invocation; i < P.shape.dim; i += 64u) { HEAD[i] = normed(i, select(P.k_norm, P.q_norm, is_query)); }
        }
        workgroupBarrier();
    }
    if (!is_value) { rotate(invocation, row); }
    workgroupBarrier();
    if (is_query) {
        for (var i = invocation; i < P.shape.dim; i += 64u) { QKV[base + i] = HEAD[i]; }
        return;
    }
    let position = position_of(row);
    let kv_head = head - P.shape.heads - select(0u, P.shape.kv_heads, is_value);
    let word = tile_at(row, position, kv_head) + select(0u, P.shape.k_words, is_value);
    if (select(P.shape.k_type, P.shape.v_type, is_value) == F16) { store_halves(invocation, word, position % 16u, is_value); }
    else { store_codes(invocation, word, position % 16u, is_value); }
}
