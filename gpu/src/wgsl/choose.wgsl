//!include num.wgsl
//!include best.wgsl
//!include next.wgsl
// Chooses the token with the largest logit of the first row, and of equal ones the first. One workgroup.

struct Params { zero: u32, n: u32, angles: u32, runs: u32 }
@group(0) @binding(0) var<storage, read> P: Params;
@group(0) @binding(1) var<storage, read> X: array<f32>;

struct Best { order: i32, token: u32 }

fn better(best: Best, x: f32, token: u32) -> Best {
    let mine = order(x);
    if (mine > best.order) { return Best(mine, min(token, P.n - 1u)); }
    return best;
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) invocation: u32) {
    ZERO = P.zero;
    var best = Best(LEAST, NO_TOKEN);
    for (var i = invocation; i < P.n; i += 2048u) {
        // All eight are read before the first one is needed. Indices behind the last one read the last one.
        let last = P.n - 1u;
        let a = X[i];
        let b = X[min(i + 256u, last)];
        let c = X[min(i + 512u, last)];
        let d = X[min(i + 768u, last)];
        let e = X[min(i + 1024u, last)];
        let f = X[min(i + 1280u, last)];
        let g = X[min(i + 1536u, last)];
        let h = X[min(i + 1792u, last)];
        let low = better(better(better(better(best, a, i), b, i + 256u), c, i + 512u), d, i + 768u);
        best = better(better(better(better(low, e, i + 1024u), f, i + 1280u), g, i + 1536u), h, i + 1792u);
    }
    ORDER[invocation] = best.order;
    TOKEN[invocation] = best.token;
    find_best(invocation);
    next_row(TOKEN[0], invocation);
}
