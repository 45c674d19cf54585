//!include num.wgsl
//!include next.wgsl
// The token with the largest logit of the first row, of equal ones the first. One workgroup.

struct Params { zero: u32, n: u32, angles: u32, unused: u32 }
@group(0) @binding(0) var<storage, read> P: Params;
@group(0) @binding(1) var<storage, read> X: array<f32>;

var<workgroup> ORDER: array<i32, 256>;
var<workgroup> TOKEN: array<u32, 256>;

// TOKEN[0] is the token afterwards.
fn choose(invocation: u32) {
    var best = -2147483647;
    var token = 0xffffffffu;
    for (var i = invocation; i < P.n; i += 256u) {
        let x = order(X[i]);
        if (x > best) { best = x; token = i; }
    }
    ORDER[invocation] = best;
    TOKEN[invocation] = token;
    workgroupBarrier();
    for (var half = 128u; half > 0u; half >>= 1u) {
        if (invocation < half) {
            let other = invocation + half;
            let wins = ORDER[other] > ORDER[invocation]
                || (ORDER[other] == ORDER[invocation] && TOKEN[other] < TOKEN[invocation]);
            if (wins) { ORDER[invocation] = ORDER[other]; TOKEN[invocation] = TOKEN[other]; }
        }
        workgroupBarrier();
    }
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) invocation: u32) {
    choose(invocation);
    next_row(TOKEN[0], invocation);
}
