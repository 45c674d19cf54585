// An element of a row of quantized weights.
fn weight(row: u32, i: u32) -> f32 {
    let part = i / 32u;
    let k = i % 32u;
    let word = codes(row, part, k / 16u)[k / 4u % 4u];
    let code = extractBits(bitcast<i32>(word), 8u * (k % 4u), 8u);
    let f = factors(row, part);
    let y = mul(mul(scale(row, part / SUBS), of_i32(select(f.x, f.y, k >= 16u))), of_i32(code));
    if (!MINS) { return y; }
    return sub(y, mul(min_scale(row, part / SUBS), of_i32(f.z)));
}
