//!include num.wgsl
//!include linear.wgsl
//!include bytes.wgsl
//!include FORMAT
// Rows of activations times weights in floats: 4 outputs of one row by a workgroup, a lane by an invocation.

const SLOTS = 4u;
var<workgroup> LANES: array<f32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
    let slot = invocation / 16u;
    let lane = invocation % 16u;
    let at = place(group.x, slot, SLOTS);
    let row = group.y;
    var acc = number(0u);
    if (at.inside) {
        let w0 = P.segments[at.segment].at + at.output * P.row_bytes;
        for (var i = lane; i < P.cols; i += 16u) {
            acc = add(acc, mul(weight(w0, i), number(X[row * P.x_stride + i])));
        }
    }
    LANES[invocation] = acc;
    workgroupBarrier();
    for (var half = 8u; half > 0u; half >>= 1u) {
        if (lane < half) { LANES[invocation] = add(LANES[invocation], LANES[invocation + half]); }
        workgroupBarrier();
    }
    if (lane != 0u || !at.inside) { return; }
    if (P.mode != GATE) { finish(at, row, LANES[invocation]); }
    else if (slot < SLOTS / 2u) {
        let other = place(group.x, slot + SLOTS / 2u, SLOTS);
        finish_gate(at, row, biased(at, LANES[invocation]), biased(other, LANES[invocation + 16u * (SLOTS / 2u)]));
    }
}
