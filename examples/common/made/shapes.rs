//! The sizes of real models, from their configurations.

use super::shape::{Experts, Family, Mixer, Recurrent, Shape};

/// Shape with the values that most models have: attention in all layers, rotary embeddings of whole heads, and a tied
/// output matrix.
const DENSE: Shape = Shape {
    name: "",
    architecture: "llama",
    layers: 0,
    hidden: 0,
    ffn: 0,
    heads: 0,
    kv_heads: 0,
    head_dim: 64,
    rotary: 64,
    vocab: 0,
    context: 8192,
    rope_base: 10_000.0,
    norm_epsilon: 1e-5,
    tied: true,
    qk_norm: false,
    rope_freqs: false,
    attends: |_| true,
    recurrent: Recurrent { mixer: Mixer::None, kernel: 0, heads: 0, key_dim: 0, value_dim: 0, groups: 0 },
    experts: None,
    family: Family::Llama,
    pre_tokenizer: "smollm",
    bos: false,
};

const QWEN3: Shape = Shape {
    architecture: "qwen3",
    layers: 28,
    heads: 16,
    kv_heads: 8,
    head_dim: 128,
    rotary: 128,
    vocab: 151_936,
    context: 40_960,
    rope_base: 1_000_000.0,
    norm_epsilon: 1e-6,
    qk_norm: true,
    pre_tokenizer: "qwen2",
    ..DENSE
};

const LFM2: Shape = Shape {
    architecture: "lfm2",
    hidden: 2048,
    heads: 32,
    kv_heads: 8,
    vocab: 65_536,
    context: 128_000,
    rope_base: 1_000_000.0,
    qk_norm: true,
    recurrent: Recurrent { mixer: Mixer::ShortConvolution, kernel: 3, ..DENSE.recurrent },
    pre_tokenizer: "lfm2",
    bos: true,
    ..DENSE
};

impl Shape {
    pub const ALL: [Self; 12] = [
        Self {
            name: "smollm2-135m",
            layers: 30,
            hidden: 576,
            ffn: 1536,
            heads: 9,
            kv_heads: 3,
            vocab: 49152,
            rope_base: 100_000.0,
            ..DENSE
        },
        Self { name: "qwen3-0.6b", hidden: 1024, ffn: 3072, ..QWEN3 },
        // Bonsai 1.7B has the same shape, in Q1_0.
        Self { name: "qwen3-1.7b", hidden: 2048, ffn: 6144, ..QWEN3 },
        Self {
            name: "qwen3-30b-a3b",
            architecture: "qwen3moe",
            layers: 48,
            hidden: 2048,
            ffn: 6144,
            heads: 32,
            kv_heads: 4,
            tied: false,
            experts: Some(Experts { count: 128, used: 8, width: 768, dense_layers: 0, biased: false }),
            ..QWEN3
        },
        Self {
            name: "llama-3.2-1b",
            layers: 16,
            hidden: 2048,
            ffn: 8192,
            heads: 32,
            kv_heads: 8,
            vocab: 128_256,
            context: 131_072,
            rope_base: 500_000.0,
            rope_freqs: true,
            pre_tokenizer: "llama-bpe",
            bos: true,
            ..DENSE
        },
        Self {
            name: "lfm2-1.2b",
            layers: 16,
            ffn: 8192,
            attends: |layer| matches!(layer, 2 | 5 | 8 | 10 | 12 | 14),
            ..LFM2
        },
        Self {
            name: "lfm2-8b-a1b",
            architecture: "lfm2moe",
            layers: 24,
            ffn: 7168,
            attends: |layer| matches!(layer, 2 | 6 | 10 | 14 | 18 | 21),
            experts: Some(Experts { count: 32, used: 4, width: 1792, dense_layers: 2, biased: true }),
            ..LFM2
        },
        Self {
            name: "qwen3.5-0.8b",
            architecture: "qwen35",
            layers: 24,
            hidden: 1024,
            ffn: 3584,
            heads: 8,
            kv_heads: 2,
            head_dim: 256,
            vocab: 248_320,
            context: 262_144,
            rope_base: 10_000_000.0,
            attends: |layer| layer % 4 == 3,
            recurrent: Recurrent {
                mixer: Mixer::DeltaRule,
                kernel: 4,
                heads: 16,
                key_dim: 128,
                value_dim: 128,
                groups: 16,
            },
            pre_tokenizer: "qwen35",
            rotary: 64,
            ..QWEN3
        },
        Self {
            name: "granite-4-h-1b",
            architecture: "granitehybrid",
            layers: 40,
            hidden: 1536,
            ffn: 4096,
            heads: 12,
            kv_heads: 4,
            head_dim: 128,
            rotary: 128,
            vocab: 100_352,
            context: 131_072,
            attends: |layer| matches!(layer, 5 | 15 | 25 | 35),
            recurrent: Recurrent {
                mixer: Mixer::StateSpace,
                kernel: 4,
                heads: 48,
                key_dim: 128,
                value_dim: 64,
                groups: 1,
            },
            pre_tokenizer: "dbrx",
            ..DENSE
        },
        Self {
            name: "gpt2-small",
            architecture: "gpt2",
            layers: 12,
            hidden: 768,
            ffn: 3072,
            heads: 12,
            kv_heads: 12,
            vocab: 50_257,
            context: 1024,
            family: Family::Gpt2,
            pre_tokenizer: "gpt-2",
            ..DENSE
        },
        Self {
            name: "bert-base",
            architecture: "bert",
            layers: 12,
            hidden: 768,
            ffn: 3072,
            heads: 12,
            kv_heads: 12,
            vocab: 30_522,
            context: 512,
            norm_epsilon: 1e-12,
            family: Family::Bert,
            ..DENSE
        },
        // Not a real model: for tests.
        Self {
            name: "tiny",
            layers: 2,
            hidden: 256,
            ffn: 512,
            heads: 4,
            kv_heads: 2,
            vocab: 512,
            rope_freqs: true,
            ..DENSE
        },
    ];

    pub fn from_name(name: &str) -> Result<Self, String> {
        let names: Vec<_> = Self::ALL.iter().map(|shape| shape.name).collect();
        let found = Self::ALL.into_iter().find(|shape| shape.name == name);
        found.ok_or(format!("the shapes are {}", names.join(", ")))
    }
}
