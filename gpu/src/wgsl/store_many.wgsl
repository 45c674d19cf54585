//!include num.wgsl
const THREADS = 128u;
const PASS = 128u;
//!include sums.wgsl
//!include keys.wgsl
//!include heads.wgsl
// The same as `store.wgsl` for many rows, without chunks. Workgroups are smaller, so that more of them run at a time.

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
    ZERO = P.zero;
    prepare(group.x, group.y, invocation);
    put_head(group.x, group.y, invocation);
}
