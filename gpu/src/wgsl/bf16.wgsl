// BF16 weights, settled.
fn weight(row: u32, i: u32) -> f32 { return settle(number(half_at(row + 2u * i) << 16u)); }
fn activation(x: f32) -> f32 { return settle(x); }
