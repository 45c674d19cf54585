//!include num.wgsl
const THREADS = 256u;
const PASS = 256u;
//!include sums.wgsl
// The norm of a group of a recurrent layer's results for a row, in its place. One workgroup per row and group.

struct Params {
    zero: u32, width: u32, stride: u32, weight: u32,
    epsilon: f32, largest: u32, unused_0: u32, unused_1: u32,
}
@group(0) @binding(0) var<storage, read> P: Params;
@group(0) @binding(1) var<storage, read_write> X: array<f32>;
@group(0) @binding(2) var<storage, read> V: array<f32>;
// The largest magnitude of each 32 elements of a row.
@group(0) @binding(3) var<storage, read_write> LARGEST: array<atomic<u32>>;

// Index of the group's first element.
var<private> FIRST: u32;

fn element(i: u32) -> f32 { return X[FIRST + i]; }

fn four_elements(i: u32, last: u32) -> vec4<f32> { return vec4<f32>(X[FIRST + min(i, last)], X[FIRST], X[FIRST], X[FIRST]); }

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
    ZERO = P.zero;
    let column = group.y * P.width;
    FIRST = group.x * P.stride + column;
    norm(P.width, false, P.epsilon, invocation);
    for (var i = invocation; i < P.width; i += 256u) {
        let y = normed(i, false, P.weight + column, NONE);
        X[FIRST + i] = y;
        atomicMax(&LARGEST[group.x * P.largest + (column + i) / 32u], magnitude(y));
    }
}
