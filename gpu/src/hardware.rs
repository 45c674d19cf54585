//! All calls of wgpu.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::adapter::{AdapterInfo, Choice, Limits};
use crate::error::GpuError;
use crate::shader::{Binding, bindings};

/// A device, and a queue to it.
pub struct Hardware {
    device: wgpu::Device,
    queue: wgpu::Queue,
    info: AdapterInfo,
    limits: Limits,
    /// One reader at a time.
    staging: Mutex<wgpu::Buffer>,
    patience: Duration,
    failure: Arc<Mutex<Option<GpuError>>>,
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

/// Bytes that are read back at once.
pub(crate) const STAGING: u64 = 1 << 20;
/// Bytes of weights between two submits.
const PIECE: usize = 4 << 20;

impl fmt::Debug for Hardware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hardware").field("info", &self.info).field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Buffer {
    /// Returns the bytes.
    pub fn bytes(&self) -> u64 {
        self.0.size()
    }
}

impl Hardware {
    /// Opens a device.
    ///
    /// # Errors
    /// [`GpuError::NoAdapter`], [`GpuError::NoDevice`], [`GpuError::OutOfMemory`].
    pub fn open(choice: &Choice) -> Result<Self, GpuError> {
        let adapter = adapter(choice)?;
        let info = info(&adapter);
        let found = adapter.limits();
        let required_limits = wgpu::Limits {
            max_storage_buffer_binding_size: found.max_storage_buffer_binding_size,
            max_buffer_size: found.max_buffer_size,
            ..wgpu::Limits::default()
        };
        let wanted = wgpu::DeviceDescriptor { required_limits, ..Default::default() };
        let asked = soon(adapter.request_device(&wanted), choice.patience)?;
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
        let staging = Mutex::new(device.create_buffer(&wanted));
        let hardware = Self { device, queue, info, limits, staging, patience: choice.patience, failure };
        hardware.check()?;
        Ok(hardware)
    }

    /// Returns what drivers say of all adapters that there are.
    ///
    /// # Errors
    /// [`GpuError::Timeout`] after `patience`.
    pub fn adapters(patience: Duration) -> Result<Vec<AdapterInfo>, GpuError> {
        Ok(adapters(patience)?.iter().map(info).collect())
    }

    /// Returns what the driver says of itself.
    pub fn info(&self) -> &AdapterInfo {
        &self.info
    }

    /// Returns what the device allows.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Makes a buffer of zeros.
    ///
    /// # Errors
    /// [`GpuError::TooLarge`], [`GpuError::OutOfMemory`], [`GpuError::Lost`].
    pub fn buffer(&self, what: &'static str, bytes: u64) -> Result<Buffer, GpuError> {
        let size = bytes.max(16).next_multiple_of(4);
        if size > self.limits.binding {
            return Err(GpuError::TooLarge { what, bytes: size, most: self.limits.binding });
        }
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let wanted = wgpu::BufferDescriptor { label: Some(what), size, usage, mapped_at_creation: false };
        let buffer = self.device.create_buffer(&wanted);
        if soon(scope.pop(), self.patience)?.is_some() {
            return Err(GpuError::OutOfMemory { bytes: size });
        }
        self.check()?;
        Ok(Buffer(buffer))
    }

    /// Compiles a kernel.
    ///
    /// # Errors
    /// [`GpuError::Refused`], with the compiler's words; [`GpuError::Lost`].
    pub fn pipeline(&self, source: &str) -> Result<Pipeline, GpuError> {
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let pipeline = self.compile(source);
        if let Some(error) = soon(scope.pop(), self.patience)? {
            return Err(GpuError::Refused(error.to_string()));
        }
        self.check()?;
        Ok(pipeline)
    }

    fn compile(&self, source: &str) -> Pipeline {
        let bindings = bindings(source);
        let entries: Vec<_> = (0..).zip(&bindings).map(|(number, &binding)| layout_entry(number, binding)).collect();
        let wanted = wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries };
        let layout = self.device.create_bind_group_layout(&wanted);
        let wanted = wgpu::ShaderModuleDescriptor { label: None, source: wgpu::ShaderSource::Wgsl(source.into()) };
        let module = self.device.create_shader_module(wanted);
        let wanted =
            wgpu::PipelineLayoutDescriptor { label: None, bind_group_layouts: &[Some(&layout)], immediate_size: 0 };
        let whole = self.device.create_pipeline_layout(&wanted);
        let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: Some(&whole),
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        Pipeline { pipeline, layout, bindings: bindings.len() }
    }

    /// Binds a kernel to its parameters, `bytes` of `params` from `at` on, and to its buffers, in the order of its bindings.
    ///
    /// # Errors
    /// [`GpuError::Mismatch`] where there are more or fewer than the kernel has; [`GpuError::Refused`].
    pub fn bind(
        &self,
        pipeline: &Pipeline,
        (params, at, bytes): (&Buffer, u64, u64),
        buffers: &[&Buffer],
    ) -> Result<Run, GpuError> {
        if buffers.len() + 1 != pipeline.bindings {
            return Err(GpuError::Mismatch("the buffers of a kernel"));
        }
        let size = std::num::NonZeroU64::new(bytes);
        let first = wgpu::BindingResource::Buffer(wgpu::BufferBinding { buffer: &params.0, offset: at, size });
        let mut entries = vec![wgpu::BindGroupEntry { binding: 0, resource: first }];
        for (binding, buffer) in (1..).zip(buffers) {
            entries.push(wgpu::BindGroupEntry { binding, resource: buffer.0.as_entire_binding() });
        }
        let wanted = wgpu::BindGroupDescriptor { label: None, layout: &pipeline.layout, entries: &entries };
        let group = self.device.create_bind_group(&wanted);
        self.check()?;
        Ok(Run { pipeline: pipeline.pipeline.clone(), group })
    }

    /// Writes bytes, a multiple of 4, in pieces of at most 4 MiB.
    ///
    /// # Errors
    /// [`GpuError::Lost`], [`GpuError::Timeout`], [`GpuError::Refused`].
    pub fn write(&self, to: &Buffer, at: u64, bytes: &[u8]) -> Result<(), GpuError> {
        let mut offset = at;
        for piece in bytes.chunks(PIECE) {
            self.queue.write_buffer(&to.0, offset, piece);
            offset += piece.len() as u64;
            if piece.len() == PIECE {
                self.queue.submit([]);
                self.wait()?;
            }
        }
        self.check()
    }

    /// Submits dispatches, which run one after the other. It does not wait for them. Returns how long the host took to encode
    /// them: what the driver does then is not counted, as some run them there and then.
    ///
    /// # Errors
    /// [`GpuError::Lost`], [`GpuError::Refused`].
    pub fn submit<'r>(&self, runs: impl IntoIterator<Item = (&'r Run, [u32; 3])>) -> Result<Duration, GpuError> {
        let started = Instant::now();
        let mut encoder = self.device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            for (run, [x, y, z]) in runs {
                pass.set_pipeline(&run.pipeline);
                pass.set_bind_group(0, &run.group, &[]);
                pass.dispatch_workgroups(x, y, z);
            }
        }
        let commands = encoder.finish();
        let took = started.elapsed();
        self.queue.submit([commands]);
        self.check()?;
        Ok(took)
    }

    /// Copies within the device's memory: of each `(from, at, to, at, bytes)`, in this order.
    ///
    /// # Errors
    /// As [`Hardware::submit`].
    pub fn copy(&self, copies: &[(&Buffer, u64, &Buffer, u64, u64)]) -> Result<(), GpuError> {
        let mut encoder = self.device.create_command_encoder(&Default::default());
        for (from, start, to, at, bytes) in copies {
            encoder.copy_buffer_to_buffer(&from.0, *start, &to.0, *at, *bytes);
        }
        self.queue.submit([encoder.finish()]);
        self.check()
    }

    /// Waits until all that was submitted has run.
    ///
    /// # Errors
    /// [`GpuError::Timeout`], [`GpuError::Lost`], [`GpuError::Refused`].
    pub fn wait(&self) -> Result<(), GpuError> {
        let wanted = wgpu::PollType::Wait { submission_index: None, timeout: Some(self.patience) };
        let polled = self.device.poll(wanted);
        self.check()?;
        polled.map(|_| ()).map_err(|_| GpuError::Timeout(self.patience))
    }

    /// Returns whether all that was submitted has run; it does not wait.
    ///
    /// # Errors
    /// [`GpuError::Lost`], [`GpuError::Refused`].
    pub fn is_idle(&self) -> Result<bool, GpuError> {
        let polled = self.device.poll(wgpu::PollType::Poll);
        self.check()?;
        Ok(polled.is_ok_and(|status| status.is_queue_empty()))
    }

    /// Waits for all that was submitted, and reads bytes back: `at` and their number are multiples of 4.
    ///
    /// # Errors
    /// As [`Hardware::wait`].
    pub fn read(&self, from: &Buffer, at: u64, out: &mut [u8]) -> Result<(), GpuError> {
        let staging = self.staging.lock().unwrap_or_else(PoisonError::into_inner);
        let mut offset = at;
        for piece in out.chunks_mut(STAGING as usize) {
            let bytes = piece.len() as u64;
            self.copy(&[(from, offset, &Buffer(staging.clone()), 0, bytes)])?;
            staging.map_async(wgpu::MapMode::Read, ..bytes, |_| {});
            self.wait()?;
            let view = staging.get_mapped_range(..bytes);
            let read =
                view.map(|view| piece.copy_from_slice(&view)).map_err(|error| GpuError::Refused(error.to_string()));
            staging.unmap();
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

fn layout_entry(number: u32, binding: Binding) -> wgpu::BindGroupLayoutEntry {
    let ty = wgpu::BufferBindingType::Storage { read_only: binding == Binding::Read };
    let ty = wgpu::BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None };
    wgpu::BindGroupLayoutEntry { binding: number, visibility: wgpu::ShaderStages::COMPUTE, ty, count: None }
}

fn adapters(patience: Duration) -> Result<Vec<wgpu::Adapter>, GpuError> {
    let all = wgpu::Backends::PRIMARY;
    let wanted = wgpu::InstanceDescriptor { backends: all, ..wgpu::InstanceDescriptor::new_without_display_handle() };
    soon(wgpu::Instance::new(wanted).enumerate_adapters(all), patience)
}

/// The first adapter that is wanted, hardware before software.
fn adapter(choice: &Choice) -> Result<wgpu::Adapter, GpuError> {
    let mut adapters = adapters(choice.patience)?;
    let found = adapters.iter().map(|adapter| info(adapter).to_string()).collect();
    adapters.sort_by_key(|adapter| match adapter.get_info().device_type {
        wgpu::DeviceType::DiscreteGpu => 0,
        wgpu::DeviceType::IntegratedGpu => 1,
        wgpu::DeviceType::Cpu => 3,
        _ => 2,
    });
    adapters.retain(|adapter| {
        let info = info(adapter);
        let is_wanted = choice.backend.is_none_or(|backend| info.backend == backend.name());
        is_wanted && (choice.software || !info.software)
    });
    adapters.into_iter().next().ok_or(GpuError::NoAdapter { found })
}

fn info(adapter: &wgpu::Adapter) -> AdapterInfo {
    let info = adapter.get_info();
    AdapterInfo {
        name: info.name,
        backend: info.backend.to_str().to_owned(),
        driver: format!("{} {}", info.driver, info.driver_info),
        software: info.device_type == wgpu::DeviceType::Cpu,
    }
}

fn reason(error: &wgpu::Error) -> GpuError {
    GpuError::Refused(error.to_string())
}

/// The first failure counts.
fn note(failure: &Mutex<Option<GpuError>>, what: GpuError) {
    failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
}

/// The value of a future of wgpu, which has it at once on native drivers.
fn soon<T>(future: impl Future<Output = T>, patience: Duration) -> Result<T, GpuError> {
    let (mut future, started) = (pin!(future), Instant::now());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Ok(value);
        }
        if started.elapsed() > patience {
            return Err(GpuError::Timeout(patience));
        }
        std::thread::yield_now();
    }
}
