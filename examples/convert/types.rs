//! Chooses the element type of each tensor.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use gleed::tensor::Dtype;

use crate::output::Tensor;
use crate::quantize::needs_importance;

/// The types of the matrices in a file.
#[derive(Clone, Copy)]
pub(crate) struct FileType {
    name: &'static str,
    /// `general.file_type`.
    pub(crate) number: u32,
    /// Type of all matrices, or of most.
    dtype: Dtype,
    /// Whether some matrices get more bits, where that helps most.
    mixed: bool,
}

const ALL: [FileType; 30] = [
    plain("f32", 0, Dtype::F32),
    plain("f16", 1, Dtype::F16),
    plain("bf16", 32, Dtype::BF16),
    plain("q8_0", 7, Dtype::Q8_0),
    plain("q4_0", 2, Dtype::Q4_0),
    plain("q4_1", 3, Dtype::Q4_1),
    plain("q5_0", 8, Dtype::Q5_0),
    plain("q5_1", 9, Dtype::Q5_1),
    plain("q2_k", 10, Dtype::Q2_K),
    plain("q3_k", 12, Dtype::Q3_K),
    plain("q4_k", 15, Dtype::Q4_K),
    plain("q5_k", 17, Dtype::Q5_K),
    plain("q6_k", 18, Dtype::Q6_K),
    plain("iq1_s", 24, Dtype::IQ1_S),
    plain("iq1_m", 31, Dtype::IQ1_M),
    plain("iq2_xxs", 19, Dtype::IQ2_XXS),
    plain("iq2_xs", 20, Dtype::IQ2_XS),
    plain("iq2_s", 28, Dtype::IQ2_S),
    plain("iq3_xxs", 23, Dtype::IQ3_XXS),
    plain("iq3_s", 26, Dtype::IQ3_S),
    plain("iq4_nl", 25, Dtype::IQ4_NL),
    plain("iq4_xs", 30, Dtype::IQ4_XS),
    plain("q1_0", 40, Dtype::Q1_0),
    plain("q2_0", 41, Dtype::Q2_0),
    plain("tq1_0", 36, Dtype::TQ1_0),
    plain("tq2_0", 37, Dtype::TQ2_0),
    plain("mxfp4", 38, Dtype::MXFP4),
    plain("nvfp4", 39, Dtype::NVFP4),
    FileType { mixed: true, ..plain("q4_k_m", 15, Dtype::Q4_K) },
    FileType { mixed: true, ..plain("q5_k_m", 17, Dtype::Q5_K) },
];

const fn plain(name: &'static str, number: u32, dtype: Dtype) -> FileType {
    FileType { name, number, dtype, mixed: false }
}

impl FileType {
    /// Returns the parser of names, which also gives help and errors the list of names.
    pub(crate) fn parser() -> impl TypedValueParser<Value = Self> {
        let names = PossibleValuesParser::new(ALL.map(|file_type| file_type.name));
        names.try_map(|name| ALL.into_iter().find(|file_type| file_type.name == name).ok_or("no type has this name"))
    }

    /// Returns the type of a file whose matrices have this type.
    pub(crate) fn of(dtype: Dtype) -> Option<Self> {
        ALL.into_iter().find(|file_type| file_type.dtype == dtype)
    }

    /// Returns the type that a matrix gets if its rows are whole blocks of it.
    pub(crate) fn wanted(self, name: &str, model: Model) -> Dtype {
        let is_output = name == "output.weight" || name == "token_embd.weight" && model.tied;
        if needs_importance(self.dtype) {
            // Importance matrices have no entry for the embedding, and seldom one for the output matrix.
            return match name {
                _ if is_output => Dtype::Q5_K,
                "token_embd.weight" if matches!(self.dtype, Dtype::IQ2_S | Dtype::IQ3_XXS) => Dtype::IQ3_S,
                "token_embd.weight" => Dtype::Q2_K,
                _ => self.dtype,
            };
        }
        if !self.mixed {
            return self.dtype;
        }
        let Some((layer, name)) = layer(name) else {
            return if is_output { Dtype::Q6_K } else { self.dtype };
        };
        match name {
            // The first and the last eighth, and every third layer between.
            "attn_v.weight" | "ffn_down.weight" | "ffn_down_exps.weight" if more_bits(layer, model.layers) => {
                Dtype::Q6_K
            }
            // The matrix contains V.
            "attn_qkv.weight" if self.dtype == Dtype::Q4_K => Dtype::Q5_K,
            "attn_qkv.weight" => Dtype::Q6_K,
            _ => self.dtype,
        }
    }
}

/// The properties of a model on which the types of some matrices depend.
#[derive(Clone, Copy)]
pub(crate) struct Model {
    layers: usize,
    /// Whether the embedding is the output matrix.
    tied: bool,
}

impl Model {
    pub(crate) fn of(tensors: &[Tensor<'_>]) -> Self {
        Self {
            layers: tensors
                .iter()
                .filter_map(|tensor| layer(&tensor.name))
                .map(|(layer, _)| layer + 1)
                .max()
                .unwrap_or(0),
            tied: tensors.iter().all(|tensor| tensor.name != "output.weight"),
        }
    }
}

/// Returns the layer in a tensor's name, and the rest of the name.
fn layer(name: &str) -> Option<(usize, &str)> {
    let (layer, name) = name.strip_prefix("blk.")?.split_once('.')?;
    Some((layer.parse().ok()?, name))
}

fn more_bits(layer: usize, layers: usize) -> bool {
    let eighth = layers / 8;
    layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2
}

/// Returns the type of a tensor in a file of type `wanted`. Without it matrices keep their types.
pub(crate) fn of(tensor: &Tensor<'_>, wanted: Option<FileType>, model: Model) -> Dtype {
    if !tensor.is_matrix() {
        return Dtype::F32;
    }
    match wanted {
        Some(file_type) => possible(file_type.wanted(&tensor.name, model), tensor.contents.cols()),
        None => tensor.contents.dtype().unwrap_or(Dtype::F32),
    }
}

/// Returns the type itself if rows are whole blocks of it, otherwise the type that `llama-quantize` takes instead.
fn possible(dtype: Dtype, cols: usize) -> Dtype {
    let narrower = match dtype {
        Dtype::Q2_K | Dtype::Q3_K | Dtype::TQ1_0 | Dtype::TQ2_0 => Dtype::Q4_0,
        Dtype::Q4_K => Dtype::Q5_0,
        Dtype::Q5_K => Dtype::Q5_1,
        Dtype::Q6_K => Dtype::Q8_0,
        dtype if dtype.name().starts_with("IQ") => Dtype::IQ4_NL,
        other => other,
    };
    let fits = |dtype: &Dtype| dtype.row_bytes(cols).is_some();
    [dtype, narrower].into_iter().find(fits).unwrap_or(Dtype::F16)
}
