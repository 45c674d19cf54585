//! All calls of wgpu.

mod adapters;
mod pipeline;
mod readback;
#[cfg(not(target_arch = "wasm32"))]
mod times;
mod wait;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::adapter::{AdapterInfo, Choice, Limits};
use crate::error::GpuError;
#[cfg(not(target_arch = "wasm32"))]
use adapters::adapters;
use adapters::{adapter, info};
use readback::{bytes_of, mapped};
use wait::{Stopwatch, within};

pub use readback::Arrival;
pub(crate) use readback::Readback;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use wait::now;

/// A device, and a queue to it.
pub struct Hardware {
    device: wgpu::Device,
    queue: wgpu::Queue,
    info: AdapterInfo,
    limits: Limits,
    staging: Buffer,
    /// Lets one reader at a time use `staging`.
    #[cfg(not(target_arch = "wasm32"))]
    reader: Mutex<()>,
    /// The last two submits, the earlier one first.
    #[cfg(not(target_arch = "wasm32"))]
    submitted: Mutex<[Option<wgpu::SubmissionIndex>; 2]>,
    patience: Duration,
    failure: Arc<Mutex<Option<GpuError>>>,
    /// Number of buffers that were made, and of submits.
    counts: [AtomicU64; 2],
}

/// Memory of the device.
#[derive(Clone, Debug)]
pub struct Buffer(wgpu::Buffer);

/// A compiled kernel.
#[derive(Clone, Debug)]
pub struct Pipeline {
    pipeline: wgpu::ComputePipeline,
    layout: wgpu::BindGroupLayout,
    bindings: usize,
}

/// A kernel with its buffers.
#[derive(Clone, Debug)]
pub struct Run {
    pipeline: wgpu::ComputePipeline,
    group: wgpu::BindGroup,
}

/// A copy between buffers: source, offset there, destination, offset there, bytes.
pub(crate) type Copy<'r> = (&'r Buffer, u64, &'r Buffer, u64, u64);

/// Bytes that are read back at once.
pub(crate) const STAGING: u64 = 1 << 20;
/// Indices into `counts`.
const BUFFERS: usize = 0;
const SUBMITS: usize = 1;
/// Bytes of weights that are written between two submits.
pub(crate) const PIECE: usize = 4 << 20;

impl fmt::Debug for Hardware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hardware").field("info", &self.info).field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Buffer {
    /// Returns the size in bytes.
    pub fn bytes(&self) -> u64 {
        self.0.size()
    }
}

impl Hardware {
    /// Opens a device.
    ///
    /// # Errors
    /// [`GpuError::NoAdapter`], [`GpuError::NoDevice`], [`GpuError::OutOfMemory`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(choice: &Choice) -> Result<Self, GpuError> {
        now(Self::open_async(choice))
    }

    /// [`Hardware::open`] for a browser, which cannot wait.
    ///
    /// # Errors
    /// As [`Hardware::open`].
    pub async fn open_async(choice: &Choice) -> Result<Self, GpuError> {
        let adapter = adapter(choice).await?;
        let info = info(&adapter);
        let found = adapter.limits();
        let required_limits = wgpu::Limits {
            max_storage_buffer_binding_size: found.max_storage_buffer_binding_size,
            max_buffer_size: found.max_buffer_size,
            ..wgpu::Limits::default()
        };
        // A device that cannot measure times runs models all the same.
        #[cfg(not(target_arch = "wasm32"))]
        let required_features =
            if adapter.features().contains(times::FEATURES) { times::FEATURES } else { Default::default() };
        #[cfg(target_arch = "wasm32")]
        let required_features = wgpu::Features::empty();
        let wanted = wgpu::DeviceDescriptor { required_features, required_limits, ..Default::default() };
        let asked = within(adapter.request_device(&wanted), choice.patience).await?;
        let (device, queue) = asked.map_err(|error| GpuError::NoDevice(error.to_string()))?;
        let failure = Arc::new(Mutex::new(None));
        let (lost, refused) = (failure.clone(), failure.clone());
        device.set_device_lost_callback(move |_, why| note(&lost, GpuError::Lost(why)));
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| note(&refused, reason(&error))));
        let limits = Limits {
            binding: found.max_storage_buffer_binding_size.min(found.max_buffer_size).min(1 << 31),
            workgroups: device.limits().max_compute_workgroups_per_dimension,
        };
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let wanted = wgpu::BufferDescriptor { label: None, size: STAGING, usage, mapped_at_creation: false };
        let staging = Buffer(device.create_buffer(&wanted));
        let hardware = Self {
            device,
            queue,
            info,
            limits,
            staging,
            #[cfg(not(target_arch = "wasm32"))]
            reader: Mutex::new(()),
            #[cfg(not(target_arch = "wasm32"))]
            submitted: Mutex::default(),
            patience: choice.patience,
            failure,
            counts: Default::default(),
        };
        hardware.check()?;
        Ok(hardware)
    }

    /// Returns the descriptions of all adapters.
    ///
    /// # Errors
    /// [`GpuError::Timeout`] after `patience`.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn adapters(patience: Duration) -> Result<Vec<AdapterInfo>, GpuError> {
        Ok(now(adapters(patience))?.iter().map(info).collect())
    }

    /// Returns the description of the adapter.
    pub fn info(&self) -> &AdapterInfo {
        &self.info
    }

    /// Returns the limits of the device.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Returns how many buffers were made since the device was opened, and how many submits there were.
    pub fn counts(&self) -> [u64; 2] {
        self.counts.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    fn count(&self, what: usize) {
        if let Some(count) = self.counts.get(what) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Makes a buffer of zeros.
    ///
    /// # Errors
    /// [`GpuError::TooLarge`], [`GpuError::OutOfMemory`], [`GpuError::Lost`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn buffer(&self, what: &'static str, bytes: u64) -> Result<Buffer, GpuError> {
        now(self.buffer_async(what, bytes))
    }

    pub(crate) async fn buffer_async(&self, what: &'static str, bytes: u64) -> Result<Buffer, GpuError> {
        let size = bytes.max(16).next_multiple_of(4);
        if size > self.limits.binding {
            return Err(GpuError::TooLarge { what, bytes: size, most: self.limits.binding });
        }
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        self.made(what, size, usage).await.map(Buffer)
    }

    async fn made(&self, what: &'static str, size: u64, usage: wgpu::BufferUsages) -> Result<wgpu::Buffer, GpuError> {
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let wanted = wgpu::BufferDescriptor { label: Some(what), size, usage, mapped_at_creation: false };
        let buffer = self.device.create_buffer(&wanted);
        self.count(BUFFERS);
        if within(scope.pop(), self.patience).await?.is_some() {
            return Err(GpuError::OutOfMemory { bytes: size });
        }
        self.check()?;
        Ok(buffer)
    }

    /// Writes bytes, a multiple of 4, before the next submit runs.
    ///
    /// # Errors
    /// [`GpuError::Lost`], [`GpuError::Refused`].
    pub fn write(&self, to: &Buffer, at: u64, bytes: &[u8]) -> Result<(), GpuError> {
        self.queue.write_buffer(&to.0, at, bytes);
        self.check()
    }

    /// Writes many bytes, a multiple of 4, and waits whenever 4 MiB were written since the last wait. `written` counts
    /// the bytes since then.
    ///
    /// # Errors
    /// [`GpuError::Lost`], [`GpuError::Timeout`], [`GpuError::Refused`].
    pub(crate) async fn upload(&self, to: &Buffer, at: u64, bytes: &[u8], written: &mut usize) -> Result<(), GpuError> {
        let mut offset = at;
        for piece in bytes.chunks(PIECE) {
            self.write(to, offset, piece)?;
            offset += piece.len() as u64;
            *written += piece.len();
            if *written >= PIECE {
                *written = 0;
                self.queue.submit([]);
                self.count(SUBMITS);
                self.wait_async().await?;
            }
        }
        Ok(())
    }

    /// Submits dispatches, which run one after the other, and does not wait for them. Returns how long the host took to
    /// encode them. What the driver does in the submit itself is not counted: some drivers run the dispatches there.
    ///
    /// # Errors
    /// [`GpuError::Lost`], [`GpuError::Refused`].
    pub fn submit<'r>(&self, runs: impl IntoIterator<Item = (&'r Run, [u32; 3])>) -> Result<Duration, GpuError> {
        self.submit_with([], runs, [])
    }

    /// [`Hardware::submit`] with copies between buffers before and after the dispatches.
    pub(crate) fn submit_with<'r>(
        &self,
        before: impl IntoIterator<Item = Copy<'r>>,
        runs: impl IntoIterator<Item = (&'r Run, [u32; 3])>,
        after: impl IntoIterator<Item = Copy<'r>>,
    ) -> Result<Duration, GpuError> {
        let watch = Stopwatch::start();
        let mut encoder = self.device.create_command_encoder(&Default::default());
        copy(&mut encoder, before);
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            for (run, [x, y, z]) in runs {
                pass.set_pipeline(&run.pipeline);
                pass.set_bind_group(0, &run.group, &[]);
                pass.dispatch_workgroups(x, y, z);
            }
        }
        copy(&mut encoder, after);
        let commands = encoder.finish();
        let took = watch.elapsed();
        let _index = self.queue.submit([commands]);
        #[cfg(not(target_arch = "wasm32"))]
        {
            let mut submitted = self.submitted.lock().unwrap_or_else(PoisonError::into_inner);
            *submitted = [submitted[1].take(), Some(_index)];
        }
        self.count(SUBMITS);
        self.check()?;
        Ok(took)
    }

    /// Waits until all submits have run.
    ///
    /// # Errors
    /// [`GpuError::Timeout`], [`GpuError::Lost`], [`GpuError::Refused`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn wait(&self) -> Result<(), GpuError> {
        self.wait_for(None)
    }

    /// Waits until all submits but the last one have run.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn wait_for_earlier(&self) -> Result<(), GpuError> {
        let [earlier, _] = self.submitted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if earlier.is_some() { self.wait_for(earlier) } else { self.check() }
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn wait_for(&self, submission_index: Option<wgpu::SubmissionIndex>) -> Result<(), GpuError> {
        let wanted = wgpu::PollType::Wait { submission_index, timeout: Some(self.patience) };
        let polled = self.device.poll(wanted);
        self.check()?;
        polled.map(|_| ()).map_err(|_| GpuError::Timeout(self.patience))
    }

    /// [`Hardware::wait`] for browsers, too. A browser does its own work meanwhile.
    pub(crate) async fn wait_async(&self) -> Result<(), GpuError> {
        #[cfg(not(target_arch = "wasm32"))]
        self.wait()?;
        #[cfg(target_arch = "wasm32")]
        {
            let done = wait::Signal::default();
            let told = done.clone();
            self.queue.on_submitted_work_done(move || told.set());
            done.wait().await;
        }
        self.check()
    }

    /// Returns whether the driver says that all submits have run. It does not wait.
    ///
    /// # Errors
    /// [`GpuError::Lost`], [`GpuError::Refused`].
    pub fn is_idle(&self) -> Result<bool, GpuError> {
        let polled = self.device.poll(wgpu::PollType::Poll);
        self.check()?;
        Ok(polled.is_ok_and(|status| status.is_queue_empty()))
    }

    /// Waits for all submits, and reads bytes back. `at` and the number of bytes are multiples of 4.
    ///
    /// # Errors
    /// As [`Hardware::wait`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn read(&self, from: &Buffer, at: u64, out: &mut [u8]) -> Result<(), GpuError> {
        let _one = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        now(self.read_async(from, at, out))
    }

    pub(crate) async fn read_async(&self, from: &Buffer, at: u64, out: &mut [u8]) -> Result<(), GpuError> {
        let mut offset = at;
        for piece in out.chunks_mut(STAGING as usize) {
            let bytes = piece.len() as u64;
            self.submit_with([(from, offset, &self.staging, 0, bytes)], [], [])?;
            let mapped = mapped(&self.staging, bytes);
            self.wait_async().await?;
            mapped.wait().await;
            let read = bytes_of(&self.staging, 0, piece);
            self.staging.0.unmap();
            read?;
            offset += bytes;
        }
        self.check()
    }

    /// Gives the device back to its driver. From now on every call fails.
    pub fn close(&self) {
        note(&self.failure, GpuError::Lost("closed by the host".to_owned()));
        self.device.destroy();
    }

    /// Fails where the driver has reported anything since the device was opened.
    fn check(&self) -> Result<(), GpuError> {
        match &*self.failure.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(failure) => Err(failure.clone()),
            None => Ok(()),
        }
    }
}

fn copy<'r>(encoder: &mut wgpu::CommandEncoder, copies: impl IntoIterator<Item = Copy<'r>>) {
    for (from, start, to, at, bytes) in copies {
        encoder.copy_buffer_to_buffer(&from.0, start, &to.0, at, bytes);
    }
}

fn reason(error: &wgpu::Error) -> GpuError {
    GpuError::Refused(error.to_string())
}

/// Keeps a failure, if it is the first one.
fn note(failure: &Mutex<Option<GpuError>>, what: GpuError) {
    failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
}
