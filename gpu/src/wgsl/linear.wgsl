// Up to four matrices in one buffer, and what is done with their outputs.

struct Segment { at: u32, outputs: u32, y_at: u32, bias: u32 }
struct Params {
    zero: u32, cols: u32, x_stride: u32, y_stride: u32,
    mode: u32, activation: u32, count: u32, row_bytes: u32,
    factor: u32, cap: u32, flag: u32, raw: u32,
    largest: u32, used: u32, first_expert: u32, experts: u32,
    expert_bytes: u32, expert_rows: u32, expert_largest: u32, gates: u32,
    numbers: u32, split: u32, split_at: u32, times: u32, times_stride: u32,
    x_at: u32, gates_stride: u32,
    segments: array<Segment, 4>,
}
@group(0) @binding(0) var<storage, read> P: Params;
@group(0) @binding(1) var<storage, read> W: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> X: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> Y: array<f32>;
@group(0) @binding(4) var<storage, read> V: array<f32>;
@group(0) @binding(5) var<storage, read_write> FLAG: array<atomic<u32>>;
// The words of a batch; with experts, the P.used experts of each row.
@group(0) @binding(6) var<storage, read> B: array<u32>;
// The largest magnitude of each 32 activations, P.largest words of a row: of written activations where there is an activation function, of the floats in X
// where P.raw is 1.
@group(0) @binding(7) var<storage, read_write> LARGEST: array<atomic<u32>>;

const SET = 0u;
const ADD = 1u;
const GATE = 2u; // the first segment has the gates, the second what they are multiplied with
const LOGITS = 3u;
const ACTIVATE = 4u;
const NO_BIAS = 0xffffffffu;

// Index of this workgroup's expert among the matrices in W.
var<private> EXPERT: u32;

// With experts, a row of outputs is a pair of a row and one of its experts. Returns whether the expert's matrix is in W.
fn find_expert(pair: u32) -> bool {
    EXPERT = 0u;
    if (P.used == 0u) { return true; }
    // A local, not EXPERT: a compiler takes a private variable as non-uniform, and callers return on it before barriers.
    let expert = B[pair] - P.first_expert;
    EXPERT = expert;
    return expert < P.experts;
}

// The row of activations that a row of outputs reads. Pairs have a row each where activations stayed floats.
fn input_of(row: u32) -> u32 {
    if (P.used == 0u || P.raw != 0u) { return row; }
    return row / P.used;
}

// The word of X at which the activations of a row of outputs begin.
fn input_at(row: u32) -> u32 { return P.x_at + input_of(row) * P.x_stride; }

// A word of X.
fn input_word(at: u32) -> u32 { return X[at >> 2u][at & 3u]; }

// The index of the first largest magnitude of a row of outputs, or of activations as floats.
fn largest_of(row: u32) -> u32 {
    if (P.used == 0u) { return row * P.largest; }
    return row / P.used * P.largest + row % P.used * P.expert_largest;
}

fn weights_at(segment: u32, output: u32) -> u32 {
    return P.segments[segment].at + EXPERT * P.expert_bytes + output * P.row_bytes;
}

struct Place { segment: u32, output: u32, inside: bool }

// The output at `slot` of the `slots` outputs of a workgroup. With gates the first half of them are gates.
fn place(workgroup: u32, slot: u32, slots: u32) -> Place {
    if (P.mode == GATE) {
        let half = slots / 2u;
        let output = workgroup * half + slot % half;
        return Place(slot / half, output, output < P.segments[0].outputs);
    }
    let first = P.segments[0].outputs;
    let second = P.segments[1].outputs;
    let third = P.segments[2].outputs;
    let output = workgroup * slots + slot;
    if (output < first) { return Place(0u, output, true); }
    if (output - first < second) { return Place(1u, output - first, true); }
    let behind = output - first - second;
    if (behind < third) { return Place(2u, behind, true); }
    let last = behind - third;
    return Place(3u, last, last < P.segments[3].outputs);
}

fn biased(at: Place, acc: f32) -> f32 {
    let bias = P.segments[at.segment].bias;
    if (bias == NO_BIAS) { return acc; }
    return add(acc, settle(V[bias + (P.first_expert + EXPERT) * P.expert_rows + at.output]));
}

// Puts an activation, which the next matrix reads. An activation of a shared expert is multiplied by the sigmoid of the row's gate, from P.gates on. Returns
// the magnitude of the activation.
fn put(row: u32, at: Place, x: f32) -> u32 {
    let column = P.segments[at.segment].y_at + at.output;
    var y = x;
    if (P.gates != 0u) { y = mul(x, sigmoid(Y[P.gates + row * P.gates_stride])); }
    if (P.times != 0u) { y = mul(y, Y[P.times + row * P.times_stride + column]); }
    Y[row * P.y_stride + column] = y;
    return magnitude(y);
}

// The largest magnitude of some activations that share a word of LARGEST. The word is NONE where there are no activations yet.
struct Noted { word: u32, largest: u32 }
const NONE = 0xffffffffu;

fn note(noted: Noted) {
    if (noted.word != NONE) { atomicMax(&LARGEST[noted.word], noted.largest); }
}

// Notes one more activation. If its word is another one, the magnitude noted so far is written first.
fn noted_with(noted: Noted, row: u32, at: Place, magnitude: u32) -> Noted {
    let word = largest_of(row) + (P.segments[at.segment].y_at + at.output) / 32u;
    if (word == noted.word) { return Noted(word, max(noted.largest, magnitude)); }
    note(noted);
    return Noted(word, magnitude);
}

fn put_alone(row: u32, at: Place, x: f32) { note(noted_with(Noted(NONE, 0u), row, at, put(row, at, x))); }

// The activation function, without a gate. xIELU has numbers of the layer.
fn activated(x: f32) -> f32 {
    if (P.activation != XIELU) { return activate(P.activation, x); }
    return xielu(x, V[P.numbers], V[P.numbers + 1u], V[P.numbers + 2u], V[P.numbers + 3u]);
}

// The column of an output. Where the first matrix has queries and gates in turns, head by head, they are separated here.
fn column_of(at: Place) -> u32 {
    let column = P.segments[at.segment].y_at + at.output;
    if (P.split == 0u || at.segment != 0u) { return column; }
    let half = column / P.split;
    return select(0u, P.split_at, half % 2u == 1u) + half / 2u * P.split + column % P.split;
}

// Puts an output, in modes without gates.
fn finish(at: Place, row: u32, acc: f32) {
    let y = row * P.y_stride + column_of(at);
    var output = biased(at, acc);
    if (P.mode == ACTIVATE) {
        put_alone(row, at, activated(output));
        return;
    }
    if (P.mode == ADD) {
        if (P.factor != 0u) { output = settle(mul(output, number(P.factor))); }
        output = add(Y[y], output);
    }
    if (P.mode == SET && P.factor != 0u) { output = mul(output, number(P.factor)); }
    if (P.mode == LOGITS) {
        if (P.factor != 0u) { output = settle(mul(output, number(P.factor))); }
        if (P.cap != 0u) { output = soft_cap(number(P.cap), output); }
        if (!is_finite(output)) { atomicMax(&FLAG[P.flag], 1u); }
    }
    Y[y] = output;
}

fn finish_gate(at: Place, row: u32, gate: f32, other: f32) {
    put_alone(row, at, gated(P.activation, gate, other));
}
