//! File types: which tensor has which element type. The rules are those of `llama-quantize` without an importance
//! matrix.

use gleed::tensor::Dtype;

use super::shape::{Role, Shape, TensorShape};

/// A type of file.
#[derive(Clone, Copy)]
pub struct FileType {
    name: &'static str,
    /// `general.file_type`.
    pub number: u32,
    /// Type of most matrices.
    dtype: Dtype,
    mix: Mix,
}

/// The tensors whose type differs from that of most matrices.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mix {
    /// No matrix differs.
    Float,
    /// The embedding is Q6_K, unless the file type is Q8_0, Q1_0 or Q2_0.
    Plain,
    /// As `Plain`; attn_v, attn_output and ffn_down have more bits.
    Q2,
    /// As `Plain`; attn_v and ffn_down of some layers are Q6_K.
    Medium,
    /// As `Plain`; attn_v, attn_output and ffn_down have more bits.
    Q3Medium,
    /// As `Plain`; attn_v and ffn_down of some layers are Q5_K.
    Iq4,
}

impl FileType {
    const ALL: [Self; 28] = [
        Self::new("f32", 0, Dtype::F32, Mix::Float),
        Self::new("f16", 1, Dtype::F16, Mix::Float),
        Self::new("bf16", 32, Dtype::BF16, Mix::Float),
        Self::new("q8_0", 7, Dtype::Q8_0, Mix::Plain),
        Self::new("q4_0", 2, Dtype::Q4_0, Mix::Plain),
        Self::new("q4_1", 3, Dtype::Q4_1, Mix::Plain),
        Self::new("q5_0", 8, Dtype::Q5_0, Mix::Plain),
        Self::new("q5_1", 9, Dtype::Q5_1, Mix::Plain),
        Self::new("q2_k", 10, Dtype::Q2_K, Mix::Q2),
        Self::new("q3_k_m", 12, Dtype::Q3_K, Mix::Q3Medium),
        Self::new("q4_k_m", 15, Dtype::Q4_K, Mix::Medium),
        Self::new("q5_k_m", 17, Dtype::Q5_K, Mix::Medium),
        Self::new("q6_k", 18, Dtype::Q6_K, Mix::Plain),
        Self::new("iq4_nl", 25, Dtype::IQ4_NL, Mix::Iq4),
        Self::new("iq4_xs", 30, Dtype::IQ4_XS, Mix::Iq4),
        Self::new("q1_0", 40, Dtype::Q1_0, Mix::Plain),
        Self::new("q2_0", 41, Dtype::Q2_0, Mix::Plain),
        Self::new("tq1_0", 36, Dtype::TQ1_0, Mix::Plain),
        Self::new("tq2_0", 37, Dtype::TQ2_0, Mix::Plain),
        Self::new("mxfp4", 38, Dtype::MXFP4, Mix::Plain),
        Self::new("nvfp4", 39, Dtype::NVFP4, Mix::Plain),
        Self::new("iq1_s", 24, Dtype::IQ1_S, Mix::Plain),
        Self::new("iq1_m", 31, Dtype::IQ1_M, Mix::Plain),
        Self::new("iq2_xxs", 19, Dtype::IQ2_XXS, Mix::Plain),
        Self::new("iq2_xs", 20, Dtype::IQ2_XS, Mix::Plain),
        Self::new("iq2_s", 28, Dtype::IQ2_S, Mix::Plain),
        Self::new("iq3_xxs", 23, Dtype::IQ3_XXS, Mix::Plain),
        Self::new("iq3_s", 26, Dtype::IQ3_S, Mix::Plain),
    ];

    const fn new(name: &'static str, number: u32, dtype: Dtype, mix: Mix) -> Self {
        Self { name, number, dtype, mix }
    }

    pub fn from_name(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|file_type| file_type.name == name);
        found.ok_or_else(|| format!("the types are {}", Self::names()))
    }

    pub fn names() -> String {
        Self::ALL.map(|file_type| file_type.name).join(", ")
    }

    /// Returns the type of a tensor.
    pub fn dtype(self, shape: &Shape, tensor: &TensorShape) -> Dtype {
        if tensor.is_f32() {
            return Dtype::F32;
        }
        let wanted = self.wanted(shape, tensor);
        if tensor.cols().is_multiple_of(wanted.block_len()) { wanted } else { narrower(wanted) }
    }

    /// Returns the type of a tensor, if its rows are whole blocks of this type.
    fn wanted(self, shape: &Shape, tensor: &TensorShape) -> Dtype {
        let (layer, layers) = tensor.place;
        // The first and the last eighth, and every third layer between.
        let many_queries = shape.heads >= 4 * shape.kv_heads;
        let more_bits = layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
        match (self.mix, tensor.role) {
            (Mix::Float, _) => self.dtype,
            (_, Role::Embedding) if !shape.tied => self.dtype,
            (_, Role::Embedding | Role::Output) if !matches!(self.dtype, Dtype::Q8_0 | Dtype::Q1_0 | Dtype::Q2_0) => {
                Dtype::Q6_K
            }
            (Mix::Q2, Role::Value) if many_queries => Dtype::Q4_K,
            (Mix::Q2, Role::Value | Role::AttentionOutput | Role::Down) => Dtype::Q3_K,
            (Mix::Medium, Role::Value | Role::Down) if more_bits => Dtype::Q6_K,
            (Mix::Q3Medium, Role::Value) if layer < 2 => Dtype::Q5_K,
            (Mix::Q3Medium, Role::Down) if layer < layers / 16 => Dtype::Q5_K,
            (Mix::Q3Medium, Role::Value | Role::AttentionOutput | Role::Down) => Dtype::Q4_K,
            (Mix::Iq4, Role::Value) if many_queries => Dtype::Q5_K,
            (Mix::Iq4, Role::Down) if layer < layers / 8 => Dtype::Q5_K,
            _ => self.dtype,
        }
    }
}

/// Returns the type with blocks of 32 that replaces a type with blocks of 256, for rows that are not a multiple of 256.
fn narrower(dtype: Dtype) -> Dtype {
    match dtype {
        Dtype::IQ1_S | Dtype::IQ1_M | Dtype::IQ2_XXS | Dtype::IQ2_XS | Dtype::IQ2_S => Dtype::IQ4_NL,
        Dtype::IQ3_XXS | Dtype::IQ3_S | Dtype::IQ4_XS => Dtype::IQ4_NL,
        Dtype::TQ1_0 | Dtype::TQ2_0 => Dtype::Q4_0,
        Dtype::Q2_K | Dtype::Q3_K => Dtype::Q4_0,
        Dtype::Q4_K => Dtype::Q5_0,
        Dtype::Q5_K => Dtype::Q5_1,
        Dtype::Q6_K => Dtype::Q8_0,
        other => other,
    }
}
