//! Status numbers of `gleed_gpu.h`, below -1000. Like all status numbers they never change their meaning.

pub use gleed_ffi::status::*;

/// There is no such adapter; the text lists the adapters that exist.
pub const E_GPU_ADAPTER: i32 = -1010;
/// The GPU computes other bits than the CPU; the text names the operation.
pub const E_GPU_UNFIT: i32 = -1011;
/// The model, or the limits, need something that does not run on a GPU; the text names it.
pub const E_GPU_UNSUPPORTED: i32 = -1012;
/// A buffer is larger than the GPU allows.
pub const E_GPU_TOO_LARGE: i32 = -1013;
/// The GPU has no memory for a buffer.
pub const E_GPU_MEMORY: i32 = -1014;
/// The driver gives no device, or refused a call.
pub const E_GPU_DRIVER: i32 = -1015;
/// The GPU did not finish in time.
pub const E_GPU_TIMEOUT: i32 = -1016;
/// Models lie on the GPU.
pub const E_GPU_IN_USE: i32 = -1017;

/// Every status that `gleed_gpu.h` declares: its name there, without `GLEED_`, and its number.
pub const GPU: &[(&str, i32)] = &[
    ("E_ON_DEVICE", E_ON_DEVICE),
    ("E_DEVICE_LOST", E_DEVICE_LOST),
    ("E_GPU_ADAPTER", E_GPU_ADAPTER),
    ("E_GPU_UNFIT", E_GPU_UNFIT),
    ("E_GPU_UNSUPPORTED", E_GPU_UNSUPPORTED),
    ("E_GPU_TOO_LARGE", E_GPU_TOO_LARGE),
    ("E_GPU_MEMORY", E_GPU_MEMORY),
    ("E_GPU_DRIVER", E_GPU_DRIVER),
    ("E_GPU_TIMEOUT", E_GPU_TIMEOUT),
    ("E_GPU_IN_USE", E_GPU_IN_USE),
];
