//!include tree.wgsl
// Norms of rows. The kernel has `fn element(i: u32) -> f32`, what is normed.

var<workgroup> MEAN: f32;
var<workgroup> INVERSE: f32;

// An element, settled, less MEAN where the norm centers.
fn centered(i: u32, centers: bool) -> f32 {
    let x = settle(element(i));
    if (!centers) { return x; }
    return settle(sub(x, MEAN));
}

// MEAN is that of `n` elements where the norm centers, and INVERSE is 1 / sqrt(mean square around it + epsilon) afterwards. All
// invocations call it.
fn norm(n: u32, centers: bool, epsilon: f32, invocation: u32) {
    if (centers && invocation < 16u) {
        var sum = number(0u);
        for (var i = invocation; i < n; i += 16u) { sum = add(sum, settle(element(i))); }
        LANES[invocation] = sum;
    }
    workgroupBarrier();
    if (centers && invocation == 0u) {
        tree16();
        MEAN = settle(div(LANES[0], of_u32(n)));
    }
    workgroupBarrier();
    if (invocation < 16u) {
        var sum = number(0u);
        for (var i = invocation; i < n; i += 16u) {
            let u = centered(i, centers);
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

// An element after the norm; `weight` and `bias` are where its weights and biases begin among the vectors, NONE without.
fn normed(i: u32, centers: bool, weight: u32, bias: u32) -> f32 {
    var y = mul(centered(i, centers), INVERSE);
    if (weight != NONE) { y = mul(y, settle(V[weight + i])); }
    y = settle(y);
    if (bias == NONE) { return y; }
    return add(y, settle(V[bias + i]));
}

const NONE = 0xffffffffu;
