//! Rows of activations in int8: every level gives the words of the scalar one, or the same error.

#[path = "common/random.rs"]
mod random;

use gleed::kernels::Level;
use gleed::quant::{Form, QuantizeError, row_words};
use random::Rng;

fn quantize(level: Level, form: Form, x: &[f32]) -> Result<Vec<u32>, QuantizeError> {
    let mut words = vec![0x5555_5555; row_words(form, x.len()).unwrap()];
    level.quantize_row(form, x, &mut words).map(|()| words)
}

fn check(form: Form, x: &[f32]) {
    let want = quantize(Level::SCALAR, form, x);
    for level in Level::available() {
        assert_eq!(quantize(level, form, x), want, "{level}, {form:?}, {x:?}");
    }
}

/// Covers every length up to 50 blocks, with magnitudes from the smallest to the largest.
#[test]
fn all_lengths_and_magnitudes() {
    let mut rng = Rng::new(41);
    for blocks in 1..=50 {
        for exponent in [-149, -126, -101, -100, -99, -20, 0, 60, 124] {
            let x: Vec<f32> =
                (0..32 * blocks).map(|_| (f64::from(rng.normal()) * 2.0_f64.powi(exponent)) as f32).collect();
            check(Form::Q8x32, &x);
        }
    }
    for blocks in 1..=6 {
        let x: Vec<f32> = (0..256 * blocks).map(|_| rng.normal()).collect();
        check(Form::Q8x256, &x);
    }
}

/// Covers the middle between two codes, zeros of both signs, and blocks of very different magnitude side by side.
#[test]
fn ties_and_mixed_blocks() {
    let mut rng = Rng::new(42);
    for _ in 0..200 {
        let mut x = vec![0.0_f32; 32 * 19];
        for block in x.chunks_mut(32) {
            let unit = [0.0, -0.0, 1e-45, 1e-31, 1.0, 3e30, f32::MAX / 127.0][rng.below(7)];
            for x in block.iter_mut() {
                *x = unit * (rng.below(509) as f32 * 0.5 - 127.0);
            }
            block[rng.below(32)] = 127.0 * unit;
        }
        check(Form::Q8x32, &x);
    }
}

#[test]
fn what_is_not_finite_is_found_in_its_block() {
    for blocks in [1, 3, 4, 5, 9] {
        for bad in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN, f32::from_bits(0x7f80_0001)] {
            for position in 0..32 * blocks {
                let mut x = vec![1.0; 32 * blocks];
                x[position] = bad;
                assert_eq!(
                    quantize(Level::SCALAR, Form::Q8x32, &x),
                    Err(QuantizeError::NonFinite { block: position / 32 })
                );
                check(Form::Q8x32, &x);
            }
        }
    }
}
