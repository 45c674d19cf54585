//! The weights: a table of the tensors that a model has, and where they lie in the file.

use bytemuck::{Pod, Zeroable};
use gguf_rs_lite::{Name, TensorInfo};

use super::config::{Config, Gate, MAX_LAYERS, Presence, QkNorm};
use super::error::ModelError;
use super::files::Files;
use crate::kernels::{Norm, NormKind};
use crate::mem::{Arena, MemoryError};
use crate::ops::Linear;
use crate::tensor::{Dtype, TensorView};

/// Places in the table of the largest model.
const MAX_PLACES: usize = MODEL_SPECS.len() + MAX_LAYERS * LAYER_SPECS.len();

/// The name of the token embedding.
pub(super) const EMBEDDING: &str = "token_embd.weight";

/// The name of the learned positions.
pub(super) const POSITIONS: &str = "position_embd.weight";

/// The tensors of a layer, in the order of [`LAYER_SPECS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LayerTensor {
    AttentionNorm,
    AttentionNormBias,
    Q,
    QBias,
    K,
    KBias,
    V,
    VBias,
    Qkv,
    QkvBias,
    QNorm,
    QNormBias,
    KNorm,
    KNormBias,
    AttentionOutput,
    AttentionOutputBias,
    PostAttentionNorm,
    FfnNorm,
    FfnNormBias,
    Router,
    Gate,
    GateBias,
    Up,
    UpBias,
    Down,
    DownBias,
    GateExperts,
    UpExperts,
    DownExperts,
    PostFfnNorm,
}

impl LayerTensor {
    /// What is added to the results of this one.
    fn bias(self) -> Option<Self> {
        match self {
            Self::AttentionNorm => Some(Self::AttentionNormBias),
            Self::Q => Some(Self::QBias),
            Self::K => Some(Self::KBias),
            Self::V => Some(Self::VBias),
            Self::Qkv => Some(Self::QkvBias),
            Self::QNorm => Some(Self::QNormBias),
            Self::KNorm => Some(Self::KNormBias),
            Self::AttentionOutput => Some(Self::AttentionOutputBias),
            Self::FfnNorm => Some(Self::FfnNormBias),
            Self::Gate => Some(Self::GateBias),
            Self::Up => Some(Self::UpBias),
            Self::Down => Some(Self::DownBias),
            _ => None,
        }
    }
}

/// The tensors outside of layers, in the order of [`MODEL_SPECS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModelTensor {
    Embedding,
    Positions,
    EmbeddingNorm,
    EmbeddingNormBias,
    OutputNorm,
    OutputNormBias,
    Output,
    RopeDivisors,
    LongRopeDivisors,
    ShortRopeDivisors,
}

/// The shape of a tensor in a model: `None` where the model does not have it.
type Shape = fn(&Config) -> Option<Kind>;

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// `[rows, cols]` of any supported type.
    Matrix(usize, usize),
    /// `[experts, rows, cols]` of any supported type.
    Matrices(usize, usize, usize),
    /// `[n]` of f32.
    Vector(usize),
    /// `[rows, n]` of f32.
    Vectors(usize, usize),
    /// `[n]` of f32, and the file may leave it out.
    OptionalVector(usize),
    /// A matrix that the file may leave out.
    OptionalMatrix(usize, usize),
}

struct Spec {
    /// What follows `blk.N.`, or the whole name.
    name: &'static str,
    shape: Shape,
}

const LAYER_SPECS: [Spec; 30] = [
    Spec { name: "attn_norm.weight", shape: |c| c.residual.norm_before.then_some(Kind::Vector(c.hidden)) },
    Spec { name: "attn_norm.bias", shape: |c| c.residual.norm_before.then(|| bias(c.biases.norm, c.hidden)).flatten() },
    Spec { name: "attn_q.weight", shape: |c| separate(c).then_some(Kind::Matrix(c.q_width(), c.hidden)) },
    Spec { name: "attn_q.bias", shape: |c| separate(c).then(|| bias(c.biases.qkv, c.q_width())).flatten() },
    Spec { name: "attn_k.weight", shape: |c| separate(c).then_some(Kind::Matrix(c.kv_width(), c.hidden)) },
    Spec { name: "attn_k.bias", shape: |c| separate(c).then(|| bias(c.biases.qkv, c.kv_width())).flatten() },
    Spec { name: "attn_v.weight", shape: |c| separate(c).then_some(Kind::Matrix(c.kv_width(), c.hidden)) },
    Spec { name: "attn_v.bias", shape: |c| separate(c).then(|| bias(c.biases.qkv, c.kv_width())).flatten() },
    Spec { name: "attn_qkv.weight", shape: |c| c.attention.fused.then_some(Kind::Matrix(c.qkv_width(), c.hidden)) },
    Spec { name: "attn_qkv.bias", shape: |c| c.attention.fused.then(|| bias(c.biases.qkv, c.qkv_width())).flatten() },
    Spec { name: "attn_q_norm.weight", shape: |c| qk_norm(c, c.heads) },
    Spec { name: "attn_q_norm.bias", shape: |c| qk_norm_bias(c, c.q_width()) },
    Spec { name: "attn_k_norm.weight", shape: |c| qk_norm(c, c.kv_heads) },
    Spec { name: "attn_k_norm.bias", shape: |c| qk_norm_bias(c, c.kv_width()) },
    Spec { name: "attn_output.weight", shape: |c| Some(Kind::Matrix(c.hidden, c.q_width())) },
    Spec { name: "attn_output.bias", shape: |c| bias(c.biases.output, c.hidden) },
    Spec { name: "post_attention_norm.weight", shape: |c| c.residual.norm_after.then_some(Kind::Vector(c.hidden)) },
    Spec { name: "ffn_norm.weight", shape: |c| has_ffn_norm(c).then_some(Kind::Vector(c.hidden)) },
    Spec { name: "ffn_norm.bias", shape: |c| has_ffn_norm(c).then(|| bias(c.biases.norm, c.hidden)).flatten() },
    Spec { name: "ffn_gate_inp.weight", shape: |c| experts(c).map(|count| Kind::Matrix(count, c.hidden)) },
    Spec { name: "ffn_gate.weight", shape: |c| (dense(c) && gate(c)).then_some(Kind::Matrix(c.ffn, c.hidden)) },
    Spec { name: "ffn_gate.bias", shape: |c| (dense(c) && gate(c)).then(|| bias(c.biases.ffn, c.ffn)).flatten() },
    Spec { name: "ffn_up.weight", shape: |c| dense(c).then_some(Kind::Matrix(up_width(c), c.hidden)) },
    Spec { name: "ffn_up.bias", shape: |c| dense(c).then(|| bias(c.biases.ffn, up_width(c))).flatten() },
    Spec { name: "ffn_down.weight", shape: |c| dense(c).then_some(Kind::Matrix(c.hidden, c.ffn)) },
    Spec { name: "ffn_down.bias", shape: |c| dense(c).then(|| bias(c.biases.ffn, c.hidden)).flatten() },
    Spec { name: "ffn_gate_exps.weight", shape: |c| experts(c).map(|count| Kind::Matrices(count, c.ffn, c.hidden)) },
    Spec { name: "ffn_up_exps.weight", shape: |c| experts(c).map(|count| Kind::Matrices(count, c.ffn, c.hidden)) },
    Spec { name: "ffn_down_exps.weight", shape: |c| experts(c).map(|count| Kind::Matrices(count, c.hidden, c.ffn)) },
    Spec { name: "post_ffw_norm.weight", shape: |c| c.residual.norm_after.then_some(Kind::Vector(c.hidden)) },
];

const MODEL_SPECS: [Spec; 10] = [
    Spec { name: EMBEDDING, shape: |c| Some(Kind::Matrix(c.vocab, c.hidden)) },
    Spec {
        name: POSITIONS,
        shape: |c| (c.embedding.positions > 0).then_some(Kind::Matrix(c.embedding.positions, c.hidden)),
    },
    Spec { name: "token_embd_norm.weight", shape: |c| c.embedding.norm.then_some(Kind::Vector(c.hidden)) },
    Spec { name: "token_embd_norm.bias", shape: |c| c.embedding.norm.then(|| bias(c.biases.norm, c.hidden)).flatten() },
    Spec { name: "output_norm.weight", shape: |c| Some(Kind::Vector(c.hidden)) },
    Spec { name: "output_norm.bias", shape: |c| bias(c.biases.norm, c.hidden) },
    // Left out where the embedding serves as the output matrix (tied).
    Spec { name: "output.weight", shape: |c| Some(Kind::OptionalMatrix(c.vocab, c.hidden)) },
    Spec { name: "rope_freqs.weight", shape: |c| (c.rope.dims > 0).then_some(Kind::OptionalVector(c.rope.dims / 2)) },
    Spec { name: "rope_factors_long.weight", shape: |c| long_rope(c).then_some(Kind::Vector(c.rope.dims / 2)) },
    Spec { name: "rope_factors_short.weight", shape: |c| long_rope(c).then_some(Kind::Vector(c.rope.dims / 2)) },
];

fn bias(presence: Presence, width: usize) -> Option<Kind> {
    match presence {
        Presence::Never => None,
        Presence::Optional => Some(Kind::OptionalVector(width)),
        Presence::Always => Some(Kind::Vector(width)),
    }
}

fn separate(config: &Config) -> bool {
    !config.attention.fused
}

fn qk_norm(config: &Config, heads: usize) -> Option<Kind> {
    match config.attention.qk_norm {
        QkNorm::None => None,
        QkNorm::Heads => Some(Kind::Vector(config.head_dim)),
        QkNorm::EachHead => Some(Kind::Vectors(heads, config.head_dim)),
        QkNorm::Row => Some(Kind::Vector(heads * config.head_dim)),
    }
}

fn qk_norm_bias(config: &Config, width: usize) -> Option<Kind> {
    let possible = config.norm == NormKind::Layer && config.attention.qk_norm == QkNorm::Row;
    possible.then(|| bias(config.biases.norm, width)).flatten()
}

fn has_ffn_norm(config: &Config) -> bool {
    config.residual.norm_before && !config.residual.shared_norm
}

/// The number of experts, if there are any.
fn experts(config: &Config) -> Option<usize> {
    Some(config.feed_forward.experts).filter(|&experts| experts > 0)
}

fn dense(config: &Config) -> bool {
    config.feed_forward.experts == 0
}

fn gate(config: &Config) -> bool {
    config.feed_forward.gate == Gate::Separate
}

/// Rows of the up matrix.
fn up_width(config: &Config) -> usize {
    if config.feed_forward.gate == Gate::Fused { 2 * config.ffn } else { config.ffn }
}

fn long_rope(config: &Config) -> bool {
    config.rope.original_context > 0
}

/// A tensor's place in the file. All zero where the model does not have it.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct TensorRef {
    offset: u64,
    rows: u32,
    cols: u32,
    /// ggml's number, and 1.
    dtype: u32,
    /// The file that it is in.
    part: u32,
}

impl TensorRef {
    /// The place of rows of a tensor.
    pub(super) fn new(part: usize, info: &TensorInfo<'_>, dtype: Dtype, rows: u32, cols: u32) -> Self {
        Self { offset: info.offset() as u64, rows, cols, dtype: dtype.ggml_number() + 1, part: part as u32 }
    }

    /// The file that it is in.
    fn part(&self) -> usize {
        self.part as usize
    }

    /// The tensor; `None` where there is none.
    pub(super) fn view<'m>(&self, file: &'m [u8]) -> Option<TensorView<'m>> {
        let dtype = Dtype::from_ggml(self.dtype.checked_sub(1)?)?;
        let (rows, cols) = (self.rows as usize, self.cols as usize);
        let len = dtype.row_bytes(cols)?.checked_mul(rows)?;
        let offset = usize::try_from(self.offset).ok()?;
        TensorView::new(dtype, rows, cols, file.get(offset..offset.checked_add(len)?)?)
    }
}

/// The places of all tensors of a model, in the caller's memory.
#[derive(Debug)]
pub(crate) struct Weights<'m, 'a> {
    files: Files<'m>,
    /// Of all norms.
    norm: NormKind,
    epsilon: f32,
    /// The tensors outside of layers, then those of each layer.
    table: &'a mut [TensorRef],
}

impl<'m, 'a> Weights<'m, 'a> {
    /// Takes the table's memory from the arena.
    pub(crate) fn carve(arena: &mut Arena<'a>, files: &Files<'m>, config: &Config) -> Result<Self, MemoryError> {
        let table = arena.slice("weight table", table_len(config).ok_or(MemoryError::TooLarge)?)?;
        table.fill(TensorRef::zeroed());
        let weights = Self { files: *files, norm: config.norm, epsilon: config.norm_epsilon, table };
        for (part, info) in files.tensors() {
            let Some((index, spec)) = find(info.name(), config) else { continue };
            if let (Ok(found), Some(place)) = (check(part, &info, spec, config), weights.table.get_mut(index)) {
                *place = found;
            }
        }
        Ok(weights)
    }

    /// A tensor of a layer; `None` where the model does not have it. Matrices of experts follow one another.
    #[inline]
    pub(super) fn layer(&self, layer: usize, tensor: LayerTensor) -> Option<TensorView<'m>> {
        self.view(layer_start(layer) + tensor as usize)
    }

    /// A tensor outside of layers; `None` where the model does not have it.
    pub(super) fn model(&self, tensor: ModelTensor) -> Option<TensorView<'m>> {
        self.view(tensor as usize)
    }

    /// A matrix of a layer with its bias.
    pub(super) fn linear(&self, layer: usize, tensor: LayerTensor) -> Option<Linear<'m>> {
        Some(Linear { bias: self.bias(layer, tensor), ..Linear::plain(self.layer(layer, tensor)?) })
    }

    /// The matrix of one of a layer's experts.
    pub(super) fn expert(&self, layer: usize, tensor: LayerTensor, expert: u32, rows: usize) -> Option<Linear<'m>> {
        let matrices = self.layer(layer, tensor)?;
        Some(Linear::plain(matrices.slice_rows((expert as usize).checked_mul(rows)?, rows)?))
    }

    /// A norm of the residual stream in a layer.
    pub(super) fn layer_norm(&self, layer: usize, tensor: LayerTensor) -> Option<Norm<'m>> {
        Some(self.norm(self.layer(layer, tensor)?.bytes(), self.bias(layer, tensor)))
    }

    /// The norm of the embedding.
    pub(super) fn embedding_norm(&self) -> Option<Norm<'m>> {
        let bias = self.model(ModelTensor::EmbeddingNormBias);
        Some(self.norm(self.model(ModelTensor::EmbeddingNorm)?.bytes(), bias.map_or(&[], |bias| bias.bytes())))
    }

    /// The last norm.
    pub(super) fn output_norm(&self) -> Option<Norm<'m>> {
        let bias = self.model(ModelTensor::OutputNormBias);
        Some(self.norm(self.model(ModelTensor::OutputNorm)?.bytes(), bias.map_or(&[], |bias| bias.bytes())))
    }

    /// The output matrix: the embedding's where the file has none of its own.
    pub(super) fn output(&self) -> Option<Linear<'m>> {
        self.model(ModelTensor::Output).or_else(|| self.model(ModelTensor::Embedding)).map(Linear::plain)
    }

    /// A norm with these weights.
    pub(super) fn norm<'w>(&self, weight: &'w [u8], bias: &'w [u8]) -> Norm<'w> {
        Norm { kind: self.norm, epsilon: self.epsilon, weight, bias }
    }

    /// The bias of a tensor; empty where there is none.
    pub(super) fn bias(&self, layer: usize, tensor: LayerTensor) -> &'m [u8] {
        tensor.bias().and_then(|bias| self.layer(layer, bias)).map_or(&[], |bias| bias.bytes())
    }

    fn view(&self, index: usize) -> Option<TensorView<'m>> {
        let place = self.table.get(index)?;
        place.view(self.files.bytes(place.part())?)
    }
}

/// Checks that the file has all tensors of the model, in the right shapes and types, each once, and no other
/// ones. One pass over the file.
pub(super) fn validate(files: &Files<'_>, config: &Config) -> Result<(), ModelError> {
    let count = files.tensor_count();
    if count > MAX_PLACES {
        return Err(ModelError::TooMany { count, limit: MAX_PLACES });
    }
    let mut found = Places([0; MAX_PLACES.div_ceil(64)]);
    for (part, info) in files.tensors() {
        let tensor = Name::new(info.name().as_bytes());
        let (index, spec) = find(info.name(), config).ok_or(ModelError::UnknownTensor { tensor })?;
        check(part, &info, spec, config)?;
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
    files: &'g Files<'_>,
    tensors: &'g [LayerTensor],
) -> impl Iterator<Item = Dtype> + use<'g> {
    files.tensors().filter_map(move |(_, info)| {
        let (_, suffix) = layer_and_suffix(info.name())?;
        let wanted = tensors.iter().any(|&tensor| LAYER_SPECS.get(tensor as usize).is_some_and(|s| s.name == suffix));
        wanted.then(|| Dtype::from_ggml(info.ggml_type().number())).flatten()
    })
}

/// The types of all matrices.
pub(super) fn matrix_dtypes<'g>(files: &'g Files<'_>) -> impl Iterator<Item = Dtype> + use<'g> {
    let matrices = files.tensors().filter(|(_, info)| info.dims().len() > 1);
    matrices.filter_map(|(_, info)| Dtype::from_ggml(info.ggml_type().number()))
}

/// The type of the output matrix.
pub(super) fn output_dtype(files: &Files<'_>) -> Option<Dtype> {
    let info = files.tensor("output.weight").or_else(|| files.tensor(EMBEDDING))?;
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

/// The layer that a matrix of this name is in, which of `tensors` it is, and its shape, `[rows, cols]`.
pub(super) fn matrix_of_layer(
    name: &str,
    tensors: &[LayerTensor],
    config: &Config,
) -> Option<(usize, usize, [usize; 2])> {
    let (layer, suffix) = layer_and_suffix(name)?;
    let spec = |tensor: LayerTensor| LAYER_SPECS.get(tensor as usize);
    let index = tensors.iter().position(|&tensor| spec(tensor).is_some_and(|spec| spec.name == suffix))?;
    match (spec(*tensors.get(index)?)?.shape)(config)? {
        Kind::Matrix(rows, cols) if layer < config.layers => Some((layer, index, [rows, cols])),
        _ => None,
    }
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
fn check(part: usize, info: &TensorInfo<'_>, spec: &Spec, config: &Config) -> Result<TensorRef, ModelError> {
    let tensor = Name::new(info.name().as_bytes());
    let kind = (spec.shape)(config).ok_or(ModelError::UnknownTensor { tensor })?;
    let (experts, rows, cols, vector) = match kind {
        Kind::Matrix(rows, cols) | Kind::OptionalMatrix(rows, cols) => (1, rows, cols, false),
        Kind::Matrices(experts, rows, cols) => (experts, rows, cols, false),
        Kind::Vectors(rows, n) => (1, rows, n, true),
        Kind::Vector(n) | Kind::OptionalVector(n) => (1, 1, n, true),
    };
    let dims = info.dims();
    let dim = |index: usize| dims.get(index).copied().unwrap_or(1);
    if [dim(0), dim(1), dim(2), dim(3)] != [cols as u64, rows as u64, experts as u64, 1] {
        return Err(ModelError::TensorShape { tensor, expected: [rows, cols], found: [dim(1), dim(0)] });
    }
    let wrong_type = ModelError::TensorType { tensor, found: info.ggml_type() };
    let dtype = Dtype::from_ggml(info.ggml_type().number()).ok_or(wrong_type)?;
    let computed = if vector { dtype == Dtype::F32 } else { dtype.is_built() };
    let len = dtype.row_bytes(cols).and_then(|bytes| bytes.checked_mul(rows)?.checked_mul(experts));
    let all_rows = rows.checked_mul(experts).and_then(|rows| u32::try_from(rows).ok());
    let (Some(all_rows), true) = (all_rows, computed && len == Some(info.data().len())) else {
        return Err(wrong_type);
    };
    Ok(TensorRef::new(part, info, dtype, all_rows, cols as u32))
}

impl Spec {
    fn is_required(&self, config: &Config) -> bool {
        matches!(
            (self.shape)(config),
            Some(Kind::Matrix(..) | Kind::Matrices(..) | Kind::Vector(..) | Kind::Vectors(..))
        )
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
        assert_eq!(layer(LayerTensor::QkvBias), "attn_qkv.bias");
        assert_eq!(layer(LayerTensor::Router), "ffn_gate_inp.weight");
        assert_eq!(layer(LayerTensor::PostFfnNorm), "post_ffw_norm.weight");
        assert_eq!(MODEL_SPECS[ModelTensor::RopeDivisors as usize].name, "rope_freqs.weight");
        assert_eq!(MODEL_SPECS[ModelTensor::ShortRopeDivisors as usize].name, "rope_factors_short.weight");
        assert_eq!(MODEL_SPECS[ModelTensor::Output as usize].name, "output.weight");
    }
}
