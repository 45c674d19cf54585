//! The choice of an adapter, its description, and its limits.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// An interface to GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// Vulkan.
    Vulkan,
    /// Metal.
    Metal,
    /// DirectX 12.
    Dx12,
    /// WebGPU, in a browser.
    WebGpu,
}

impl Backend {
    /// All interfaces.
    pub const ALL: [Self; 4] = [Self::Vulkan, Self::Metal, Self::Dx12, Self::WebGpu];

    /// Returns "vulkan", "metal", "dx12" or "webgpu".
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vulkan => "vulkan",
            Self::Metal => "metal",
            Self::Dx12 => "dx12",
            Self::WebGpu => "webgpu",
        }
    }
}

impl FromStr for Backend {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|backend| backend.name() == name);
        found.ok_or_else(|| format!("{name:?} is none of {}", Self::ALL.map(Self::name).join(", ")))
    }
}

/// The choice of an adapter, and how long the host waits for its device.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// The interface, or `None` for any.
    pub backend: Option<Backend>,
    /// Whether a driver that computes on the CPU is accepted.
    pub software: bool,
    /// How long a call waits for the device.
    pub patience: Duration,
}

impl Default for Choice {
    fn default() -> Self {
        Self { backend: None, software: false, patience: Duration::from_secs(30) }
    }
}

/// The description of an adapter by its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterInfo {
    /// The adapter's name.
    pub name: String,
    /// The interface.
    pub backend: String,
    /// The driver, and its version.
    pub driver: String,
    /// Whether the driver computes on the CPU.
    pub software: bool,
}

impl fmt::Display for AdapterInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}{})", self.name, self.backend, if self.software { ", on the CPU" } else { "" })
    }
}

/// The limits of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest number of bytes of a buffer that a kernel can see.
    pub binding: u64,
    /// Largest number of workgroups in one dimension of a dispatch.
    pub workgroups: u32,
}
