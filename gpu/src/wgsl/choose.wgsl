//!include num.wgsl
//!include best.wgsl
//!include next.wgsl
// The token with the largest logit of the first row, of equal ones the first. One workgroup.

struct Params { zero: u32, n: u32, angles: u32, runs: u32 }
@group(0) @binding(0) var<storage, read> P: Params;
@group(0) @binding(1) var<storage, read> X: array<f32>;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) invocation: u32) {
    ZERO = P.zero;
    var best = LEAST;
    var token = NO_TOKEN;
    for (var i = invocation; i < P.n; i += 256u) {
        let x = order(X[i]);
        if (x > best) { best = x; token = i; }
    }
    ORDER[invocation] = best;
    TOKEN[invocation] = token;
    find_best(invocation);
    next_row(TOKEN[0], invocation);
}
