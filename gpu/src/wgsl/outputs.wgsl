// The outputs of a workgroup that has SLOTS outputs. With gates the first half of them are gates.

var<workgroup> SUMS: array<f32, SLOTS>;

// Finishes the output of a slot, which the invocation that leads the slot has. All invocations call it.
fn finish_slot(at: Place, row: u32, slot: u32, leads: bool, acc: f32) {
    let has = leads && at.inside;
    if (P.mode != GATE) {
        if (has) { finish(at, row, acc); }
        return;
    }
    if (has) { SUMS[slot] = biased(at, acc); }
    workgroupBarrier();
    if (has && slot < SLOTS / 2u) { finish_gate(at, row, SUMS[slot], SUMS[slot + SLOTS / 2u]); }
}
