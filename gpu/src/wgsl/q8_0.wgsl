// Q8_0: 32 codes in 34 bytes: a scale in f16, then int8. A row has the codes of all blocks first, then the scales.
// Each format defines: OWN_FACTORS, the factors of a part of 32 columns (none, one, or one of each half); SUBS, the parts of a block; MINS, whether there are
// minima; `codes`, the first or second 16 codes of a part as int8; `factors`, for the integers of either 16 codes, and for the sum of 32 activations; `scale`
// and `min_scale` of a block. `row` is the byte at which the row begins.
const OWN_FACTORS = 0u;
const SUBS = 1u;
const MINS = false;
fn codes(row: u32, part: u32, half: u32) -> vec4<u32> { return words_at(row + 32u * part + 16u * half); }
fn factors(row: u32, part: u32) -> vec3<i32> { return vec3<i32>(1, 1, 0); }
fn scale(row: u32, block: u32) -> f32 { return f16_to_f32(half_at(row + P.cols + 2u * block)); }
fn min_scale(row: u32, block: u32) -> f32 { return number(0u); }
