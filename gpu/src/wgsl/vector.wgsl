//!include num.wgsl
//!include linear.wgsl
//!include q8.wgsl
//!include activations.wgsl
//!include bytes.wgsl
//!include FORMAT
// Few rows of activations times quantized weights: 4 outputs of up to 8 rows by a workgroup, 64 invocations for an output, 2048 columns at a
// time. An invocation multiplies 32 columns, the first one of an output adds products in order. Weights come from memory once: for the rows
// that follow they are in a cache.

const SLOTS = 4u;
const SLOT_LANES = 64u;
const PART = SLOT_LANES / SUBS; // blocks at a time
const MOST_ROWS = 8u;

// Codes of 32 columns have two places of three, so that neighbours read from different banks.
var<workgroup> INPUTS: array<vec4<u32>, 192>;
// Of blocks of several parts.
var<workgroup> SUMS: array<i32, 32u * SUBS>;
var<workgroup> MINIMUM_SUMS: array<i32, 32u * SUBS>;
var<workgroup> PRODUCTS: array<f32, SLOTS * PART>;
var<workgroup> MINIMA: array<f32, SLOTS * PART>;
var<workgroup> TOTALS: array<f32, 32>;

// The codes of 16 columns of the blocks from `first` on, by each of 128 invocations.
fn load(row: u32, first: u32, count: u32, invocation: u32) {
    let sub = invocation / 2u;
    if (invocation >= 2u * SLOT_LANES || sub >= count * SUBS) { return; }
    let words = first * 8u * SUBS + 4u * invocation;
    INPUTS[3u * sub + invocation % 2u] = codes_from(row, words, first + sub / SUBS);
}

struct Sums { sum: i32, minima: i32 }

// The products of 32 columns, added.
fn multiplied(block: u32, sub: u32, lane: u32) -> Sums {
    let x = INPUTS[3u * lane];
    let y = INPUTS[3u * lane + 1u];
    let a = dot4I8Packed(codes(block, sub, 0u), x.x) + dot4I8Packed(codes(block, sub, 1u), x.y)
        + dot4I8Packed(codes(block, sub, 2u), x.z) + dot4I8Packed(codes(block, sub, 3u), x.w);
    let b = dot4I8Packed(codes(block, sub, 4u), y.x) + dot4I8Packed(codes(block, sub, 5u), y.y)
        + dot4I8Packed(codes(block, sub, 6u), y.z) + dot4I8Packed(codes(block, sub, 7u), y.w);
    let f = factors(block, sub);
    var minima = 0;
    if (MINS) { minima = f.z * (sum_of(x) + sum_of(y)); }
    return Sums(f.x * a + f.y * b, minima);
}

// What a block adds: the integers of all its columns, times its scale and that of the activations.
fn put_product(at: u32, sums: Sums, block: u32, step: f32) {
    PRODUCTS[at] = mul(of_i32(sums.sum), mul(scale(block), step));
    if (MINS) { MINIMA[at] = mul(of_i32(sums.minima), mul(min_scale(block), step)); }
}

// A sum with what block `at` adds.
fn with_block(sum: f32, at: u32) -> f32 {
    let more = add(sum, PRODUCTS[at]);
    if (!MINS) { return more; }
    return sub(more, MINIMA[at]);
}

// A sum with what 8 blocks add, in order; zeros where there are fewer.
fn with_blocks(sum: f32, at: u32) -> f32 {
    if (MINS) {
        var some = with_block(with_block(with_block(with_block(sum, at), at + 1u), at + 2u), at + 3u);
        return with_block(with_block(with_block(with_block(some, at + 4u), at + 5u), at + 6u), at + 7u);
    }
    let a = PRODUCTS[at];
    let b = PRODUCTS[at + 1u];
    let c = PRODUCTS[at + 2u];
    let d = PRODUCTS[at + 3u];
    let e = PRODUCTS[at + 4u];
    let f = PRODUCTS[at + 5u];
    let g = PRODUCTS[at + 6u];
    let h = PRODUCTS[at + 7u];
    return add(add(add(add(add(add(add(add(sum, a), b), c), d), e), f), g), h);
}

// Multiplies the blocks that are staged. `block` is where that of the invocation begins, `first_block` where the first one does.
fn multiply(invocation: u32, count: u32, block: u32, first_block: u32, step: f32) {
    let lane = invocation % SLOT_LANES;
    if (SUBS == 1u) {
        PRODUCTS[invocation] = number(0u);
        if (lane < count) { put_product(invocation, multiplied(block, 0u, lane), block, step); }
        workgroupBarrier();
        return;
    }
    if (lane < count * SUBS) {
        let sums = multiplied(block, lane % SUBS, lane);
        SUMS[invocation] = sums.sum;
        MINIMUM_SUMS[invocation] = sums.minima;
    }
    workgroupBarrier();
    if (lane < PART) {
        let at = invocation / SLOT_LANES * PART + lane;
        PRODUCTS[at] = number(0u);
        MINIMA[at] = number(0u);
        if (lane < count) {
            var sums = Sums(0, 0);
            let source = invocation / SLOT_LANES * SLOT_LANES + lane * SUBS;
            for (var sub = 0u; sub < SUBS; sub++) {
                sums.sum += SUMS[source + sub];
                sums.minima += MINIMUM_SUMS[source + sub];
            }
            put_product(at, sums, first_block + lane * BLOCK, step);
        }
    }
    workgroupBarrier();
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
    ZERO = P.zero;
    let slot = invocation / SLOT_LANES;
    let lane = invocation % SLOT_LANES;
    let at = place(group.x, slot, SLOTS);
    var row = group.y;
    if (!find_expert(row)) { return; }
    var rows = 1u;
    if (P.used == 0u) {
        row = MOST_ROWS * group.y;
        rows = min(MOST_ROWS, max(B[P.count], row) - row);
    }
    let blocks = P.cols / (32u * SUBS);
    // Some weights where there is no such output.
    let w0 = weights_at(at.segment, select(0u, at.output, at.inside));
    if (lane < MOST_ROWS) { TOTALS[slot * MOST_ROWS + lane] = number(0u); }
    for (var first = 0u; first < blocks; first += PART) {
        let count = min(PART, blocks - first);
        let byte = w0 + first * BLOCK;
        for (var r = 0u; r < rows; r++) {
            load(row + r, first, count, invocation);
            let step = step_at(row + r, first + min(lane, count - 1u));
            workgroupBarrier();
            multiply(invocation, count, byte + lane / SUBS * BLOCK, byte, step);
            if (lane == 0u) {
                var sum = TOTALS[slot * MOST_ROWS + r];
                for (var b = 0u; b < count; b += 8u) { sum = with_blocks(sum, slot * PART + b); }
                TOTALS[slot * MOST_ROWS + r] = sum;
            }
        }
    }
    workgroupBarrier();
    if (lane >= rows || !at.inside) { return; }
    let total = TOTALS[slot * MOST_ROWS + lane];
    if (P.mode != GATE) { finish(at, row + lane, total); }
    else if (at.segment == 0u) {
        let other = Place(1u, at.output, true);
        finish_gate(at, row + lane, biased(at, total), biased(other, TOTALS[(slot + SLOTS / 2u) * MOST_ROWS + lane]));
    }
}
