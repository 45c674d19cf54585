//! Results of a batch, which a submit copies to where the host can read them.

use super::wait::Signal;
use super::{Buffer, Hardware};
use crate::error::GpuError;

/// Memory that the device writes and the host reads, in turns.
#[derive(Debug)]
pub(crate) struct Readback {
    buffer: Buffer,
    /// A signal that is set once the host can read, or `None` while the device can write.
    asked: Option<Signal>,
    arrival: Arrival,
}

/// The arrival of a batch's results. A host in a browser awaits it between two steps of an engine.
#[derive(Clone, Debug, Default)]
pub struct Arrival(std::sync::Arc<std::sync::Mutex<Signal>>);

impl Arrival {
    /// Returns once the results of the last submitted batch are there, and at once where no batch was submitted.
    pub async fn wait(&self) {
        let last = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        last.wait().await;
    }

    fn expect(&self, signal: &Signal) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = signal.clone();
    }
}

impl Hardware {
    /// Makes room for `bytes` bytes of results.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`], [`GpuError::Lost`].
    pub(crate) async fn readback(&self, bytes: u64) -> Result<Readback, GpuError> {
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let buffer = Buffer(self.made("what is read back", bytes.max(16).next_multiple_of(4), usage).await?);
        let arrival = Arrival::default();
        let none = Signal::default();
        none.set();
        arrival.expect(&none);
        Ok(Readback { buffer, asked: None, arrival })
    }
}

impl Readback {
    /// Returns the buffer to which a submit copies.
    pub(crate) fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    pub(crate) fn arrival(&self) -> Arrival {
        self.arrival.clone()
    }

    /// Asks for the first `bytes` bytes, as the submits so far leave them.
    pub(crate) fn ask(&mut self, bytes: u64) {
        let signal = mapped(&self.buffer, bytes);
        self.arrival.expect(&signal);
        self.asked = Some(signal);
    }

    /// Returns whether the bytes that were asked for are there.
    pub(crate) fn is_there(&self) -> bool {
        self.asked.as_ref().is_some_and(Signal::is_set)
    }

    /// Reads bytes that are there.
    pub(crate) fn read(&self, at: u64, out: &mut [u8]) -> Result<(), GpuError> {
        bytes_of(&self.buffer, at, out)
    }

    /// Gives the memory back to the device. A request for bytes that are not there yet is dropped.
    pub(crate) fn release(&mut self) {
        if self.asked.take().is_some() {
            self.buffer.0.unmap();
        }
    }
}

/// Asks for the first bytes of a buffer. The signal is set when they are there, or when they never will be: then
/// reading them fails.
pub(super) fn mapped(buffer: &Buffer, bytes: u64) -> Signal {
    let signal = Signal::default();
    let told = signal.clone();
    buffer.0.map_async(wgpu::MapMode::Read, ..bytes, move |_| told.set());
    signal
}

pub(super) fn bytes_of(buffer: &Buffer, at: u64, out: &mut [u8]) -> Result<(), GpuError> {
    // A view begins at a multiple of 8.
    let (start, end) = (at / wgpu::MAP_ALIGNMENT * wgpu::MAP_ALIGNMENT, at + out.len() as u64);
    let view = buffer.0.get_mapped_range(start..end).map_err(|error| GpuError::Refused(error.to_string()))?;
    let bytes = view.get((at - start) as usize..).ok_or(GpuError::Mismatch("bytes that are read back"))?;
    out.copy_from_slice(bytes);
    Ok(())
}
