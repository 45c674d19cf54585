//!include num.wgsl
//!include best.wgsl
// Which experts a row goes through, and the weights of their results, from the logits of the router. One workgroup per row.

struct Params {
    zero: u32, experts: u32, used: u32, scores: u32,
    normalized: u32, epsilon: u32, scale: u32, logit_scale: u32,
    biases: u32, scales: u32, weights: u32, flag: u32,
    groups: u32, groups_used: u32, logits_at: u32, logits_stride: u32,
}
@group(0) @binding(0) var<storage, read> P: Params;
@group(0) @binding(1) var<storage, read> X: array<f32>;
// `used` of a row.
@group(0) @binding(2) var<storage, read_write> CHOICES: array<u32>;
// From P.weights on, the weights of these.
@group(0) @binding(3) var<storage, read_write> RESULTS: array<f32>;
// Biases of the choice and scales of weights, of an expert each; P says where they begin, NONE where there are none.
@group(0) @binding(4) var<storage, read> V: array<f32>;
@group(0) @binding(5) var<storage, read_write> FLAG: array<atomic<u32>>;

// What becomes of the logits.
const SOFTMAX_OF_CHOSEN = 0u;
const SOFTMAX = 1u;
const NONE = 0xffffffffu;

var<workgroup> SCORES: array<f32, 512>;
var<workgroup> TAKEN: array<u32, 512>;
var<workgroup> WEIGHTS: array<f32, 512>;
var<workgroup> GROUPS: array<i32, 64>;

fn softmax_of_scores() {
    var most = number(0xff800000u);
    for (var i = 0u; i < P.experts; i++) { if (greater(SCORES[i], most)) { most = SCORES[i]; } }
    var sum = number(0u);
    for (var i = 0u; i < P.experts; i++) {
        SCORES[i] = exp_of(sub(SCORES[i], most));
        sum = add(sum, SCORES[i]);
    }
    for (var i = 0u; i < P.experts; i++) { SCORES[i] = settle(div(SCORES[i], sum)); }
}

fn softmax_of_weights() {
    var most = number(0xff800000u);
    for (var i = 0u; i < P.used; i++) { if (greater(WEIGHTS[i], most)) { most = WEIGHTS[i]; } }
    var sum = number(0u);
    for (var i = 0u; i < P.used; i++) {
        WEIGHTS[i] = exp_of(sub(WEIGHTS[i], most));
        sum = add(sum, WEIGHTS[i]);
    }
    for (var i = 0u; i < P.used; i++) { WEIGHTS[i] = settle(div(WEIGHTS[i], sum)); }
}

fn score(row: u32, invocation: u32) {
    for (var i = invocation; i < P.experts; i += 256u) {
        let x = X[P.logits_at + row * P.logits_stride + i];
        if (is_nan(x)) { atomicMax(&FLAG[P.flag], 1u); }
        let scaled = settle(mul(x, number(P.logit_scale)));
        if (P.scores > SOFTMAX) { SCORES[i] = sigmoid(scaled); } else { SCORES[i] = scaled; }
        TAKEN[i] = 0u;
    }
    workgroupBarrier();
    if (P.scores == SOFTMAX && invocation == 0u) { softmax_of_scores(); }
    workgroupBarrier();
}

fn ranked(expert: u32) -> f32 {
    if (P.biases == NONE) { return SCORES[expert]; }
    return add(SCORES[expert], settle(V[P.biases + expert]));
}

fn rank(expert: u32) -> i32 { return order(ranked(expert)); }

// The sum of the two largest ranks of a group.
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

// Takes the experts of groups that are not chosen: those with enough others before them. All invocations call it.
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
        for (var i = invocation * size; i < (invocation + 1u) * size; i++) { TAKEN[i] = u32(before >= P.groups_used); }
    }
    workgroupBarrier();
}

// The expert at a place of the choice, in descending order.
fn choose(row: u32, place: u32, invocation: u32) {
    var best = LEAST;
    var token = NO_TOKEN;
    for (var i = invocation; i < P.experts; i += 256u) {
        if (TAKEN[i] == 0u && rank(i) > best) { best = rank(i); token = i; }
    }
    ORDER[invocation] = best;
    TOKEN[invocation] = token;
    find_best(invocation);
    if (invocation == 0u) {
        let expert = min(TOKEN[0], P.experts - 1u);
        TAKEN[expert] = 1u;
        WEIGHTS[place] = SCORES[expert];
        CHOICES[row * P.used + place] = expert;
    }
    workgroupBarrier();
}

fn weigh(row: u32) {
    if (P.scores == SOFTMAX_OF_CHOSEN) { softmax_of_weights(); }
    if (P.normalized != 0u) {
        var sum = number(0u);
        for (var i = 0u; i < P.used; i++) { sum = add(sum, WEIGHTS[i]); }
        sum = add(sum, number(P.epsilon));
        for (var i = 0u; i < P.used; i++) { WEIGHTS[i] = div(WEIGHTS[i], sum); }
    }
    for (var i = 0u; i < P.used; i++) {
        var weight = settle(mul(WEIGHTS[i], number(P.scale)));
        if (P.scales != NONE) { weight = settle(mul(weight, settle(V[P.scales + CHOICES[row * P.used + i]]))); }
        RESULTS[P.weights + row * P.used + i] = weight;
    }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
    ZERO = P.zero;
    let row = group.x;
    score(row, invocation);
    choose_groups(invocation);
    for (var place = 0u; place < P.used; place++) { choose(row, place, invocation); }
    if (invocation == 0u) { weigh(row); }
}
