//!include num.wgsl
//!include linear.wgsl
//!include q8.wgsl
//!include activations.wgsl
//!include bytes.wgsl
//!include dot.wgsl
//!include FORMAT
//!include LANES
// Few rows of activations times quantized weights: 8 outputs of up to 8 rows by a workgroup, 64 or 16 invocations for two outputs, 2048 or 512
// columns at a time. An invocation multiplies 32 columns, the first two of each output add products in order. Weights come from memory once: for the rows that follow
// they are in a cache.

const SLOTS = 8u;
const APART = SLOTS / 2u; // from the first output of 64 invocations to the second; with gates from a gate to what it is multiplied with
const PART = SLOT_LANES / SUBS; // blocks at a time
const MOST_ROWS = 8u;

// Codes of 32 columns have two places of three, so that neighbours read from different banks.
var<workgroup> INPUTS: array<vec4<u32>, 3u * SLOT_LANES>;
// Of blocks of several parts.
var<workgroup> SUMS: array<i32, SLOT_LANES * SUBS>;
var<workgroup> MINIMUM_SUMS: array<i32, SLOT_LANES * SUBS>;
var<workgroup> PRODUCTS: array<f32, SLOTS * PART>;
var<workgroup> MINIMA: array<f32, SLOTS * PART>;
var<workgroup> TOTALS: array<f32, SLOTS * MOST_ROWS>;

// The codes of 16 columns of the blocks from `first` on, by each of 128 invocations.
fn load(row: u32, first: u32, count: u32, invocation: u32) {
    let sub = invocation / 2u;
    if (invocation >= 2u * SLOT_LANES || sub >= count * SUBS) { return; }
    let words = first * 8u * SUBS + 4u * invocation;
    INPUTS[3u * sub + invocation % 2u] = codes_from(row, words, first + sub / SUBS);
}

struct Sums { sum: i32, minima: i32 }

// The products of 32 columns, added.
fn multiplied(row: u32, part: u32, x: vec4<u32>, y: vec4<u32>) -> Sums {
    let f = factors(row, part);
    var minima = 0;
    if (MINS) { minima = f.z * (sum_of(x) + sum_of(y)); }
    return Sums(f.x * dot_of(codes(row, part, 0u), x) + f.y * dot_of(codes(row, part, 1u), y), minima);
}

// What a block adds: the integers of all its columns, times its scale and that of the activations; nothing where it is none.
fn put_product(at: u32, sums: Sums, row: u32, block: u32, step: f32, is_there: bool) {
    let product = mul(of_i32(sums.sum), mul(scale(row, block), step));
    PRODUCTS[at] = number(select(0u, bitcast<u32>(product), is_there));
    if (!MINS) { return; }
    let minimum = mul(of_i32(sums.minima), mul(min_scale(row, block), step));
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

// Multiplies `count` blocks from `start` on of two outputs, whose weights begin at `first` and `second`. All invocations call it.
fn multiply(slot: u32, lane: u32, start: u32, count: u32, first: u32, second: u32, step: f32) {
    // Of columns that are none, the last ones.
    let column = min(lane, count * SUBS - 1u);
    let x = INPUTS[3u * column];
    let y = INPUTS[3u * column + 1u];
    let a = multiplied(first, start * SUBS + column, x, y);
    let b = multiplied(second, start * SUBS + column, x, y);
    if (SUBS == 1u) {
        put_product(slot * PART + lane, a, first, start + column, step, lane < count);
        put_product((slot + APART) * PART + lane, b, second, start + column, step, lane < count);
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
        put_product(slot * PART + lane, summed(at + last * SUBS), first, start + last, step, lane < count);
        put_product((slot + APART) * PART + lane, summed(other + last * SUBS), second, start + last, step, lane < count);
    }
    workgroupBarrier();
}

// Where the weights of an output begin; of some output where there is none.
fn weights_of(at: Place) -> u32 { return weights_at(at.segment, select(0u, at.output, at.inside)); }

// What becomes of the outputs: an invocation has one of a row.
fn put_totals(row: u32, rows: u32, lane: u32, slot: u32, first: Place, second: Place) {
    let r = lane % MOST_ROWS;
    let is_second = lane >= MOST_ROWS;
    if (lane >= 2u * MOST_ROWS || r >= rows) { return; }
    let total = TOTALS[(slot + select(0u, APART, is_second)) * MOST_ROWS + r];
    if (P.mode == GATE) {
        if (is_second || !first.inside) { return; }
        let gated = TOTALS[(slot + APART) * MOST_ROWS + r];
        finish_gate(first, row + r, biased(first, total), biased(second, gated));
        return;
    }
    let segment = select(first.segment, second.segment, is_second);
    let output = select(first.output, second.output, is_second);
    if (!select(first.inside, second.inside, is_second)) { return; }
    finish(Place(segment, output, true), row + r, total);
}

@compute @workgroup_size(4u * SLOT_LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
    ZERO = P.zero;
    let slot = invocation / SLOT_LANES;
    let lane = invocation % SLOT_LANES;
    let at = place(group.x, slot, SLOTS);
    let other = place(group.x, slot + APART, SLOTS);
    var row = group.y;
    if (!find_expert(row)) { return; }
    var rows = 1u;
    if (P.used == 0u) {
        row = MOST_ROWS * group.y;
        rows = min(MOST_ROWS, max(B[P.count], row) - row);
    }
    let blocks = P.cols / (32u * SUBS);
    let w = weights_of(at);
    let v = weights_of(other);
    // What an invocation adds up, of those that do.
    let sums = (slot + lane % 2u * APART) * MOST_ROWS;
    if (lane < 2u * MOST_ROWS) { TOTALS[(slot + lane / MOST_ROWS * APART) * MOST_ROWS + lane % MOST_ROWS] = number(0u); }
    for (var first = 0u; first < blocks; first += PART) {
        let count = min(PART, blocks - first);
        for (var r = 0u; r < rows; r++) {
            load(row + r, first, count, invocation);
            let step = step_at(row + r, first + min(lane, count - 1u));
            workgroupBarrier();
            multiply(slot, lane, first, count, w, v, step);
            if (lane < 2u) {
                var sum = TOTALS[sums + r];
                for (var b = 0u; b < count; b += 8u) { sum = with_blocks(sum, (slot + lane * APART) * PART + b); }
                TOTALS[sums + r] = sum;
            }
        }
    }
    workgroupBarrier();
    put_totals(row, rows, lane, slot, at, other);
}
