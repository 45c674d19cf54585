//!include num.wgsl
const THREADS = 256u;
const PASS = 256u;
//!include sums.wgsl
//!include chunk.wgsl
//!include heads.wgsl
// A workgroup has a head of a row. Further workgroups have the attention of a head of queries over a ready chunk each.

// Stores the sums of a chunk for the query in HEAD.
fn store_chunk(row: u32, head: u32, chunk: u32, invocation: u32) {
    for (var i = invocation; i < P.shape.dim; i += THREADS) { put_query(i, HEAD[i]); }
    let sums = attended(row, head, chunk, invocation);
    let at = part_at(row, head, chunk);
    if (invocation == 0u) {
        QKV[at] = sums.peak;
        QKV[at + 1u] = sums.total;
    }
    if (invocation < P.shape.dim) { QKV[at + 2u + invocation] = settle(sums.value); }
    if (invocation + THREADS < P.shape.dim) { QKV[at + 2u + invocation + THREADS] = settle(sums.other); }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
    ZERO = P.zero;
    // Workgroups with z above 0 have a chunk each.
    if (group.z > 0u && (!is_query(group.y) || group.z > ready(group.x))) { return; }
    prepare(group.x, group.y, invocation);
    if (group.z == 0u) { put_head(group.x, group.y, invocation); }
    else { store_chunk(group.x, group.y, group.z - 1u, invocation); }
}
