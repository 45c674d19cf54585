// Blocks of activations: their codes and scales, or, where P.raw is 1, floats that become them here.

struct Step { step: f32, inverse: f32 }

fn step_at(row: u32, block: u32) -> Step {
    if (P.raw == 0u) { return Step(number(X[input_of(row) * P.x_stride + P.cols / 4u + block]), number(0u)); }
    var largest = 0u;
    for (var i = 0u; i < SUBS; i++) { largest = max(largest, atomicLoad(&LARGEST[largest_of(row) + block * SUBS + i])); }
    if (largest >= 0x7f800000u) { atomicMax(&FLAG[P.flag], 1u); }
    return Step(number(step_of(largest)), inverse_of(largest));
}

// 4 codes.
fn codes_at(row: u32, word: u32, inverse: f32) -> u32 {
    if (P.raw == 0u) { return X[input_of(row) * P.x_stride + word]; }
    var codes = 0u;
    for (var k = 0u; k < 4u; k++) { codes |= code_of(number(X[row * P.x_stride + 4u * word + k]), inverse) << (8u * k); }
    return codes;
}
