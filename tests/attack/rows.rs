//! Kernels for rows between the products, on numbers of all sizes, infinities and NaN.

use gleed::kernels::{Activation, Combine, Convolution, Level, Norm, NormKind, Update};
use gleed::quant::{Form, row_words};

use crate::{all_same, any, cases, finite, levels, random, row, tell};
use common::random::Rng;
use common::synthetic::encode_f32;

/// Runs a kernel at all levels until enough outputs were compared. `make` gets a length and returns the kernel.
fn attack<K: Fn(Level) -> Vec<f32>>(name: &str, seed: u64, mut make: impl FnMut(&mut Rng, usize) -> K) {
    let (mut rng, mut done) = (random(seed), 0);
    while done < cases() {
        let longest = if rng.below(8) == 0 { 600 } else { 80 };
        let len = 1 + rng.below(longest);
        let kernel = make(&mut rng, len);
        let expected = kernel(Level::SCALAR);
        for &level in levels() {
            assert!(all_same(&kernel(level), &expected), "{level}: {name} of {len}");
        }
        done += expected.len() as u64;
    }
    tell(name, "f32", done);
}

#[test]
fn norms() {
    for (kind, seed) in [(NormKind::Rms, 1), (NormKind::Layer, 2)] {
        attack("norm", seed, move |rng, len| {
            let (x, weight, bias) =
                (row(rng, len, any), encode_f32(&row(rng, len, finite)), encode_f32(&row(rng, len, finite)));
            let (in_place, has_bias) = (rng.below(2) == 0, kind == NormKind::Layer && rng.below(2) == 0);
            move |level: Level| {
                let how = Norm { kind, epsilon: 1e-5, weight: &weight, bias: if has_bias { &bias } else { &[] } };
                let mut out = x.clone();
                if in_place {
                    level.norm_in_place(&how, &mut out)
                } else {
                    level.norm(&how, &x, &mut out)
                }
                out
            }
        });
    }
}

#[test]
fn combinations() {
    let functions = Activation::ALL.into_iter().flat_map(|f| [Combine::Activate(f), Combine::Gate(f)]);
    for (seed, how) in (10..).zip([Combine::Set, Combine::Add, Combine::AddScaled(0.3)].into_iter().chain(functions)) {
        attack(&format!("{how:?}"), seed, move |rng, len| {
            let (y, outputs) = (row(rng, len, any), row(rng, len, any));
            move |level: Level| {
                let mut y = y.clone();
                level.combine(how, &mut y, &outputs);
                y
            }
        });
    }
}

#[test]
fn caps_gates_and_what_enters_states() {
    attack("soft cap", 30, |rng, len| {
        let (x, cap) = (row(rng, len, any), [5.0, 50.0, 1e-3][rng.below(3)]);
        move |level: Level| {
            let mut x = x.clone();
            level.soft_cap(cap, &mut x);
            x
        }
    });
    attack("gate", 31, |rng, len| {
        let (gate, x) = (row(rng, len, any), row(rng, len, any));
        move |level: Level| {
            let mut x = x.clone();
            level.gate(&gate, &mut x);
            x
        }
    });
    attack("settle", 32, |rng, len| {
        let x = row(rng, len, any);
        move |level: Level| {
            let mut out = x.clone();
            level.settle(&x, &mut out);
            out
        }
    });
    attack("normalize", 33, |rng, len| {
        let (x, scale) = (row(rng, len, any), finite(rng));
        move |level: Level| {
            let mut out = x.clone();
            level.normalize(&x, scale, &mut out);
            out
        }
    });
}

#[test]
fn states() {
    attack("convolution", 40, |rng, len| {
        let kernel = 2 + rng.below(4);
        let (weights, bias) = (row(rng, kernel * len, finite), row(rng, len, finite));
        let (tail, x) = (row(rng, (kernel - 1) * len, any), row(rng, len, any));
        let (has_bias, activates) = (rng.below(2) == 0, rng.below(2) == 0);
        move |level: Level| {
            let (mut tail, mut x) = (tail.clone(), x.clone());
            let how = Convolution { weights: &weights, bias: if has_bias { &bias } else { &[] }, activates };
            level.convolve(&how, &mut tail, &mut x).unwrap();
            x.into_iter().chain(tail).collect()
        }
    });
    attack("update of a state", 41, |rng, len| {
        let keys = 1 + rng.below(20);
        let [key, query] = [(); 2].map(|()| row(rng, keys, finite));
        let (value, state) = (row(rng, len, any), row(rng, keys * len, any));
        let (decay, strength, corrects) = (rng.uniform().abs(), finite(rng), rng.below(2) == 0);
        move |level: Level| {
            let (mut state, mut out) = (state.clone(), vec![0.0; len]);
            let update = Update { decay, key: &key, query: &query, value: &value, strength, corrects };
            level.update_state(&update, &mut state, &mut out).unwrap();
            out.into_iter().chain(state).collect()
        }
    });
}

/// All levels give the same words, or the same refusal.
#[test]
fn quantization() {
    for (form, seed) in [(Form::F32, 50), (Form::Short, 51), (Form::Q8x32, 52), (Form::Q8x256, 53)] {
        let (mut rng, mut done) = (random(seed), 0);
        while done < cases() {
            let block = [(Form::Q8x32, 32), (Form::Q8x256, 256)].iter().find(|of| of.0 == form).map_or(1, |of| of.1);
            let len = block * (1 + rng.below(3));
            let x = row(&mut rng, len, if done % 3 == 0 { any } else { finite });
            let run = |level: Level| {
                let mut words = vec![0; row_words(form, len).unwrap()];
                level.quantize_row(form, &x, &mut words).map(|()| words)
            };
            let is_float = block == 1;
            let expected = run(Level::SCALAR);
            for &level in levels() {
                let words = run(level);
                let floats = |words: &[u32]| -> Vec<f32> { words.iter().map(|&word| f32::from_bits(word)).collect() };
                let is_same = match (&words, &expected) {
                    (Ok(a), Ok(b)) if is_float => all_same(&floats(a), &floats(b)),
                    _ => words == expected,
                };
                assert!(is_same, "{level} {form:?}: {words:x?} for {expected:x?} of {x:?}");
            }
            done += len as u64;
        }
        tell("quantization", &format!("{form:?}"), done);
    }
}
