// Q6_K: 256 codes in 210 bytes: 128 bytes of lower 4 bits, 64 bytes of upper 2 bits, 16 scales of int8, a scale in f16. A code is 32 less than its 6 bits. A
// row has each of these sections of all blocks, one after the other.
const OWN_FACTORS = 2u;
const SUBS = 8u;
const MINS = false;
fn code(low: u32, high: u32, part: u32) -> u32 {
    let bits = (((high >> (2u * part)) & 0x03030303u) << 4u) | ((low >> (2u * (part & 2u))) & 0x0f0f0f0fu);
    return (bits + 0x60606060u) ^ 0x80808080u;
}
fn codes(row: u32, part: u32, half: u32) -> vec4<u32> {
    let within = part & 3u;
    let low = words_at(row + 64u * (part / 4u) + 32u * (part & 1u) + 16u * half);
    let high = words_at(row + P.cols / 2u + 32u * (part / 4u) + 16u * half);
    return vec4<u32>(code(low.x, high.x, within), code(low.y, high.y, within), code(low.z, high.z, within), code(low.w, high.w, within));
}
fn factors(row: u32, part: u32) -> vec3<i32> {
    let pair = bitcast<i32>(half_at(row + P.cols / 4u * 3u + 2u * part));
    return vec3<i32>(extractBits(pair, 0u, 8u), extractBits(pair, 8u, 8u), 0);
}
fn scale(row: u32, block: u32) -> f32 { return f16_to_f32(half_at(row + P.cols / 16u * 13u + 2u * block)); }
fn min_scale(row: u32, block: u32) -> f32 { return number(0u); }
