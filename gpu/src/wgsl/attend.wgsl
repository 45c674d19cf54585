//!include num.wgsl
//!include tree.wgsl
//!include kv.wgsl
// Attention of a head of a row, chunk by chunk. An invocation has a position of the chunk, then an element of the head.

struct Params {
    zero: u32, scale: u32, cap: u32, window: u32,
    sinks: u32, reach: u32, out_stride: u32, largest: u32,
    slopes: u32, sink_scores: u32, unused_0: u32, unused_1: u32,
    shape: Shape,
}
@group(0) @binding(3) var<storage, read> QKV: array<f32>;
@group(0) @binding(4) var<storage, read> POOL: array<u32>;
@group(0) @binding(5) var<storage, read_write> OUT: array<f32>;
// The largest magnitudes of 32 elements of OUT each.
@group(0) @binding(6) var<storage, read_write> LARGEST: array<atomic<u32>>;
// Slopes of linear biases and scores of sinks, of a head each; P says where they begin, NONE where there are none.
@group(0) @binding(7) var<storage, read> V: array<f32>;

const CHUNK = 256u;
const LEAST = -2147483647;
const NONE = 0xffffffffu;

var<workgroup> QUERY: array<f32, 256>;
var<workgroup> WEIGHTS: array<f32, 256>;
var<workgroup> ORDER: array<i32, 256>;

fn sees(query: u32, position: u32) -> bool {
    if (position > query) { return false; }
    let back = query - position;
    return back < P.window || (position < P.sinks && back < P.reach);
}

fn half_of(word: u32, half: u32) -> f32 { return f16_to_f32((POOL[word + (half >> 1u)] >> ((half & 1u) * 16u)) & 0xffffu); }

fn stored(element_type: u32, word: u32, i: u32, slot: u32, is_value: bool) -> f32 {
    let at = index(i, slot, is_value);
    if (element_type == F16) { return half_of(word, at); }
    if (element_type == F32) { return number(POOL[word + at]); }
    var code = extractBits(bitcast<i32>(POOL[word + (at >> 2u)]), (at & 3u) * 8u, 8u);
    if (element_type == Q4_0) {
        let half = nibble(i, slot, is_value);
        code = extractBits(bitcast<i32>(POOL[word + (half >> 3u)]), (half & 7u) * 4u, 4u);
    }
    return mul(half_of(word + code_words(element_type, is_value), (i / 32u) * 16u + slot), of_i32(code));
}

fn score(row: u32, query: u32, position: u32, head: u32, kv_head: u32) -> f32 {
    let word = tile_at(row, position, kv_head);
    let slot = position % 16u;
    var sum = number(0u);
    for (var i = 0u; i < P.shape.dim; i++) {
        sum = add(sum, mul(QUERY[i], stored(P.shape.k_type, word, i, slot, false)));
    }
    var scaled = mul(sum, number(P.scale));
    if (P.cap != 0u) { scaled = soft_cap(number(P.cap), scaled); }
    if (P.slopes == NONE) { return scaled; }
    return add(scaled, mul(V[P.slopes + head], of_i32(bitcast<i32>(position) - bitcast<i32>(query))));
}

// What values are multiplied by: all weights are relative to the larger of the largest score and that of the sink.
fn share(head: u32, peak: f32, total: f32) -> f32 {
    let one = number(0x3f800000u);
    if (P.sink_scores == NONE) { return div(one, total); }
    let sink = settle(V[P.sink_scores + head]);
    if (!greater(sink, peak)) { return div(one, add(total, exp_of(sub(sink, peak)))); }
    let factor = exp_of(sub(peak, sink));
    return div(factor, add(mul(total, factor), one));
}

// The largest of the ORDER of all invocations.
fn largest(invocation: u32) -> i32 {
    for (var half = 128u; half > 0u; half >>= 1u) {
        if (invocation < half) { ORDER[invocation] = max(ORDER[invocation], ORDER[invocation + half]); }
        workgroupBarrier();
    }
    return ORDER[0];
}

fn of_order(order: i32) -> f32 {
    return number(select(bitcast<u32>(order), bitcast<u32>(-order) | 0x80000000u, order < 0));
}

// What is added to the chunk's element: weights times values, in order of the positions that are seen.
fn values_of(row: u32, query: u32, first: u32, count: u32, kv_head: u32, i: u32) -> f32 {
    var sum = number(0u);
    for (var k = 0u; k < count; k++) {
        let position = first + k;
        if (!sees(query, position)) { continue; }
        let word = tile_at(row, position, kv_head) + P.shape.k_words;
        let slot = position % 16u;
        sum = add(sum, mul(WEIGHTS[k], stored(P.shape.v_type, word, i, slot, true)));
    }
    return sum;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
    let row = group.x;
    let head = group.y;
    let query = position_of(row);
    let kv_head = head / (P.shape.heads / P.shape.kv_heads);
    if (invocation < P.shape.dim) {
        let q = QKV[row * P.shape.qkv_stride + head * P.shape.dim + invocation];
        if (P.shape.k_type == F16) { QUERY[invocation] = short(q); } else { QUERY[invocation] = settle(q); }
    }
    var peak = number(0xff800000u);
    var total = number(0u);
    var value = number(0u);
    for (var chunk = 0u; chunk <= B[LAST] / CHUNK; chunk++) {
        let first = chunk * CHUNK;
        let position = first + invocation;
        let seen = sees(query, position);
        var mine = number(0u);
        workgroupBarrier();
        if (seen) { mine = score(row, query, position, head, kv_head); }
        ORDER[invocation] = select(LEAST, order(mine), seen && !is_nan(mine));
        workgroupBarrier();
        let top = largest(invocation);
        // Nothing to be seen, or nothing but what is not a number: that shows in the weights.
        let chunk_peak = of_order(select(top, -0x7f800000, top == LEAST));
        var weight = number(0u);
        if (seen) {
            weight = weight_of(sub(mine, chunk_peak));
            if (P.shape.v_type == F16) { weight = short(weight); }
        }
        WEIGHTS[invocation] = weight;
        workgroupBarrier();
        let count = select(0u, min(CHUNK, query + 1u - first), query >= first);
        if (invocation < 16u) {
            var sum = number(0u);
            for (var k = invocation; k < CHUNK; k += 16u) { sum = add(sum, WEIGHTS[k]); }
            LANES[invocation] = sum;
        }
        var part = number(0u);
        if (invocation < P.shape.dim) { part = values_of(row, query, first, count, kv_head, invocation); }
        workgroupBarrier();
        if (invocation == 0u) { tree16(); }
        workgroupBarrier();
        // No way out of the loop: browsers want barriers where all invocations are seen to come.
        let chunk_total = LANES[0];
        if (magnitude(chunk_total) != 0u) {
            var factor = number(0x3f800000u);
            var chunk_factor = factor;
            if (greater(chunk_peak, peak)) { factor = exp_of(sub(peak, chunk_peak)); peak = chunk_peak; }
            else { chunk_factor = exp_of(sub(chunk_peak, peak)); }
            total = add(mul(total, factor), mul(chunk_total, chunk_factor));
            value = add(settle(mul(value, factor)), settle(mul(part, chunk_factor)));
        }
    }
    if (invocation < P.shape.dim) {
        let column = head * P.shape.dim + invocation;
        let result = mul(value, share(head, peak, total));
        OUT[row * P.out_stride + column] = result;
        atomicMax(&LARGEST[row * P.largest + column / 32u], magnitude(result));
    }
}

const LAST = 3u; // the word of a batch that has its largest position
