//! The weights: a table of the tensors that a model has, and where they lie in the file.

use bytemuck::{Pod, Zeroable};
use gguf_rs_lite::{Gguf, Name, TensorInfo};

use super::config::{Config, MAX_LAYERS};
use super::error::ModelError;
use crate::mem::{Arena, MemoryError};
use crate::tensor::{Dtype, TensorView};

/// Places in the table of the largest model.
const MAX_PLACES: usize = MODEL_SPECS.len() + MAX_LAYERS * LAYER_SPECS.len();

/// The name of the token embedding.
pub(super) const EMBEDDING: &str = "token_embd.weight";

/// The tensors of a layer, in the order of [`LAYER_SPECS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LayerTensor {
    AttentionNorm,
    Q,
    K,
    V,
    QNorm,
    KNorm,
    AttentionOutput,
    FfnNorm,
    Gate,
    Up,
    Down,
}

/// The tensors outside of layers, in the order of [`MODEL_SPECS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModelTensor {
    Embedding,
    OutputNorm,
    Output,
    RopeDivisors,
}

/// The shape of a tensor in a model: `None` where the model does not have it.
type Shape = fn(&Config) -> Option<Kind>;

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// `[rows, cols]` of any supported type.
    Matrix(usize, usize),
    /// `[n]` of f32.
    Vector(usize),
    /// The same, and the file may leave it out.
    OptionalVector(usize),
    /// A matrix that the file may leave out.
    OptionalMatrix(usize, usize),
}

struct Spec {
    /// What follows `blk.N.`, or the whole name.
    name: &'static str,
    shape: Shape,
}

const LAYER_SPECS: [Spec; 11] = [
    Spec { name: "attn_norm.weight", shape: |c| Some(Kind::Vector(c.hidden)) },
    Spec { name: "attn_q.weight", shape: |c| Some(Kind::Matrix(c.q_width(), c.hidden)) },
    Spec { name: "attn_k.weight", shape: |c| Some(Kind::Matrix(c.kv_width(), c.hidden)) },
    Spec { name: "attn_v.weight", shape: |c| Some(Kind::Matrix(c.kv_width(), c.hidden)) },
    Spec { name: "attn_q_norm.weight", shape: |c| c.qk_norm.then_some(Kind::Vector(c.head_dim)) },
    Spec { name: "attn_k_norm.weight", shape: |c| c.qk_norm.then_some(Kind::Vector(c.head_dim)) },
    Spec { name: "attn_output.weight", shape: |c| Some(Kind::Matrix(c.hidden, c.q_width())) },
    Spec { name: "ffn_norm.weight", shape: |c| Some(Kind::Vector(c.hidden)) },
    Spec { name: "ffn_gate.weight", shape: |c| Some(Kind::Matrix(c.ffn, c.hidden)) },
    Spec { name: "ffn_up.weight", shape: |c| Some(Kind::Matrix(c.ffn, c.hidden)) },
    Spec { name: "ffn_down.weight", shape: |c| Some(Kind::Matrix(c.hidden, c.ffn)) },
];

const MODEL_SPECS: [Spec; 4] = [
    Spec { name: EMBEDDING, shape: |c| Some(Kind::Matrix(c.vocab, c.hidden)) },
    Spec { name: "output_norm.weight", shape: |c| Some(Kind::Vector(c.hidden)) },
    // Left out where the embedding serves as the output matrix (tied).
    Spec { name: "output.weight", shape: |c| Some(Kind::OptionalMatrix(c.vocab, c.hidden)) },
    Spec { name: "rope_freqs.weight", shape: |c| Some(Kind::OptionalVector(c.rope.dims / 2)) },
];

/// A tensor's place in the file. All zero where the model does not have it.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct TensorRef {
    offset: usize,
    bytes: usize,
    rows: u32,
    cols: u32,
    /// ggml's number.
    dtype: u32,
    present: u32,
}

/// The places of all tensors of a model, in the caller's memory.
#[derive(Debug)]
pub(crate) struct Weights<'m, 'a> {
    file: &'m [u8],
    /// The tensors outside of layers, then those of each layer.
    table: &'a mut [TensorRef],
}

impl<'m, 'a> Weights<'m, 'a> {
    /// Takes the table's memory from the arena.
    pub(crate) fn carve(arena: &mut Arena<'a>, gguf: &Gguf<'m>, config: &Config) -> Result<Self, MemoryError> {
        let table = arena.slice("weight table", table_len(config).ok_or(MemoryError::TooLarge)?)?;
        table.fill(TensorRef::zeroed());
        let weights = Self { file: gguf.bytes(), table };
        for info in gguf.tensors() {
            let Some((index, spec)) = find(info.name(), config) else { continue };
            if let (Ok(found), Some(place)) = (check(&info, spec, config), weights.table.get_mut(index)) {
                *place = found;
            }
        }
        Ok(weights)
    }

    /// A tensor of a layer; `None` where the model does not have it.
    #[inline]
    pub(super) fn layer(&self, layer: usize, tensor: LayerTensor) -> Option<TensorView<'m>> {
        self.view(layer_start(layer) + tensor as usize)
    }

    /// A tensor outside of layers; `None` where the model does not have it.
    pub(super) fn model(&self, tensor: ModelTensor) -> Option<TensorView<'m>> {
        self.view(tensor as usize)
    }

    /// The output matrix: the embedding's where the file has none of its own.
    pub(super) fn output(&self) -> Option<TensorView<'m>> {
        self.model(ModelTensor::Output).or_else(|| self.model(ModelTensor::Embedding))
    }

    fn view(&self, index: usize) -> Option<TensorView<'m>> {
        let place = self.table.get(index).filter(|place| place.present == 1)?;
        let bytes = self.file.get(place.offset..place.offset.checked_add(place.bytes)?)?;
        TensorView::new(Dtype::from_ggml(place.dtype)?, place.rows as usize, place.cols as usize, bytes)
    }
}

/// Checks that the file has all tensors of the model, in the right shapes and types, each once, and no other
/// ones. One pass over the file.
pub(super) fn validate(gguf: &Gguf<'_>, config: &Config) -> Result<(), ModelError> {
    let count = gguf.tensor_count();
    if count > MAX_PLACES {
        return Err(ModelError::TooMany { count, limit: MAX_PLACES });
    }
    let mut found = Places([0; MAX_PLACES.div_ceil(64)]);
    for info in gguf.tensors() {
        let tensor = Name::new(info.name().as_bytes());
        let (index, spec) = find(info.name(), config).ok_or(ModelError::UnknownTensor { tensor })?;
        check(&info, spec, config)?;
        if !found.insert(index) {
            return Err(ModelError::DuplicateTensor { tensor });
        }
    }
    for (index, spec) in MODEL_SPECS.iter().enumerate() {
        if spec.is_required(config) && !found.contains(index) {
            return Err(ModelError::MissingTensor { tensor: Name::new(spec.name.as_bytes()) });
        }
    }
    for layer in 0..config.layers {
        for (index, spec) in (layer_start(layer)..).zip(&LAYER_SPECS) {
            if spec.is_required(config) && !found.contains(index) {
                return Err(ModelError::MissingTensor { tensor: Name::new(layer_name(layer, spec.name).as_bytes()) });
            }
        }
    }
    Ok(())
}

/// A set of places in the table.
struct Places([u64; MAX_PLACES.div_ceil(64)]);

impl Places {
    /// Whether it was not there before.
    fn insert(&mut self, index: usize) -> bool {
        let Some(word) = self.0.get_mut(index / 64) else { return false };
        let bit = 1 << (index % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    fn contains(&self, index: usize) -> bool {
        self.0.get(index / 64).is_some_and(|word| word & 1 << (index % 64) != 0)
    }
}

/// The types of some of a layer's tensors, over all layers.
pub(super) fn layer_dtypes<'g>(
    gguf: &'g Gguf<'_>,
    tensors: &'g [LayerTensor],
) -> impl Iterator<Item = Dtype> + use<'g> {
    gguf.tensors().filter_map(move |info| {
        let (_, suffix) = layer_and_suffix(info.name())?;
        let wanted = tensors.iter().any(|&tensor| LAYER_SPECS.get(tensor as usize).is_some_and(|s| s.name == suffix));
        wanted.then(|| Dtype::from_ggml(info.ggml_type().number())).flatten()
    })
}

/// The types of all matrices.
pub(super) fn matrix_dtypes<'g>(gguf: &'g Gguf<'_>) -> impl Iterator<Item = Dtype> + use<'g> {
    let matrices = gguf.tensors().filter(|info| info.dims().len() > 1);
    matrices.filter_map(|info| Dtype::from_ggml(info.ggml_type().number()))
}

/// The type of the output matrix.
pub(super) fn output_dtype(gguf: &Gguf<'_>) -> Option<Dtype> {
    let info = gguf.tensor("output.weight").or_else(|| gguf.tensor(EMBEDDING))?;
    Dtype::from_ggml(info.ggml_type().number())
}

/// The place of a layer's first tensor.
fn layer_start(layer: usize) -> usize {
    MODEL_SPECS.len() + layer * LAYER_SPECS.len()
}

fn table_len(config: &Config) -> Option<usize> {
    config.layers.checked_mul(LAYER_SPECS.len())?.checked_add(MODEL_SPECS.len())
}

/// The index in the table and the specification of the tensor with this name.
fn find(name: &str, config: &Config) -> Option<(usize, &'static Spec)> {
    const MODEL: &[Spec] = &MODEL_SPECS;
    const LAYER: &[Spec] = &LAYER_SPECS;
    if let Some(found) = MODEL.iter().enumerate().find(|(_, spec)| spec.name == name) {
        return Some(found).filter(|(_, spec)| (spec.shape)(config).is_some());
    }
    let (layer, suffix) = layer_and_suffix(name)?;
    let (index, spec) = LAYER.iter().enumerate().find(|(_, spec)| spec.name == suffix)?;
    let known = layer < config.layers && (spec.shape)(config).is_some();
    known.then_some((layer_start(layer) + index, spec))
}

/// "blk.N.suffix" taken apart.
fn layer_and_suffix(name: &str) -> Option<(usize, &str)> {
    let (layer, suffix) = name.strip_prefix("blk.")?.split_once('.')?;
    // Only the form that a writer uses: no sign, no leading zeros.
    let plain = layer == "0" || layer.bytes().next().is_some_and(|digit| digit.is_ascii_digit() && digit != b'0');
    Some((layer.parse().ok().filter(|_| plain)?, suffix))
}

fn layer_name(layer: usize, suffix: &str) -> heapless::String<64> {
    use core::fmt::Write;
    let mut name = heapless::String::new();
    // Layers have at most four digits and the suffixes are the ones above.
    let _ = write!(name, "blk.{layer}.{suffix}");
    name
}

/// The tensor's place, if it has the shape and type that the model wants.
fn check(info: &TensorInfo<'_>, spec: &Spec, config: &Config) -> Result<TensorRef, ModelError> {
    let tensor = Name::new(info.name().as_bytes());
    let kind = (spec.shape)(config).ok_or(ModelError::UnknownTensor { tensor })?;
    let (rows, cols, vector) = match kind {
        Kind::Matrix(rows, cols) | Kind::OptionalMatrix(rows, cols) => (rows, cols, false),
        Kind::Vector(n) | Kind::OptionalVector(n) => (1, n, true),
    };
    let dims = info.dims();
    let dim = |index: usize| dims.get(index).copied().unwrap_or(1);
    if dim(0) != cols as u64 || dim(1) != rows as u64 || dim(2) != 1 || dim(3) != 1 {
        return Err(ModelError::TensorShape { tensor, expected: [rows, cols], found: [dim(1), dim(0)] });
    }
    let wrong_type = ModelError::TensorType { tensor, found: info.ggml_type() };
    let dtype = Dtype::from_ggml(info.ggml_type().number()).ok_or(wrong_type)?;
    let computed = if vector { dtype == Dtype::F32 } else { dtype.is_built() };
    if !computed || dtype.row_bytes(cols).is_none() {
        return Err(wrong_type);
    }
    Ok(TensorRef {
        offset: info.offset(),
        bytes: info.data().len(),
        rows: rows as u32,
        cols: cols as u32,
        dtype: dtype.ggml_number(),
        present: 1,
    })
}

impl Spec {
    fn is_required(&self, config: &Config) -> bool {
        matches!((self.shape)(config), Some(Kind::Matrix(..) | Kind::Vector(..)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_layers_are_taken_apart() {
        assert_eq!(layer_and_suffix("blk.12.attn_q.weight"), Some((12, "attn_q.weight")));
        assert_eq!(layer_and_suffix(&layer_name(0, "ffn_up.weight")), Some((0, "ffn_up.weight")));
        for name in ["blk.01.x", "blk.+1.x", "blk..x", "blk.1", "blk.99999999999999999999.x", "output.weight"] {
            assert_eq!(layer_and_suffix(name), None, "{name}");
        }
    }

    #[test]
    fn the_tables_are_in_the_order_of_the_enums() {
        let layer = |tensor: LayerTensor| LAYER_SPECS[tensor as usize].name;
        assert_eq!(layer(LayerTensor::AttentionNorm), "attn_norm.weight");
        assert_eq!(layer(LayerTensor::AttentionOutput), "attn_output.weight");
        assert_eq!(layer(LayerTensor::QNorm), "attn_q_norm.weight");
        assert_eq!(layer(LayerTensor::Down), "ffn_down.weight");
        assert_eq!(MODEL_SPECS[ModelTensor::RopeDivisors as usize].name, "rope_freqs.weight");
        assert_eq!(MODEL_SPECS[ModelTensor::Output as usize].name, "output.weight");
    }
}
