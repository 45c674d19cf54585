//!include num.wgsl
const THREADS = 256u;
const PASS = 256u;
//!include sums.wgsl
// Updates the matrix of a head, [key_dim, value_dim], by the rows of a sequence in the order of their positions, and writes what each row reads from it, gated.
// One workgroup per head and sequence. An invocation has a column. The state is read from one slot and written to another.

struct Params {
    zero: u32, heads: u32, groups: u32, shared_by: u32,
    key_dim: u32, value_dim: u32, mix_stride: u32, query: u32,
    key: u32, value: u32, gate: u32, step: u32,
    delta: u32, epsilon: f32, query_scale: f32, decay: u32,
    bias: u32, vector: u32, out_stride: u32, largest: u32,
    order: u32, runs: u32, flag: u32, unused: u32,
}
@group(0) @binding(0) var<storage, read> P: Params;
@group(0) @binding(1) var<storage, read> B: array<u32>;
@group(0) @binding(2) var<storage, read> MIX: array<f32>;
@group(0) @binding(3) var<storage, read_write> MATRICES: array<f32>;
@group(0) @binding(4) var<storage, read> V: array<f32>;
@group(0) @binding(5) var<storage, read_write> OUT: array<f32>;
// The largest magnitude of each 32 elements of OUT.
@group(0) @binding(6) var<storage, read_write> LARGEST: array<atomic<u32>>;
@group(0) @binding(7) var<storage, read_write> FLAG: array<atomic<u32>>;

const RUN = 4u; // words of a run: index of its first row in the order of rows, their number, slot that is read, slot that is written

var<workgroup> KEY: array<f32, 256>;
var<workgroup> QUERY: array<f32, 256>;
var<workgroup> RESULT: array<f32, 256>;
// The elements that norms and sums read: those of MIX from FIRST on, or RESULT.
var<private> FIRST: u32;
var<private> OF_RESULT: bool;

fn element(i: u32) -> f32 {
    if (OF_RESULT) { return RESULT[i]; }
    return MIX[FIRST + i];
}

fn four_elements(i: u32, last: u32) -> vec4<f32> { return vec4<f32>(element(min(i, last)), element(0u), element(0u), element(0u)); }

// An element of a key or query, settled. With the delta rule it is divided by the length and multiplied by a scale first.
fn prepared(x: f32, inverse: f32, scale: f32) -> f32 {
    if (P.delta == 0u) { return settle(x); }
    return settle(mul(mul(settle(x), inverse), scale));
}

// 1 / the length of the P.key_dim elements from FIRST on. All invocations call it.
fn inverse_length(invocation: u32) -> f32 {
    put_lanes(P.key_dim, false, true, invocation);
    let squares = tree16();
    return div(number(0x3f800000u), root(add(squares, number(0x358637bdu)))); // 1e-6
}

// Puts the key and the query of a row into KEY and QUERY. All invocations call it.
fn prepare(base: u32, own: u32, invocation: u32) {
    OF_RESULT = false;
    var key_inverse = number(0x3f800000u);
    var query_inverse = key_inverse;
    let key_at = base + P.key + own * P.key_dim;
    let query_at = base + P.query + own * P.key_dim;
    if (P.delta != 0u) {
        FIRST = key_at;
        key_inverse = inverse_length(invocation);
        workgroupBarrier();
        FIRST = query_at;
        query_inverse = inverse_length(invocation);
    }
    if (invocation < P.key_dim) {
        KEY[invocation] = prepared(MIX[key_at + invocation], key_inverse, number(0x3f800000u));
        QUERY[invocation] = prepared(MIX[query_at + invocation], query_inverse, P.query_scale);
    }
    workgroupBarrier();
}

// Element `i` of a column before the update by a row: 0, or the element of the column that lies at `at`.
fn before(at: u32, i: u32, is_zero: bool) -> f32 {
    if (is_zero) { return number(0u); }
    return MATRICES[at + i * P.value_dim];
}

// Updates a column that lies at `read` and goes to `to`. Returns what the query reads from it.
fn column(read: u32, to: u32, is_zero: bool, decay: f32, strength: f32, value: f32) -> f32 {
    var new_value = settle(value);
    if (P.delta != 0u) {
        var found = number(0u);
        for (var i = 0u; i < P.key_dim; i++) { found = add(found, mul(settle(mul(before(read, i, is_zero), decay)), KEY[i])); }
        new_value = sub(new_value, found);
    }
    new_value = settle(mul(new_value, strength));
    var sum = number(0u);
    for (var i = 0u; i < P.key_dim; i++) {
        let s = settle(add(mul(before(read, i, is_zero), decay), mul(KEY[i], new_value)));
        MATRICES[to + i * P.value_dim] = s;
        sum = add(sum, mul(s, QUERY[i]));
    }
    return sum;
}

// The result of a column before its gate. All invocations call it.
fn finished(x: f32, value: f32, head: u32, lane: u32, invocation: u32) -> f32 {
    if (P.delta == 0u) { return add(x, settle(mul(value, settle(V[P.vector + head])))); }
    RESULT[invocation] = x;
    workgroupBarrier();
    OF_RESULT = true;
    norm(P.value_dim, false, P.epsilon, invocation);
    return normed(lane, false, P.vector, NONE);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
    ZERO = P.zero;
    let head = group.x;
    let run = P.runs + RUN * group.y;
    var own = head % P.groups;
    if (P.shared_by != 0u) { own = head / P.shared_by; }
    let size = P.key_dim * P.value_dim;
    let is_column = invocation < P.value_dim;
    let lane = min(invocation, P.value_dim - 1u);
    let to = (B[run + 3u] * P.heads + head) * size + lane;
    let forgets = settle(V[P.decay + head]);
    let bias = settle(V[P.bias + head]);
    for (var i = 0u; i < B[run + 1u]; i++) {
        let row = B[P.order + B[run] + i];
        let base = row * P.mix_stride;
        prepare(base, own, invocation);
        let step = softplus(add(MIX[base + P.step + head], bias));
        let decay = settle(exp_of(mul(forgets, step)));
        var strength = step;
        if (P.delta != 0u) { strength = settle(sigmoid(MIX[base + P.step + P.heads + head])); }
        let value = MIX[base + P.value + head * P.value_dim + lane];
        var x = number(0u);
        if (is_column) {
            let is_first = i == 0u;
            let read = select(to, (B[run + 2u] * P.heads + head) * size + lane, is_first);
            x = column(read, to, is_first && B[run + 2u] == NONE, decay, strength, value);
        }
        let y = mul(finished(x, value, head, lane, invocation), silu(MIX[base + P.gate + head * P.value_dim + lane]));
        if (is_column) {
            let place = head * P.value_dim + invocation;
            OUT[row * P.out_stride + place] = y;
            if (P.largest != NONE) { atomicMax(&LARGEST[row * P.largest + place / 32u], magnitude(y)); }
            if (!is_finite(y)) { atomicMax(&FLAG[P.flag], 1u); }
        }
        workgroupBarrier();
    }
}
