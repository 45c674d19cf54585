//!include num.wgsl
//!include chunk.wgsl
//!include attention.wgsl
// Attention of a head of a row, which adds its chunks in order. The sums of ready chunks are there already.

// The sums of a ready chunk.
fn known(row: u32, head: u32, chunk: u32, invocation: u32) -> Chunk {
    let at = part_at(row, head, chunk);
    let last = P.shape.dim - 1u;
    return Chunk(QKV[at], QKV[at + 1u], QKV[at + 2u + min(invocation, last)], QKV[at + 2u + min(invocation + 256u, last)]);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
    ZERO = P.zero;
    let row = group.x;
    let head = group.y;
    let first = ready(row);
    for (var i = invocation; i < P.shape.dim; i += 256u) { put_query(i, QKV[query_at(row, head) + i]); }
    let zero = number(0u);
    var sums = Chunk(number(0xff800000u), zero, zero, zero);
    for (var chunk = 0u; chunk <= B[LAST] / CHUNK; chunk++) {
        // No `continue`: browsers accept a barrier only where they see that all invocations reach it.
        var next = sums;
        if (chunk < first) { next = known(row, head, chunk, invocation); }
        else { next = attended(row, head, chunk, invocation); }
        sums = with_chunk(sums, next);
    }
    let part = share(head, sums.peak, sums.total);
    put_result(row, head, invocation, sums.value, part);
    put_result(row, head, invocation + 256u, sums.other, part);
}

const LAST = 3u; // word of a batch: its largest position
