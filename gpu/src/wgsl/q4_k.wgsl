// Q4_K: 256 codes in 144 bytes: scales d and dmin in f16, 8 scales and 8 minima of 6 bits in 12 bytes, then halves of bytes: of
// 32 bytes the lower ones are a sub-block, the upper ones the next.
const BLOCK = 144u;
const SUBS = 8u;
const MINS = true;
fn code(word: u32, shift: u32) -> u32 { return (word >> shift) & 0x0f0f0f0fu; }
fn codes(block: u32, sub: u32, half: u32) -> vec4<u32> {
    let w = words_at(block + 16u + 32u * (sub >> 1u) + 16u * half);
    let shift = 4u * (sub & 1u);
    return vec4<u32>(code(w.x, shift), code(w.y, shift), code(w.z, shift), code(w.w, shift));
}
fn factors(block: u32, sub: u32) -> vec3<i32> {
    let a = byte_at(block + 4u + sub);
    let b = byte_at(block + 8u + sub);
    var s = a & 63u;
    var t = b & 63u;
    if (sub >= 4u) {
        // Byte 8 + sub has the lower bits of both; bytes of the first four have the upper ones.
        s = (b & 15u) | ((byte_at(block + sub) >> 6u) << 4u);
        t = (b >> 4u) | ((a >> 6u) << 4u);
    }
    return vec3<i32>(i32(s), i32(s), i32(t));
}
fn scale(block: u32) -> f32 { return f16_to_f32(half_at(block)); }
fn min_scale(block: u32) -> f32 { return f16_to_f32(half_at(block + 2u)); }
