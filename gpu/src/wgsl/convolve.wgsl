//!include num.wgsl
// A causal convolution of each channel over a sequence's rows, in the order of their positions. The rows before them are in the state of the sequence: a
// workgroup reads one slot and writes another. Between two gates the input has three numbers of a channel.

struct Params {
    zero: u32, channels: u32, kernel: u32, gated: u32,
    weights: u32, bias: u32, flag: u32, mix_stride: u32,
    out_stride: u32, largest: u32, order: u32, runs: u32,
    slot: u32, tail: u32, unused_0: u32, unused_1: u32,
}
@group(0) @binding(0) var<storage, read> P: Params;
@group(0) @binding(1) var<storage, read> B: array<u32>;
@group(0) @binding(2) var<storage, read_write> MIX: array<f32>;
@group(0) @binding(3) var<storage, read_write> TAILS: array<f32>;
@group(0) @binding(4) var<storage, read> V: array<f32>;
@group(0) @binding(5) var<storage, read_write> OUT: array<f32>;
// The largest magnitude of each 32 elements of OUT.
@group(0) @binding(6) var<storage, read_write> LARGEST: array<atomic<u32>>;
@group(0) @binding(7) var<storage, read_write> FLAG: array<atomic<u32>>;

const NONE = 0xffffffffu;
const GROUP = 128u; // channels whose rows lie together in a state
const RUN = 4u; // words of a run: index of its first row in the order of rows, their number, slot that is read, slot that is written

// The channel's numbers of the rows before the current one, the oldest first.
var<private> EARLIER: array<f32, 8>;

// The sum of a channel's earlier numbers and the current one `u`, times its weights.
fn convolved(channel: u32, earlier: u32, u: f32) -> f32 {
    let weights = P.weights + channel * P.kernel;
    var sum = number(0u);
    for (var i = 0u; i < earlier; i++) { sum = add(sum, mul(settle(V[weights + i]), EARLIER[i])); }
    sum = add(sum, mul(settle(V[weights + earlier]), u));
    if (P.bias != NONE) { sum = add(sum, settle(V[P.bias + channel])); }
    return sum;
}

// Computes a row of a channel.
fn step(row: u32, channel: u32, earlier: u32) {
    let at = row * P.mix_stride + channel;
    var u = MIX[at];
    if (P.gated != 0u) { u = mul(u, MIX[at + 2u * P.channels]); }
    u = settle(u);
    var result = convolved(channel, earlier, u);
    for (var i = 1u; i < earlier; i++) { EARLIER[i - 1u] = EARLIER[i]; }
    if (earlier > 0u) { EARLIER[earlier - 1u] = u; }
    if (P.gated != 0u) {
        result = mul(result, MIX[at + P.channels]);
        OUT[row * P.out_stride + channel] = result;
        atomicMax(&LARGEST[row * P.largest + channel / 32u], magnitude(result));
    } else {
        result = silu(result);
        MIX[at] = result;
    }
    if (!is_finite(result)) { atomicMax(&FLAG[P.flag], 1u); }
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
    ZERO = P.zero;
    let channel = group.x * 64u + invocation;
    if (channel >= P.channels) { return; }
    let run = P.runs + RUN * group.y;
    let earlier = P.kernel - 1u;
    let first = channel / GROUP * GROUP;
    let width = min(GROUP, P.channels - first);
    let place = P.tail + first * earlier + channel - first;
    let read = B[run + 2u];
    let written = B[run + 3u];
    for (var i = 0u; i < earlier; i++) {
        EARLIER[i] = number(0u);
        if (read != NONE) { EARLIER[i] = TAILS[read * P.slot + place + i * width]; }
    }
    for (var i = 0u; i < B[run + 1u]; i++) { step(B[P.order + B[run] + i], channel, earlier); }
    for (var i = 0u; i < earlier; i++) { TAILS[written * P.slot + place + i * width] = EARLIER[i]; }
}
