// Q4_0: 32 codes in 18 bytes: a scale in f16, then halves of bytes, the lower ones first. A code is 8 less than its half of a byte. A row has the codes of all
// blocks first, then the scales.
const OWN_FACTORS = 0u;
const SUBS = 1u;
const MINS = false;
// n + 120 is below 256, and with its highest bit flipped it is n - 8 as int8.
fn code(word: u32, shift: u32) -> u32 { return (((word >> shift) & 0x0f0f0f0fu) + 0x78787878u) ^ 0x80808080u; }
fn codes(row: u32, part: u32, half: u32) -> vec4<u32> {
    let w = words_at(row + 16u * part);
    let shift = 4u * half;
    return vec4<u32>(code(w.x, shift), code(w.y, shift), code(w.z, shift), code(w.w, shift));
}
fn factors(row: u32, part: u32) -> vec3<i32> { return vec3<i32>(1, 1, 0); }
fn scale(row: u32, block: u32) -> f32 { return f16_to_f32(half_at(row + P.cols / 2u + 2u * block)); }
fn min_scale(row: u32, block: u32) -> f32 { return number(0u); }
