// Q8_0: 32 codes in 34 bytes: a scale in f16, then int8.
// A format says: bytes and elements of a block; 16 codes as int8, the first or the second ones of 32; what integers of 16 codes are multiplied by, and sums of 32.
const BLOCK = 34u;
const SUBS = 1u;
const MINS = false;
fn codes(block: u32, sub: u32, half: u32) -> vec4<u32> { return words_at(block + 2u + 16u * half); }
fn factors(block: u32, sub: u32) -> vec3<i32> { return vec3<i32>(1, 1, 0); }
fn scale(block: u32) -> f32 { return f16_to_f32(half_at(block)); }
fn min_scale(block: u32) -> f32 { return number(0u); }
