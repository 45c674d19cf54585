//! Models with a layer that predicts tokens further ahead, with the keys and tensors of released files.

use super::super::gguf_writer::GgufWriter;
use super::super::random::Rng;
use super::{Architecture, SyntheticModel, encode_f32};

/// Index of the layer that predicts.
pub const LAYER: usize = 3;

/// Tensors that a layer that predicts has of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    Nothing,
    /// A norm at its end, as in released files of Qwen 3.5.
    Norm,
    /// A norm, an embedding and an output matrix, as in those of GLM 4.5.
    All,
}

/// Returns the file of a model with such a layer.
pub fn file(architecture: Architecture, small: bool, own: Own) -> GgufWriter {
    let has_states = architecture != Architecture::Glm4Moe;
    let model = SyntheticModel { layers: LAYER + 1, ..SyntheticModel::of(architecture) };
    // In models with states, keys are as wide as values.
    let model = if has_states { model.with("ssm.state_size", 16_u32) } else { model };
    let model = if small { SyntheticModel { hidden: 32, ffn: 32, ..model } } else { model };
    let (hidden, vocab, mut random) = (model.hidden, model.vocab, Rng::new(77));
    let mut file = model.writer();
    file.set(&format!("{}.nextn_predict_layers", architecture.name()), 1_u32);
    if has_states {
        file.set(&format!("{}.rope.dimension_sections", architecture.name()), vec![2_i32, 1, 1, 0]);
    }
    let mut add = |name: &str, dims: &[usize], middle: f32, spread: f32| {
        let data: Vec<f32> = (0..dims.iter().product()).map(|_| middle + spread * random.normal()).collect();
        let dims: Vec<u64> = dims.iter().map(|dim| *dim as u64).collect();
        file.add_tensor(&format!("blk.{LAYER}.nextn.{name}.weight"), &dims, 0, encode_f32(&data));
    };
    add("eh_proj", &[2 * hidden, hidden], 0.0, 1.0 / (2.0 * hidden as f32).sqrt());
    add("enorm", &[hidden], 1.0, 0.2);
    add("hnorm", &[hidden], 1.0, 0.2);
    if own != Own::Nothing {
        add("shared_head_norm", &[hidden], 1.0, 0.2);
    }
    if own == Own::All {
        add("embed_tokens", &[hidden, vocab], 0.0, 0.5);
        add("shared_head_head", &[hidden, vocab], 0.0, 1.5 / (hidden as f32).sqrt());
    }
    file
}
