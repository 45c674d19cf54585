//!include num.wgsl
// Converts all f16 numbers.

struct Params { zero: u32 }
@group(0) @binding(0) var<storage, read> P: Params;
@group(0) @binding(1) var<storage, read_write> OUT: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
    ZERO = P.zero;
    let half = group.x * 64u + invocation;
    OUT[half] = bitcast<u32>(f16_to_f32(half));
}
