//!include num.wgsl
//!include sums.wgsl
//!include q8.wgsl
// A row of the residual stream, to which the norm of a branch, or what experts gave, is added before, in the format that matrices read, normed or not.
// One workgroup per row. It also clears the row's largest magnitudes of the two kinds of activations that come later.

struct Params {
    zero: u32, n: u32, out_stride: u32, norms: u32,
    weight: u32, form: u32, epsilon: f32, flag: u32,
    adds: u32, branch_weight: u32, branch_epsilon: f32, factor: u32,
    used: u32, attention: u32, feed_forward: u32, bias: u32,
}
@group(0) @binding(0) var<storage, read> P: Params;
@group(0) @binding(1) var<storage, read_write> X: array<f32>;
@group(0) @binding(2) var<storage, read> BRANCH: array<f32>;
@group(0) @binding(3) var<storage, read> V: array<f32>;
@group(0) @binding(4) var<storage, read_write> Q: array<u32>;
@group(0) @binding(5) var<storage, read_write> FLAG: array<atomic<u32>>;
@group(0) @binding(6) var<storage, read_write> ATTENTION: array<u32>;
@group(0) @binding(7) var<storage, read_write> FEED_FORWARD: array<u32>;

// Norms.
const NO_NORM = 0u;
const LAYER_NORM = 2u; // by mean and standard deviation

// What is added before.
const ADDS_NORM = 1u;
const ADDS_EXPERTS = 2u;

const F32 = 0u;
const SHORT = 1u;
const Q8X32 = 2u;
const Q8X256 = 3u;
const NOTHING = 4u;
const IN_PLACE = 5u;

var<private> ROW: u32;
var<private> IN_BRANCH: bool;
var<workgroup> LARGEST: array<u32, 64>;

fn element(i: u32) -> f32 {
    if (IN_BRANCH) { return BRANCH[ROW * P.n + i]; }
    return X[ROW * P.n + i];
}

fn add_branch(invocation: u32) {
    IN_BRANCH = true;
    norm(P.n, false, P.branch_epsilon, invocation);
    for (var i = invocation; i < P.n; i += 64u) {
        var y = normed(i, false, P.branch_weight, NONE);
        if (P.factor != 0u) { y = settle(mul(y, number(P.factor))); }
        X[ROW * P.n + i] = add(X[ROW * P.n + i], y);
    }
    IN_BRANCH = false;
    storageBarrier();
}

// What the experts of a row gave, in the order of their choice, each times its weight: these are among BRANCH, too.
fn add_experts(invocation: u32) {
    for (var i = invocation; i < P.n; i += 64u) {
        var sum = X[ROW * P.n + i];
        for (var k = 0u; k < P.used; k++) {
            let pair = ROW * P.used + k;
            var weight = BRANCH[P.branch_weight + pair];
            if (P.factor != 0u) { weight = settle(mul(weight, number(P.factor))); }
            sum = add(sum, settle(mul(BRANCH[pair * P.n + i], weight)));
        }
        X[ROW * P.n + i] = sum;
    }
    storageBarrier();
}

fn value(i: u32) -> f32 {
    if (P.norms == NO_NORM) { return element(i); }
    return normed(i, P.norms == LAYER_NORM, P.weight, P.bias);
}

fn floats(invocation: u32) {
    for (var i = invocation; i < P.n; i += 64u) {
        let x = value(i);
        if (P.form == SHORT) { Q[ROW * P.out_stride + i] = bitcast<u32>(short(x)); }
        else { Q[ROW * P.out_stride + i] = bitcast<u32>(settle(x)); }
    }
}

// 32 codes of a block whose largest magnitude has the bits `largest`; `scale` is where its scale goes, NONE for other parts.
fn codes(first: u32, largest: u32, scale: u32) {
    let words = ROW * P.out_stride + first / 4u;
    if (largest >= 0x7f800000u) { atomicMax(&FLAG[P.flag], 1u); }
    let inverse = inverse_of(largest);
    for (var w = 0u; w < 8u; w++) {
        var word = 0u;
        for (var k = 0u; k < 4u; k++) { word |= code_of(value(first + 4u * w + k), inverse) << (8u * k); }
        Q[words + w] = word;
    }
    if (scale != NONE) { Q[ROW * P.out_stride + P.n / 4u + scale] = step_of(largest); }
}

fn quantized(invocation: u32) {
    let parts = select(1u, 8u, P.form == Q8X256);
    // As often for each invocation: there are barriers inside.
    for (var base = 0u; base < P.n / 32u; base += 64u) {
        let part = base + invocation;
        let inside = part < P.n / 32u;
        var largest = 0u;
        if (inside) { for (var i = 0u; i < 32u; i++) { largest = max(largest, magnitude(value(part * 32u + i))); } }
        LARGEST[invocation] = largest;
        workgroupBarrier();
        let first = invocation / parts * parts;
        for (var i = 0u; i < parts; i++) { largest = max(largest, LARGEST[first + i]); }
        if (inside) { codes(part * 32u, largest, select(NONE, part / parts, part % parts == 0u)); }
        workgroupBarrier();
    }
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
    ROW = group.x;
    for (var i = invocation; i < P.attention; i += 64u) { ATTENTION[ROW * P.attention + i] = 0u; }
    for (var i = invocation; i < P.feed_forward; i += 64u) { FEED_FORWARD[ROW * P.feed_forward + i] = 0u; }
    if (P.adds == ADDS_NORM) { add_branch(invocation); }
    if (P.adds == ADDS_EXPERTS) { add_experts(invocation); }
    if (P.form == NOTHING) { return; }
    if (P.norms != NO_NORM) { norm(P.n, P.norms == LAYER_NORM, P.epsilon, invocation); }
    if (P.form == IN_PLACE) {
        for (var i = invocation; i < P.n; i += 64u) { X[ROW * P.n + i] = value(i); }
        return;
    }
    if (P.form >= Q8X32) { quantized(invocation); } else { floats(invocation); }
}
