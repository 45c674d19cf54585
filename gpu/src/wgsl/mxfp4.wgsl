// MXFP4: 32 codes in 17 bytes: an exponent, then halves of bytes, the lower ones first. Each is a float of 4 bits; a code is twice its value. A row has the
// codes of all blocks first, then the exponents.
const OWN_FACTORS = 0u;
const SUBS = 1u;
const MINS = false;
// Twice the magnitudes of four floats, in the bytes of a word: 0, 1, 2, 3, or with bit 2 set 4, 6, 8, 12.
fn magnitudes(floats: u32) -> u32 {
    var bytes = 0u;
    for (var i = 0u; i < 32u; i += 8u) {
        let code = floats >> i;
        let four = select(0x03020100u, 0x0c080604u, (code & 4u) != 0u);
        bytes |= ((four >> (8u * (code & 3u))) & 0xffu) << i;
    }
    return bytes;
}
fn code(word: u32, shift: u32) -> u32 {
    let floats = (word >> shift) & 0x0f0f0f0fu;
    let bytes = magnitudes(floats);
    // Each byte is 128 plus the magnitude, or 128 minus it where the sign is set. Then the highest bit is flipped.
    let signs = (floats >> 3u) & 0x01010101u;
    let negative = signs * 0xffu;
    return ((0x80808080u | (bytes & ~negative)) - (bytes & negative)) ^ 0x80808080u;
}
fn codes(row: u32, part: u32, half: u32) -> vec4<u32> {
    let w = words_at(row + 16u * part);
    let shift = 4u * half;
    return vec4<u32>(code(w.x, shift), code(w.y, shift), code(w.z, shift), code(w.w, shift));
}
fn factors(row: u32, part: u32) -> vec3<i32> { return vec3<i32>(1, 1, 0); }
// 2^(e - 128) for an exponent e, and 0 for e below 88.
fn scale(row: u32, block: u32) -> f32 {
    let exponent = byte_at(row + P.cols / 2u + block);
    return number(select((max(exponent, 1u) - 1u) << 23u, 0u, exponent < 88u));
}
fn min_scale(row: u32, block: u32) -> f32 { return number(0u); }
