//!include num.wgsl
//!include q8.wgsl
// Adds the norm of a branch, or the results of experts, to a row of the residual stream, and writes the row, normed or not, in the format that matrices read.
// One workgroup per row. It also clears the row's largest magnitudes of the two kinds of activations that come later.

struct Params {
    zero: u32, n: u32, out_stride: u32, norms: u32,
    weight: u32, form: u32, epsilon: f32, flag: u32,
    adds: u32, branch_norms: u32, branch_weight: u32, branch_bias: u32,
    branch_epsilon: f32, factor: u32, used: u32, results: u32,
    expert_weights: u32, renorm_weight: u32, experts_weight: u32, scale: f32,
    attention: u32, feed_forward: u32, bias: u32, first_row: u32,
    out_at: u32, second_form: u32, second_stride: u32, second_at: u32,
}
@group(0) @binding(0) var<storage, read> P: Params;
@group(0) @binding(1) var<storage, read_write> X: array<f32>;
@group(0) @binding(2) var<storage, read_write> BRANCH: array<f32>;
@group(0) @binding(3) var<storage, read> V: array<f32>;
@group(0) @binding(4) var<storage, read_write> Q: array<u32>;
@group(0) @binding(5) var<storage, read_write> FLAG: array<atomic<u32>>;
@group(0) @binding(6) var<storage, read_write> ATTENTION: array<u32>;
@group(0) @binding(7) var<storage, read_write> FEED_FORWARD: array<u32>;

// Norms.
const NO_NORM = 0u;
const LAYER_NORM = 2u; // by mean and standard deviation

// What is done before the norm, in this order.
const NORMS_BRANCH = 1u; // the branch is normed in its place
const ADDS_EXPERTS = 2u; // the results of experts are added to the residual stream
const TO_BRANCH = 4u; // or to the branch instead
const NORMS_EXPERTS = 8u; // the sum of experts is normed before it is added
const ADDS_NORM = 16u; // the norm of the branch is added to the residual stream
const SCALES = 32u; // the residual stream is multiplied

const F32 = 0u;
const SHORT = 1u;
const Q8X32 = 2u;
const Q8X256 = 3u;
const NOTHING = 4u;
const IN_PLACE = 5u;

var<private> ROW: u32;
var<private> IN_BRANCH: bool;
// Index in BRANCH of the row that is normed.
var<private> AT: u32;
const THREADS = 256u;
const PASS = 2048u;
//!include sums.wgsl

var<workgroup> LARGEST: array<u32, 256>;

fn element(i: u32) -> f32 {
    if (IN_BRANCH) { return BRANCH[AT + i]; }
    return X[ROW * P.n + i];
}

fn four_elements(i: u32, last: u32) -> vec4<f32> {
    let first = select(ROW * P.n, AT, IN_BRANCH);
    let a = first + min(i, last);
    let b = first + min(i + 256u, last);
    let c = first + min(i + 512u, last);
    let d = first + min(i + 768u, last);
    if (IN_BRANCH) { return vec4<f32>(BRANCH[a], BRANCH[b], BRANCH[c], BRANCH[d]); }
    return vec4<f32>(X[a], X[b], X[c], X[d]);
}

// Prepares the norm of the row that begins at `first` in BRANCH. All invocations call it.
fn norm_of_branch(first: u32, centers: bool, invocation: u32) {
    IN_BRANCH = true;
    AT = first;
    norm(P.n, centers, P.branch_epsilon, invocation);
}

fn norm_branch(invocation: u32) {
    norm_of_branch(ROW * P.n, false, invocation);
    for (var i = invocation; i < P.n; i += THREADS) { BRANCH[AT + i] = normed(i, false, P.renorm_weight, NONE); }
    storageBarrier();
}

fn add_branch(invocation: u32) {
    let centers = P.branch_norms == LAYER_NORM;
    norm_of_branch(ROW * P.n, centers, invocation);
    for (var i = invocation; i < P.n; i += THREADS) {
        var y = normed(i, centers, P.branch_weight, P.branch_bias);
        if (P.factor != 0u) { y = settle(mul(y, number(P.factor))); }
        X[ROW * P.n + i] = add(X[ROW * P.n + i], y);
    }
    storageBarrier();
}

// `start` with the results of a row's experts added in the order of their choice, each times its weight. BRANCH has results and weights, too.
fn with_experts(start: f32, i: u32) -> f32 {
    let weighs = P.factor != 0u && (P.adds & TO_BRANCH) == 0u;
    var sum = start;
    for (var k = 0u; k < P.used; k++) {
        let pair = ROW * P.used + k;
        var weight = BRANCH[P.expert_weights + pair];
        if (weighs) { weight = settle(mul(weight, number(P.factor))); }
        sum = add(sum, settle(mul(BRANCH[P.results + pair * P.n + i], weight)));
    }
    return sum;
}

fn add_experts(invocation: u32) {
    let row = ROW * P.n;
    for (var i = invocation; i < P.n; i += THREADS) {
        if ((P.adds & TO_BRANCH) == 0u) { X[row + i] = with_experts(X[row + i], i); }
        else { BRANCH[row + i] = with_experts(BRANCH[row + i], i); }
    }
    storageBarrier();
}

// Adds the norm of the sum of experts to the branch. The sum takes the place of the first expert's result.
fn add_normed_experts(invocation: u32) {
    let first = P.results + ROW * P.used * P.n;
    for (var i = invocation; i < P.n; i += THREADS) { BRANCH[first + i] = with_experts(number(0u), i); }
    storageBarrier();
    norm_of_branch(first, false, invocation);
    for (var i = invocation; i < P.n; i += THREADS) {
        let at = ROW * P.n + i;
        BRANCH[at] = add(BRANCH[at], normed(i, false, P.experts_weight, NONE));
    }
    storageBarrier();
}

fn before(invocation: u32) {
    if ((P.adds & NORMS_BRANCH) != 0u) { norm_branch(invocation); }
    if ((P.adds & NORMS_EXPERTS) != 0u) { add_normed_experts(invocation); }
    else if ((P.adds & ADDS_EXPERTS) != 0u) { add_experts(invocation); }
    if ((P.adds & ADDS_NORM) != 0u) { add_branch(invocation); }
    if ((P.adds & SCALES) != 0u) {
        for (var i = invocation; i < P.n; i += THREADS) { X[ROW * P.n + i] = settle(mul(X[ROW * P.n + i], P.scale)); }
        storageBarrier();
    }
    IN_BRANCH = false;
}

fn value(i: u32) -> f32 {
    if (P.norms == NO_NORM) { return element(i); }
    return normed(i, P.norms == LAYER_NORM, P.weight, P.bias);
}

fn floats(invocation: u32, form: u32, row: u32) {
    for (var i = invocation; i < P.n; i += THREADS) {
        let x = value(i);
        if (form == SHORT) { Q[row + i] = bitcast<u32>(short(x)); }
        else { Q[row + i] = bitcast<u32>(settle(x)); }
    }
}

fn elements(i: u32) -> vec4<f32> {
    let at = ROW * P.n + i;
    return vec4<f32>(X[at], X[at + 1u], X[at + 2u], X[at + 3u]);
}

fn vectors(at: u32) -> vec4<f32> { return vec4<f32>(V[at], V[at + 1u], V[at + 2u], V[at + 3u]); }

// Four elements from `i` on, normed or not.
fn values(i: u32, x: vec4<f32>) -> vec4<f32> {
    if (P.norms == NO_NORM) { return x; }
    let weighs = P.weight != NONE;
    let w = vectors(select(0u, P.weight + i, weighs));
    let centers = P.norms == LAYER_NORM;
    let y = vec4<f32>(weighted(x.x, centers, weighs, w.x), weighted(x.y, centers, weighs, w.y),
        weighted(x.z, centers, weighs, w.z), weighted(x.w, centers, weighs, w.w));
    if (P.bias == NONE) { return y; }
    let b = vectors(P.bias + i);
    return vec4<f32>(add(y.x, settle(b.x)), add(y.y, settle(b.y)), add(y.z, settle(b.z)), add(y.w, settle(b.w)));
}

fn largest_of(x: vec4<f32>) -> u32 { return max(max(magnitude(x.x), magnitude(x.y)), max(magnitude(x.z), magnitude(x.w))); }

// The largest magnitude in LARGEST of `count` invocations from `first` on. `count` is a multiple of 4.
fn largest_of_block(first: u32, count: u32) -> u32 {
    var largest = 0u;
    for (var i = first; i < first + count; i += 4u) {
        largest = max(largest, max(max(LARGEST[i], LARGEST[i + 1u]), max(LARGEST[i + 2u], LARGEST[i + 3u])));
    }
    return largest;
}

// An invocation has 8 elements of a pass. So 4 invocations have a block of 32, and 32 have a block of 256.
fn quantized(invocation: u32, form: u32, row: u32) {
    let members = select(4u, 32u, form == Q8X256);
    let z = number(0u);
    // All invocations run the loop equally often, because there are barriers inside.
    for (var base = 0u; base < P.n; base += PASS) {
        let first = base + 8u * invocation;
        let inside = first < P.n;
        var x = vec4<f32>(z, z, z, z);
        var y = x;
        if (inside) {
            let a = elements(first);
            let b = elements(first + 4u);
            x = values(first, a);
            y = values(first + 4u, b);
        }
        LARGEST[invocation] = max(largest_of(x), largest_of(y));
        workgroupBarrier();
        let largest = largest_of_block(invocation / members * members, members);
        if (inside) {
            if (largest >= 0x7f800000u) { atomicMax(&FLAG[P.flag], 1u); }
            let inverse = inverse_of(largest);
            Q[row + first / 4u] = four_codes(x, inverse);
            Q[row + first / 4u + 1u] = four_codes(y, inverse);
            if (invocation % members == 0u) { Q[row + P.n / 4u + first / (8u * members)] = step_of(largest); }
        }
        workgroupBarrier();
    }
}

// Writes the row in a format, from word `row` on. All invocations call it.
fn put(invocation: u32, form: u32, row: u32) {
    if (form >= Q8X32) { quantized(invocation, form, row); } else { floats(invocation, form, row); }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
    ZERO = P.zero;
    ROW = group.x + P.first_row;
    for (var i = invocation; i < P.attention; i += THREADS) { ATTENTION[ROW * P.attention + i] = 0u; }
    for (var i = invocation; i < P.feed_forward; i += THREADS) { FEED_FORWARD[ROW * P.feed_forward + i] = 0u; }
    if (P.adds != 0u) { before(invocation); }
    if (P.form == NOTHING) { return; }
    if (P.norms != NO_NORM) { norm(P.n, P.norms == LAYER_NORM, P.epsilon, invocation); }
    if (P.form == IN_PLACE) {
        for (var i = invocation; i < P.n; i += THREADS) { X[ROW * P.n + i] = value(i); }
        return;
    }
    put(invocation, P.form, P.out_at + ROW * P.out_stride);
    if (P.second_form != 0u) { put(invocation, P.second_form - 1u, P.second_at + ROW * P.second_stride); }
}
