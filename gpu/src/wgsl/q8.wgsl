// Activations as int8 with scales, from the largest magnitude of each block. A block below 2^-50 is zero.

fn is_zero_block(largest: u32) -> bool { return largest < 0x26800000u; }

// The bits of a block's scale.
fn step_of(largest: u32) -> u32 {
    return select(bitcast<u32>(mul(number(largest), number(0x3c010204u))), 0u, is_zero_block(largest));
}

// The factor of a block's numbers before they are rounded.
fn inverse_of(largest: u32) -> f32 {
    return number(select(bitcast<u32>(div(number(0x42fe0000u), number(largest))), 0u, is_zero_block(largest)));
}

fn code_of(x: f32, inverse: f32) -> u32 { return rounded_bits(mul(x, inverse)) & 0xffu; }

fn four_codes(x: vec4<f32>, inverse: f32) -> u32 {
    return code_of(x.x, inverse) | (code_of(x.y, inverse) << 8u) | (code_of(x.z, inverse) << 16u) | (code_of(x.w, inverse) << 24u);
}
