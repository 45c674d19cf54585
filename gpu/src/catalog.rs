//! The kernels, and the catalog of compiled ones.

use std::collections::BTreeMap;

use gleed::quant::{Form, form};
use gleed::tensor::Dtype;

use crate::error::GpuError;
use crate::halves;
#[cfg(not(target_arch = "wasm32"))]
use crate::hardware::now;
use crate::hardware::{Hardware, Pipeline};
use crate::shader::{NATIVE_HALVES, composed};

/// Largest number of columns of a narrow matrix: 16 invocations with 32 columns each.
const NARROW: usize = 16 * 32;

/// A kernel: what a dispatch runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kernel {
    /// Copies rows of a table, such as the embedding, as f32.
    Embed(Weights),
    /// Adds the norm of a branch to the residual stream. Writes the residual stream, normed or not, in the format that
    /// matrices read.
    Input,
    /// Multiplies few rows with a matrix.
    Vector(Weights),
    /// Multiplies few rows of floats, which become int8 while they are read, with a quantized matrix.
    Raw(Weights),
    /// Multiplies few rows, of int8 or of floats, with a quantized matrix of at most 512 columns.
    Narrow(Weights),
    /// Quantizes activations of many rows into the format that matrices read.
    Quantize,
    /// Multiplies many rows with a matrix.
    Tile(Weights),
    /// Norms and rotates heads, and stores keys and values in the pool. Computes attention of few rows over the chunks
    /// that end before the batch.
    Store,
    /// Does the same as `Store` for many rows, without attention.
    StoreMany,
    /// Computes attention of few rows.
    Attend,
    /// Computes attention of many rows.
    AttendMany(AtOnce),
    /// Computes a causal convolution over the rows of a sequence.
    Convolve,
    /// Updates the matrices of a recurrent layer by the rows of a sequence.
    Update,
    /// Norms each group of the results of `Update`.
    GroupNorm,
    /// Chooses the experts of a row.
    Route,
    /// Chooses the token with the largest logit, and makes it the token of the next row.
    Choose,
    /// Draws a token by the logits, and makes it the token of the next row.
    Draw,
}

/// Number of queries for which a workgroup of attention for many rows reads keys and values once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AtOnce {
    /// Four queries, of heads of up to 512 elements.
    Four,
    /// Eight queries, of heads of up to 128 elements.
    Eight,
    /// Sixteen queries, of heads of up to 64 elements.
    Sixteen,
}

impl AtOnce {
    /// All numbers of queries.
    pub const ALL: [Self; 3] = [Self::Four, Self::Eight, Self::Sixteen];

    /// Returns the largest number of queries for heads of `dim` elements.
    pub(crate) fn most(dim: usize) -> Self {
        match dim {
            0..=64 => Self::Sixteen,
            65..=128 => Self::Eight,
            _ => Self::Four,
        }
    }

    /// Returns the number of queries.
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
    /// 8 bits, 32 weights in a block.
    Q8_0,
    /// 4 bits, 32 weights in a block.
    Q4_0,
    /// 4 bits with minima, 256 weights in a block.
    Q4K,
    /// 6 bits, 256 weights in a block.
    Q6K,
    /// Floats of 4 bits, 32 weights in a block.
    Mxfp4,
}

impl Weights {
    /// All types.
    pub const ALL: [Self; 8] =
        [Self::F32, Self::F16, Self::Bf16, Self::Q8_0, Self::Q4_0, Self::Q4K, Self::Q6K, Self::Mxfp4];

    /// Returns the element type of such a matrix in a file.
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

    /// Returns the type that stands for an element type of a file, or `None` where that does not run on a GPU.
    pub fn of(dtype: Dtype) -> Option<Self> {
        Self::ALL.into_iter().find(|weights| weights.dtype() == dtype)
    }

    /// Returns whether elements are floats.
    pub fn is_float(self) -> bool {
        form(self.dtype()).is_float()
    }

    /// Returns the format in which such a matrix reads activations.
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
    /// Returns all kernels for the element types that this build has.
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

    /// Returns the source with all files that it includes, for any device.
    pub fn source(self) -> Option<String> {
        self.source_with(None)
    }

    /// Returns the source for devices that convert f16 themselves, bit for bit.
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

    /// Returns the kernel that multiplies few rows with a matrix of `cols` columns. `is_raw` says whether the rows are
    /// floats.
    pub(crate) fn few_rows(weights: Weights, cols: usize, is_raw: bool) -> Self {
        match (weights.is_float(), cols > NARROW) {
            (false, false) => Self::Narrow(weights),
            (false, true) if is_raw => Self::Raw(weights),
            _ => Self::Vector(weights),
        }
    }

    /// Returns the number of outputs of a workgroup, for kernels that multiply a matrix. With a gate a workgroup has
    /// half as many.
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
    /// Compiles these kernels. They leave the conversion of f16 to the device if it converts all f16 numbers as the
    /// kernels' integers do.
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

    /// Compiles this source, and puts it in the place of a kernel.
    ///
    /// # Errors
    /// As [`Catalog::new`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn replace(&mut self, hardware: &Hardware, kernel: Kernel, source: &str) -> Result<(), GpuError> {
        self.pipelines.insert(kernel, hardware.pipeline(source)?);
        Ok(())
    }

    /// Returns the kernels that are compiled.
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
