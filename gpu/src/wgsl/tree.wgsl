// Sums of 16 lanes.

var<workgroup> LANES: array<f32, 16>;

// Lane 0 has the sum afterwards.
fn tree16() {
    for (var half = 8u; half > 0u; half >>= 1u) {
        for (var i = 0u; i < half; i++) { LANES[i] = add(LANES[i], LANES[i + half]); }
    }
}
