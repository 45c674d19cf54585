//! The metadata of a made model.

use super::shape::{Experts, Family, Mixer, Recurrent, Shape};
use crate::gguf::{Header, Value};

/// Value of `pooling_type` for the mean of the tokens' vectors.
const MEAN: u32 = 1;

impl Shape {
    /// Writes the metadata into a header.
    pub fn describe(&self, header: &mut Header, file_type: u32) {
        let text = |text: &str| Value::Text(text.into());
        header.set("general.architecture", text(self.architecture));
        header.set("general.name", Value::Text(format!("{}, random weights", self.name)));
        header.set("general.file_type", Value::U32(file_type));
        header.set("general.quantization_version", Value::U32(2));
        let mut set = |name: &str, value| header.set(&format!("{}.{name}", self.architecture), value);
        let sizes = [
            ("block_count", self.layers),
            ("embedding_length", self.hidden),
            ("feed_forward_length", self.ffn),
            ("attention.head_count", self.heads),
            ("attention.key_length", self.head_dim),
            ("attention.value_length", self.head_dim),
            ("rope.dimension_count", self.rotary),
            ("vocab_size", self.vocab),
        ];
        sizes.into_iter().for_each(|(name, size)| set(name, Value::U32(size as u32)));
        set("attention.head_count_kv", self.kv_head_count());
        set("context_length", Value::U32(self.context));
        match self.family {
            Family::Llama => {
                set("attention.layer_norm_rms_epsilon", Value::F32(self.norm_epsilon));
                set("rope.freq_base", Value::F32(self.rope_base));
                self.describe_recurrent(&mut set);
                self.describe_experts(&mut set);
                self.describe_vocabulary(header);
            }
            Family::Gpt2 => {
                set("attention.layer_norm_epsilon", Value::F32(self.norm_epsilon));
                self.describe_vocabulary(header);
            }
            Family::Bert => {
                set("attention.layer_norm_epsilon", Value::F32(self.norm_epsilon));
                set("attention.causal", Value::Bool(false));
                set("pooling_type", Value::U32(MEAN));
                self.describe_words(header);
            }
        }
    }

    /// Returns the number of KV heads: one for all layers, or one for each layer, with 0 for layers without attention.
    fn kv_head_count(&self) -> Value {
        match self.recurrent.mixer {
            // These architectures state in another key which layers have attention.
            Mixer::None | Mixer::DeltaRule => Value::U32(self.kv_heads as u32),
            Mixer::ShortConvolution | Mixer::StateSpace => {
                let heads = |layer| if (self.attends)(layer) { self.kv_heads as i32 } else { 0 };
                Value::I32s((0..self.layers).map(heads).collect())
            }
        }
    }

    fn describe_recurrent(&self, set: &mut impl FnMut(&str, Value)) {
        let recurrent @ Recurrent { mixer, kernel, heads, key_dim, groups, .. } = self.recurrent;
        match mixer {
            Mixer::None => return,
            Mixer::ShortConvolution => return set("shortconv.l_cache", Value::U32(kernel as u32)),
            Mixer::DeltaRule => {
                set("full_attention_interval", Value::U32(4));
                set("rope.dimension_sections", Value::I32s(vec![11, 11, 10, 0]));
            }
            Mixer::StateSpace => {
                // The factors of Granite.
                set("embedding_scale", Value::F32(12.0));
                set("residual_scale", Value::F32(0.22));
                set("attention.scale", Value::F32(1.0 / 128.0));
                set("logit_scale", Value::F32(6.0));
                set("rope.scaling.finetuned", Value::Bool(false));
            }
        }
        let sizes = [
            ("ssm.conv_kernel", kernel),
            ("ssm.state_size", key_dim),
            ("ssm.group_count", groups),
            ("ssm.time_step_rank", heads),
            ("ssm.inner_size", recurrent.inner()),
        ];
        sizes.into_iter().for_each(|(name, size)| set(name, Value::U32(size as u32)));
    }

    fn describe_experts(&self, set: &mut impl FnMut(&str, Value)) {
        const SIGMOID: u32 = 2;
        let Some(Experts { count, used, width, dense_layers, biased }) = self.experts else { return };
        set("expert_count", Value::U32(count as u32));
        set("expert_used_count", Value::U32(used as u32));
        set("expert_feed_forward_length", Value::U32(width as u32));
        if dense_layers > 0 {
            set("leading_dense_block_count", Value::U32(dense_layers as u32));
        }
        if biased {
            set("expert_gating_func", Value::U32(SIGMOID));
        }
    }
}
