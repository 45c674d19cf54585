//!include num.wgsl
//!include linear.wgsl
//!include bytes.wgsl
//!include q8.wgsl
//!include activations.wgsl
//!include FORMAT
// Many rows of activations times quantized weights: 64 outputs of 64 rows by a workgroup, 4 outputs of 4 rows by an invocation. 32 columns at
// a time lie in the workgroup's memory, words by four outputs or four rows.

const SLOTS = 64u;
const ROWS = 64u;
const STEP_BLOCKS = 4u; // blocks whose scales of activations are there at a time

var<workgroup> WEIGHTS: array<vec4<u32>, 128>;
var<workgroup> INPUTS: array<vec4<u32>, 128>;
var<workgroup> FIRST_FACTORS: array<i32, 64>;
var<workgroup> SECOND_FACTORS: array<i32, 64>;
var<workgroup> MINIMUM_FACTORS: array<i32, 64>;
var<workgroup> SCALES: array<f32, 64>;
var<workgroup> MINIMA: array<f32, 64>;
var<workgroup> STEPS: array<f32, 256>;
var<workgroup> INVERSES: array<f32, 256>;

fn last_row() -> u32 { return max(B[P.count], 1u) - 1u; }

fn row_at(workgroup: u32, i: u32) -> u32 { return min(workgroup * ROWS + i, last_row()); }

// The slot of an output of an invocation's four: with gates two of them are gates, and two what these are multiplied with.
fn slot_of(four: u32, i: u32) -> u32 {
    if (P.mode == GATE) { return 2u * four + (i & 1u) + (i >> 1u) * (SLOTS / 2u); }
    return 4u * four + i;
}

// Where the block of an output begins; some block where there is no such output.
fn block_at(workgroup: u32, slot: u32, block: u32) -> u32 {
    let at = place(workgroup, slot, SLOTS);
    let output = select(0u, at.output, at.inside);
    let segment = select(0u, at.segment, at.inside);
    return P.segments[segment].at + output * P.row_bytes + block * BLOCK;
}

fn weights_of(workgroup: u32, four: u32, i: u32, block: u32, sub: u32, word: u32) -> u32 {
    return codes(block_at(workgroup, slot_of(four, i), block), sub, word);
}

// Scales of four blocks of activations of all rows.
fn load_steps(workgroup: u32, invocation: u32, first: u32) {
    let block = first + invocation / ROWS;
    if (block >= P.cols / (32u * SUBS)) { return; }
    let row = row_at(workgroup, invocation % ROWS);
    STEPS[invocation] = step_at(row, block);
    INVERSES[invocation] = inverse_at(row, block);
}

// A word of four rows each, from row `i` on.
fn inputs_of(workgroup: u32, i: u32, word: u32, steps: u32) -> vec4<u32> {
    let a = row_at(workgroup, i);
    let b = row_at(workgroup, i + 1u);
    let c = row_at(workgroup, i + 2u);
    let d = row_at(workgroup, i + 3u);
    let stride = P.x_stride;
    let first = P.x_at + word;
    if (P.raw == 0u) { return vec4<u32>(X[first + a * stride], X[first + b * stride], X[first + c * stride], X[first + d * stride]); }
    let at = 4u * word;
    return vec4<u32>(coded(a * stride + at, INVERSES[steps + i]), coded(b * stride + at, INVERSES[steps + i + 1u]),
        coded(c * stride + at, INVERSES[steps + i + 2u]), coded(d * stride + at, INVERSES[steps + i + 3u]));
}

// Loads 32 columns of all outputs and rows: half of the invocations have weights, and half have activations.
fn load(group: vec3<u32>, invocation: u32, block: u32, sub: u32) {
    let word = invocation % 8u;
    let four = invocation / 8u % 16u;
    if (invocation < 128u) {
        let a = weights_of(group.x, four, 0u, block, sub, word);
        let b = weights_of(group.x, four, 1u, block, sub, word);
        let c = weights_of(group.x, four, 2u, block, sub, word);
        let d = weights_of(group.x, four, 3u, block, sub, word);
        WEIGHTS[16u * word + four] = vec4<u32>(a, b, c, d);
    } else {
        let column = (block * SUBS + sub) * 8u + word;
        let steps = block % STEP_BLOCKS * ROWS;
        INPUTS[16u * word + four] = inputs_of(group.y, 4u * four, column, steps);
    }
    if (invocation < SLOTS) { load_scales(group.x, invocation, block, sub); }
}

fn load_scales(workgroup: u32, i: u32, block: u32, sub: u32) {
    let at = block_at(workgroup, slot_of(i / 4u, i % 4u), block);
    if (SUBS > 1u) {
        let f = factors(at, sub);
        FIRST_FACTORS[i] = f.x;
        SECOND_FACTORS[i] = f.y;
        if (MINS) { MINIMUM_FACTORS[i] = f.z; }
    }
    if (sub == 0u) {
        SCALES[i] = scale(at);
        if (MINS) { MINIMA[i] = min_scale(at); }
    }
}

// The products of 4 columns of four outputs.
fn products(w: vec4<u32>, x: u32) -> vec4<i32> {
    return vec4<i32>(dot4I8Packed(w.x, x), dot4I8Packed(w.y, x), dot4I8Packed(w.z, x), dot4I8Packed(w.w, x));
}

// Of four rows, sums for four outputs each.
struct Sums { a: vec4<i32>, b: vec4<i32>, c: vec4<i32>, d: vec4<i32> }

fn with_word(sums: Sums, outputs: u32, rows: u32) -> Sums {
    let w = WEIGHTS[outputs];
    let x = INPUTS[rows];
    return Sums(sums.a + products(w, x.x), sums.b + products(w, x.y), sums.c + products(w, x.z), sums.d + products(w, x.w));
}

// The products of 16 columns, from a word on.
fn multiplied(sums: Sums, word: u32, outputs: u32, rows: u32) -> Sums {
    let first = with_word(sums, 16u * word + outputs, 16u * word + rows);
    let second = with_word(first, 16u * word + 16u + outputs, 16u * word + 16u + rows);
    let third = with_word(second, 16u * word + 32u + outputs, 16u * word + 32u + rows);
    return with_word(third, 16u * word + 48u + outputs, 16u * word + 48u + rows);
}

fn scaled(sums: Sums, more: Sums, f: vec4<i32>) -> Sums {
    return Sums(sums.a + f * more.a, sums.b + f * more.b, sums.c + f * more.c, sums.d + f * more.d);
}

fn none() -> Sums {
    let zero = vec4<i32>(0, 0, 0, 0);
    return Sums(zero, zero, zero, zero);
}

// The sums of the codes of 32 columns of four rows.
fn codes_of(rows: u32) -> vec4<i32> {
    let ones = 0x01010101u;
    let first = products(INPUTS[rows], ones) + products(INPUTS[16u + rows], ones)
        + products(INPUTS[32u + rows], ones) + products(INPUTS[48u + rows], ones);
    return first + products(INPUTS[64u + rows], ones) + products(INPUTS[80u + rows], ones)
        + products(INPUTS[96u + rows], ones) + products(INPUTS[112u + rows], ones);
}

fn with_minima(minima: Sums, outputs: u32, rows: u32) -> Sums {
    let at = 4u * outputs;
    let f = vec4<i32>(MINIMUM_FACTORS[at], MINIMUM_FACTORS[at + 1u], MINIMUM_FACTORS[at + 2u], MINIMUM_FACTORS[at + 3u]);
    let x = codes_of(rows);
    return Sums(minima.a + f * x.x, minima.b + f * x.y, minima.c + f * x.z, minima.d + f * x.w);
}

// The products of 32 columns: with those of sub-blocks before where a block has several.
fn with_columns(sums: Sums, outputs: u32, rows: u32) -> Sums {
    if (SUBS == 1u) { return multiplied(multiplied(none(), 0u, outputs, rows), 4u, outputs, rows); }
    let at = 4u * outputs;
    let f = vec4<i32>(FIRST_FACTORS[at], FIRST_FACTORS[at + 1u], FIRST_FACTORS[at + 2u], FIRST_FACTORS[at + 3u]);
    let g = vec4<i32>(SECOND_FACTORS[at], SECOND_FACTORS[at + 1u], SECOND_FACTORS[at + 2u], SECOND_FACTORS[at + 3u]);
    let half = scaled(sums, multiplied(none(), 0u, outputs, rows), f);
    return scaled(half, multiplied(none(), 4u, outputs, rows), g);
}

fn with_block(acc: f32, sum: i32, minimum: i32, output: u32, step: f32) -> f32 {
    let more = add(acc, mul(of_i32(sum), mul(SCALES[output], step)));
    if (!MINS) { return more; }
    return sub(more, mul(of_i32(minimum), mul(MINIMA[output], step)));
}

// Four outputs of a row with what a block adds.
fn with_blocks(acc: vec4<f32>, sums: vec4<i32>, minima: vec4<i32>, outputs: u32, step: f32) -> vec4<f32> {
    let a = with_block(acc.x, sums.x, minima.x, 4u * outputs, step);
    let b = with_block(acc.y, sums.y, minima.y, 4u * outputs + 1u, step);
    let c = with_block(acc.z, sums.z, minima.z, 4u * outputs + 2u, step);
    let d = with_block(acc.w, sums.w, minima.w, 4u * outputs + 3u, step);
    return vec4<f32>(a, b, c, d);
}

fn of_four(x: vec4<f32>, i: u32) -> f32 { return select(select(x.x, x.y, i == 1u), select(x.z, x.w, i == 3u), i >= 2u); }

// What becomes of the outputs of four rows. A loop, so that the code for that is there once.
fn put_rows(group: vec3<u32>, outputs: u32, rows: u32, a: vec4<f32>, b: vec4<f32>, c: vec4<f32>, d: vec4<f32>) {
    let gates = P.mode == GATE;
    for (var k = 0u; k < 16u; k++) {
        let i = k % 4u;
        let row = group.y * ROWS + 4u * rows + k / 4u;
        let at = place(group.x, slot_of(outputs, i), SLOTS);
        if (row > last_row() || !at.inside || (gates && i >= 2u)) { continue; }
        let low = k < 8u;
        let even = (k & 4u) == 0u;
        let acc = select(select(of_four(d, i), of_four(c, i), even), select(of_four(b, i), of_four(a, i), even), low);
        if (!gates) {
            finish(at, row, acc);
            continue;
        }
        let other = select(select(of_four(d, i + 2u), of_four(c, i + 2u), even), select(of_four(b, i + 2u), of_four(a, i + 2u), even), low);
        finish_gate(at, row, biased(at, acc), biased(Place(1u, at.output, true), other));
    }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
    ZERO = P.zero;
    let outputs = invocation % 16u;
    let rows = invocation / 16u;
    let z = number(0u);
    var a = vec4<f32>(z, z, z, z);
    var b = a;
    var c = a;
    var d = a;
    for (var block = 0u; block < P.cols / (32u * SUBS); block++) {
        if (block % STEP_BLOCKS == 0u) {
            workgroupBarrier();
            load_steps(group.y, invocation, block);
        }
        var sums = none();
        var minima = none();
        for (var sub = 0u; sub < SUBS; sub++) {
            workgroupBarrier();
            load(group, invocation, block, sub);
            workgroupBarrier();
            sums = with_columns(sums, outputs, rows);
            if (MINS) { minima = with_minima(minima, outputs, rows); }
        }
        let steps = block % STEP_BLOCKS * ROWS + 4u * rows;
        a = with_blocks(a, sums.a, minima.a, outputs, STEPS[steps]);
        b = with_blocks(b, sums.b, minima.b, outputs, STEPS[steps + 1u]);
        c = with_blocks(c, sums.c, minima.c, outputs, STEPS[steps + 2u]);
        d = with_blocks(d, sums.d, minima.d, outputs, STEPS[steps + 3u]);
    }
    put_rows(group, outputs, rows, a, b, c, d);
}
