//! Every kernel on a device that computes on the CPU (Mesa's lavapipe) against the scalar code, bit for bit.

mod common;

use gleed_gpu::{Catalog, GpuError, Kernel, selftest};

#[test]
fn kernels_equal_the_scalar_code() {
    let Some(hardware) = common::hardware() else { return };
    let catalog = Catalog::new(&hardware, Kernel::all()).unwrap();
    let mut wrong = Vec::new();
    for kernel in Kernel::all() {
        for seed in [1, 2, 3] {
            match selftest::kernel_alone(&hardware, &catalog, kernel, seed) {
                Ok(()) => {}
                Err(GpuError::Unfit { operation }) => wrong.push((kernel, seed, operation)),
                Err(other) => panic!("{kernel:?}: {other}"),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
