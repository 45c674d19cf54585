//! A GPU for an example, tested before its first use.

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use gleed::{Engine, Limits, Model, Plan};
use gleed_gpu::{Choice, DevicePlan, Gpu, GpuDevice, Hardware, Kernel, Tested, selftest};

use crate::Result;

/// Handles of the GPU, which are kept as long as the program runs. Each was tested with the kernels of a model. A model
/// that needs other kernels adds one more. A program asks for one adapter only.
static OPENED: Mutex<Vec<&'static Gpu>> = Mutex::new(Vec::new());

/// Most test numbers that are kept in the file. The oldest ones are dropped.
const KEPT: usize = 32;

/// A GPU with a model on it.
pub struct OnGpu<'m> {
    device: Box<GpuDevice<'static, 'm>>,
    /// Name of the adapter.
    name: String,
    /// Bytes of the model and its buffers in the GPU's memory.
    bytes: u64,
}

impl<'m> OnGpu<'m> {
    /// Opens and tests a GPU and puts the model on it. Returns it with the plan of an engine that uses it. Without
    /// `software`, drivers that compute on the CPU are skipped.
    pub fn open(model: &Model<'m>, limits: &Limits, backend: Option<&str>, software: bool) -> Result<(Plan, Self)> {
        let choice = Choice { backend: backend.map(str::parse).transpose()?, software, ..Choice::default() };
        let plan = Plan::for_device(model, limits)?;
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |gpu: &&'static Gpu| {
            let planned = DevicePlan::new(model, &plan, gpu.hardware().limits()).ok()?;
            gpu.has(&planned.kernels()).then_some((*gpu, planned))
        };
        let (gpu, planned) = match opened.iter().find_map(fits) {
            Some(fitting) => fitting,
            None => {
                let hardware = Hardware::open(&choice)?;
                // A model that cannot run is refused before the test, which takes a minute.
                let planned = DevicePlan::new(model, &plan, hardware.limits())?;
                let gpu: &'static Gpu = Box::leak(Box::new(tested(hardware, &planned.kernels())?));
                opened.push(gpu);
                (gpu, planned)
            }
        };
        let (name, bytes) = (gpu.hardware().info().to_string(), planned.bytes());
        let device = Box::new(GpuDevice::new(gpu, planned)?);
        Ok((plan, Self { device, name, bytes }))
    }

    /// Makes an engine that computes on this GPU.
    pub fn engine<'a>(&'a mut self, model: &Model<'m>, plan: &Plan, memory: &'a mut [u8]) -> Result<Engine<'m, 'a>> {
        Ok(Engine::with_device(model, plan, memory, self.device.as_mut())?)
    }

    /// Returns the name of the adapter.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of bytes that the model and its buffers take in the GPU's memory.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Prints why the device failed. The engine's error only says that the device is lost.
impl Drop for OnGpu<'_> {
    fn drop(&mut self) {
        if let Some(why) = self.device.failure() {
            eprintln!("device: {why}");
        }
    }
}

/// Returns the GPU after a test of these kernels. The test is short if the GPU has passed the whole test before.
fn tested(hardware: Hardware, kernels: &[Kernel]) -> Result<Gpu> {
    let key = Tested(selftest::key(&hardware, kernels));
    let (number, file) = (format!("{:016x}", key.0), passed());
    let numbers = file.as_ref().and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    let is_known = numbers.lines().any(|line| line == number);
    if !is_known {
        eprintln!("testing {}: this driver has not been tested with such a model yet", hardware.info());
    }
    let (gpu, _) = Gpu::tested(hardware, kernels, is_known.then_some(key))?;
    // If the file cannot be written, the whole test runs again at the next start.
    if let Some(file) = file.filter(|_| !is_known) {
        let kept: Vec<&str> = numbers.lines().chain([number.as_str()]).collect();
        let kept = kept[kept.len().saturating_sub(KEPT)..].join("\n");
        let _ = file.parent().map(fs::create_dir_all);
        let _ = fs::write(file, kept);
    }
    Ok(gpu)
}

/// Returns the path of the file with the numbers of GPUs that passed the whole test. It lies in the user's cache
/// folder.
fn passed() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = folder("XDG_CACHE_HOME").or_else(|| folder("LOCALAPPDATA"));
    Some(cache.or_else(|| Some(folder("HOME")?.join(".cache")))?.join("gleed").join("gpu-tested"))
}
