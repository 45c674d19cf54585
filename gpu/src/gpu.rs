//! A device that has been tested.

use crate::catalog::{Catalog, Kernel};
use crate::error::GpuError;
use crate::hardware::Hardware;
use crate::selftest;
#[cfg(not(target_arch = "wasm32"))]
use crate::{adapter::Choice, hardware::now};

/// A device, with kernels that give the same bits there as the scalar code.
#[derive(Debug)]
pub struct Gpu {
    pub(crate) hardware: Hardware,
    pub(crate) catalog: Catalog,
}

/// A number that says that a device passed the self-test. A host can keep it, and give it back at the next start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tested(pub u64);

impl Gpu {
    /// Opens a device for any model, and tests all kernels. Where `known` says that this adapter with this driver
    /// passed the whole test before, a sentinel of fewer shapes runs.
    ///
    /// # Errors
    /// [`GpuError::Unfit`] with the operation whose bits differ; [`GpuError::NoAdapter`], [`GpuError::NoDevice`],
    /// [`GpuError::Refused`], [`GpuError::OutOfMemory`], [`GpuError::Timeout`], [`GpuError::Lost`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(choice: &Choice, known: Option<Tested>) -> Result<(Self, Tested), GpuError> {
        Self::tested(Hardware::open(choice)?, &Kernel::all(), known)
    }

    /// Compiles and tests these kernels only. The kernels of one model take a third of the time of all.
    /// [`DevicePlan::kernels`](crate::DevicePlan::kernels) says which kernels a model needs, and [`selftest::key`]
    /// which number stands for them.
    ///
    /// # Errors
    /// As [`Gpu::open`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn tested(hardware: Hardware, kernels: &[Kernel], known: Option<Tested>) -> Result<(Self, Tested), GpuError> {
        now(Self::tested_async(hardware, kernels, known))
    }

    /// [`Gpu::tested`] for a browser, which cannot wait.
    ///
    /// # Errors
    /// As [`Gpu::open`].
    pub async fn tested_async(
        hardware: Hardware,
        kernels: &[Kernel],
        known: Option<Tested>,
    ) -> Result<(Self, Tested), GpuError> {
        let catalog = Catalog::new_async(&hardware, kernels.iter().copied()).await?;
        let tested = Tested(selftest::key(&hardware, kernels));
        if known == Some(tested) {
            selftest::sentinel_async(&hardware, &catalog).await?;
        } else {
            selftest::run_async(&hardware, &catalog).await?;
        }
        Ok((Self { hardware, catalog }, tested))
    }

    /// Returns whether all of these kernels are compiled and tested.
    pub fn has(&self, kernels: &[Kernel]) -> bool {
        kernels.iter().all(|&kernel| self.catalog.get(kernel).is_ok())
    }

    /// Returns the device.
    pub fn hardware(&self) -> &Hardware {
        &self.hardware
    }
}
