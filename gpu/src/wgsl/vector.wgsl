//!include num.wgsl
//!include linear.wgsl
//!include q8.wgsl
//!include bytes.wgsl
//!include dot.wgsl
//!include FORMAT
//!include LANES
//!include INPUT
//!include activations.wgsl
// Few rows of activations times quantized weights: 8 outputs of up to 8 rows by a workgroup. 64 or 16 invocations share two outputs, 2048 or 512 columns at a
// time. An invocation reads the weights of 32 columns of both outputs, and multiplies them with one row after the other. A few invocations add the products of
// each output, in order.

const SLOTS = 8u;
const APART = SLOTS / 2u; // slots between the two outputs that invocations share; with gates from a gate to what it is multiplied with
const INVOCATIONS = 4u * SLOT_LANES;
const PART = SLOT_LANES / SUBS; // blocks at a time
const MOST_ROWS = 8u;
const SPAN = PART + 1u; // from the products of an output to those of the next; one more than PART, so that neighbours read from different banks

// The codes of 32 columns take two of three entries, for the same reason.
var<workgroup> INPUTS: array<vec4<u32>, 3u * SLOT_LANES>;
// Sums of the parts of blocks that have several parts.
var<workgroup> SUMS: array<i32, SLOT_LANES * SUBS>;
var<workgroup> MINIMUM_SUMS: array<i32, SLOT_LANES * SUBS>;
var<workgroup> PRODUCTS: array<f32, SLOTS * SPAN>;
var<workgroup> MINIMA: array<f32, SLOTS * SPAN>;
// All outputs of each row.
var<workgroup> TOTALS: array<f32, SLOTS * MOST_ROWS>;

// Loads the codes of `count` blocks from `first` on: 16 columns by each of 2 * SLOT_LANES invocations. The first block has entry `entry` of the table.
fn load(row: u32, first: u32, count: u32, entry: u32, invocation: u32) {
    let sub = invocation / 2u;
    if (invocation >= 2u * SLOT_LANES || sub >= count * SUBS) { return; }
    let words = first * 8u * SUBS + 4u * invocation;
    INPUTS[3u * sub + invocation % 2u] = codes_from(row, words, entry + sub / SUBS);
}

// The weights of 32 columns of an output, and the scales of a block.
struct Weights { low: vec4<u32>, high: vec4<u32>, factors: vec3<i32>, scale: f32, least: f32 }

fn weights_of(row: u32, part: u32, block: u32) -> Weights {
    var least = number(0u);
    if (MINS) { least = min_scale(row, block); }
    return Weights(codes(row, part, 0u), codes(row, part, 1u), factors(row, part), scale(row, block), least);
}

struct Sums { sum: i32, minima: i32 }

// The sums of the products of 32 columns.
fn multiplied(w: Weights, x: vec4<u32>, y: vec4<u32>) -> Sums {
    var minima = 0;
    if (MINS) { minima = w.factors.z * (sum_of(x) + sum_of(y)); }
    return Sums(w.factors.x * dot_of(w.low, x) + w.factors.y * dot_of(w.high, y), minima);
}

// Puts the term of a block: the integer sum of its columns, times its scale and that of the activations. The term is 0 where there is no such block.
fn put_product(at: u32, sums: Sums, w: Weights, step: f32, is_there: bool) {
    let product = mul_i32(sums.sum, mul(w.scale, step));
    PRODUCTS[at] = number(select(0u, bitcast<u32>(product), is_there));
    if (!MINS) { return; }
    let minimum = mul_i32(sums.minima, mul(w.least, step));
    MINIMA[at] = number(select(0u, bitcast<u32>(minimum), is_there));
}

// A sum with the term of block `at`.
fn with_block(sum: f32, at: u32) -> f32 {
    let more = add(sum, PRODUCTS[at]);
    if (!MINS) { return more; }
    return sub(more, MINIMA[at]);
}

// A sum with the terms of up to 8 blocks, in order. Where there are fewer blocks, the terms are zeros.
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

// The sums of all parts of a block.
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
    // Invocations without columns read the last ones.
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

// Adds the terms of a row: an invocation has one output. Each row takes other invocations than the row before, so that rows need not wait for each other.
fn add_products(r: u32, count: u32, invocation: u32) {
    let slot = invocation - r * 32u % INVOCATIONS;
    if (slot >= SLOTS) { return; }
    var sum = TOTALS[SLOTS * r + slot];
    for (var b = 0u; b < count; b += 8u) { sum = with_blocks(sum, slot * SPAN + b); }
    TOTALS[SLOTS * r + slot] = sum;
}

// The byte at which the weights of an output begin, or of any output where there is no such output.
fn begin_of(at: Place) -> u32 { return weights_at(at.segment, select(0u, at.output, at.inside)); }

// Finishes the outputs. An invocation has one output of one row.
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
        // Reads of weights are under way meanwhile. No invocation still reads old entries: the last row had a barrier behind its reads.
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
