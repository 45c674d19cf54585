// Blocks of activations: codes and scales, or, where P.raw is 1, floats that become codes and scales here.

fn is_raw() -> bool { return MAY_BE_RAW && P.raw != 0u; }

// The table: for each block the factor of its floats, and its scale. It has as many parts of a row as fit, because all invocations wait for each fill.
var<workgroup> INVERSES: array<f32, TABLE>;
var<workgroup> STEPS: array<f32, TABLE>;

// Returns how many blocks of each row the table has: all of them, or whole parts.
fn window_of(rows: u32, blocks: u32) -> u32 { return min(blocks, MOST_ROWS / max(rows, 1u) * PART); }

fn largest_of_four(at: u32) -> u32 {
    return max(max(atomicLoad(&LARGEST[at]), atomicLoad(&LARGEST[at + 1u])), max(atomicLoad(&LARGEST[at + 2u]), atomicLoad(&LARGEST[at + 3u])));
}

// The largest magnitude of a block of floats. The magnitudes of 8 parts are read at once: a loop would wait for each.
fn largest_at(row: u32, block: u32) -> u32 {
    let at = largest_of(row) + block * SUBS;
    var largest = 0u;
    if (SUBS == 8u) { largest = max(largest_of_four(at), largest_of_four(at + 4u)); }
    else { largest = atomicLoad(&LARGEST[at]); }
    if (largest >= 0x7f800000u) { atomicMax(&FLAG[P.flag], 1u); }
    return largest;
}

// Fills the table for the blocks from `first` on: block `first + i` of row `row + r` has entry `r * window + i`. All invocations call it.
fn fill_table(row: u32, rows: u32, first: u32, window: u32, invocation: u32) {
    let left = P.cols / (32u * SUBS) - first;
    for (var entry = invocation; entry < rows * window; entry += INVOCATIONS) {
        let i = entry % window;
        if (i < left) {
            let largest = largest_at(row + entry / window, first + i);
            INVERSES[entry] = inverse_of(largest);
            STEPS[entry] = number(step_of(largest));
        }
    }
}

// The scale of a block. Scales of floats are in the table.
fn step_at(row: u32, block: u32, entry: u32) -> f32 {
    if (!is_raw()) { return number(input_word(input_at(row) + P.cols / 4u + block)); }
    return STEPS[entry];
}

// The codes of 4 floats, as a word.
fn coded(x: vec4<u32>, inverse: f32) -> u32 {
    return four_codes(vec4<f32>(number(x.x), number(x.y), number(x.z), number(x.w)), inverse);
}

// 16 codes from `word` on, which is a multiple of four.
fn codes_from(row: u32, word: u32, entry: u32) -> vec4<u32> {
    if (!is_raw()) { return X[(input_at(row) + word) >> 2u]; }
    let at = row * P.x_stride / 4u + word;
    // All four reads come before the first use, so they are under way together.
    let a = X[at];
    let b = X[at + 1u];
    let c = X[at + 2u];
    let d = X[at + 3u];
    let inverse = INVERSES[entry];
    return vec4<u32>(coded(a, inverse), coded(b, inverse), coded(c, inverse), coded(d, inverse));
}
