// Of f16, by the device. `probe.wgsl` has it convert all halves first.
fn f16_to_f32(half: u32) -> f32 { return keep(unpack2x16float(half).x); }
