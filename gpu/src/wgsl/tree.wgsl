// The sum of 16 lanes, as a tree.

var<workgroup> LANES: array<f32, 16>;

fn half_of_tree(lane: u32) -> f32 { return add(LANES[lane], LANES[lane + 8u]); }

fn quarter_of_tree(lane: u32) -> f32 { return add(half_of_tree(lane), half_of_tree(lane + 4u)); }

// The sum of all lanes, for each invocation that calls it.
fn tree16() -> f32 {
    return add(add(quarter_of_tree(0u), quarter_of_tree(2u)), add(quarter_of_tree(1u), quarter_of_tree(3u)));
}
