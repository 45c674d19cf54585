//! The functions of the kernels' library against `gleed::num`, on any bits.

mod common;

use bytemuck::{cast_slice, cast_slice_mut};
use gleed::num;
use gleed_gpu::{Hardware, composed};
use gleed_testing::random::Rng;
use half::f16;

const COUNT: usize = 1 << 19;

/// A function of the CPU: from two numbers to the bits of a result.
type Scalar = fn(f32, f32) -> u32;

/// Returns pairs of numbers: all pairs of special ones, then any bits, moderate numbers, and numbers with few bits.
fn inputs() -> [Vec<u32>; 2] {
    let special = [
        0,
        1,
        0x007f_ffff,
        0x0080_0000,
        0x267f_ffff,
        0x2680_0000,
        0x3300_0000,
        0x3380_0000,
        0x387f_c000,
        0x387f_ffff,
        0x3880_0000,
        0x3f7f_ffff,
        0x3f80_0000,
        0x3f80_0001,
        0x4780_0000,
        0x477f_efff,
        0x477f_f000,
        0x717f_ffff,
        0x7180_0000,
        0x7f7f_ffff,
        0x7f80_0000,
        0x7fc0_0000,
        0x42ae_0000,
        0x42ae_0001,
        0x42b0_0000,
        0x42b0_0001,
        0x41dc_0000,
        0x41a0_0000,
        0x3f20_0000,
        0x3f1f_ffff,
    ];
    let mut rng = Rng::new(1);
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for x in special {
        for y in special {
            for signs in 0..4_u32 {
                a.push(x | signs << 31);
                b.push(y | (signs >> 1) << 31);
            }
        }
    }
    let mut any = |i: usize| match i % 4 {
        0 => rng.u64() as u32,
        1 => (rng.uniform() * 8.0).to_bits(),
        2 => (rng.uniform() * 100.0).to_bits(),
        _ => (rng.below(1 << 12) as f32 * 0.25).to_bits(),
    };
    while a.len() < COUNT {
        a.push(any(a.len()));
        b.push(any(b.len() / 4));
    }
    [a, b]
}

/// Returns what the device computes: `expression` of the numbers x and y, as bits.
fn on_device(hardware: &Hardware, expression: &str, inputs: &[Vec<u32>; 2]) -> Vec<u32> {
    let library = composed("num.wgsl", &[]).unwrap();
    let source = format!(
        "{library}
struct Params {{ zero: u32 }}
@group(0) @binding(0) var<storage, read> P: Params;
@group(0) @binding(1) var<storage, read> A: array<u32>;
@group(0) @binding(2) var<storage, read> C: array<u32>;
@group(0) @binding(3) var<storage, read_write> O: array<u32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
    ZERO = P.zero;
    let x = number(A[id.x]);
    let y = number(C[id.x]);
    O[id.x] = {expression};
}}"
    );
    let pipeline = hardware.pipeline(&source).unwrap();
    let buffers: Vec<_> = (0..3).map(|_| hardware.buffer("numbers", 4 * COUNT as u64).unwrap()).collect();
    for (buffer, words) in buffers.iter().zip(inputs) {
        hardware.write(buffer, 0, cast_slice(&words[..COUNT])).unwrap();
    }
    let params = hardware.buffer("parameters", 256).unwrap();
    let run = hardware.bind(&pipeline, (&params, 0, 256), &buffers.iter().collect::<Vec<_>>()).unwrap();
    hardware.submit([(&run, [COUNT as u32 / 64, 1, 1])]).unwrap();
    let mut out = vec![0_u32; COUNT];
    hardware.read(&buffers[2], 0, cast_slice_mut(&mut out)).unwrap();
    out
}

/// Returns the bits of a number, and the same bits for any NaN.
fn plain(bits: u32) -> u32 {
    if f32::from_bits(bits).is_nan() { 0x7fc0_0000 } else { bits }
}

/// Returns whether a number is subnormal. A device may flush it, so such results and operands are left out: the
/// arithmetic promises nothing of them.
fn is_subnormal(bits: u32) -> bool {
    let magnitude = bits & 0x7fff_ffff;
    magnitude != 0 && magnitude < 0x0080_0000
}

/// Returns whether a device may flush a product. NVIDIA's devices do so before it is rounded: a product below 2^-126
/// that is rounded up to 2^-126 can be a zero, too.
fn can_be_flushed(product: f32) -> bool {
    product != 0.0 && product.abs() <= f32::MIN_POSITIVE
}

#[test]
fn functions_equal_the_scalar_ones() {
    let Some(hardware) = common::hardware() else { return };
    let tests: &[(&str, Scalar)] = &[
        ("bitcast<u32>(add(x, y))", |x, y| (x + y).to_bits()),
        ("bitcast<u32>(sub(x, y))", |x, y| (x - y).to_bits()),
        ("bitcast<u32>(mul(x, y))", |x, y| (x * y).to_bits()),
        ("bitcast<u32>(add(mul(x, y), x))", |x, y| (x * y + x).to_bits()),
        ("bitcast<u32>(div(x, y))", |x, y| (x / y).to_bits()),
        ("bitcast<u32>(root(x))", |x, _| num::sqrt(x).to_bits()),
        ("bitcast<u32>(exp_of(x))", |x, _| num::exp(x).to_bits()),
        ("bitcast<u32>(silu(x))", |x, _| num::silu(x).to_bits()),
        ("bitcast<u32>(gelu_tanh(x))", |x, _| num::gelu_tanh(x).to_bits()),
        ("bitcast<u32>(gelu_erf(x))", |x, _| num::gelu_erf(x).to_bits()),
        ("bitcast<u32>(squared_relu(x))", |x, _| num::squared_relu(x).to_bits()),
        ("bitcast<u32>(sigmoid(x))", |x, _| num::sigmoid(x).to_bits()),
        (
            "bitcast<u32>(xielu(x, number(0x3f000000u), number(0x3f400000u), number(0x3fa00000u), number(0xbf000000u)))",
            |x, _| {
                let numbers = num::Xielu { linear: 0.5, positive: 0.75, negative: 1.25, largest: -0.5 };
                num::xielu(x, numbers).to_bits()
            },
        ),
        ("bitcast<u32>(limited(x))", |x, _| num::limited(x).to_bits()),
        ("bitcast<u32>(limited_silu(x))", |x, _| num::limited_silu(x).to_bits()),
        ("bitcast<u32>(tanh_of(x))", |x, _| num::tanh(x).to_bits()),
        ("bitcast<u32>(settle(x))", |x, _| num::settle(x).to_bits()),
        ("bitcast<u32>(short(x))", |x, _| num::short(x).to_bits()),
        ("bitcast<u32>(f16_to_f32(bitcast<u32>(x) & 0xffffu))", |x, _| {
            num::f16_to_f32(f16::from_bits(x.to_bits() as u16)).to_bits()
        }),
        (
            "select(f32_to_f16(x), 0u, is_nan(x))",
            |x, _| {
                if x.is_nan() { 0 } else { u32::from(num::f32_to_f16(x).to_bits()) }
            },
        ),
        ("u32(greater(x, y))", |x, y| u32::from(x > y)),
        ("u32(is_finite(x))", |x, _| u32::from(num::is_finite(x))),
        ("bitcast<u32>(of_i32(bitcast<i32>(bitcast<u32>(x))))", |x, _| (x.to_bits() as i32 as f32).to_bits()),
    ];
    let inputs = inputs();
    for (expression, scalar) in tests {
        let got = on_device(&hardware, expression, &inputs);
        let mut wrong = Vec::new();
        for ((&a, &b), got) in inputs[0].iter().zip(&inputs[1]).zip(got) {
            let want = scalar(f32::from_bits(a), f32::from_bits(b));
            let multiplies = expression.contains("mul(") && can_be_flushed(f32::from_bits(a) * f32::from_bits(b));
            let skipped = is_subnormal(a) || is_subnormal(b) || is_subnormal(want) || multiplies;
            if plain(got) != plain(want) && !skipped {
                wrong.push(format!("{a:08x} {b:08x}: {got:08x}, not {want:08x}"));
            }
        }
        assert!(wrong.is_empty(), "{expression}: {} wrong, {:?}", wrong.len(), &wrong[..wrong.len().min(5)]);
    }
}
