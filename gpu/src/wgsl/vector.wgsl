//!include num.wgsl
//!include linear.wgsl
//!include bytes.wgsl
//!include FORMAT
// Rows of activations times quantized weights: 8 outputs of one row by a workgroup. 8 invocations multiply blocks of an output,
// the first of them adds the products in order.

const SLOTS = 8u;
const PART = 64u; // blocks between two barriers
var<workgroup> PRODUCTS: array<f32, 512>;
var<workgroup> MINIMA: array<f32, 512>;
var<workgroup> SUMS: array<f32, 8>;

struct Block { sum: i32, minima: i32 }

fn block_of(block: u32, x: u32) -> Block {
    var sum = 0;
    var minima = 0;
    for (var sub = 0u; sub < SUBS; sub++) {
        let f = factors(block, sub);
        var a = 0;
        var b = 0;
        for (var i = 0u; i < 4u; i++) {
            a += dot4I8Packed(codes(block, sub, i), X[x + 8u * sub + i]);
            b += dot4I8Packed(codes(block, sub, i + 4u), X[x + 8u * sub + i + 4u]);
        }
        sum += f.x * a + f.y * b;
        if (MINS) {
            var all = 0;
            for (var i = 0u; i < 8u; i++) { all += dot4I8Packed(0x01010101u, X[x + 8u * sub + i]); }
            minima += f.z * all;
        }
    }
    return Block(sum, minima);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
    let slot = invocation / 8u;
    let lane = invocation % 8u;
    let at = place(group.x, slot, SLOTS);
    let row = group.y;
    let blocks = P.cols / (32u * SUBS);
    let x0 = row * P.x_stride;
    let w0 = P.segments[at.segment].at + at.output * P.row_bytes;
    var acc = number(0u);
    for (var first = 0u; first < blocks; first += PART) {
        let count = min(PART, blocks - first);
        if (at.inside) {
            for (var b = lane; b < count; b += 8u) {
                let block = w0 + (first + b) * BLOCK;
                let dx = number(X[x0 + P.cols / 4u + first + b]);
                let got = block_of(block, x0 + (first + b) * 8u * SUBS);
                PRODUCTS[slot * PART + b] = mul(of_i32(got.sum), mul(scale(block), dx));
                if (MINS) { MINIMA[slot * PART + b] = mul(of_i32(got.minima), mul(min_scale(block), dx)); }
            }
        }
        workgroupBarrier();
        if (lane == 0u) {
            for (var b = 0u; b < count; b++) {
                acc = add(acc, PRODUCTS[slot * PART + b]);
                if (MINS) { acc = sub(acc, MINIMA[slot * PART + b]); }
            }
        }
        workgroupBarrier();
    }
    if (P.mode != GATE) {
        if (lane == 0u && at.inside) { finish(at, row, acc); }
        return;
    }
    if (lane == 0u && at.inside) { SUMS[slot] = biased(at, acc); }
    workgroupBarrier();
    if (lane == 0u && at.inside && slot < SLOTS / 2u) { finish_gate(at, row, SUMS[slot], SUMS[slot + SLOTS / 2u]); }
}
