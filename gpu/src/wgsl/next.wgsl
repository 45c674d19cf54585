// A token that was chosen becomes the token of the row that comes next, which takes the place of the first one.

@group(0) @binding(2) var<storage, read_write> CHOSEN: array<u32>;
@group(0) @binding(3) var<storage, read_write> B: array<u32>;
@group(0) @binding(4) var<storage, read_write> ANGLES: array<f32>;

// All invocations call it.
fn next_row(token: u32, invocation: u32) {
    let next = B[DONE] + 1u;
    let goes_on = next < B[COUNT];
    storageBarrier();
    if (goes_on) { for (var i = invocation; i < P.angles; i += 256u) { ANGLES[i] = ANGLES[next * P.angles + i]; } }
    if (invocation != 0u) { return; }
    CHOSEN[next - 1u] = token;
    B[DONE] = next;
    if (!goes_on) { return; }
    // The tables are those of the same sequence.
    let position = B[ROWS + 5u * next];
    B[LAST] = position;
    B[ROWS] = position;
    B[ROWS + 1u] = token;
    // It goes on from the state that this row has written.
    B[P.runs + 2u] = B[P.runs + 3u];
}

// Words of a batch: its largest position; rows that are done of those that are computed one after the other; how many there are.
const LAST = 3u;
const DONE = 4u;
const COUNT = 5u;
const ROWS = 16u;
