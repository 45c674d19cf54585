// Q4_K: 256 codes in 144 bytes: scales d and dmin in f16, 8 scales and 8 minima of 6 bits in 12 bytes, then halves of bytes. Of 32 bytes the lower halves are a
// part, the upper halves the next part. A row has the blocks as in the file.
const OWN_FACTORS = 1u;
const SUBS = 8u;
const MINS = true;
fn code(word: u32, shift: u32) -> u32 { return (word >> shift) & 0x0f0f0f0fu; }
fn codes(row: u32, part: u32, half: u32) -> vec4<u32> {
    let w = words_at(row + 144u * (part / 8u) + 16u + 32u * (part % 8u / 2u) + 16u * half);
    let shift = 4u * (part & 1u);
    return vec4<u32>(code(w.x, shift), code(w.y, shift), code(w.z, shift), code(w.w, shift));
}
fn factors(row: u32, part: u32) -> vec3<i32> {
    let first = words_at(row + 144u * (part / 8u));
    let shift = 8u * (part & 3u);
    var s = first.y >> shift;
    var t = first.z >> shift;
    if ((part & 4u) != 0u) {
        // The last four bytes have the lower 4 bits of both numbers. The bytes before have the upper 2 bits.
        let both = first.w >> shift;
        s = (both & 15u) | ((s >> 2u) & 0x30u);
        t = ((both >> 4u) & 15u) | ((t >> 2u) & 0x30u);
    }
    return vec3<i32>(i32(s & 63u), i32(s & 63u), i32(t & 63u));
}
fn scale(row: u32, block: u32) -> f32 { return f16_to_f32(half_at(row + 144u * block)); }
fn min_scale(row: u32, block: u32) -> f32 { return f16_to_f32(half_at(row + 144u * block + 2u)); }
