// Norms and rotates a head of queries, keys or values of a row. Queries go behind all heads of the batch. Keys and values go to the pool.

struct Params {
    zero: u32, q_norm: u32, k_norm: u32, turned: u32,
    halves: u32, rotation_stride: u32, rotation_at: u32, epsilon: f32,
    norms: u32, flag: u32, clamp: u32, q_bias: u32,
    k_bias: u32, temperature: u32, unused_0: u32, unused_1: u32,
    shape: Shape, scores: Scores,
}
@group(0) @binding(3) var<storage, read_write> QKV: array<f32>;
@group(0) @binding(4) var<storage, read> ROTATIONS: array<f32>;
@group(0) @binding(5) var<storage, read> V: array<f32>;
@group(0) @binding(6) var<storage, read_write> POOL: array<atomic<u32>>;
@group(0) @binding(7) var<storage, read_write> FLAG: array<atomic<u32>>;

const NORMS_Q = 1u;
const NORMS_K = 2u;
const AFTER_ROTATION = 4u;
const WHOLE_ROW = 8u; // all heads of queries are normed as one row, and all of keys
const OWN_WEIGHTS = 16u; // each head has its own
const CENTERS = 32u;
const NORMS_V = 64u; // each head, without weights
const KEYS_AS_VALUES = 128u;

const STORED = 4u; // word of a row: whether its keys and values are in the pool already

var<workgroup> HEAD: array<f32, 512>;
// Index of the row's first query or key element. For values: index of the head itself.
var<private> HEADS: u32;

fn pool_word(at: u32) -> u32 { return atomicLoad(&POOL[at]); }

fn element(i: u32) -> f32 {
    if ((P.norms & WHOLE_ROW) == 0u) { return HEAD[i]; }
    return clamped(QKV[HEADS + i]);
}

fn four_elements(i: u32, last: u32) -> vec4<f32> { return vec4<f32>(HEAD[min(i, last)], HEAD[0], HEAD[0], HEAD[0]); }

// The word is changed by atomics, because other tokens share the words of keys.
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

fn put_nibble(word: u32, half: u32, bits: u32) {
    let shift = (half & 7u) * 4u;
    let at = word + (half >> 3u);
    atomicAnd(&POOL[at], ~(0xfu << shift));
    atomicOr(&POOL[at], (bits & 0xfu) << shift);
}

fn store_floats(invocation: u32, word: u32, slot: u32, is_value: bool) {
    for (var i = invocation; i < P.shape.dim; i += THREADS) {
        let x = settle(HEAD[i]);
        atomicStore(&POOL[word + index(i, slot, is_value)], bitcast<u32>(x));
        if (!is_finite(x)) { atomicMax(&FLAG[P.flag], 1u); }
    }
}

fn store_halves(invocation: u32, word: u32, slot: u32, is_value: bool) {
    for (var i = invocation; i < P.shape.dim; i += THREADS) {
        put_half(word, index(i, slot, is_value), f32_to_f16(settle(HEAD[i])));
    }
}

// Stores blocks of 32 elements, each by one invocation.
fn store_codes(invocation: u32, word: u32, slot: u32, is_value: bool, element_type: u32) {
    let first = invocation * 32u;
    if (first >= P.shape.dim) { return; }
    let end = min(first + 32u, P.shape.dim);
    let is_half = element_type == Q4_0;
    var largest = 0u;
    for (var i = first; i < end; i++) { largest = max(largest, magnitude(settle(HEAD[i]))); }
    // Codes of half a byte have one more value below 0 than above. So the element of the largest magnitude gets a negative code.
    var above = false;
    for (var i = first; i < end; i++) { above = above || bitcast<u32>(settle(HEAD[i])) == largest; }
    let codes = number(select(0x42fe0000u, 0x41000000u, is_half)); // 127, 8
    var d = f32_to_f16(mul(number(largest), number(select(0x3c010204u, 0x3e000000u, is_half))));
    if (less(mul(codes, f16_to_f32(d)), number(largest))) { d += 1u; }
    if (largest >= 0x7f800000u) { d = 0x7c00u; }
    if (is_half && above && largest != 0u) { d |= 0x8000u; }
    let inverse = div(number(0x3f800000u), f16_to_f32(d));
    for (var i = first; i < end; i++) {
        let bits = rounded_bits(mul(settle(HEAD[i]), inverse));
        let code = select(bits, 0u, largest == 0u);
        if (!is_half) { put_byte(word, index(i, slot, is_value), code); }
        else { put_nibble(word, nibble(i, slot, is_value), select(bitcast<u32>(min(bitcast<i32>(bits - MAGIC), 7)), 0u, largest == 0u)); }
    }
    // Where the number of elements is odd, the last byte of keys has no second element.
    if (is_half && !is_value && end == P.shape.dim && (end & 1u) == 1u) { put_nibble(word, nibble(end, slot, false), 0u); }
    put_half(word + code_words(element_type, is_value), invocation * 16u + slot, d);
}

fn rotate(invocation: u32, row: u32) {
    let half = P.turned / 2u;
    let table = row * P.rotation_stride + P.rotation_at;
    for (var i = invocation; i < half; i += THREADS) {
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

// Limits a magnitude, if there is a limit. NaN stays.
fn clamped(x: f32) -> f32 {
    if (P.clamp == 0u) { return x; }
    let limit = number(P.clamp);
    if (greater(x, limit)) { return limit; }
    if (less(x, neg(limit))) { return neg(limit); }
    return x;
}

// Norms head `own` of the `count` heads of queries, keys or values. All workgroups of a dispatch go through its barriers, whether they norm or not.
fn norm_head(invocation: u32, own: u32, count: u32, is_query: bool, is_value: bool, norms: bool) {
    let dim = P.shape.dim;
    let is_whole = !is_value && (P.norms & WHOLE_ROW) != 0u;
    let centers = (P.norms & CENTERS) != 0u;
    norm(select(dim, count * dim, is_whole), centers, P.epsilon, invocation);
    if (norms) {
        let first = select(0u, own * dim, is_whole);
        let weights = select(P.k_norm, P.q_norm, is_query) + select(0u, own * dim, (P.norms & OWN_WEIGHTS) != 0u);
        let weight = select(weights, NONE, is_value);
        let bias = select(select(P.k_bias, P.q_bias, is_query), NONE, is_value);
        for (var i = invocation; i < dim; i += THREADS) { HEAD[i] = normed(first + i, centers, weight, bias); }
    }
    workgroupBarrier();
}

fn is_query(head: u32) -> bool { return head < P.shape.heads; }
fn is_value(head: u32) -> bool { return head >= P.shape.heads + P.shape.kv_heads; }

// Norms and rotates a head, into HEAD. All invocations call it.
fn prepare(row: u32, head: u32, invocation: u32) {
    let of_query = is_query(head);
    let of_value = is_value(head);
    // Heads before those of this kind.
    let before = select(0u, P.shape.heads, !of_query) + select(0u, P.shape.kv_heads, of_value);
    let count = select(P.shape.kv_heads, P.shape.heads, of_query);
    let source = head - select(0u, P.shape.kv_heads, of_value && (P.norms & KEYS_AS_VALUES) != 0u);
    let base = row * P.shape.qkv_stride + source * P.shape.dim;
    HEADS = select(row * P.shape.qkv_stride + before * P.shape.dim, base, of_value);
    for (var i = invocation; i < P.shape.dim; i += THREADS) { HEAD[i] = clamped(QKV[base + i]); }
    workgroupBarrier();
    let norms = (P.norms & select(select(NORMS_K, NORMS_Q, of_query), NORMS_V, of_value)) != 0u;
    let is_after = (P.norms & AFTER_ROTATION) != 0u;
    if (P.norms != 0u && !is_after) { norm_head(invocation, head - before, count, of_query, of_value, norms); }
    if (!of_value) { rotate(invocation, row); }
    workgroupBarrier();
    if (is_after) { norm_head(invocation, head - before, count, of_query, of_value, norms); }
    if (of_query && P.temperature != NONE) {
        let factor = ROTATIONS[row * P.rotation_stride + P.temperature];
        for (var i = invocation; i < P.shape.dim; i += THREADS) { HEAD[i] = mul(HEAD[i], factor); }
    }
}

// Puts the head where it belongs, after `prepare`.
fn put_head(row: u32, head: u32, invocation: u32) {
    if (is_query(head)) {
        for (var i = invocation; i < P.shape.dim; i += THREADS) { QKV[query_at(row, head) + i] = HEAD[i]; }
        return;
    }
    // Keys and values that are there already can belong to another sequence, too.
    if (B[ROWS + ROW * row + STORED] != 0u) { return; }
    let of_value = is_value(head);
    let position = position_of(row);
    let word = tile_at(row, position, (head - P.shape.heads) % P.shape.kv_heads) + select(0u, P.shape.k_words, of_value);
    let slot = position % 16u;
    let element_type = select(P.shape.k_type, P.shape.v_type, of_value);
    if (element_type == F16) { store_halves(invocation, word, slot, of_value); }
    else if (element_type == F32) { store_floats(invocation, word, slot, of_value); }
    else { store_codes(invocation, word, slot, of_value, element_type); }
}
