//! Gleed on a GPU: the same program, the same hash.
//!
//! `docs/gpu.md` says what runs there, and how it is exact. [`Gpu::open`] refuses a device whose results differ from
//! the scalar code in any bit, and names the operation.
#![deny(unsafe_code)]

mod adapter;
mod catalog;
mod device;
mod error;
mod gpu;
mod grid;
mod halves;
mod hardware;
mod layout;
mod lower;
mod memory;
mod params;
mod place;
mod plan;
mod pool;
pub mod selftest;
mod shader;

pub use adapter::{AdapterInfo, Backend, Choice, Limits};
pub use catalog::{AtOnce, Catalog, Kernel, Weights};
pub use device::GpuDevice;
#[cfg(not(target_arch = "wasm32"))]
pub use device::KernelTime;
pub use error::GpuError;
pub use gpu::{Gpu, Tested};
pub use hardware::{Arrival, Buffer, Hardware, Pipeline, Run};
pub use plan::{DevicePlan, PlannedBuffer};
pub use shader::{LIBRARY, NATIVE_HALVES, composed, hash};
