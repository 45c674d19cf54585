//!include num.wgsl
//!include linear.wgsl
//!include bytes.wgsl
//!include q8.wgsl
//!include activations.wgsl
//!include outputs.wgsl
//!include FORMAT
// Rows of activations times quantized weights: 8 outputs of one row by a workgroup. 8 invocations multiply blocks of an output,
// the first of them adds the products in order.

const SLOTS = 8u;
const PART = 64u / SUBS; // blocks at a time
var<workgroup> INPUTS: array<u32, 512>;
var<workgroup> STEPS: array<f32, 64>;
var<workgroup> INVERSES: array<f32, 64>;
var<workgroup> PRODUCTS: array<f32, 512>;
var<workgroup> MINIMA: array<f32, 512>;

struct Block { sum: i32, minima: i32 }

fn block_of(block: u32, x: u32) -> Block {
    var sum = 0;
    var minima = 0;
    for (var sub = 0u; sub < SUBS; sub++) {
        let f = factors(block, sub);
        var a = 0;
        var b = 0;
        for (var i = 0u; i < 4u; i++) {
            a += dot4I8Packed(codes(block, sub, i), INPUTS[x + 8u * sub + i]);
            b += dot4I8Packed(codes(block, sub, i + 4u), INPUTS[x + 8u * sub + i + 4u]);
        }
        sum += f.x * a + f.y * b;
        if (MINS) {
            var all = 0;
            for (var i = 0u; i < 8u; i++) { all += dot4I8Packed(0x01010101u, INPUTS[x + 8u * sub + i]); }
            minima += f.z * all;
        }
    }
    return Block(sum, minima);
}

// Loads blocks of activations.
fn load(row: u32, first: u32, count: u32, invocation: u32) {
    if (invocation < count) {
        let step = step_at(row, first + invocation);
        STEPS[invocation] = step.step;
        INVERSES[invocation] = step.inverse;
    }
    workgroupBarrier();
    for (var w = invocation; w < count * 8u * SUBS; w += 64u) {
        INPUTS[w] = codes_at(row, first * 8u * SUBS + w, INVERSES[w / (8u * SUBS)]);
    }
    workgroupBarrier();
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
    let slot = invocation / 8u;
    let lane = invocation % 8u;
    let at = place(group.x, slot, SLOTS);
    let row = group.y;
    if (!find_expert(row)) { return; }
    let blocks = P.cols / (32u * SUBS);
    let w0 = weights_at(at.segment, at.output);
    var acc = number(0u);
    for (var first = 0u; first < blocks; first += PART) {
        let count = min(PART, blocks - first);
        load(row, first, count, invocation);
        if (at.inside) {
            for (var b = lane; b < count; b += 8u) {
                let block = w0 + (first + b) * BLOCK;
                let got = block_of(block, b * 8u * SUBS);
                PRODUCTS[slot * PART + b] = mul(of_i32(got.sum), mul(scale(block), STEPS[b]));
                if (MINS) { MINIMA[slot * PART + b] = mul(of_i32(got.minima), mul(min_scale(block), STEPS[b])); }
            }
        }
        workgroupBarrier();
        if (lane == 0u) {
            for (var b = 0u; b < count; b++) {
                acc = add(acc, PRODUCTS[slot * PART + b]);
                if (MINS) { acc = sub(acc, MINIMA[slot * PART + b]); }
            }
        }
    }
    finish_slot(at, row, slot, lane == 0u, acc);
}
