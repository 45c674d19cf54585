//!include tree.wgsl
// Norms of rows, by `THREADS` invocations. The kernel defines `fn element(i: u32) -> f32`, the elements that are normed; `fn four_elements(i: u32, last: u32)
// -> vec4<f32>`, those from `i` on that are 256 apart, with the last element in place of any behind it; and `const PASS`, the number of elements that are read
// at a time: THREADS or 2048.

var<workgroup> TERMS: array<f32, PASS>;
// Results of `norm`. One invocation computes them, in OF_ONE, and each has a copy.
var<private> MEAN: f32;
var<private> INVERSE: f32;
var<workgroup> OF_ONE: array<f32, 2>;

// An element, settled, less MEAN where the norm centers.
fn centered(element: f32, centers: bool) -> f32 {
    let x = settle(element);
    if (!centers) { return x; }
    return settle(sub(x, MEAN));
}

// The term of element `i` of `n` in a sum: 0 behind the last element.
fn term(element: f32, i: u32, n: u32, centers: bool, squares: bool) -> f32 {
    let x = centered(element, centers);
    let y = select(x, mul(x, x), squares);
    return number(select(bitcast<u32>(y), 0u, i >= n));
}

// Puts the terms of four elements that are 256 apart.
fn put_four(at: u32, i: u32, x: vec4<f32>, n: u32, centers: bool, squares: bool) {
    TERMS[at] = term(x.x, i, n, centers, squares);
    TERMS[at + 256u % PASS] = term(x.y, i + 256u, n, centers, squares);
    TERMS[at + 512u % PASS] = term(x.z, i + 512u, n, centers, squares);
    TERMS[at + 768u % PASS] = term(x.w, i + 768u, n, centers, squares);
}

// Puts the terms of a pass.
fn put_terms(first: u32, n: u32, centers: bool, squares: bool, invocation: u32) {
    let i = first + invocation;
    if (PASS == THREADS) {
        TERMS[invocation] = term(element(min(i, n - 1u)), i, n, centers, squares);
        return;
    }
    // All eight elements are read before the first one is needed.
    let x = four_elements(i, n - 1u);
    let y = four_elements(i + 1024u, n - 1u);
    put_four(invocation, i, x, n, centers, squares);
    put_four(invocation + 1024u % PASS, i + 1024u, y, n, centers, squares);
}

// A lane's sum with 8 terms, in order.
fn with_terms(sum: f32, at: u32) -> f32 {
    let a = TERMS[at];
    let b = TERMS[at + 16u];
    let c = TERMS[at + 32u];
    let d = TERMS[at + 48u];
    let e = TERMS[at + 64u];
    let f = TERMS[at + 80u];
    let g = TERMS[at + 96u];
    let h = TERMS[at + 112u];
    return add(add(add(add(add(add(add(add(sum, a), b), c), d), e), f), g), h);
}

// Puts the sums of `n` elements, or of their squares, in 16 lanes into LANES. All invocations call it.
fn put_lanes(n: u32, centers: bool, squares: bool, invocation: u32) {
    var sum = number(0u);
    for (var first = 0u; first < n; first += PASS) {
        put_terms(first, n, centers, squares, invocation);
        workgroupBarrier();
        if (invocation < 16u) {
            for (var at = invocation; at < min(PASS, n - first); at += 128u) { sum = with_terms(sum, at); }
        }
        workgroupBarrier();
    }
    if (invocation < 16u) { LANES[invocation] = sum; }
    workgroupBarrier();
}

fn inverse_root(square: f32, epsilon: f32) -> f32 {
    let inverse = div(number(0x3f800000u), root(add(square, epsilon)));
    return number(select(0x7fc00000u, bitcast<u32>(inverse), is_finite(square)));
}

// Sets MEAN to the mean of `n` elements where the norm centers, and INVERSE to 1 / sqrt(mean square around it + epsilon). All invocations call it.
fn norm(n: u32, centers: bool, epsilon: f32, invocation: u32) {
    if (centers) {
        put_lanes(n, false, false, invocation);
        if (invocation == 0u) { OF_ONE[0] = settle(div(tree16(), of_u32(n))); }
        workgroupBarrier();
        MEAN = OF_ONE[0];
    }
    put_lanes(n, centers, true, invocation);
    if (invocation == 0u) { OF_ONE[1] = inverse_root(div(tree16(), of_u32(n)), epsilon); }
    workgroupBarrier();
    INVERSE = OF_ONE[1];
}

// An element after the norm, with a weight where the norm has weights.
fn weighted(element: f32, centers: bool, weighs: bool, weight: f32) -> f32 {
    let y = mul(centered(element, centers), INVERSE);
    return settle(select(y, mul(y, settle(weight)), weighs));
}

// Element `i` after the norm. `weight` and `bias` are indices among the vectors at which weights and biases begin, or NONE.
fn normed(i: u32, centers: bool, weight: u32, bias: u32) -> f32 {
    let weighs = weight != NONE;
    let y = weighted(element(i), centers, weighs, V[select(0u, weight + i, weighs)]);
    if (bias == NONE) { return y; }
    return add(y, settle(V[bias + i]));
}

const NONE = 0xffffffffu;
