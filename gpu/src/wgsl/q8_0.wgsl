// Q8_0: 32 codes in 34 bytes: a scale in f16, then int8. A row has the codes of all blocks first, then the scales.
// A format says: how many factors a part of 32 columns has, none, one or one of each half; parts in a block; 16 codes of a part as int8, its first or its second ones; what integers of 16 codes are
// multiplied by, and sums of 32; the scales of a block. `row` is where the row begins.
const OWN_FACTORS = 0u;
const SUBS = 1u;
const MINS = false;
fn codes(row: u32, part: u32, half: u32) -> vec4<u32> { return words_at(row + 32u * part + 16u * half); }
fn factors(row: u32, part: u32) -> vec3<i32> { return vec3<i32>(1, 1, 0); }
fn scale(row: u32, block: u32) -> f32 { return f16_to_f32(half_at(row + P.cols + 2u * block)); }
fn min_scale(row: u32, block: u32) -> f32 { return number(0u); }
