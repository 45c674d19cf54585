//! A GPU for an example, tested before its first use.

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use gleed::{Engine, Limits, Model, Plan};
use gleed_gpu::{Choice, DevicePlan, Gpu, GpuDevice, Hardware, Kernel, Tested, selftest};

use crate::Result;

/// The GPU that was opened and tested, for as long as the program runs: with the kernels of a model, and once more for
/// a model that needs others. A program asks for one adapter only.
static OPENED: Mutex<Vec<&'static Gpu>> = Mutex::new(Vec::new());

/// The most numbers that are kept: the last ones.
const KEPT: usize = 32;

/// A GPU with a model on it.
pub struct OnGpu<'m> {
    device: Box<GpuDevice<'static, 'm>>,
    /// The adapter.
    name: String,
    /// Bytes in its memory.
    bytes: u64,
}

impl<'m> OnGpu<'m> {
    /// A GPU that has been tested, with the model on it, and the plan of an engine there. Without `software`, drivers
    /// that compute on the CPU are passed over.
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
                // What does not run is said before a test that takes a minute.
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

    /// An engine there.
    pub fn engine<'a>(&'a mut self, model: &Model<'m>, plan: &Plan, memory: &'a mut [u8]) -> Result<Engine<'m, 'a>> {
        Ok(Engine::with_device(model, plan, memory, self.device.as_mut())?)
    }

    /// The adapter's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes in its memory.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// An engine only knows that its device is gone. Why is said here, before the program ends with that.
impl Drop for OnGpu<'_> {
    fn drop(&mut self) {
        if let Some(why) = self.device.failure() {
            eprintln!("device: {why}");
        }
    }
}

/// A device after the test of these kernels: the whole one, or a short one where it passed the whole one before.
fn tested(hardware: Hardware, kernels: &[Kernel]) -> Result<Gpu> {
    let key = Tested(selftest::key(&hardware, kernels));
    let (number, file) = (format!("{:016x}", key.0), passed());
    let numbers = file.as_ref().and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    let is_known = numbers.lines().any(|line| line == number);
    if !is_known {
        eprintln!("testing {}: this driver has not been tested with such a model yet", hardware.info());
    }
    let (gpu, _) = Gpu::tested(hardware, kernels, is_known.then_some(key))?;
    // A file that cannot be written only means another test at the next start.
    if let Some(file) = file.filter(|_| !is_known) {
        let kept: Vec<&str> = numbers.lines().chain([number.as_str()]).collect();
        let kept = kept[kept.len().saturating_sub(KEPT)..].join("\n");
        let _ = file.parent().map(fs::create_dir_all);
        let _ = fs::write(file, kept);
    }
    Ok(gpu)
}

/// Where the numbers of what passed the whole test are kept: in the user's folder for what can be made again.
fn passed() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = folder("XDG_CACHE_HOME").or_else(|| folder("LOCALAPPDATA"));
    Some(cache.or_else(|| Some(folder("HOME")?.join(".cache")))?.join("gleed").join("gpu-tested"))
}
