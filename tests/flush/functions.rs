//! The functions of section 5 of `docs/arithmetic.md`, and conversions of f16.

use half::f16;

use gleed::num::{
    exp, f16_to_f32, f32_to_f16, gelu_erf, gelu_tanh, limited, limited_silu, settle, short, sigmoid, silu, softplus,
    squared_relu, tanh,
};

use crate::compare::check;
use crate::numbers::hard;
use crate::random::Rng;

#[test]
fn halves() {
    for bits in 0..=u16::MAX {
        check(|| format!("half {bits:#x}"), || f16_to_f32(f16::from_bits(bits)).to_bits());
    }
    let mut rng = Rng::new(1);
    for _ in 0..100_000 {
        let x = settle(hard(&mut rng));
        check(|| format!("{x:e} as a half"), || f32_to_f16(x).to_bits());
    }
}

type Function = fn(f32) -> f32;

/// Functions that must give the same result for any number.
#[test]
fn of_any_number() {
    const FUNCTIONS: [(&str, Function); 9] = [
        ("exp", exp),
        ("sigmoid", sigmoid),
        ("softplus", softplus),
        ("settle", settle),
        ("short", short),
        ("gelu_erf", gelu_erf),
        ("squared_relu", squared_relu),
        ("limited + 1", |x| limited(x) + 1.0),
        ("tanh, settled", |x| settle(tanh(x))),
    ];
    let mut rng = Rng::new(2);
    for (name, function) in FUNCTIONS {
        // The steps cover the whole range in which the exponential is neither 0 nor infinite. Hard numbers cover all
        // exponents.
        let steps = (0..40_000).map(|i| (i - 20_000) as f32 / 200.0);
        for x in steps.chain((0..100_000).map(|_| hard(&mut rng))) {
            let y = check(|| format!("{name} of {x:e}"), || function(x).to_bits());
            assert!(y & 0x7fff_ffff == 0 || f32::from_bits(y).is_normal() || x > 80.0, "{name} of {x:e}");
        }
    }
}

/// Functions that must give the same result for numbers that are not subnormal, as dots are.
#[test]
fn of_dots() {
    const FUNCTIONS: [(&str, Function); 4] =
        [("silu", silu), ("gelu_tanh", gelu_tanh), ("limited_silu", limited_silu), ("tanh", tanh)];
    let mut rng = Rng::new(3);
    for (name, function) in FUNCTIONS {
        let steps = (0..40_000).map(|i| (i - 20_000) as f32 / 200.0);
        for x in steps.chain((0..100_000).map(|_| hard(&mut rng))) {
            if x == 0.0 || x.abs() >= crate::numbers::power(-120) {
                check(|| format!("{name} of {x:e}"), || function(x).to_bits());
            }
        }
    }
}
