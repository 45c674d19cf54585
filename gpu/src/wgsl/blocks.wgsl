// An element of a row of quantized weights.
fn weight(row: u32, i: u32) -> f32 {
    let block = row + i / (32u * SUBS) * BLOCK;
    let k = i % 32u;
    let sub_block = i / 32u % SUBS;
    let c = codes(block, sub_block, k / 16u);
    let word = select(select(c.x, c.y, (k & 4u) != 0u), select(c.z, c.w, (k & 4u) != 0u), (k & 8u) != 0u);
    let code = extractBits(bitcast<i32>(word), 8u * (k % 4u), 8u);
    let f = factors(block, sub_block);
    let y = mul(mul(scale(block), of_i32(select(f.x, f.y, k >= 16u))), of_i32(code));
    if (!MINS) { return y; }
    return sub(y, mul(min_scale(block), of_i32(f.z)));
}
