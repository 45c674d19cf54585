// Converts f16 by integers, for devices whose own conversion flushes subnormal f16 numbers.
fn f16_to_f32(half: u32) -> f32 {
    let m = half & 0x7fffu;
    let sign = (half & 0x8000u) << 16u;
    let normal = (m << 13u) + 0x38000000u;
    let special = (m << 13u) | 0x7f800000u;
    // A subnormal f16 is an integer times 2^-24, so no subnormal f32 is made.
    let small = bitcast<u32>(mul(of_u32(m), number(0x33800000u)));
    return number(sign | select(select(normal, special, m >= 0x7c00u), small, m < 0x400u));
}
