//! Kernels, compiled and bound to buffers.

#[cfg(not(target_arch = "wasm32"))]
use super::wait::now;
use super::wait::within;
use super::{Buffer, Hardware, Pipeline, Run};
use crate::error::GpuError;
use crate::shader::{Binding, bindings};

impl Hardware {
    /// Compiles a kernel.
    ///
    /// # Errors
    /// [`GpuError::Refused`], with the compiler's words; [`GpuError::Lost`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn pipeline(&self, source: &str) -> Result<Pipeline, GpuError> {
        now(self.pipeline_async(source))
    }

    pub(crate) async fn pipeline_async(&self, source: &str) -> Result<Pipeline, GpuError> {
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let pipeline = self.compile(source);
        if let Some(error) = within(scope.pop(), self.patience).await? {
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
            // Kernels write workgroup memory before they read it.
            compilation_options: wgpu::PipelineCompilationOptions {
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache: None,
        });
        Pipeline { pipeline, layout, bindings: bindings.len() }
    }

    /// Binds a kernel to its parameters, `bytes` of `params` from `at` on, and to its buffers, in the order of its
    /// bindings.
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
}

fn layout_entry(number: u32, binding: Binding) -> wgpu::BindGroupLayoutEntry {
    let ty = wgpu::BufferBindingType::Storage { read_only: binding == Binding::Read };
    let ty = wgpu::BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None };
    wgpu::BindGroupLayoutEntry { binding: number, visibility: wgpu::ShaderStages::COMPUTE, ty, count: None }
}
