// The chosen token becomes the token of the next row, which takes the place of the first row of the batch.

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
    // The first entries of the tables stay: the next row is of the same sequence.
    let position = B[ROWS + 5u * next];
    B[LAST] = position;
    B[ROWS] = position;
    B[ROWS + 1u] = token;
    // The next row reads the state that this row has written.
    B[P.runs + 2u] = B[P.runs + 3u];
}

// Words of a batch: its largest position; the number of rows that are done, of those that are computed one after the other; the number of all these rows.
const LAST = 3u;
const DONE = 4u;
const COUNT = 5u;
const ROWS = 16u;
