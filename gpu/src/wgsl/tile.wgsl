//!include num.wgsl
//!include linear.wgsl
//!include bytes.wgsl
//!include q8.wgsl
//!include activations.wgsl
//!include FORMAT
// Many rows of activations times quantized weights: 16 outputs of 16 rows by a workgroup, 4 rows of an output by an invocation.

const SLOTS = 16u;
var<workgroup> WEIGHTS: array<u32, 128>;
var<workgroup> FACTORS: array<vec3<i32>, 16>;
var<workgroup> SCALES: array<f32, 16>;
var<workgroup> MINIMA: array<f32, 16>;
var<workgroup> INPUTS: array<u32, 128>;
var<workgroup> STEPS: array<f32, 16>;
var<workgroup> INVERSES: array<f32, 16>;
var<workgroup> SUMS: array<f32, 256>;

fn last_row() -> u32 { return max(B[P.count], 1u) - 1u; }

// Where the block of an output begins; some block where there is no such output.
fn block_at(workgroup: u32, slot: u32, block: u32) -> u32 {
    let at = place(workgroup, slot, SLOTS);
    let output = select(0u, at.output, at.inside);
    let segment = select(0u, at.segment, at.inside);
    return P.segments[segment].at + output * P.row_bytes + block * BLOCK;
}

fn row_at(workgroup: u32, i: u32) -> u32 { return min(workgroup * 16u + i, last_row()); }

// Scales of a block of all rows.
fn load_steps(group: vec3<u32>, invocation: u32, block: u32) {
    if (invocation >= 16u) { return; }
    let step = step_at(row_at(group.y, invocation), block);
    STEPS[invocation] = step.step;
    INVERSES[invocation] = step.inverse;
}

// Loads 32 columns of all outputs and rows.
fn load(group: vec3<u32>, invocation: u32, block: u32, sub: u32) {
    let word = (block * SUBS + sub) * 8u;
    for (var k = invocation; k < 128u; k += 64u) {
        WEIGHTS[k] = codes(block_at(group.x, k / 8u, block), sub, k % 8u);
        INPUTS[k] = codes_at(row_at(group.y, k / 8u), word + k % 8u, INVERSES[k / 8u]);
    }
    if (invocation < 16u) {
        let at = block_at(group.x, invocation, block);
        FACTORS[invocation] = factors(at, sub);
        if (sub == 0u) {
            SCALES[invocation] = scale(at);
            MINIMA[invocation] = min_scale(at);
        }
    }
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
    let slot = invocation % 16u;
    let row0 = invocation / 16u * 4u;
    let z = number(0u);
    var acc = array<f32, 4>(z, z, z, z);
    for (var block = 0u; block < P.cols / (32u * SUBS); block++) {
        var sums = array<i32, 4>(0, 0, 0, 0);
        var minima = array<i32, 4>(0, 0, 0, 0);
        for (var sub = 0u; sub < SUBS; sub++) {
            workgroupBarrier();
            if (sub == 0u) {
                load_steps(group, invocation, block);
                workgroupBarrier();
            }
            load(group, invocation, block, sub);
            workgroupBarrier();
            let f = FACTORS[slot];
            for (var r = 0u; r < 4u; r++) {
                let x = (row0 + r) * 8u;
                var a = 0;
                var b = 0;
                for (var i = 0u; i < 4u; i++) {
                    a += dot4I8Packed(WEIGHTS[slot * 8u + i], INPUTS[x + i]);
                    b += dot4I8Packed(WEIGHTS[slot * 8u + i + 4u], INPUTS[x + i + 4u]);
                }
                sums[r] += f.x * a + f.y * b;
                if (MINS) {
                    var all = 0;
                    for (var i = 0u; i < 8u; i++) { all += dot4I8Packed(0x01010101u, INPUTS[x + i]); }
                    minima[r] += f.z * all;
                }
            }
        }
        for (var r = 0u; r < 4u; r++) {
            let dx = STEPS[row0 + r];
            acc[r] = add(acc[r], mul(of_i32(sums[r]), mul(SCALES[slot], dx)));
            if (MINS) { acc[r] = sub(acc[r], mul(of_i32(minima[r]), mul(MINIMA[slot], dx))); }
        }
    }
    let at = place(group.x, slot, SLOTS);
    if (P.mode == GATE && at.inside) {
        for (var r = 0u; r < 4u; r++) { SUMS[(row0 + r) * SLOTS + slot] = biased(at, acc[r]); }
    }
    workgroupBarrier();
    for (var r = 0u; r < 4u; r++) {
        let row = group.y * 16u + row0 + r;
        if (row > last_row() || !at.inside) { continue; }
        let s = (row0 + r) * SLOTS + slot;
        if (P.mode != GATE) { finish(at, row, acc[r]); }
        else if (slot < SLOTS / 2u) { finish_gate(at, row, SUMS[s], SUMS[s + SLOTS / 2u]); }
    }
}
