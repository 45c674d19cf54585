// Q4_0: 32 codes in 18 bytes: a scale in f16, then halves of bytes, the lower ones first, less 8.
const BLOCK = 18u;
const SUBS = 1u;
const MINS = false;
// n + 120 is below 256, and with its first bit turned it is n - 8 as int8.
fn code(word: u32, shift: u32) -> u32 { return (((word >> shift) & 0x0f0f0f0fu) + 0x78787878u) ^ 0x80808080u; }
fn codes(block: u32, sub: u32, half: u32) -> vec4<u32> {
    let w = words_at(block + 2u);
    let shift = 4u * half;
    return vec4<u32>(code(w.x, shift), code(w.y, shift), code(w.z, shift), code(w.w, shift));
}
fn factors(block: u32, sub: u32) -> vec3<i32> { return vec3<i32>(1, 1, 0); }
fn scale(block: u32) -> f32 { return f16_to_f32(half_at(block)); }
fn min_scale(block: u32) -> f32 { return number(0u); }
