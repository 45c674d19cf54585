// Q4_0: 32 codes in 18 bytes: a scale in f16, then halves of bytes, the lower ones first, less 8.
const BLOCK = 18u;
const SUBS = 1u;
const MINS = false;
fn codes(block: u32, sub: u32, i: u32) -> u32 {
    let nibbles = (word_at(block + 2u + 4u * (i & 3u)) >> (i & 4u)) & 0x0f0f0f0fu;
    // n + 120 is below 256, and with its first bit turned it is n - 8 as int8.
    return (nibbles + 0x78787878u) ^ 0x80808080u;
}
fn factors(block: u32, sub: u32) -> vec3<i32> { return vec3<i32>(1, 1, 0); }
fn scale(block: u32) -> f32 { return f16_to_f32(half_at(block)); }
fn min_scale(block: u32) -> f32 { return number(0u); }
