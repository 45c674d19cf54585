//!include num.wgsl
//!include q8.wgsl
// Quantizes activations of many rows, whose largest magnitudes are known, to int8 with scales: the format that matrices read. An invocation has four
// activations.

struct Params { zero: u32, cols: u32, out_stride: u32, largest: u32, parts: u32, flag: u32, unused_0: u32, unused_1: u32 }
@group(0) @binding(0) var<storage, read> P: Params;
@group(0) @binding(1) var<storage, read> X: array<f32>;
// The largest magnitude of each 32 activations: P.largest words of a row, P.parts of a block.
@group(0) @binding(2) var<storage, read> LARGEST: array<u32>;
@group(0) @binding(3) var<storage, read_write> Q: array<u32>;
@group(0) @binding(4) var<storage, read_write> FLAG: array<atomic<u32>>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
    ZERO = P.zero;
    let row = group.x;
    let column = 4u * (256u * group.y + invocation);
    if (column >= P.cols) { return; }
    let block = column / (32u * P.parts);
    var largest = 0u;
    for (var i = 0u; i < P.parts; i++) { largest = max(largest, LARGEST[row * P.largest + block * P.parts + i]); }
    let inverse = inverse_of(largest);
    let at = row * P.cols + column;
    let x = vec4<f32>(X[at], X[at + 1u], X[at + 2u], X[at + 3u]);
    Q[row * P.out_stride + column / 4u] = four_codes(x, inverse);
    if (column % (32u * P.parts) != 0u) { return; }
    if (largest >= 0x7f800000u) { atomicMax(&FLAG[P.flag], 1u); }
    Q[row * P.out_stride + P.cols / 4u + block] = step_of(largest);
}
