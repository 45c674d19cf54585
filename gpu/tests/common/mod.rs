//! A device for tests.
#![allow(dead_code, unreachable_pub, missing_debug_implementations)]

use std::sync::OnceLock;

use gleed_gpu::{Choice, Gpu, GpuError, Hardware, Kernel, Tested, selftest};

/// Any device, also one that computes on the CPU.
pub const ANY: Choice = Choice { backend: None, software: true, patience: std::time::Duration::from_secs(120) };

/// Returns any device. On machines without one it prints a message and returns `None`, or panics with
/// `GLEED_REQUIRE_GPU=1`.
pub fn hardware() -> Option<Hardware> {
    present(Hardware::open(&ANY))
}

/// Returns a device for all models after the short test, opened once. `kernels.rs` runs the whole test.
pub fn gpu() -> Option<&'static Gpu> {
    static GPU: OnceLock<Option<Gpu>> = OnceLock::new();
    GPU.get_or_init(|| Some(after_sentinel(hardware()?, &Kernel::all()))).as_ref()
}

/// Returns a device with these kernels after the short test.
pub fn after_sentinel(hardware: Hardware, kernels: &[Kernel]) -> Gpu {
    let known = Tested(selftest::key(&hardware, kernels));
    Gpu::tested(hardware, kernels, Some(known)).unwrap().0
}

fn present<T>(opened: Result<T, GpuError>) -> Option<T> {
    match opened {
        Ok(opened) => Some(opened),
        Err(error @ GpuError::NoAdapter { .. }) => {
            assert!(std::env::var("GLEED_REQUIRE_GPU").as_deref() != Ok("1"), "{error}");
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}
