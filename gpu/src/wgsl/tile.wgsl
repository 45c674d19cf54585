//!include num.wgsl
//!include linear.wgsl
//!include bytes.wgsl
//!include dot.wgsl
//!include FORMAT
// Many rows of activations times quantized weights: 64 outputs of 64 rows by a workgroup, 8 outputs of 4 rows by an invocation. The workgroup's memory has 32
// columns of one part in one half, and those of the next part in the other half: an invocation reads the next ones while it multiplies. With gates the first 32
// outputs are gates, the others what the gates are multiplied with.

const SLOTS = 64u;
const ROWS = 64u;

var<workgroup> WEIGHTS: array<vec4<u32>, 256>;
var<workgroup> INPUTS: array<vec4<u32>, 256>;
var<workgroup> FACTORS: array<vec4<i32>, 128>;
// For the minima of a block. CODES: packed sums of 16 codes of activations, for the first or the second half of all parts of a row. MINIMUM_FACTORS: packed
// factors of these sums, for the parts of an output.
var<workgroup> CODES: array<vec4<u32>, 128>;
var<workgroup> MINIMUM_FACTORS: array<u32, 128>;
// Numbers of blocks, not of parts.
var<workgroup> SCALES: array<f32, 128>;
var<workgroup> MINIMA: array<f32, 128>;
var<workgroup> STEPS: array<f32, 128>;

fn last_row() -> u32 { return max(B[P.count], 1u) - 1u; }

// The byte at which the weights of a slot begin, or any weights where there is no such output.
fn weights_of(workgroup: u32, slot: u32) -> u32 {
    let at = place(workgroup, slot, SLOTS);
    return weights_at(select(0u, at.segment, at.inside), select(0u, at.output, at.inside));
}

// 16 columns of an output and of a row, with their factors and scales.
struct Part { weights: vec4<u32>, inputs: vec4<u32>, factors: vec3<i32>, scale: f32, minimum: f32, step: f32 }

fn step_of(inputs: u32, block: u32) -> f32 { return number(input_word(inputs + P.cols / 4u + block)); }

// What an invocation reads of a part. The weights of its output begin at byte `weights`, the activations of its row at word `inputs`.
fn part_of(weights: u32, inputs: u32, part: u32, half: u32) -> Part {
    let x = X[(inputs + 8u * part + 4u * half) >> 2u];
    let w = codes(weights, part, half);
    if (SUBS == 1u) { return Part(w, x, vec3<i32>(1, 1, 0), scale(weights, part), number(0u), step_of(inputs, part)); }
    let f = factors(weights, part);
    if (part % SUBS != 0u) { return Part(w, x, f, number(0u), number(0u), number(0u)); }
    let block = part / SUBS;
    var minimum = number(0u);
    if (MINS) { minimum = min_scale(weights, block); }
    return Part(w, x, f, scale(weights, block), minimum, step_of(inputs, block));
}

// Puts half of a part where all invocations read it. `i` is the number of the output and of the row.
fn put_part(p: Part, part: u32, i: u32, half: u32) {
    let at = 128u * (part % 2u) + four_at(i, half);
    WEIGHTS[at] = p.weights;
    INPUTS[at] = p.inputs;
    if (half == 1u) { return; }
    if (SUBS > 1u) { FACTORS[64u * (part % 2u) + i] = vec4<i32>(p.factors.x, p.factors.y, 0, 0); }
    if (part % SUBS != 0u) { return; }
    let block = 64u * (part / SUBS % 2u) + i;
    SCALES[block] = p.scale;
    if (MINS) { MINIMA[block] = p.minimum; }
    STEPS[block] = p.step;
}

// Numbers for the minima of a block, a byte for each of its 8 parts: the lower 7 bits of sums of 16 codes, the upper bits of these sums, and factors.
struct Packed { low: u32, more_low: u32, high: u32, more_high: u32, factors: u32, more_factors: u32 }

// Sums of 16 codes lie between -2048 and 2048. Adding ABOVE makes them positive.
const ABOVE = 2048;

fn no_parts() -> Packed { return Packed(0u, 0u, 0u, 0u, 0u, 0u); }

fn packed_with(s: Packed, p: Part, part: u32) -> Packed {
    let sum = bitcast<u32>(sum_of(p.inputs) + ABOVE);
    let shift = 8u * (part % 4u);
    let low = (sum & 127u) << shift;
    let high = (sum >> 7u) << shift;
    let factor = bitcast<u32>(p.factors.z) << shift;
    if (part % 8u < 4u) { return Packed(s.low | low, s.more_low, s.high | high, s.more_high, s.factors | factor, s.more_factors); }
    return Packed(s.low, s.more_low | low, s.high, s.more_high | high, s.factors, s.more_factors | factor);
}

fn put_packed(s: Packed, i: u32, half: u32) {
    CODES[2u * i + half] = vec4<u32>(s.low, s.more_low, s.high, s.more_high);
    if (half == 1u) { return; }
    MINIMUM_FACTORS[2u * i] = s.factors;
    MINIMUM_FACTORS[2u * i + 1u] = s.more_factors;
}

// 32 columns of four rows: first the first halves of all rows, then the second halves.
struct Columns { a: vec4<u32>, b: vec4<u32>, c: vec4<u32>, d: vec4<u32>, e: vec4<u32>, f: vec4<u32>, g: vec4<u32>, h: vec4<u32> }

// The columns of four rows that are 16 apart.
fn columns_of(first: u32, row: u32) -> Columns {
    let low = first + four_at(row, 0u);
    let high = first + four_at(row, 1u);
    return Columns(INPUTS[low], INPUTS[low + 32u], INPUTS[low + 64u], INPUTS[low + 96u],
        INPUTS[high], INPUTS[high + 32u], INPUTS[high + 64u], INPUTS[high + 96u]);
}

// Integer products of a part, of an output and four rows.
fn products(x: Columns, first: u32, slot: u32) -> vec4<i32> {
    let low = WEIGHTS[2u * first + four_at(slot, 0u)];
    let high = WEIGHTS[2u * first + four_at(slot, 1u)];
    let a = vec4<i32>(dot_of(low, x.a), dot_of(low, x.b), dot_of(low, x.c), dot_of(low, x.d));
    let b = vec4<i32>(dot_of(high, x.e), dot_of(high, x.f), dot_of(high, x.g), dot_of(high, x.h));
    if (OWN_FACTORS == 0u) { return a + b; }
    let f = FACTORS[first + slot];
    if (OWN_FACTORS == 1u) { return (a + b) * f.x; }
    return a * f.x + b * f.y;
}

// Integers or numbers of 8 outputs that are 8 apart, for four rows each.
struct Integers { a: vec4<i32>, b: vec4<i32>, c: vec4<i32>, d: vec4<i32>, e: vec4<i32>, f: vec4<i32>, g: vec4<i32>, h: vec4<i32> }
struct Numbers { a: vec4<f32>, b: vec4<f32>, c: vec4<f32>, d: vec4<f32>, e: vec4<f32>, f: vec4<f32>, g: vec4<f32>, h: vec4<f32> }

fn with_products(s: Integers, x: Columns, first: u32, slot: u32) -> Integers {
    return Integers(s.a + products(x, first, slot), s.b + products(x, first, slot + 8u), s.c + products(x, first, slot + 16u),
        s.d + products(x, first, slot + 24u), s.e + products(x, first, slot + 32u), s.f + products(x, first, slot + 40u),
        s.g + products(x, first, slot + 48u), s.h + products(x, first, slot + 56u));
}

// The packed sums of both halves of a row's parts. Bytes stay below 256.
fn codes_of(row: u32) -> vec4<u32> { return CODES[2u * row] + CODES[2u * row + 1u]; }

// The sum over the parts of a block: factors times sums of codes.
fn minimum_of(factors: u32, more_factors: u32, codes: vec4<u32>, above: u32) -> i32 {
    let low = dot4U8Packed(factors, codes.x) + dot4U8Packed(more_factors, codes.y);
    let high = dot4U8Packed(factors, codes.z) + dot4U8Packed(more_factors, codes.w);
    return bitcast<i32>(low + 128u * high - above);
}

// The sums of `minimum_of` for an output and four rows that are 16 apart.
fn minima_of(slot: u32, row: u32) -> vec4<i32> {
    if (!MINS) { return vec4<i32>(0, 0, 0, 0); }
    let f = MINIMUM_FACTORS[2u * slot];
    let g = MINIMUM_FACTORS[2u * slot + 1u];
    let above = 2u * u32(ABOVE) * (dot4U8Packed(f, 0x01010101u) + dot4U8Packed(g, 0x01010101u));
    return vec4<i32>(minimum_of(f, g, codes_of(row), above), minimum_of(f, g, codes_of(row + 16u), above),
        minimum_of(f, g, codes_of(row + 32u), above), minimum_of(f, g, codes_of(row + 48u), above));
}

fn with_block(acc: f32, sum: i32, minimum: i32, scale: f32, least: f32, step: f32) -> f32 {
    let more = add(acc, mul_i32(sum, mul(scale, step)));
    if (!MINS) { return more; }
    return sub(more, mul_i32(minimum, mul(least, step)));
}

// Four rows of an output with the terms of a block. The scales of the block begin at index `at`.
fn with_blocks(acc: vec4<f32>, sums: vec4<i32>, at: u32, slot: u32, row: u32, steps: vec4<f32>) -> vec4<f32> {
    let minima = minima_of(slot, row);
    let scale = SCALES[at + slot];
    var least = scale;
    if (MINS) { least = MINIMA[at + slot]; }
    return vec4<f32>(with_block(acc.x, sums.x, minima.x, scale, least, steps.x), with_block(acc.y, sums.y, minima.y, scale, least, steps.y),
        with_block(acc.z, sums.z, minima.z, scale, least, steps.z), with_block(acc.w, sums.w, minima.w, scale, least, steps.w));
}

fn with_all(acc: Numbers, s: Integers, at: u32, slot: u32, row: u32) -> Numbers {
    let steps = vec4<f32>(STEPS[at + row], STEPS[at + row + 16u], STEPS[at + row + 32u], STEPS[at + row + 48u]);
    return Numbers(with_blocks(acc.a, s.a, at, slot, row, steps), with_blocks(acc.b, s.b, at, slot + 8u, row, steps),
        with_blocks(acc.c, s.c, at, slot + 16u, row, steps), with_blocks(acc.d, s.d, at, slot + 24u, row, steps),
        with_blocks(acc.e, s.e, at, slot + 32u, row, steps), with_blocks(acc.f, s.f, at, slot + 40u, row, steps),
        with_blocks(acc.g, s.g, at, slot + 48u, row, steps), with_blocks(acc.h, s.h, at, slot + 56u, row, steps));
}

fn no_integers() -> Integers {
    let z = vec4<i32>(0, 0, 0, 0);
    return Integers(z, z, z, z, z, z, z, z);
}

fn of_four(x: vec4<f32>, i: u32) -> f32 { return select(select(x.x, x.y, i == 1u), select(x.z, x.w, i == 3u), i >= 2u); }

// The number of output `k` and row `i`.
fn of_numbers(x: Numbers, k: u32, i: u32) -> f32 {
    let low = select(select(of_four(x.a, i), of_four(x.b, i), k == 1u), select(of_four(x.c, i), of_four(x.d, i), k == 3u), k >= 2u);
    let high = select(select(of_four(x.e, i), of_four(x.f, i), k == 5u), select(of_four(x.g, i), of_four(x.h, i), k == 7u), k >= 6u);
    return select(low, high, k >= 4u);
}

// Finishes the outputs. A loop, so that the code of `finish` is there once.
fn put_outputs(group: vec3<u32>, slot: u32, first: u32, acc: Numbers) {
    for (var n = 0u; n < 32u; n++) {
        let row = group.y * ROWS + first + 16u * (n % 4u);
        let at = place(group.x, slot + 8u * (n / 4u), SLOTS);
        if (row <= last_row() && at.inside) { finish(at, row, of_numbers(acc, n / 4u, n % 4u)); }
    }
}

// Finishes the outputs with gates. An invocation notes the largest magnitude of its outputs of a row once, if they share a word for it.
fn put_gated(group: vec3<u32>, slot: u32, first: u32, acc: Numbers) {
    for (var i = 0u; i < 4u; i++) {
        let row = group.y * ROWS + first + 16u * i;
        if (row > last_row()) { continue; }
        var noted = Noted(NONE, 0u);
        for (var k = 0u; k < 4u; k++) {
            let at = place(group.x, slot + 8u * k, SLOTS);
            if (!at.inside) { continue; }
            let other = biased(Place(1u, at.output, true), of_numbers(acc, k + 4u, i));
            noted = noted_with(noted, row, at, put(row, at, gated(P.activation, biased(at, of_numbers(acc, k, i)), other)));
        }
        note(noted);
    }
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
    ZERO = P.zero;
    // An invocation brings half of a part of one output and one row.
    let i = invocation / 2u;
    let half = invocation % 2u;
    let weights = weights_of(group.x, i);
    let inputs = input_at(min(group.y * ROWS + i, last_row()));
    let slot = invocation % 8u;
    let row = invocation / 8u;
    let parts = P.cols / 32u;
    let z = vec4<f32>(number(0u), number(0u), number(0u), number(0u));
    var acc = Numbers(z, z, z, z, z, z, z, z);
    var sums = no_integers();
    var packed = no_parts();
    var next = part_of(weights, inputs, 0u, half);
    for (var part = 0u; part < parts; part++) {
        let is_last = part % SUBS == SUBS - 1u;
        put_part(next, part, i, half);
        if (MINS) {
            packed = packed_with(packed, next, part);
            if (is_last) {
                put_packed(packed, i, half);
                packed = no_parts();
            }
        }
        workgroupBarrier();
        next = part_of(weights, inputs, min(part + 1u, parts - 1u), half);
        let first = 64u * (part % 2u);
        let x = columns_of(2u * first, row);
        sums = with_products(sums, x, first, slot);
        if (is_last) {
            acc = with_all(acc, sums, 64u * (part / SUBS % 2u), slot, row);
            sums = no_integers();
        }
    }
    if (P.mode == GATE) { put_gated(group, slot, row, acc); } else { put_outputs(group, slot, row, acc); }
}
