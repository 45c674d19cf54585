//!include tree.wgsl
// Norms of rows. The kernel has `fn element(i: u32) -> f32`, what is normed.

var<workgroup> INVERSE: f32;

// INVERSE is 1 / sqrt(mean square + epsilon) of `n` elements afterwards. All invocations call it.
fn norm(n: u32, epsilon: f32, invocation: u32) {
    if (invocation < 16u) {
        var sum = number(0u);
        for (var i = invocation; i < n; i += 16u) {
            let u = settle(element(i));
            sum = add(sum, mul(u, u));
        }
        LANES[invocation] = sum;
    }
    workgroupBarrier();
    if (invocation == 0u) {
        tree16();
        let square = div(LANES[0], of_u32(n));
        let inverse = div(number(0x3f800000u), root(add(square, epsilon)));
        INVERSE = number(select(0x7fc00000u, bitcast<u32>(inverse), is_finite(square)));
    }
    workgroupBarrier();
}

// An element after the norm; `weight` is where its weights begin among the vectors, NONE without.
fn normed(i: u32, weight: u32) -> f32 {
    let y = mul(settle(element(i)), INVERSE);
    if (weight == NONE) { return settle(y); }
    return settle(mul(y, settle(V[weight + i])));
}

const NONE = 0xffffffffu;
