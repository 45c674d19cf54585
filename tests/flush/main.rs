//! A machine that flushes subnormal numbers to zero computes the same bits: `docs/arithmetic.md` section 10. Every
//! function and kernel runs without flushing and with each way to flush. `tests/flush_models` does this with whole
//! models.
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

mod compare;
mod environment;
mod functions;
mod kernels;
mod numbers;
#[path = "../common/random.rs"]
mod random;
#[path = "../common/scales.rs"]
mod scales;

/// Without this check, the tests might compare nothing.
#[test]
fn the_environments_flush() {
    let [tiny, third] = std::hint::black_box([f32::MIN_POSITIVE, 0.333]);
    assert_ne!(environment::with(environment::PLAIN, || tiny * third), 0.0);
    for (bits, [results, operands]) in environment::FLUSHING.into_iter().zip(environment::FLUSHES) {
        let result = environment::with(bits, || (tiny * third).to_bits());
        assert_eq!(result == 0, results, "{bits:#x}");
        let subnormal = std::hint::black_box(f32::from_bits(12345));
        let result = environment::with(bits, || (subnormal * 1e30).to_bits());
        assert_eq!(result == 0, operands, "{bits:#x}");
    }
}
