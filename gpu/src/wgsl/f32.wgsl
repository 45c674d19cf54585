// F32 weights, settled. Rows begin at whole words.
fn weight(row: u32, i: u32) -> f32 { return settle(number(word_at(row + 4u * i))); }
fn activation(x: f32) -> f32 { return settle(x); }
