//!include num.wgsl
//!include linear.wgsl
//!include q8.wgsl
//!include bytes.wgsl
//!include dot.wgsl
//!include FORMAT
//!include LANES
//!include INPUT
//!include activations.wgsl
// Few rows of activations times quantized weights: 8 outputs of up to 8 rows by a workgroup, 64 or 16 invocations for two outputs, 2048 or 512
// columns at a time. An invocation has the weights of 32 columns of both outputs, and multiplies them with those of one row after the other. A
// few of them add the products of each output, in order.

const SLOTS = 8u;
const APART = SLOTS / 2u; // from the first output of 64 invocations to the second; with gates from a gate to what it is multiplied with
const INVOCATIONS = 4u * SLOT_LANES;
const PART = SLOT_LANES / SUBS; // blocks at a time
const MOST_ROWS = 8u;
const SPAN = PART + 1u; // from the products of an output to those of the next, so that neighbours read from different banks

// Codes of 32 columns have two places of three, for the same reason.
var<workgroup> INPUTS: array<vec4<u32>, 3u * SLOT_LANES>;
// Of blocks of several parts.
var<workgroup> SUMS: array<i32, SLOT_LANES * SUBS>;
var<workgroup> MINIMUM_SUMS: array<i32, SLOT_LANES * SUBS>;
var<workgroup> PRODUCTS: array<f32, SLOTS * SPAN>;
var<workgroup> MINIMA: array<f32, SLOTS * SPAN>;
// Of each row all outputs.
var<workgroup> TOTALS: array<f32, SLOTS * MOST_ROWS>;

// The codes of 16 columns of the blocks from `first` on, by each of 2 * SLOT_LANES invocations. The first block has entry `entry` of the table.
fn load(row: u32, first: u32, count: u32, entry: u32, invocation: u32) {
    let sub = invocation / 2u;
    if (invocation >= 2u * SLOT_LANES || sub >= count * SUBS) { return; }
    let words = first * 8u * SUBS + 4u * invocation;
    INPUTS[3u * sub + invocation % 2u] = codes_from(row, words, entry + sub / SUBS);
}

// What an invocation has of an output: the weights of 32 columns, and the scales of a block.
struct Weights { low: vec4<u32>, high: vec4<u32>, factors: vec3<i32>, scale: f32, least: f32 }

fn weights_of(row: u32, part: u32, block: u32) -> Weights {
    var least = number(0u);
    if (MINS) { least = min_scale(row, block); }
    return Weights(codes(row, part, 0u), codes(row, part, 1u), factors(row, part), scale(row, block), least);
}

struct Sums { sum: i32, minima: i32 }

// The products of 32 columns, added.
fn multiplied(w: Weights, x: vec4<u32>, y: vec4<u32>) -> Sums {
    var minima = 0;
    if (MINS) { minima = w.factors.z * (sum_of(x) + sum_of(y)); }
    return Sums(w.factors.x * dot_of(w.low, x) + w.factors.y * dot_of(w.high, y), minima);
}

// What a block adds: the integers of all its columns, times its scale and that of the activations; nothing where it is none.
fn put_product(at: u32, sums: Sums, w: Weights, step: f32, is_there: bool) {
    let product = mul_i32(sums.sum, mul(w.scale, step));
    PRODUCTS[at] = number(select(0u, bitcast<u32>(product), is_there));
    if (!MINS) { return; }
    let minimum = mul_i32(sums.minima, mul(w.least, step));
    MINIMA[at] = number(select(0u, bitcast<u32>(minimum), is_there));
}

// A sum with what block `at` adds.
fn with_block(sum: f32, at: u32) -> f32 {
    let more = add(sum, PRODUCTS[at]);
    if (!MINS) { return more; }
    return sub(more, MINIMA[at]);
}

// A sum with what up to 8 blocks add, in order; zeros where there are fewer.
fn with_blocks(sum: f32, at: u32) -> f32 {
    if (PART < 8u) {
        var few = sum;
        for (var i = 0u; i < PART; i++) { few = with_block(few, at + i); }
        return few;
    }
    if (MINS) {
        let half = with_block(with_block(with_block(with_block(sum, at), at + 1u), at + 2u), at + 3u);
        return with_block(with_block(with_block(with_block(half, at + 4u), at + 5u), at + 6u), at + 7u);
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

// The sum of the parts of a block.
fn summed(at: u32) -> Sums {
    var sums = Sums(0, 0);
    for (var sub = 0u; sub < SUBS; sub++) {
        sums.sum += SUMS[at + sub];
        sums.minima += MINIMUM_SUMS[at + sub];
    }
    return sums;
}

// Multiplies the weights of two outputs with `count` blocks of a row. All invocations call it.
fn multiply(slot: u32, lane: u32, count: u32, first: Weights, second: Weights, step: f32) {
    // Of columns that are none, the last ones.
    let column = min(lane, count * SUBS - 1u);
    let x = INPUTS[3u * column];
    let y = INPUTS[3u * column + 1u];
    let a = multiplied(first, x, y);
    let b = multiplied(second, x, y);
    if (SUBS == 1u) {
        put_product(slot * SPAN + lane, a, first, step, lane < count);
        put_product((slot + APART) * SPAN + lane, b, second, step, lane < count);
        workgroupBarrier();
        return;
    }
    let at = slot * SLOT_LANES;
    let other = (slot + APART) * SLOT_LANES;
    SUMS[at + lane] = a.sum;
    SUMS[other + lane] = b.sum;
    MINIMUM_SUMS[at + lane] = a.minima;
    MINIMUM_SUMS[other + lane] = b.minima;
    workgroupBarrier();
    if (lane < PART) {
        let last = min(lane, count - 1u);
        put_product(slot * SPAN + lane, summed(at + last * SUBS), first, step, lane < count);
        put_product((slot + APART) * SPAN + lane, summed(other + last * SUBS), second, step, lane < count);
    }
    workgroupBarrier();
}

// Adds the products of a row: an invocation has an output. Those of a row follow each other, so that others need not wait.
fn add_products(r: u32, count: u32, invocation: u32) {
    let slot = invocation - r * 32u % INVOCATIONS;
    if (slot >= SLOTS) { return; }
    var sum = TOTALS[SLOTS * r + slot];
    for (var b = 0u; b < count; b += 8u) { sum = with_blocks(sum, slot * SPAN + b); }
    TOTALS[SLOTS * r + slot] = sum;
}

// Where the weights of an output begin; of some output where there is none.
fn begin_of(at: Place) -> u32 { return weights_at(at.segment, select(0u, at.output, at.inside)); }

// What becomes of the outputs: an invocation has one of a row.
fn put_totals(group: vec3<u32>, row: u32, rows: u32, invocation: u32) {
    let slot = invocation % SLOTS;
    let r = invocation / SLOTS;
    if (r >= rows) { return; }
    let at = place(group.x, slot, SLOTS);
    if (!at.inside) { return; }
    let total = TOTALS[invocation];
    if (P.mode != GATE) {
        finish(at, row + r, total);
        return;
    }
    if (slot >= APART) { return; }
    let other = place(group.x, slot + APART, SLOTS);
    finish_gate(at, row + r, biased(at, total), biased(other, TOTALS[invocation + APART]));
}

@compute @workgroup_size(INVOCATIONS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
    ZERO = P.zero;
    var row = group.y;
    if (!find_expert(row)) { return; }
    var rows = 1u;
    if (P.used == 0u) {
        row = MOST_ROWS * group.y;
        rows = min(MOST_ROWS, max(B[P.count], row) - row);
    }
    let slot = invocation / SLOT_LANES;
    let lane = invocation % SLOT_LANES;
    let w = begin_of(place(group.x, slot, SLOTS));
    let v = begin_of(place(group.x, slot + APART, SLOTS));
    let blocks = P.cols / (32u * SUBS);
    let window = window_of(rows, blocks);
    if (invocation < SLOTS * MOST_ROWS) { TOTALS[invocation] = number(0u); }
    for (var first = 0u; first < blocks; first += PART) {
        let count = min(PART, blocks - first);
        let part = first * SUBS + min(lane, count * SUBS - 1u);
        let block = first + min(lane, count - 1u);
        let a = weights_of(w, part, block);
        let b = weights_of(v, part, block);
        // Weights are under way meanwhile. No invocation reads old entries any more: the last row had a barrier behind its reads.
        if (is_raw() && first % window == 0u) {
            fill_table(row, rows, first, window, invocation);
            workgroupBarrier();
        }
        for (var r = 0u; r < rows; r++) {
            let entry = r * window + first % window;
            load(row + r, first, count, entry, invocation);
            let step = step_at(row + r, block, entry + block - first);
            workgroupBarrier();
            multiply(slot, lane, count, a, b, step);
            add_products(r, count, invocation);
        }
    }
    workgroupBarrier();
    put_totals(group, row, rows, invocation);
}
