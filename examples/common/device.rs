//! Who computes: the CPU, or a GPU. No other file of the examples knows what a GPU is.

use std::fs;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use gleed::{Engine, Limits, Model, Plan};
use gleed_gpu::{Backend, Choice, DevicePlan, Gpu, GpuDevice, Hardware, Tested, selftest};

use super::Result;

/// Who computes.
#[derive(Args, Default)]
pub(crate) struct DeviceArgs {
    /// Who computes; the results do not depend on it. `auto` takes a GPU that is no program on the CPU if there is one and the
    /// model can run there
    #[arg(long, value_name = "DEVICE", value_enum, default_value_t = Wanted::Cpu)]
    device: Wanted,

    /// Interface to the GPU: vulkan, metal or dx12 [default: any]
    #[arg(long, value_name = "NAME")]
    backend: Option<Backend>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Wanted {
    #[default]
    Cpu,
    Gpu,
    Auto,
}

/// What an engine computes with.
pub(crate) enum Machine<'m> {
    Cpu,
    Gpu {
        device: Box<GpuDevice<'static, 'm>>,
        /// The adapter.
        name: String,
        /// Bytes in its memory.
        bytes: u64,
    },
}

impl DeviceArgs {
    /// The machine that is wanted, and the plan of an engine there. What it is, and why, is said on standard error unless it is
    /// the CPU that was asked for.
    pub(crate) fn prepare<'m>(&self, model: &Model<'m>, limits: &Limits) -> Result<(Plan, Machine<'m>)> {
        let gpu = match self.device {
            Wanted::Cpu if self.backend.is_some() => return Err("--backend needs --device gpu or auto".into()),
            Wanted::Cpu => return Ok((Plan::new(model, limits)?, Machine::Cpu)),
            Wanted::Gpu | Wanted::Auto => self.gpu(model, limits),
        };
        match gpu {
            Ok((plan, machine)) => {
                eprintln!("device: {}", machine.name());
                Ok((plan, machine))
            }
            Err(why) if self.device == Wanted::Auto => {
                eprintln!("device: the CPU ({why})");
                Ok((Plan::new(model, limits)?, Machine::Cpu))
            }
            Err(why) => Err(format!("--device gpu: {why}").into()),
        }
    }

    /// A GPU that has been tested, with the model on it.
    fn gpu<'m>(&self, model: &Model<'m>, limits: &Limits) -> Result<(Plan, Machine<'m>)> {
        let plan = Plan::for_device(model, limits)?;
        let software = self.device == Wanted::Gpu;
        let hardware = Hardware::open(&Choice { backend: self.backend, software, ..Choice::default() })?;
        let planned = DevicePlan::new(model, &plan, hardware.limits())?;
        let (name, bytes) = (hardware.info().to_string(), planned.bytes());
        // For as long as the program runs.
        let gpu = Box::leak(Box::new(tested(hardware)?));
        let device = Box::new(GpuDevice::new(gpu, planned)?);
        Ok((plan, Machine::Gpu { device, name, bytes }))
    }
}

/// A device after its test: the whole one, or a short one where it passed the whole one before.
fn tested(hardware: Hardware) -> Result<Gpu> {
    let key = Tested(selftest::key(&hardware));
    let (known, file) = (format!("{:016x}", key.0), passed());
    let is_known =
        file.as_ref().and_then(|file| fs::read_to_string(file).ok()).is_some_and(|text| text.trim() == known);
    if !is_known {
        eprintln!("testing {}: it has not been tested with this driver yet", hardware.info());
    }
    let (gpu, _) = Gpu::tested(hardware, is_known.then_some(key))?;
    // A file that cannot be written only means another test at the next start.
    if let Some(file) = file.filter(|_| !is_known) {
        let _ = file.parent().map(fs::create_dir_all);
        let _ = fs::write(file, known);
    }
    Ok(gpu)
}

/// Where the number of the device that passed the whole test last is kept: in the user's folder for what can be made again.
fn passed() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = folder("XDG_CACHE_HOME").or_else(|| folder("LOCALAPPDATA"));
    Some(cache.or_else(|| Some(folder("HOME")?.join(".cache")))?.join("gleed").join("gpu-tested"))
}

impl<'m> Machine<'m> {
    /// An engine on this machine, for the plan that came with it.
    pub(crate) fn engine<'a>(
        &'a mut self,
        model: &Model<'m>,
        plan: &Plan,
        memory: &'a mut [u8],
    ) -> Result<Engine<'m, 'a>> {
        Ok(match self {
            Self::Cpu => Engine::new(model, plan, memory)?,
            Self::Gpu { device, .. } => Engine::with_device(model, plan, memory, device.as_mut())?,
        })
    }

    /// What it is called.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Cpu => "CPU",
            Self::Gpu { name, .. } => name,
        }
    }

    /// Bytes in the memory of another device.
    pub(crate) fn device_bytes(&self) -> u64 {
        match self {
            Self::Cpu => 0,
            Self::Gpu { bytes, .. } => *bytes,
        }
    }
}
