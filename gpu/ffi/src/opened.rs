//! GPUs: their list, a GPU that is open and tested, its end.

use core::ffi::c_char;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;

use ::gleed_gpu::{AdapterInfo, Backend, Choice, Gpu, GpuError, Hardware, Kernel, Tested};
use gleed_ffi::boundary;
use gleed_ffi::error::{Failure, chars, gleed_error};
use gleed_ffi::object::{Object, Opaque};
use gleed_ffi::ptr::out;
use gleed_ffi::versioned::{Versioned, out_struct, versioned_or_null};
use gleed_ffi::{gleed_config, gleed_model};

use crate::failure::of_gpu;
use crate::plan::plans;
use crate::status;

/// Any interface.
pub const GLEED_GPU_ANY: u32 = 0;
/// Vulkan.
pub const GLEED_GPU_VULKAN: u32 = 1;
/// Metal.
pub const GLEED_GPU_METAL: u32 = 2;
/// DirectX 12.
pub const GLEED_GPU_DX12: u32 = 3;

/// A GPU that passed its test, and the number of models on it.
#[derive(Debug)]
pub struct Opened {
    pub(crate) gpu: Gpu,
    tested: Tested,
    pub(crate) models: AtomicU32,
}

impl Opaque for Opened {
    const MAGIC: u64 = u64::from_le_bytes(*b"gleedV01");
}

/// A GPU that passed its test, in memory of the library.
pub type gleed_gpu = Object<Opened>;

/// The choice of a GPU; see `include/gleed_gpu.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_gpu_choice {
    /// `sizeof(gleed_gpu_choice)`, set by the caller.
    pub struct_size: u32,
    /// `GLEED_GPU_ANY` and so on.
    pub backend: u32,
    /// 1 where a driver that computes on the CPU is accepted.
    pub software: u32,
    /// Milliseconds that a call waits for the device; 0 for 30,000.
    pub patience_ms: u32,
    /// The number that `gleed_gpu_describe` gave for a GPU that passed the whole test; 0 for none.
    pub tested: u64,
}

/// The description of a GPU; see `include/gleed_gpu.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_gpu_info {
    /// `sizeof(gleed_gpu_info)`, set by the caller.
    pub struct_size: u32,
    /// `GLEED_GPU_VULKAN` and so on; 0 for another interface.
    pub backend: u32,
    /// 1 for a driver that computes on the CPU.
    pub software: u32,
    /// Always 0.
    pub reserved: u32,
    /// Largest number of bytes of a buffer; 0 for a GPU that is not open.
    pub buffer_bytes: u64,
    /// A number that says that the GPU passed the test; 0 for a GPU that is not open.
    pub tested: u64,
    /// The adapter's name, cut to fit.
    pub name: [c_char; 96],
    /// The driver and its version, cut to fit.
    pub driver: [c_char; 96],
}

// SAFETY: integers, the first the size and the 8-byte one at a multiple of 8: no gaps, and every bit pattern is one.
unsafe impl Versioned for gleed_gpu_choice {}
// SAFETY: integers, the first the size and the 8-byte ones at multiples of 8, and two texts of 96 bytes: no gaps, and
// every bit pattern is one.
unsafe impl Versioned for gleed_gpu_info {}

/// Describes one of all GPUs, by its index.
///
/// # Safety
/// As `include/gleed_gpu.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_gpu_adapter(index: usize, info: *mut gleed_gpu_info, error: *mut gleed_error) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and struct_size are checked here. gleed_gpu.h demands the rest: `info` has as many
        // bytes as its struct_size says.
        let info = unsafe { out_struct("info", info) }?;
        let adapters = Hardware::adapters(Choice::default().patience).map_err(of_gpu)?;
        let past = || {
            let text = format_args!("GPU {index}, and there are {}", adapters.len());
            Failure::new(status::E_VALUE, text).numbers(adapters.len(), index)
        };
        info.write(described(adapters.get(index).ok_or_else(past)?, 0, 0));
        Ok(status::OK)
    })
}

/// Opens a GPU and tests it.
///
/// # Safety
/// As `include/gleed_gpu.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_gpu_open(
    choice: *const gleed_gpu_choice,
    gpu: *mut *mut gleed_gpu,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and struct_size are checked here. gleed_gpu.h demands the rest: `choice` is NULL or
        // has as many bytes as its struct_size says, and `gpu` is a place for a result that nothing else uses.
        let (place, choice) = unsafe { (out("gpu", gpu)?, versioned_or_null("choice", choice)?) };
        place.write(opened(choice, |_| Ok(Kernel::all()))?);
        Ok(status::OK)
    })
}

/// Opens a GPU for engines of one model, and tests the kernels that they need.
///
/// # Safety
/// As `include/gleed_gpu.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_gpu_open_for(
    choice: *const gleed_gpu_choice,
    model: *const gleed_model,
    config: *const gleed_config,
    gpu: *mut *mut gleed_gpu,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, struct_size and the tag and address of `model` are checked here. gleed_gpu.h demands
        // the rest: `choice` is NULL or has as many bytes as its struct_size says, and `gpu` is a place for a result
        // that nothing else uses.
        let (place, choice, model) =
            unsafe { (out("gpu", gpu)?, versioned_or_null("choice", choice)?, Object::get("model", model)?) };
        // SAFETY: NULL, alignment and struct_size are checked here; as many bytes are there as struct_size says.
        let config = unsafe { gleed_config::read(config)? };
        place.write(opened(choice, |hardware| Ok(plans(hardware, model, config)?.2.kernels()))?);
        Ok(status::OK)
    })
}

/// Opens a GPU, and tests the kernels that `kernels` names.
fn opened(
    choice: Option<gleed_gpu_choice>,
    kernels: impl FnOnce(&Hardware) -> Result<Vec<Kernel>, Failure>,
) -> Result<*mut gleed_gpu, Failure> {
    let known = choice.map(|choice| Tested(choice.tested));
    let hardware = Hardware::open(&wanted(choice)?).map_err(of_gpu)?;
    let kernels = kernels(&hardware)?;
    let (gpu, tested) = Gpu::tested(hardware, &kernels, known).map_err(of_gpu)?;
    boxed(Opened { gpu, tested, models: AtomicU32::new(0) })
}

/// Returns an object in memory of its own.
fn boxed(opened: Opened) -> Result<*mut gleed_gpu, Failure> {
    let place = Box::leak(Box::new(MaybeUninit::<gleed_gpu>::zeroed()));
    // SAFETY: the bytes of the box, all of them written (0), which nobody else knows.
    let bytes = unsafe { core::slice::from_raw_parts_mut(place.as_mut_ptr().cast::<u8>(), size_of_val(place)) };
    Ok(Object::place(bytes, opened)?)
}

/// Returns the choice that a caller made.
fn wanted(choice: Option<gleed_gpu_choice>) -> Result<Choice, Failure> {
    let Some(choice) = choice else { return Ok(Choice::default()) };
    let backend = match choice.backend {
        GLEED_GPU_ANY => None,
        GLEED_GPU_VULKAN => Some(Backend::Vulkan),
        GLEED_GPU_METAL => Some(Backend::Metal),
        GLEED_GPU_DX12 => Some(Backend::Dx12),
        given => {
            let text = format_args!("backend {given} is none of 0 any, 1 vulkan, 2 metal, 3 dx12");
            return Err(Failure::new(status::E_VALUE, text).numbers(GLEED_GPU_DX12, given));
        }
    };
    let software = match choice.software {
        0 => false,
        1 => true,
        given => return Err(Failure::new(status::E_VALUE, format_args!("software is 0 or 1")).numbers(1_u32, given)),
    };
    let default = Choice::default();
    let patience = match choice.patience_ms {
        0 => default.patience,
        given => Duration::from_millis(given.into()),
    };
    Ok(Choice { backend, software, patience })
}

/// Describes an open GPU.
///
/// # Safety
/// As `include/gleed_gpu.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_gpu_describe(
    gpu: *const gleed_gpu,
    info: *mut gleed_gpu_info,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, struct_size and the tag and address of `gpu` are checked here. gleed_gpu.h demands
        // the rest: no other call closes `gpu`, and `info` has as many bytes as its struct_size says.
        let (opened, info) = unsafe { (Object::get("gpu", gpu)?, out_struct("info", info)?) };
        let hardware = opened.gpu.hardware();
        info.write(described(hardware.info(), hardware.limits().binding, opened.tested.0));
        Ok(status::OK)
    })
}

fn described(adapter: &AdapterInfo, buffer_bytes: u64, tested: u64) -> gleed_gpu_info {
    let backend = match adapter.backend.parse() {
        Ok(Backend::Vulkan) => GLEED_GPU_VULKAN,
        Ok(Backend::Metal) => GLEED_GPU_METAL,
        Ok(Backend::Dx12) => GLEED_GPU_DX12,
        Ok(Backend::WebGpu) | Err(_) => GLEED_GPU_ANY,
    };
    gleed_gpu_info {
        struct_size: 0,
        backend,
        software: adapter.software.into(),
        reserved: 0,
        buffer_bytes,
        tested,
        name: chars(&adapter.name),
        driver: chars(&adapter.driver),
    }
}

/// Closes a GPU, and frees it.
///
/// # Safety
/// As `include/gleed_gpu.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_gpu_close(gpu: *mut gleed_gpu, error: *mut gleed_error) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `gpu` are checked here. gleed_gpu.h demands the rest: no
        // other call uses `gpu`.
        let opened = unsafe { Object::get("gpu", gpu.cast_const()) }?;
        let models = opened.models.load(Ordering::Acquire);
        if models > 0 {
            let text = format_args!("{models} models lie on the GPU: close them first");
            return Err(Failure::new(status::E_GPU_IN_USE, text).numbers(0_u32, models));
        }
        // SAFETY: the tag says that `boxed` made it, in a box of this type. No model is on it, so nothing of the
        // library's points to it, and gleed_gpu.h demands that no call uses it from now on.
        drop(unsafe { forgotten(gpu) });
        Ok(status::OK)
    })
}

/// Returns the box of an object, whose tag is cleared: no call accepts it any more.
///
/// # Safety
/// `boxed` made it, and nobody uses it any more.
unsafe fn forgotten(gpu: *mut gleed_gpu) -> Box<gleed_gpu> {
    // SAFETY: an object begins with its tag, a `u64`; the caller promises that nobody uses it. After the write it is a
    // valid object of its type still, as the tag has no meaning for Rust.
    unsafe {
        gpu.cast::<u64>().write(0);
        Box::from_raw(gpu)
    }
}

/// Returns the text of a GPU's failure; empty if there is none.
pub(crate) fn lost_text(error: Option<GpuError>) -> [c_char; 96] {
    chars(&error.map_or_else(String::new, |error| error.to_string()))
}
