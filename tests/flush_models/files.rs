//! Models whose files have numbers that are hard for a machine that flushes.

use crate::numbers::{bytes, hard, power};
use crate::random::Rng;
use common::gguf_writer::GgufWriter;

/// A change of a model's F32 numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// No change.
    None,
    /// Some numbers become hard ones.
    Some,
    /// All numbers of norms and biases become hard ones.
    Vectors,
    /// The numbers of the embedding become so small that they are near the bound of settled numbers.
    Embedding,
    /// The numbers of all matrices are multiplied by 2 to this power.
    Scaled(i32),
}

impl Change {
    pub(crate) const ALL: [Self; 7] = [
        Self::None,
        Self::Some,
        Self::Vectors,
        Self::Embedding,
        Self::Scaled(-12),
        Self::Scaled(-30),
        Self::Scaled(-60),
    ];

    /// Returns the file with this change.
    pub(crate) fn apply(self, mut writer: GgufWriter) -> Vec<u8> {
        let mut rng = Rng::new(20);
        // Rotary factors stay: they divide frequencies, and must not be 0.
        let floats = writer.tensors.iter_mut().filter(|tensor| tensor.ggml_type == 0 && !tensor.name.contains("rope"));
        for tensor in floats {
            let mut numbers: Vec<f32> = tensor.data.as_chunks::<4>().0.iter().map(|x| f32::from_le_bytes(*x)).collect();
            let is_matrix = tensor.dims.len() > 1;
            for x in &mut numbers {
                match self {
                    Self::Some if rng.below(6) == 0 => *x = hard(&mut rng),
                    Self::Vectors if !is_matrix => *x = hard(&mut rng),
                    Self::Embedding if tensor.name.starts_with("token_embd") => *x *= power(-50),
                    Self::Scaled(exponent) if is_matrix => *x *= power(exponent),
                    _ => {}
                }
            }
            tensor.data = bytes(&numbers);
        }
        writer.finish()
    }
}
