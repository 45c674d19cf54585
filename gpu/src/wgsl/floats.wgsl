//!include num.wgsl
//!include linear.wgsl
//!include bytes.wgsl
//!include outputs.wgsl
//!include FORMAT
// Rows of activations times weights that are floats. A workgroup has 4 outputs of one row, an invocation has one lane of an output.

const SLOTS = 4u;
var<workgroup> LANES: array<f32, 64>;

fn input(row: u32, i: u32) -> f32 {
    let x = number(input_word(input_at(row) + i));
    if (P.raw == 0u) { return x; }
    return activation(x);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
    ZERO = P.zero;
    let slot = invocation / 16u;
    let lane = invocation % 16u;
    let at = place(group.x, slot, SLOTS);
    let row = group.y;
    if (!find_expert(row)) { return; }
    var acc = number(0u);
    if (at.inside) {
        let w0 = weights_at(at.segment, at.output);
        for (var i = lane; i < P.cols; i += 16u) {
            acc = add(acc, mul(weight(w0, i), input(row, i)));
        }
    }
    LANES[invocation] = acc;
    workgroupBarrier();
    for (var half = 8u; half > 0u; half >>= 1u) {
        if (lane < half) { LANES[invocation] = add(LANES[invocation], LANES[invocation + half]); }
        workgroupBarrier();
    }
    finish_slot(at, row, slot, lane == 0u, LANES[invocation]);
}
