//! LoRA adapters: pairs of small matrices that are added to matrices of a model. (Hu et al., "LoRA", 2021.)

use gguf_rs_lite::{Gguf, Name, TensorInfo};

use super::config::Config;
use super::error::ModelError;
use super::roles::Role;
use super::table::{TensorRef, Uses, matrix_of_layer};
use crate::tensor::Dtype;

/// The matrices of a layer that can be adapted.
pub(crate) const TARGETS: [Role; 8] =
    [Role::Q, Role::K, Role::V, Role::Qkv, Role::AttentionOutput, Role::Gate, Role::Up, Role::Down];

/// An adapter in borrowed bytes, checked against its model.
///
/// ```
/// use gleed::model::Adapter;
/// use gleed::{Engine, SeqId};
///
/// /// Applies a LoRA adapter to a sequence, at half its strength.
/// fn adapt<'m>(engine: &mut Engine<'m, '_>, seq: SeqId, file: &'m [u8]) -> Result<(), Box<dyn std::error::Error>> {
///     let adapter = Adapter::open(file, engine.model())?;
///     let index = engine.load_adapter(&adapter)?;
///     Ok(engine.set_adapter(seq, index, 0.5)?)
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Adapter<'m> {
    gguf: Gguf<'m>,
    config: Config,
    alpha: f32,
    rank: usize,
}

impl<'m> Adapter<'m> {
    /// Reads an adapter as [`Adapter::open`] does. `config` is the configuration of the model, and `uses` says which
    /// tensors its program reads.
    pub(crate) fn read(bytes: &'m [u8], config: &Config, uses: &Uses<'_>) -> Result<Self, ModelError> {
        let gguf = Gguf::parse(bytes)?;
        let text = |name: &str, expected: &[u8]| {
            let key = Name::new(name.as_bytes());
            let value = gguf.get(name).ok_or(ModelError::MissingKey { key })?;
            if value.as_bytes() == Some(expected) { Ok(()) } else { Err(ModelError::Unsupported { key }) }
        };
        text("general.type", b"adapter")?;
        text("adapter.type", b"lora")?;
        text("general.architecture", config.architecture.as_bytes())?;
        let key = Name::new(b"adapter.lora.alpha");
        let alpha = gguf.get("adapter.lora.alpha").ok_or(ModelError::MissingKey { key })?.as_f32();
        let alpha = alpha.filter(|alpha| alpha.is_finite()).ok_or(ModelError::BadValue { key })?;
        let mut adapter = Self { gguf, config: *config, alpha, rank: 0 };
        // The search for pairs takes time proportional to the square of this number.
        let (count, limit) = (gguf.tensor_count(), 2 * TARGETS.len() * adapter.config.layers);
        if count > limit {
            return Err(ModelError::TooMany { count, limit });
        }
        for info in gguf.tensors() {
            adapter.rank = adapter.rank.max(adapter.check(&info, uses)?);
        }
        Ok(adapter)
    }

    /// Returns the largest rank of the adapter's pairs.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the configuration of the model for which the adapter was opened.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the factor of the products of pairs, times their rank.
    pub(crate) fn alpha(&self) -> f32 {
        self.alpha
    }

    pub(crate) fn bytes(&self) -> &'m [u8] {
        self.gguf.bytes()
    }

    /// Calls `found(layer, index in TARGETS, whether it is the first matrix of its pair, tensor)` for every matrix.
    pub(crate) fn for_each(&self, mut found: impl FnMut(usize, usize, bool, TensorRef)) {
        for info in self.gguf.tensors() {
            let dims = info.dims();
            let (Some(&cols), Some(&rows)) = (dims.first(), dims.get(1)) else { continue };
            let Some(dtype) = Dtype::from_ggml(info.ggml_type().number()) else { continue };
            if let Some((layer, target, _, first)) = self.target(info.name()) {
                found(layer, target, first, TensorRef::new(0, &info, dtype, rows as u32, cols as u32));
            }
        }
    }

    /// Returns the layer of the matrix that the tensor `name` changes, the index of this matrix in [`TARGETS`], its
    /// shape, and whether the tensor is the first of its pair.
    fn target(&self, name: &str) -> Option<(usize, usize, [usize; 2], bool)> {
        let a = name.strip_suffix(".lora_a");
        let base = a.or_else(|| name.strip_suffix(".lora_b"))?;
        let (layer, role, shape) = matrix_of_layer(base, &TARGETS, &self.config)?;
        Some((layer, TARGETS.iter().position(|&target| target == role)?, shape, a.is_some()))
    }

    /// Returns the rank of a matrix. Refuses a matrix that does not fit.
    fn check(&self, info: &TensorInfo<'_>, uses: &Uses<'_>) -> Result<usize, ModelError> {
        let tensor = Name::new(info.name().as_bytes());
        let used = |&(layer, target, ..): &(usize, usize, [usize; 2], bool)| {
            TARGETS.get(target).is_some_and(|&role| uses(layer, role))
        };
        let target = self.target(info.name()).filter(used);
        let (_, _, [rows, cols], first) = target.ok_or(ModelError::UnknownTensor { tensor })?;
        let dim = |index: usize| info.dims().get(index).copied().unwrap_or(1);
        // The other matrix of the pair has the rank as its other dimension.
        let [own, opposite] = if first { [".lora_a", ".lora_b"] } else { [".lora_b", ".lora_a"] };
        let base = info.name().strip_suffix(own);
        let other = self.gguf.tensors().find(|other| base.is_some() && other.name().strip_suffix(opposite) == base);
        let other = other.ok_or(ModelError::MissingTensor { tensor })?;
        let rank = if first { dim(1) } else { dim(0) };
        let of_other = other.dims().get(usize::from(!first)).copied().unwrap_or(1);
        let small = usize::try_from(rank).ok().filter(|&rank| rank > 0 && rank <= rows.max(cols));
        let expected = if first { [small.unwrap_or(1), cols] } else { [rows, small.unwrap_or(1)] };
        let fits = [dim(1), dim(0)] == expected.map(|dim| dim as u64) && dim(2) == 1 && dim(3) == 1;
        let (Some(rank), true) = (small.filter(|_| rank == of_other), fits) else {
            return Err(ModelError::TensorShape { tensor, expected, found: [dim(1), dim(0)] });
        };
        let wrong_type = ModelError::TensorType { tensor, found: info.ggml_type() };
        match Dtype::from_ggml(info.ggml_type().number()) {
            Some(dtype @ (Dtype::F32 | Dtype::F16 | Dtype::BF16)) if dtype.is_built() => Ok(rank),
            _ => Err(wrong_type),
        }
    }
}
