// F16 weights. Activations are rounded to 13 bits, so products are exact.
fn activation(x: f32) -> f32 { return short(x); }
fn weight(row: u32, i: u32) -> f32 { return f16_to_f32(half_at(row + 2u * i)); }
