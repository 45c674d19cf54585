// Blocks of activations: their codes and scales, or, where P.raw is 1, floats that become them here.

fn largest_of_four(at: u32) -> u32 {
    return max(max(atomicLoad(&LARGEST[at]), atomicLoad(&LARGEST[at + 1u])), max(atomicLoad(&LARGEST[at + 2u]), atomicLoad(&LARGEST[at + 3u])));
}

// The largest magnitude of a block of floats. Those of 8 parts are read at once: in a loop each would be waited for.
fn largest_at(row: u32, block: u32) -> u32 {
    let at = largest_of(row) + block * SUBS;
    var largest = 0u;
    if (SUBS == 8u) { largest = max(largest_of_four(at), largest_of_four(at + 4u)); }
    else { largest = atomicLoad(&LARGEST[at]); }
    if (largest >= 0x7f800000u) { atomicMax(&FLAG[P.flag], 1u); }
    return largest;
}

// The scale of a block.
fn step_at(row: u32, block: u32) -> f32 {
    if (P.raw == 0u) { return number(input_word(input_at(row) + P.cols / 4u + block)); }
    return number(step_of(largest_at(row, block)));
}

// The codes of 4 floats.
fn coded(at: u32, inverse: f32) -> u32 {
    let x = X[at >> 2u];
    return four_codes(vec4<f32>(number(x.x), number(x.y), number(x.z), number(x.w)), inverse);
}

// 16 codes, from a word on: a multiple of four.
fn codes_from(row: u32, word: u32, block: u32) -> vec4<u32> {
    if (P.raw == 0u) { return X[(input_at(row) + word) >> 2u]; }
    let inverse = inverse_of(largest_at(row, block));
    let at = row * P.x_stride + 4u * word;
    return vec4<u32>(coded(at, inverse), coded(at + 4u, inverse), coded(at + 8u, inverse), coded(at + 12u, inverse));
}
