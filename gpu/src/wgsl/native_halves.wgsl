// Converts f16 by the device's own conversion. `probe.wgsl` tests it first, on all f16 numbers.
fn f16_to_f32(half: u32) -> f32 { return keep(unpack2x16float(half).x); }
