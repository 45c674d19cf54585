//! All kernels, compiled.

use std::collections::BTreeMap;

use gleed::quant::{Form, form};
use gleed::tensor::Dtype;

use crate::error::GpuError;
use crate::halves;
#[cfg(not(target_arch = "wasm32"))]
use crate::hardware::now;
use crate::hardware::{Hardware, Pipeline};
use crate::shader::{NATIVE_HALVES, composed};

/// The most columns of a narrow matrix: those of 16 invocations.
const NARROW: usize = 16 * 32;

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
    /// Few rows of floats, which become int8 while they are read, times a quantized matrix.
    Raw(Weights),
    /// Few rows of either kind times a quantized matrix of at most 512 columns.
    Narrow(Weights),
    /// Activations of many rows, in the form that matrices read.
    Quantize,
    /// Many rows times a matrix.
    Tile(Weights),
    /// Norms and rotation of heads; keys and values into the pool; attention of few rows over chunks that are ready.
    Store,
    /// The same of many rows, without chunks.
    StoreMany,
    /// Attention of few rows.
    Attend,
    /// Attention of many rows.
    AttendMany(AtOnce),
    /// A causal convolution of the rows of a sequence.
    Convolve,
    /// What the rows of a sequence do to the matrices of a recurrent layer.
    Update,
    /// The norm of groups of what that gives.
    GroupNorm,
    /// Which experts a row goes through.
    Route,
    /// The largest logit, whose token is that of the next row.
    Choose,
    /// A token that is drawn by its logits, likewise.
    Draw,
}

/// Queries of a workgroup of attention for many rows, which read keys and values once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AtOnce {
    /// Of heads of up to 512 elements.
    Four,
    /// Of up to 128.
    Eight,
    /// Of up to 64.
    Sixteen,
}

impl AtOnce {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Four, Self::Eight, Self::Sixteen];

    /// Returns the most that there are for heads of so many elements.
    pub(crate) fn most(dim: usize) -> Self {
        match dim {
            0..=64 => Self::Sixteen,
            65..=128 => Self::Eight,
            _ => Self::Four,
        }
    }

    /// Returns how many they are.
    pub(crate) const fn count(self) -> usize {
        match self {
            Self::Four => 4,
            Self::Eight => 8,
            Self::Sixteen => 16,
        }
    }

    const fn file(self) -> &'static str {
        match self {
            Self::Four => "queries_4.wgsl",
            Self::Eight => "queries_8.wgsl",
            Self::Sixteen => "queries_16.wgsl",
        }
    }
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
    /// Floats of 4 bits, 32 in a block.
    Mxfp4,
}

impl Weights {
    /// All of them.
    pub const ALL: [Self; 8] =
        [Self::F32, Self::F16, Self::Bf16, Self::Q8_0, Self::Q4_0, Self::Q4K, Self::Q6K, Self::Mxfp4];

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
            Self::Mxfp4 => Dtype::MXFP4,
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
            Self::Mxfp4 => "mxfp4.wgsl",
        }
    }
}

impl Kernel {
    /// All kernels of the types that this build has.
    pub fn all() -> Vec<Self> {
        let mut all = vec![Self::Input, Self::Quantize, Self::Store, Self::StoreMany, Self::Attend];
        all.extend(AtOnce::ALL.map(Self::AttendMany));
        all.extend([Self::Convolve, Self::Update, Self::GroupNorm, Self::Route, Self::Choose, Self::Draw]);
        for weights in Weights::ALL.into_iter().filter(|weights| weights.dtype().is_built()) {
            all.extend([Self::Embed(weights), Self::Vector(weights)]);
            if !weights.is_float() {
                all.extend([Self::Raw(weights), Self::Narrow(weights), Self::Tile(weights)]);
            }
        }
        all
    }

    /// Returns the source with all that it includes, for any device.
    pub fn source(self) -> Option<String> {
        self.source_with(None)
    }

    /// Returns the source for devices that convert halves themselves, bit for bit.
    pub fn native_source(self) -> Option<String> {
        self.source_with(Some(NATIVE_HALVES))
    }

    fn source_with(self, halves: Option<(&str, &str)>) -> Option<String> {
        let with = |name, more: &[(&str, &str)]| {
            let given: Vec<_> = more.iter().copied().chain(halves).collect();
            composed(name, &given)
        };
        let weighs = |name, weights: Weights| {
            let elements = if weights.is_float() { "" } else { "blocks.wgsl" };
            let lanes = if matches!(self, Self::Narrow(_)) { "lanes_16.wgsl" } else { "lanes_64.wgsl" };
            let input = if matches!(self, Self::Vector(_)) { "coded.wgsl" } else { "raw.wgsl" };
            with(name, &[("FORMAT", weights.file()), ("ELEMENTS", elements), ("LANES", lanes), ("INPUT", input)])
        };
        match self {
            Self::Embed(weights) => weighs("embed.wgsl", weights),
            Self::Vector(weights) if weights.is_float() => weighs("floats.wgsl", weights),
            Self::Vector(weights) | Self::Raw(weights) | Self::Narrow(weights) => weighs("vector.wgsl", weights),
            Self::Tile(weights) => weighs("tile.wgsl", weights),
            Self::Input => with("input.wgsl", &[]),
            Self::Quantize => with("quantize.wgsl", &[]),
            Self::Store => with("store.wgsl", &[]),
            Self::StoreMany => with("store_many.wgsl", &[]),
            Self::Attend => with("attend.wgsl", &[]),
            Self::AttendMany(at_once) => with("attend_many.wgsl", &[("QUERIES", at_once.file())]),
            Self::Convolve => with("convolve.wgsl", &[]),
            Self::Update => with("update.wgsl", &[]),
            Self::GroupNorm => with("group_norm.wgsl", &[]),
            Self::Route => with("route.wgsl", &[]),
            Self::Choose => with("choose.wgsl", &[]),
            Self::Draw => with("draw.wgsl", &[]),
        }
    }

    /// The kernel for few rows of a matrix with so many columns; whether it reads floats.
    pub(crate) fn few_rows(weights: Weights, cols: usize, is_raw: bool) -> Self {
        match (weights.is_float(), cols > NARROW) {
            (false, false) => Self::Narrow(weights),
            (false, true) if is_raw => Self::Raw(weights),
            _ => Self::Vector(weights),
        }
    }

    /// Outputs of a workgroup, for kernels that multiply a matrix. With a gate it is half as many.
    pub(crate) fn slots(self) -> u32 {
        match self {
            Self::Tile(_) => 64,
            Self::Vector(weights) if weights.is_float() => 4,
            Self::Vector(_) | Self::Raw(_) | Self::Narrow(_) => 8,
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
    /// Compiles these kernels. A device that converts all halves as the integers of the kernels do converts them
    /// itself.
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
        let native = halves::are_native(hardware).await?;
        for kernel in kernels {
            let source = if native { kernel.native_source() } else { kernel.source() };
            let source = source.ok_or(GpuError::Mismatch("a source of a kernel"))?;
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
