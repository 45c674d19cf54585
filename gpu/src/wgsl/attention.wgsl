// The buffers of attention, and how its sums become results.

struct Params {
    zero: u32, out_stride: u32, largest: u32, sink_scores: u32,
    gates: u32, gated: u32, unused_0: u32, unused_1: u32,
    shape: Shape, scores: Scores,
}
@group(0) @binding(3) var<storage, read> QKV: array<f32>;
@group(0) @binding(4) var<storage, read> POOL: array<u32>;
@group(0) @binding(5) var<storage, read_write> OUT: array<f32>;
// The largest magnitude of each 32 elements of OUT.
@group(0) @binding(6) var<storage, read_write> LARGEST: array<atomic<u32>>;
// Slopes of linear biases and sink scores, one for each head. P has their first indices, or NONE where there are none.
@group(0) @binding(7) var<storage, read> V: array<f32>;

const NONE = 0xffffffffu;

fn pool_word(at: u32) -> u32 { return POOL[at]; }

// The factor of a head's sums. All weights are relative to the larger one of the largest score and the sink score.
fn share(head: u32, peak: f32, total: f32) -> f32 {
    let one = number(0x3f800000u);
    if (P.sink_scores == NONE) { return div(one, total); }
    let sink = settle(V[P.sink_scores + head]);
    if (!greater(sink, peak)) { return div(one, add(total, exp_of(sub(sink, peak)))); }
    let factor = exp_of(sub(peak, sink));
    return div(factor, add(mul(total, factor), one));
}

// Puts the result of element `i` of a head, if there is such an element.
fn put_result(row: u32, head: u32, i: u32, sum: f32, part: f32) {
    if (i >= P.shape.dim) { return; }
    let column = head * P.shape.dim + i;
    var result = mul(sum, part);
    // The gates are behind the heads. P.gated elements share one.
    if (P.gates != 0u) { result = mul(result, sigmoid(QKV[row * P.shape.qkv_stride + P.gates + column / P.gated])); }
    OUT[row * P.out_stride + column] = result;
    atomicMax(&LARGEST[row * P.largest + column / 32u], magnitude(result));
}

// A sum with the sum of the next chunk. Each is relative to a largest score.
fn both(sum: f32, factor: f32, next: f32, next_factor: f32) -> f32 {
    return add(settle(mul(sum, factor)), settle(mul(next, next_factor)));
}

// The sums of all chunks so far with those of the next one. Nothing changes where no position of the next one is seen.
fn with_chunk(sums: Chunk, next: Chunk) -> Chunk {
    if (magnitude(next.total) == 0u) { return sums; }
    var peak = sums.peak;
    var factor = number(0x3f800000u);
    var next_factor = factor;
    if (greater(next.peak, peak)) { factor = exp_of(sub(peak, next.peak)); peak = next.peak; }
    else { next_factor = exp_of(sub(next.peak, peak)); }
    let total = add(mul(sums.total, factor), mul(next.total, next_factor));
    let value = both(sums.value, factor, next.value, next_factor);
    return Chunk(peak, total, value, both(sums.other, factor, next.other, next_factor));
}
