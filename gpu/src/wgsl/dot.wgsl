// Integer products of 16 codes. In the workgroup's memory the two fours of words of 32 codes change places for some `i`, so that neighbours read from different
// banks.

fn four_at(i: u32, half: u32) -> u32 { return 2u * i + (half ^ ((i >> 2u) & 1u)); }

fn dot_of(w: vec4<u32>, x: vec4<u32>) -> i32 {
    return dot4I8Packed(w.x, x.x) + dot4I8Packed(w.y, x.y) + dot4I8Packed(w.z, x.z) + dot4I8Packed(w.w, x.w);
}

// The sum of 16 codes.
fn sum_of(codes: vec4<u32>) -> i32 {
    let ones = 0x01010101u;
    return dot_of(vec4<u32>(ones, ones, ones, ones), codes);
}
