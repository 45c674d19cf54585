//! Shapes of real models: sizes, metadata and tensors.

use crate::common::gguf::{Header, Value};

/// A model without its weights.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    architecture: &'static str,
    pub(crate) layers: usize,
    pub(crate) hidden: usize,
    pub(crate) ffn: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    head_dim: usize,
    pub(crate) vocab: usize,
    context: u32,
    rope_base: f32,
    norm_epsilon: f32,
    /// Heads of Q and K are normalized.
    qk_norm: bool,
    /// A tensor of divisors of the rotary frequencies, as Llama 3.1 and later have.
    rope_freqs: bool,
    pre_tokenizer: &'static str,
    bos: bool,
}

/// What a tensor is for: the types in a file depend on it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The token embedding, which is the output matrix, too.
    Embedding,
    Value,
    AttentionOutput,
    Down,
    /// Any other matrix.
    Matrix,
    /// The weights of a norm, around 1.
    Norm,
    RopeDivisors,
}

/// A tensor without its contents.
pub(crate) struct TensorShape {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// 0 outside of layers.
    pub(crate) layer: usize,
}

impl TensorShape {
    pub(crate) fn is_vector(&self) -> bool {
        matches!(self.role, Role::Norm | Role::RopeDivisors)
    }
}

impl Shape {
    pub(crate) const ALL: [Self; 4] = [
        Self {
            name: "smollm2-135m",
            architecture: "llama",
            layers: 30,
            hidden: 576,
            ffn: 1536,
            heads: 9,
            kv_heads: 3,
            head_dim: 64,
            vocab: 49152,
            context: 8192,
            rope_base: 100_000.0,
            norm_epsilon: 1e-5,
            qk_norm: false,
            rope_freqs: false,
            pre_tokenizer: "smollm",
            bos: false,
        },
        Self {
            name: "qwen3-0.6b",
            architecture: "qwen3",
            layers: 28,
            hidden: 1024,
            ffn: 3072,
            heads: 16,
            kv_heads: 8,
            head_dim: 128,
            vocab: 151_936,
            context: 40_960,
            rope_base: 1_000_000.0,
            norm_epsilon: 1e-6,
            qk_norm: true,
            rope_freqs: false,
            pre_tokenizer: "qwen2",
            bos: false,
        },
        Self {
            name: "llama-3.2-1b",
            architecture: "llama",
            layers: 16,
            hidden: 2048,
            ffn: 8192,
            heads: 32,
            kv_heads: 8,
            head_dim: 64,
            vocab: 128_256,
            context: 131_072,
            rope_base: 500_000.0,
            norm_epsilon: 1e-5,
            qk_norm: false,
            rope_freqs: true,
            pre_tokenizer: "llama-bpe",
            bos: true,
        },
        // No real one: for tests.
        Self {
            name: "tiny",
            architecture: "llama",
            layers: 2,
            hidden: 256,
            ffn: 512,
            heads: 4,
            kv_heads: 2,
            head_dim: 64,
            vocab: 512,
            context: 8192,
            rope_base: 10_000.0,
            norm_epsilon: 1e-5,
            qk_norm: false,
            rope_freqs: true,
            pre_tokenizer: "smollm",
            bos: false,
        },
    ];

    pub(crate) fn from_name(name: &str) -> Result<Self, String> {
        let names: Vec<_> = Self::ALL.iter().map(|shape| shape.name).collect();
        let found = Self::ALL.into_iter().find(|shape| shape.name == name);
        found.ok_or(format!("the shapes are {}", names.join(", ")))
    }

    /// All tensors, in the order of the file.
    pub(crate) fn tensors(&self) -> Vec<TensorShape> {
        let (hidden, ffn, vocab) = (self.hidden, self.ffn, self.vocab);
        let (q, kv) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        let mut tensors = Vec::new();
        let mut add = |layer: Option<usize>, name: &str, role, rows, cols| {
            let name = match layer {
                Some(layer) => format!("blk.{layer}.{name}.weight"),
                None => format!("{name}.weight"),
            };
            tensors.push(TensorShape { name, role, rows, cols, layer: layer.unwrap_or(0) });
        };
        add(None, "token_embd", Role::Embedding, vocab, hidden);
        add(None, "output_norm", Role::Norm, 1, hidden);
        if self.rope_freqs {
            add(None, "rope_freqs", Role::RopeDivisors, 1, self.head_dim / 2);
        }
        for layer in (0..self.layers).map(Some) {
            add(layer, "attn_norm", Role::Norm, 1, hidden);
            add(layer, "attn_q", Role::Matrix, q, hidden);
            add(layer, "attn_k", Role::Matrix, kv, hidden);
            add(layer, "attn_v", Role::Value, kv, hidden);
            if self.qk_norm {
                add(layer, "attn_q_norm", Role::Norm, 1, self.head_dim);
                add(layer, "attn_k_norm", Role::Norm, 1, self.head_dim);
            }
            add(layer, "attn_output", Role::AttentionOutput, hidden, q);
            add(layer, "ffn_norm", Role::Norm, 1, hidden);
            add(layer, "ffn_gate", Role::Matrix, ffn, hidden);
            add(layer, "ffn_up", Role::Matrix, ffn, hidden);
            add(layer, "ffn_down", Role::Down, hidden, ffn);
        }
        tensors
    }

    /// Sets the metadata.
    pub(crate) fn describe(&self, header: &mut Header, file_type: u32) {
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
            ("attention.head_count_kv", self.kv_heads),
            ("attention.key_length", self.head_dim),
            ("attention.value_length", self.head_dim),
            ("rope.dimension_count", self.head_dim),
            ("vocab_size", self.vocab),
        ];
        sizes.into_iter().for_each(|(name, size)| set(name, Value::U32(size as u32)));
        set("context_length", Value::U32(self.context));
        set("attention.layer_norm_rms_epsilon", Value::F32(self.norm_epsilon));
        set("rope.freq_base", Value::F32(self.rope_base));
        self.describe_vocabulary(header);
    }

    /// Byte-level BPE: the bytes, then words of the letters a to z in order of their length, each made of the word
    /// without its last letter and that letter, then special tokens.
    fn describe_vocabulary(&self, header: &mut Header) {
        const SPECIAL: [&str; 3] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
        let mut tokens: Vec<String> = byte_characters().map(String::from).collect();
        let mut merges = Vec::new();
        let mut words = vec![String::new()];
        while tokens.len() + SPECIAL.len() < self.vocab {
            let longer = words.iter().flat_map(|word| ('a'..='z').map(move |letter| (word.clone(), letter)));
            let longer: Vec<_> = longer.take(self.vocab).collect();
            let room = self.vocab - SPECIAL.len() - tokens.len();
            for (word, letter) in longer.iter().filter(|(word, _)| !word.is_empty()).take(room) {
                merges.push(format!("{word} {letter}"));
                tokens.push(format!("{word}{letter}"));
            }
            words = longer.into_iter().map(|(word, letter)| format!("{word}{letter}")).collect();
        }
        const NORMAL: i32 = 1;
        const CONTROL: i32 = 3;
        let end = tokens.len() as u32;
        let mut types = vec![NORMAL; tokens.len()];
        types.resize(self.vocab, CONTROL);
        tokens.extend(SPECIAL.map(String::from));
        header.set("tokenizer.ggml.model", Value::Text("gpt2".into()));
        header.set("tokenizer.ggml.pre", Value::Text(self.pre_tokenizer.into()));
        header.set("tokenizer.ggml.tokens", Value::Texts(tokens));
        header.set("tokenizer.ggml.token_type", Value::I32s(types));
        header.set("tokenizer.ggml.merges", Value::Texts(merges));
        header.set("tokenizer.ggml.bos_token_id", Value::U32(end));
        header.set("tokenizer.ggml.eos_token_id", Value::U32(end));
        header.set("tokenizer.ggml.add_bos_token", Value::Bool(self.bos));
    }
}

/// The characters that stand for the 256 bytes in GPT-2's vocabulary.
fn byte_characters() -> impl Iterator<Item = char> {
    let visible = |byte: &u32| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let shown = (0..256).filter(visible);
    let hidden = (0..256).filter(move |byte| !visible(byte)).enumerate().map(|(index, _)| 256 + index as u32);
    shown.chain(hidden).filter_map(char::from_u32)
}
