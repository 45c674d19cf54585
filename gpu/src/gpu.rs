//! A device that has been tested.

use crate::catalog::{Catalog, Kernel};
use crate::error::GpuError;
use crate::hardware::Hardware;
use crate::selftest;
#[cfg(not(target_arch = "wasm32"))]
use crate::{adapter::Choice, hardware::now};

/// A device whose kernels compute what the scalar code computes.
#[derive(Debug)]
pub struct Gpu {
    pub(crate) hardware: Hardware,
    pub(crate) catalog: Catalog,
}

/// That a device passed the self-test. A host can keep the number, and give it back at the next start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tested(pub u64);

impl Gpu {
    /// Opens a device and tests it: all kernels, or a sentinel where `known` says that this adapter with this driver passed
    /// the whole test of these kernels before.
    ///
    /// # Errors
    /// [`GpuError::Unfit`] with the operation whose bits differ; [`GpuError::NoAdapter`], [`GpuError::NoDevice`],
    /// [`GpuError::Refused`], [`GpuError::OutOfMemory`], [`GpuError::Timeout`], [`GpuError::Lost`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(choice: &Choice, known: Option<Tested>) -> Result<(Self, Tested), GpuError> {
        Self::tested(Hardware::open(choice)?, known)
    }

    /// Tests a device that is open: a host that first asks for its limits, or its number ([`selftest::key`]), has one.
    ///
    /// # Errors
    /// As [`Gpu::open`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn tested(hardware: Hardware, known: Option<Tested>) -> Result<(Self, Tested), GpuError> {
        now(Self::tested_async(hardware, known))
    }

    /// [`Gpu::tested`] for a browser, which cannot wait.
    ///
    /// # Errors
    /// As [`Gpu::open`].
    pub async fn tested_async(hardware: Hardware, known: Option<Tested>) -> Result<(Self, Tested), GpuError> {
        let catalog = Catalog::new_async(&hardware, Kernel::all()).await?;
        let tested = Tested(selftest::key(&hardware));
        if known == Some(tested) {
            selftest::sentinel_async(&hardware, &catalog).await?;
        } else {
            selftest::run_async(&hardware, &catalog).await?;
        }
        Ok((Self { hardware, catalog }, tested))
    }

    /// Returns the device.
    pub fn hardware(&self) -> &Hardware {
        &self.hardware
    }
}
