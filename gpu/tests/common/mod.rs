//! A device for tests.
#![allow(dead_code, unreachable_pub, missing_debug_implementations)]

pub mod makers;

use std::sync::OnceLock;

use gleed_gpu::{Choice, Gpu, GpuError, Hardware};

/// Any device, also one that computes on the CPU.
pub const ANY: Choice = Choice { backend: None, software: true, patience: std::time::Duration::from_secs(120) };

/// Any device; `None`, said aloud, on machines without one. With `GLEED_REQUIRE_GPU=1` there has to be one.
pub fn hardware() -> Option<Hardware> {
    present(Hardware::open(&ANY))
}

/// A device that passed the self-test, opened once.
pub fn gpu() -> Option<&'static Gpu> {
    static GPU: OnceLock<Option<Gpu>> = OnceLock::new();
    GPU.get_or_init(|| present(Gpu::open(&ANY, None)).map(|(gpu, _)| gpu)).as_ref()
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
