//! How long dispatches take on the device.

use std::time::Duration;

use super::{BUFFERS, Buffer, Hardware, Run, SUBMITS, bytes_of, mapped};
use crate::error::GpuError;

/// Features with which a device measures the time between two dispatches.
pub(super) const FEATURES: wgpu::Features =
    wgpu::Features::TIMESTAMP_QUERY.union(wgpu::Features::TIMESTAMP_QUERY_INSIDE_PASSES);

impl Hardware {
    /// Runs at most 4095 dispatches one after the other, waits for them, and returns how long each took.
    ///
    /// # Errors
    /// [`GpuError::Unsupported`] where the device does not take times; as [`Hardware::wait`].
    pub(crate) fn timed<'r>(
        &self,
        runs: impl IntoIterator<Item = (&'r Run, [u32; 3])>,
    ) -> Result<Vec<Duration>, GpuError> {
        if !self.device.features().contains(FEATURES) {
            return Err(GpuError::Unsupported { what: "times of dispatches" });
        }
        let runs: Vec<_> = runs.into_iter().collect();
        let count = runs.len() as u32 + 1;
        if count > wgpu::QUERY_SET_MAX_QUERIES {
            return Err(GpuError::Mismatch("dispatches whose times are taken"));
        }
        let wanted = wgpu::QuerySetDescriptor { label: None, ty: wgpu::QueryType::Timestamp, count };
        let queries = self.device.create_query_set(&wanted);
        let (ticks, shared) = (self.query_buffer(count)?, self.shared_buffer(count)?);
        let mut encoder = self.device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.write_timestamp(&queries, 0);
            for ((run, [x, y, z]), number) in runs.into_iter().zip(1..) {
                pass.set_pipeline(&run.pipeline);
                pass.set_bind_group(0, &run.group, &[]);
                pass.dispatch_workgroups(x, y, z);
                pass.write_timestamp(&queries, number);
            }
        }
        encoder.resolve_query_set(&queries, 0..count, &ticks.0, 0);
        encoder.copy_buffer_to_buffer(&ticks.0, 0, &shared.0, 0, ticks.bytes());
        self.queue.submit([encoder.finish()]);
        self.count(SUBMITS);
        let _there = mapped(&shared, shared.bytes());
        self.wait()?;
        let mut taken = vec![0_u64; count as usize];
        bytes_of(&shared, 0, bytemuck::cast_slice_mut(&mut taken))?;
        let period = f64::from(self.queue.get_timestamp_period());
        let nanoseconds = |pair: &[u64]| pair[1].saturating_sub(pair[0]) as f64 * period;
        Ok(taken.windows(2).map(|pair| Duration::from_secs_f64(nanoseconds(pair) * 1e-9)).collect())
    }

    fn query_buffer(&self, count: u32) -> Result<Buffer, GpuError> {
        let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
        self.times_buffer(count, usage)
    }

    fn shared_buffer(&self, count: u32) -> Result<Buffer, GpuError> {
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        self.times_buffer(count, usage)
    }

    fn times_buffer(&self, count: u32, usage: wgpu::BufferUsages) -> Result<Buffer, GpuError> {
        let size = 8 * u64::from(count);
        let wanted = wgpu::BufferDescriptor { label: Some("times"), size, usage, mapped_at_creation: false };
        let buffer = Buffer(self.device.create_buffer(&wanted));
        self.count(BUFFERS);
        self.check()?;
        Ok(buffer)
    }
}
