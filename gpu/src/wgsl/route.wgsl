//!include num.wgsl
// Chooses the experts of a row, and the weights of their results, by the logits of the router. One workgroup per row.

struct Params {
    zero: u32, experts: u32, used: u32, scores: u32,
    normalized: u32, epsilon: u32, scale: u32, logit_scale: u32,
    biases: u32, scales: u32, weights: u32, flag: u32,
    groups: u32, groups_used: u32, logits_at: u32, logits_stride: u32,
}
@group(0) @binding(0) var<storage, read> P: Params;
@group(0) @binding(1) var<storage, read> X: array<f32>;
// P.used experts of each row.
@group(0) @binding(2) var<storage, read_write> CHOICES: array<u32>;
// The weights of the chosen experts, from P.weights on.
@group(0) @binding(3) var<storage, read_write> RESULTS: array<f32>;
// Biases of the choice and scales of weights, one for each expert. P has their first indices, or NONE where there are none.
@group(0) @binding(4) var<storage, read> V: array<f32>;
@group(0) @binding(5) var<storage, read_write> FLAG: array<atomic<u32>>;

// How logits become scores: by softmax of the chosen ones, by softmax of all, else by sigmoid.
const SOFTMAX_OF_CHOSEN = 0u;
const SOFTMAX = 1u;
const NONE = 0xffffffffu;

// A rank below that of any number.
const LEAST = -2147483647;
const THREADS = 256u;

var<workgroup> SCORES: array<f32, 512>;
var<workgroup> RANKS: array<i32, 512>;
// The chosen experts in descending order, and their scores.
var<workgroup> CHOSEN: array<u32, 512>;
var<workgroup> WEIGHTS: array<f32, 512>;
var<workgroup> GROUPS: array<i32, 64>;

// The sum of the first `count` scores, in their order. Each invocation computes it.
fn sum_of_scores(count: u32) -> f32 {
    var sum = number(0u);
    for (var i = 0u; i < count; i++) { sum = add(sum, SCORES[i]); }
    return sum;
}

// The softmax of the first `count` scores, in their place. All invocations call it.
fn softmax(count: u32, invocation: u32) {
    var most = number(0xff800000u);
    for (var i = 0u; i < count; i++) { if (greater(SCORES[i], most)) { most = SCORES[i]; } }
    workgroupBarrier();
    for (var i = invocation; i < count; i += THREADS) { SCORES[i] = exp_of(sub(SCORES[i], most)); }
    workgroupBarrier();
    let sum = sum_of_scores(count);
    workgroupBarrier();
    for (var i = invocation; i < count; i += THREADS) { SCORES[i] = settle(div(SCORES[i], sum)); }
    workgroupBarrier();
}

fn ranked(expert: u32) -> f32 {
    if (P.biases == NONE) { return SCORES[expert]; }
    return add(SCORES[expert], settle(V[P.biases + expert]));
}

fn score(row: u32, invocation: u32) {
    for (var i = invocation; i < P.experts; i += THREADS) {
        let x = X[P.logits_at + row * P.logits_stride + i];
        if (is_nan(x)) { atomicMax(&FLAG[P.flag], 1u); }
        let scaled = settle(mul(x, number(P.logit_scale)));
        if (P.scores > SOFTMAX) { SCORES[i] = sigmoid(scaled); } else { SCORES[i] = scaled; }
    }
    workgroupBarrier();
    if (P.scores == SOFTMAX) { softmax(P.experts, invocation); }
    for (var i = invocation; i < P.experts; i += THREADS) { RANKS[i] = order(ranked(i)); }
    workgroupBarrier();
}

// The rank of a group: the sum of its two largest ranked scores.
fn rank_of_group(group: u32) -> i32 {
    let size = P.experts / P.groups;
    var most = number(0xff800000u);
    var next = most;
    for (var i = group * size; i < (group + 1u) * size; i++) {
        let x = ranked(i);
        if (greater(x, most)) {
            next = most;
            most = x;
        } else if (greater(x, next)) {
            next = x;
        }
    }
    return order(add(most, next));
}

// Gives LEAST to the experts of groups that are not chosen: groups with P.groups_used or more before them. All invocations call it.
fn choose_groups(invocation: u32) {
    if (P.groups <= 1u) { return; }
    if (invocation < P.groups) { GROUPS[invocation] = rank_of_group(invocation); }
    workgroupBarrier();
    if (invocation < P.groups) {
        let mine = GROUPS[invocation];
        var before = 0u;
        for (var i = 0u; i < P.groups; i++) {
            if (GROUPS[i] > mine || (GROUPS[i] == mine && i < invocation)) { before += 1u; }
        }
        let size = P.experts / P.groups;
        if (before >= P.groups_used) {
            for (var i = invocation * size; i < (invocation + 1u) * size; i++) { RANKS[i] = LEAST; }
        }
    }
    workgroupBarrier();
}

// The index of an expert in descending order is the number of experts before it. Afterwards SCORES begins with the scores of the chosen ones. All invocations
// call it.
fn choose(invocation: u32) {
    for (var i = invocation; i < P.experts; i += THREADS) {
        let mine = RANKS[i];
        var before = 0u;
        for (var j = 0u; j < P.experts; j++) {
            if (RANKS[j] > mine || (RANKS[j] == mine && j < i)) { before += 1u; }
        }
        if (before < P.used) {
            CHOSEN[before] = i;
            WEIGHTS[before] = SCORES[i];
        }
    }
    workgroupBarrier();
    for (var k = invocation; k < P.used; k += THREADS) { SCORES[k] = WEIGHTS[k]; }
    workgroupBarrier();
}

fn weigh(row: u32, invocation: u32) {
    if (P.scores == SOFTMAX_OF_CHOSEN) { softmax(P.used, invocation); }
    var sum = number(0u);
    if (P.normalized != 0u) { sum = add(sum_of_scores(P.used), number(P.epsilon)); }
    for (var k = invocation; k < P.used; k += THREADS) {
        var weight = SCORES[k];
        if (P.normalized != 0u) { weight = div(weight, sum); }
        weight = settle(mul(weight, number(P.scale)));
        if (P.scales != NONE) { weight = settle(mul(weight, settle(V[P.scales + CHOSEN[k]]))); }
        CHOICES[row * P.used + k] = CHOSEN[k];
        RESULTS[P.weights + row * P.used + k] = weight;
    }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
    ZERO = P.zero;
    let row = group.x;
    score(row, invocation);
    choose_groups(invocation);
    choose(invocation);
    weigh(row, invocation);
}
