//!include num.wgsl
// The token with the largest logit of the first row, of equal ones the first. It becomes the token of the row that comes next, which
// takes the place of the first one. One workgroup.

struct Params { zero: u32, n: u32, angles: u32, unused: u32 }
@group(0) @binding(0) var<storage, read> P: Params;
@group(0) @binding(1) var<storage, read> X: array<f32>;
@group(0) @binding(2) var<storage, read_write> CHOSEN: array<u32>;
@group(0) @binding(3) var<storage, read_write> B: array<u32>;
@group(0) @binding(4) var<storage, read_write> ANGLES: array<f32>;

var<workgroup> ORDER: array<i32, 256>;
var<workgroup> TOKEN: array<u32, 256>;

// TOKEN[0] is the token afterwards.
fn choose(invocation: u32) {
    var best = -2147483647;
    var token = 0xffffffffu;
    for (var i = invocation; i < P.n; i += 256u) {
        let x = order(X[i]);
        if (x > best) { best = x; token = i; }
    }
    ORDER[invocation] = best;
    TOKEN[invocation] = token;
    workgroupBarrier();
    for (var half = 128u; half > 0u; half >>= 1u) {
        if (invocation < half) {
            let other = invocation + half;
            let wins = ORDER[other] > ORDER[invocation]
                || (ORDER[other] == ORDER[invocation] && TOKEN[other] < TOKEN[invocation]);
            if (wins) { ORDER[invocation] = ORDER[other]; TOKEN[invocation] = TOKEN[other]; }
        }
        workgroupBarrier();
    }
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) invocation: u32) {
    choose(invocation);
    let next = B[DONE] + 1u;
    let goes_on = next < B[COUNT];
    storageBarrier();
    if (goes_on) { for (var i = invocation; i < P.angles; i += 256u) { ANGLES[i] = ANGLES[next * P.angles + i]; } }
    if (invocation != 0u) { return; }
    CHOSEN[next - 1u] = TOKEN[0];
    B[DONE] = next;
    if (!goes_on) { return; }
    // The tables are those of the same sequence.
    let position = B[ROWS + 4u * next];
    B[LAST] = position;
    B[ROWS] = position;
    B[ROWS + 1u] = TOKEN[0];
}

// Words of a batch: its largest position; rows that are done of those that are computed one after the other; how many there are.
const LAST = 3u;
const DONE = 4u;
const COUNT = 5u;
const ROWS = 16u;
