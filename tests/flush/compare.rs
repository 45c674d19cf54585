//! Comparisons of runs without flushing and with.
// Each of two tests uses only a part of this module.
#![allow(dead_code)]

use std::fmt::Debug;

use gleed::num::Xxh64;
use gleed::quant::{Form, quantize_row, row_words};

use crate::environment;

/// Computes something without flushing and with each way to flush. Checks that the results are equal, and returns them.
pub(crate) fn check<T: PartialEq + Debug>(what: impl Fn() -> String, compute: impl Fn() -> T) -> T {
    let plain = environment::with(environment::PLAIN, &compute);
    for bits in environment::FLUSHING {
        let flushed = environment::with(bits, &compute);
        assert!(flushed == plain, "{}: {flushed:x?} instead of {plain:x?} in environment {bits:#x}", what());
    }
    plain
}

/// Returns a hash of the bits of numbers.
pub(crate) fn hash(numbers: &[f32]) -> u64 {
    let mut hash = Xxh64::new();
    numbers.iter().for_each(|x| hash.update(&x.to_bits().to_le_bytes()));
    hash.finish()
}

/// Returns a hash of numbers as matrices read them. Below 2^-126 the numbers may differ, but these inputs must not.
pub(crate) fn hash_of_forms(numbers: &[f32]) -> u64 {
    let mut hash = Xxh64::new();
    for form in [Form::F32, Form::Short, Form::Q8x32, Form::Q8x256] {
        let mut padded = numbers.to_vec();
        padded.resize(numbers.len().next_multiple_of(256), 0.0);
        let mut words = vec![0; row_words(form, padded.len()).unwrap()];
        let result = quantize_row(form, &padded, &mut words);
        assert!(result.is_ok(), "{form:?} of {numbers:?}");
        words.iter().for_each(|word| hash.update(&word.to_le_bytes()));
    }
    hash.finish()
}
