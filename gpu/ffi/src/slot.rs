//! A model on a GPU: the device of an engine, which can be closed while the engine is there.

use core::ops::Range;
use core::sync::atomic::Ordering;
use core::task::Poll;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ::gleed_gpu::GpuDevice;
use gleed::device::{BatchView, BlockPart, Choosing, Device, DeviceFault, StatePart};
use gleed_ffi::object::{Object, Opaque};

use crate::opened::Opened;

/// A model's weights, keys and values on a GPU, until it is closed.
#[derive(Debug)]
pub struct Slot {
    opened: &'static Opened,
    device: Mutex<Option<Box<GpuDevice<'static, 'static>>>>,
}

impl Opaque for Slot {
    const MAGIC: u64 = u64::from_le_bytes(*b"gleedQ01");
}

/// A model on a GPU, in the memory of its engine.
pub type gleed_gpu_model = Object<Slot>;

impl Slot {
    /// Returns a model on a GPU, which counts it from now on.
    pub(crate) fn new(opened: &'static Opened, device: Box<GpuDevice<'static, 'static>>) -> Self {
        opened.models.fetch_add(1, Ordering::AcqRel);
        Self { opened, device: Mutex::new(Some(device)) }
    }

    /// Returns the device, or `None` once it is closed.
    pub(crate) fn device(&self) -> MutexGuard<'_, Option<Box<GpuDevice<'static, 'static>>>> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees the memory of the device. The engine finds it lost.
    pub(crate) fn close(&self) {
        if let Some(device) = self.device().take() {
            drop(device);
            self.opened.models.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.close();
    }
}

/// The device of an engine: access to its slot.
#[derive(Debug)]
pub(crate) struct Port(pub(crate) &'static Slot);

impl Port {
    fn with<T>(
        &self,
        call: impl FnOnce(&mut GpuDevice<'static, 'static>) -> Result<T, DeviceFault>,
    ) -> Result<T, DeviceFault> {
        self.0.device().as_mut().map_or(Err(DeviceFault::Lost), |device| call(device))
    }

    fn polled(
        &self,
        call: impl FnOnce(&mut GpuDevice<'static, 'static>) -> Poll<Result<(), DeviceFault>>,
    ) -> Poll<Result<(), DeviceFault>> {
        self.0.device().as_mut().map_or(Poll::Ready(Err(DeviceFault::Lost)), |device| call(device))
    }
}

// The trait has methods of its own for devices that lack something. The GPU lacks none: clippy refuses one that is not
// passed on.
#[deny(clippy::missing_trait_methods)]
impl Device for Port {
    fn begin(&mut self, batch: &BatchView<'_>) -> Result<(), DeviceFault> {
        self.with(|device| device.begin(batch))
    }

    fn submit(&mut self, steps: Range<usize>) -> Result<usize, DeviceFault> {
        self.with(|device| device.submit(steps))
    }

    fn poll(&mut self) -> Poll<Result<(), DeviceFault>> {
        self.polled(|device| device.poll())
    }

    fn wait(&mut self) -> Poll<Result<(), DeviceFault>> {
        self.polled(|device| device.wait())
    }

    fn decode(&mut self, batch: &BatchView<'_>, choosing: &Choosing, ids: &mut [u32]) -> Result<bool, DeviceFault> {
        self.with(|device| device.decode(batch, choosing, ids))
    }

    fn logits(&mut self, row: usize, out: &mut [f32]) -> Result<(), DeviceFault> {
        self.with(|device| device.logits(row, out))
    }

    fn read_block(&self, part: BlockPart, out: &mut [u32]) -> Result<(), DeviceFault> {
        self.with(|device| device.read_block(part, out))
    }

    fn write_block(&mut self, part: BlockPart, words: &[u32]) -> Result<(), DeviceFault> {
        self.with(|device| device.write_block(part, words))
    }

    fn read_state(&self, part: StatePart, out: &mut [f32]) -> Result<(), DeviceFault> {
        self.with(|device| device.read_state(part, out))
    }

    fn write_state(&mut self, part: StatePart, elements: &[f32]) -> Result<(), DeviceFault> {
        self.with(|device| device.write_state(part, elements))
    }
}
