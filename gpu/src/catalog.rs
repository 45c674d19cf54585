//! All kernels, compiled.

use std::collections::BTreeMap;

use gleed::quant::{Form, form};
use gleed::tensor::Dtype;

use crate::error::GpuError;
#[cfg(not(target_arch = "wasm32"))]
use crate::hardware::now;
use crate::hardware::{Hardware, Pipeline};
use crate::shader::composed;

/// A kernel: what a dispatch runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kernel {
    /// Rows of the embedding.
    Embed(Weights),
    /// The norm of a branch is added to the residual stream; this, normed or not, in the format that matrices read.
    Input,
    /// Few rows times a matrix.
    Vector(Weights),
    /// Many rows times a matrix.
    Tile(Weights),
    /// Norms and rotation of heads; keys and values into the pool.
    Store,
    /// Attention.
    Attend,
    /// Which experts a row goes through.
    Route,
    /// The largest logit, whose token is that of the next row.
    Choose,
    /// A token that is drawn by its logits, likewise.
    Draw,
}

/// The element type of a matrix that runs on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weights {
    /// f32
    F32,
    /// f16
    F16,
    /// bfloat16
    Bf16,
    /// 8 bits, 32 in a block.
    Q8_0,
    /// 4 bits, 32 in a block.
    Q4_0,
    /// 4 bits with minima, 256 in a block.
    Q4K,
    /// 6 bits, 256 in a block.
    Q6K,
}

impl Weights {
    /// All of them.
    pub const ALL: [Self; 7] = [Self::F32, Self::F16, Self::Bf16, Self::Q8_0, Self::Q4_0, Self::Q4K, Self::Q6K];

    /// Returns the element type in a file.
    pub const fn dtype(self) -> Dtype {
        match self {
            Self::F32 => Dtype::F32,
            Self::F16 => Dtype::F16,
            Self::Bf16 => Dtype::BF16,
            Self::Q8_0 => Dtype::Q8_0,
            Self::Q4_0 => Dtype::Q4_0,
            Self::Q4K => Dtype::Q4_K,
            Self::Q6K => Dtype::Q6_K,
        }
    }

    /// Returns that of an element type in a file; `None` where it does not run on a GPU.
    pub fn of(dtype: Dtype) -> Option<Self> {
        Self::ALL.into_iter().find(|weights| weights.dtype() == dtype)
    }

    /// Returns whether elements are floats.
    pub fn is_float(self) -> bool {
        form(self.dtype()).is_float()
    }

    /// Returns the format of the activations.
    pub fn form(self) -> Form {
        form(self.dtype())
    }

    const fn file(self) -> &'static str {
        match self {
            Self::F32 => "f32.wgsl",
            Self::F16 => "f16.wgsl",
            Self::Bf16 => "bf16.wgsl",
            Self::Q8_0 => "q8_0.wgsl",
            Self::Q4_0 => "q4_0.wgsl",
            Self::Q4K => "q4_k.wgsl",
            Self::Q6K => "q6_k.wgsl",
        }
    }
}

impl Kernel {
    /// All kernels.
    pub fn all() -> Vec<Self> {
        let mut all = vec![Self::Input, Self::Store, Self::Attend, Self::Route, Self::Choose, Self::Draw];
        for weights in Weights::ALL {
            all.extend([Self::Embed(weights), Self::Vector(weights)]);
            if !weights.is_float() {
                all.push(Self::Tile(weights));
            }
        }
        all
    }

    /// Returns the source with all that it includes.
    pub fn source(self) -> Option<String> {
        let with = |name, weights: Weights| {
            let elements = if weights.is_float() { "" } else { "blocks.wgsl" };
            composed(name, &[("FORMAT", weights.file()), ("ELEMENTS", elements)])
        };
        match self {
            Self::Embed(weights) => with("embed.wgsl", weights),
            Self::Vector(weights) if weights.is_float() => with("floats.wgsl", weights),
            Self::Vector(weights) => with("vector.wgsl", weights),
            Self::Tile(weights) => with("tile.wgsl", weights),
            Self::Input => composed("input.wgsl", &[]),
            Self::Store => composed("store.wgsl", &[]),
            Self::Attend => composed("attend.wgsl", &[]),
            Self::Route => composed("route.wgsl", &[]),
            Self::Choose => composed("choose.wgsl", &[]),
            Self::Draw => composed("draw.wgsl", &[]),
        }
    }

    /// Outputs of a workgroup, for kernels that multiply a matrix. With a gate it is half as many.
    pub(crate) fn slots(self) -> u32 {
        match self {
            Self::Tile(_) => 64,
            _ => 4,
        }
    }
}

/// Compiled kernels.
#[derive(Debug, Default)]
pub struct Catalog {
    pipelines: BTreeMap<Kernel, Pipeline>,
}

impl Catalog {
    /// Compiles these kernels.
    ///
    /// # Errors
    /// [`GpuError::Refused`] where the driver does not compile one; [`GpuError::Lost`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn new(hardware: &Hardware, kernels: impl IntoIterator<Item = Kernel>) -> Result<Self, GpuError> {
        now(Self::new_async(hardware, kernels))
    }

    pub(crate) async fn new_async(
        hardware: &Hardware,
        kernels: impl IntoIterator<Item = Kernel>,
    ) -> Result<Self, GpuError> {
        let mut catalog = Self::default();
        for kernel in kernels {
            let source = kernel.source().ok_or(GpuError::Mismatch("a source of a kernel"))?;
            catalog.pipelines.insert(kernel, hardware.pipeline_async(&source).await?);
        }
        Ok(catalog)
    }

    /// Puts a kernel with this source in the place of the present one.
    ///
    /// # Errors
    /// As [`Catalog::new`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn replace(&mut self, hardware: &Hardware, kernel: Kernel, source: &str) -> Result<(), GpuError> {
        self.pipelines.insert(kernel, hardware.pipeline(source)?);
        Ok(())
    }

    /// Returns which kernels there are.
    pub fn kernels(&self) -> impl Iterator<Item = Kernel> + use<> {
        self.pipelines.keys().copied().collect::<Vec<_>>().into_iter()
    }

    /// Returns a kernel.
    ///
    /// # Errors
    /// [`GpuError::Mismatch`] where it was not compiled.
    pub fn get(&self, kernel: Kernel) -> Result<&Pipeline, GpuError> {
        self.pipelines.get(&kernel).ok_or(GpuError::Mismatch("a kernel that was not compiled"))
    }
}
