//!include num.wgsl
//!include sums.wgsl
// Adds the norm of a branch to the residual stream. One workgroup per row.

struct Params { zero: u32, n: u32, weight: u32, epsilon: f32, factor: u32 }
@group(0) @binding(0) var<storage, read> P: Params;
@group(0) @binding(1) var<storage, read> X: array<f32>;
@group(0) @binding(2) var<storage, read> V: array<f32>;
@group(0) @binding(3) var<storage, read_write> Y: array<f32>;

var<private> ROW: u32;

fn element(i: u32) -> f32 { return X[ROW * P.n + i]; }

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
    ROW = group.x;
    norm(P.n, P.epsilon, invocation);
    for (var i = invocation; i < P.n; i += 64u) {
        var y = normed(i, P.weight);
        if (P.factor != 0u) { y = settle(mul(y, number(P.factor))); }
        Y[ROW * P.n + i] = add(Y[ROW * P.n + i], y);
    }
}
