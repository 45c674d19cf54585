//! Who computes: the CPU, or a GPU. No other file of the examples knows what a GPU is.

#[cfg(feature = "gpu")]
mod gpu;
#[cfg(not(feature = "gpu"))]
#[path = "no_gpu.rs"]
mod gpu;

use std::sync::Once;

use clap::{Args, ValueEnum};
use gleed::{Engine, Limits, Model, Plan};

use super::Result;
use gpu::OnGpu;

/// Who computes.
#[derive(Args, Default)]
pub struct DeviceArgs {
    /// Who computes; the results do not depend on it. `auto` takes a GPU that is no program on the CPU if there is one
    /// and the model can run there. Needs a build with `--features gpu`
    #[arg(long, value_name = "DEVICE", value_enum, default_value_t = Wanted::Cpu)]
    device: Wanted,

    /// Interface to the GPU: vulkan, metal, dx12 or webgpu [default: any]
    #[arg(long, value_name = "NAME")]
    backend: Option<String>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Wanted {
    #[default]
    Cpu,
    Gpu,
    Auto,
}

/// The machine that an engine computes on.
pub enum Machine<'m> {
    /// The CPU.
    Cpu,
    /// A GPU, with the model on it.
    Gpu(OnGpu<'m>),
}

impl DeviceArgs {
    /// Returns the requested machine and the plan of an engine on it. Says on standard error which machine it is, and
    /// why, unless the CPU was requested.
    pub fn prepare<'m>(&self, model: &Model<'m>, limits: &Limits) -> Result<(Plan, Machine<'m>)> {
        let gpu = match self.device {
            Wanted::Cpu if self.backend.is_some() => return Err("--backend needs --device gpu or auto".into()),
            Wanted::Cpu => return Ok((Plan::new(model, limits)?, Machine::Cpu)),
            Wanted::Gpu | Wanted::Auto => {
                OnGpu::open(model, limits, self.backend.as_deref(), self.device == Wanted::Gpu)
            }
        };
        match gpu {
            Ok((plan, gpu)) => {
                say(format!("device: {}", gpu.name()));
                Ok((plan, Machine::Gpu(gpu)))
            }
            Err(why) if self.device == Wanted::Auto => {
                say(format!("device: the CPU ({why})"));
                Ok((Plan::new(model, limits)?, Machine::Cpu))
            }
            Err(why) => Err(format!("--device gpu: {why}").into()),
        }
    }
}

/// Prints which machine computes. Only the first call prints.
fn say(line: String) {
    static SAID: Once = Once::new();
    SAID.call_once(|| eprintln!("{line}"));
}

impl<'m> Machine<'m> {
    /// Makes an engine on this machine, for the plan that `prepare` returned with it.
    pub fn engine<'a>(&'a mut self, model: &Model<'m>, plan: &Plan, memory: &'a mut [u8]) -> Result<Engine<'m, 'a>> {
        match self {
            Self::Cpu => Ok(Engine::new(model, plan, memory)?),
            Self::Gpu(gpu) => gpu.engine(model, plan, memory),
        }
    }

    /// Returns the name of the machine.
    pub fn name(&self) -> &str {
        match self {
            Self::Cpu => "CPU",
            Self::Gpu(gpu) => gpu.name(),
        }
    }

    /// Returns the number of bytes in the memory of the GPU, or 0 for the CPU.
    pub fn device_bytes(&self) -> u64 {
        match self {
            Self::Cpu => 0,
            Self::Gpu(gpu) => gpu.bytes(),
        }
    }
}
