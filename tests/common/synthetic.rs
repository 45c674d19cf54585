//! Models of any small size with random weights, made in the test: what a fresh clone tests with.

use gleed::tensor::Dtype;
use half::{bf16, f16};

use super::gguf_writer::GgufWriter;
use super::random::Rng;

/// Which architecture a [`SyntheticModel`] has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Adjacent rotary pairs.
    Llama,
    /// Rotary halves, norms over each head of q and k.
    Qwen3,
}

/// The sizes of a model to be made. Start from [`SyntheticModel::llama`] or [`SyntheticModel::qwen3`]:
/// `SyntheticModel { layers: 1, weights: Dtype::Q8_0, ..SyntheticModel::llama() }.bytes()`.
#[derive(Clone, Debug)]
pub struct SyntheticModel {
    pub architecture: Architecture,
    pub hidden: usize,
    pub ffn: usize,
    pub layers: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    /// With fewer than 260 there is no room for the byte tokens, and so no byte fallback.
    pub vocab: usize,
    pub context: usize,
    /// No `output.weight`: the output matrix is the token embedding.
    pub tied: bool,
    /// With a `rope_freqs.weight`.
    pub rope_freqs: bool,
    pub rope_base: f32,
    pub norm_eps: f32,
    /// The element type of all matrices, the embedding too. Norms are F32.
    pub weights: Dtype,
    pub seed: u64,
}

impl SyntheticModel {
    /// A llama of 2 layers: 64 wide, 4 heads of 16 on 2 KV heads, separate output, F32.
    pub fn llama() -> Self {
        Self {
            architecture: Architecture::Llama,
            hidden: 64,
            ffn: 96,
            layers: 2,
            heads: 4,
            kv_heads: 2,
            head_dim: 16,
            vocab: 320,
            context: 1024,
            tied: false,
            rope_freqs: false,
            rope_base: 10000.0,
            norm_eps: 1e-5,
            weights: Dtype::F32,
            seed: 1,
        }
    }

    /// A qwen3 of 2 layers: 64 wide, 4 heads of 32 (not 64 / 4) on 1 KV head, tied output, F32.
    pub fn qwen3() -> Self {
        Self {
            architecture: Architecture::Qwen3,
            kv_heads: 1,
            head_dim: 32,
            tied: true,
            rope_base: 1e6,
            norm_eps: 1e-6,
            seed: 2,
            ..Self::llama()
        }
    }

    /// The GGUF file.
    pub fn bytes(&self) -> Vec<u8> {
        self.writer().finish()
    }

    /// The file before it is written, to change or break it.
    pub fn writer(&self) -> GgufWriter {
        let mut writer = GgufWriter::default();
        self.hyperparameters(&mut writer);
        spm_vocabulary(&mut writer, self.vocab);
        self.tensors(&mut writer);
        writer
    }

    fn hyperparameters(&self, writer: &mut GgufWriter) {
        let name = match self.architecture {
            Architecture::Llama => "llama",
            Architecture::Qwen3 => "qwen3",
        };
        writer.set("general.architecture", name).set("general.name", "synthetic");
        let numbers = [
            ("block_count", self.layers),
            ("context_length", self.context),
            ("embedding_length", self.hidden),
            ("feed_forward_length", self.ffn),
            ("attention.head_count", self.heads),
            ("attention.head_count_kv", self.kv_heads),
            ("attention.key_length", self.head_dim),
            ("attention.value_length", self.head_dim),
            ("vocab_size", self.vocab),
            ("rope.dimension_count", self.head_dim),
        ];
        for (key, value) in numbers {
            writer.set(&format!("{name}.{key}"), value as u32);
        }
        writer.set(&format!("{name}.rope.freq_base"), self.rope_base);
        writer.set(&format!("{name}.attention.layer_norm_rms_epsilon"), self.norm_eps);
    }

    fn tensors(&self, writer: &mut GgufWriter) {
        let (q, kv) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        if self.rope_freqs {
            // As in Llama 3: fast rotations stay, slow ones become up to 8 times slower.
            let half = self.head_dim / 2;
            let factors: Vec<f32> = (0..half).map(|i| 1.0 + 7.0 * i as f32 / half as f32).collect();
            writer.add_tensor("rope_freqs.weight", &[half as u64], 0, encode_f32(&factors));
        }
        self.matrix(writer, "token_embd.weight", self.vocab, self.hidden, 0.5);
        for layer in 0..self.layers {
            let name = |what: &str| format!("blk.{layer}.{what}.weight");
            self.norm(writer, &name("attn_norm"), self.hidden);
            self.matrix(writer, &name("attn_q"), q, self.hidden, 1.0);
            self.matrix(writer, &name("attn_k"), kv, self.hidden, 1.0);
            self.matrix(writer, &name("attn_v"), kv, self.hidden, 1.0);
            self.matrix(writer, &name("attn_output"), self.hidden, q, 1.0);
            if self.architecture == Architecture::Qwen3 {
                self.norm(writer, &name("attn_q_norm"), self.head_dim);
                self.norm(writer, &name("attn_k_norm"), self.head_dim);
            }
            self.norm(writer, &name("ffn_norm"), self.hidden);
            self.matrix(writer, &name("ffn_gate"), self.ffn, self.hidden, 1.0);
            self.matrix(writer, &name("ffn_up"), self.ffn, self.hidden, 1.0);
            self.matrix(writer, &name("ffn_down"), self.hidden, self.ffn, 1.0);
        }
        self.norm(writer, "output_norm.weight", self.hidden);
        if !self.tied {
            self.matrix(writer, "output.weight", self.vocab, self.hidden, 1.5);
        }
    }

    /// Random weights with a standard deviation of `gain / sqrt(cols)`, so that a normed input gives
    /// outputs of about `gain`.
    fn matrix(&self, writer: &mut GgufWriter, name: &str, rows: usize, cols: usize, gain: f32) {
        let std = gain / (cols as f32).sqrt();
        let mut rng = self.rng(writer);
        let row_bytes = self.weights.row_bytes(cols);
        assert!(row_bytes.is_some(), "{name}: {cols} columns do not fit {}", self.weights.name());
        let data = random_weights(self.weights, rows * cols, std, &mut rng);
        writer.add_tensor(name, &[cols as u64, rows as u64], self.weights.ggml_number(), data);
    }

    fn norm(&self, writer: &mut GgufWriter, name: &str, len: usize) {
        let mut rng = self.rng(writer);
        let values: Vec<f32> = (0..len).map(|_| 1.0 + 0.25 * rng.uniform()).collect();
        writer.add_tensor(name, &[len as u64], 0, encode_f32(&values));
    }

    /// A generator of its own for each tensor.
    fn rng(&self, writer: &GgufWriter) -> Rng {
        Rng::new(self.seed << 32 | writer.tensors.len() as u64)
    }
}

/// Little-endian F32.
pub fn encode_f32(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Q8_0 of `values`, a multiple of 32 of them: per block an f16 scale of amax / 127, and codes rounded
/// to nearest.
pub fn encode_q8_0(values: &[f32]) -> Vec<u8> {
    let mut out = Vec::new();
    for block in values.chunks_exact(32) {
        let scale = block.iter().fold(0f32, |max, x| max.max(x.abs())) / 127.0;
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        out.extend(f16::from_f32(scale).to_le_bytes());
        out.extend(block.iter().map(|x| (x * inverse).round() as i8 as u8));
    }
    out
}

/// `len` weights, a multiple of the type's block, with mean 0 and about the standard deviation `std`.
///
/// F32, F16, BF16 and Q8_0 are rounded normal numbers; in all other types every code is random.
pub fn random_weights(dtype: Dtype, len: usize, std: f32, rng: &mut Rng) -> Vec<u8> {
    let mut normal = || -> Vec<f32> { (0..len).map(|_| rng.normal() * std).collect() };
    match dtype {
        Dtype::F32 => encode_f32(&normal()),
        Dtype::F16 => normal().iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect(),
        Dtype::BF16 => normal().iter().flat_map(|x| bf16::from_f32(*x).to_le_bytes()).collect(),
        Dtype::Q8_0 => encode_q8_0(&normal()),
        _ => random_blocks(dtype, len / dtype.block_len(), std, rng),
    }
}

/// Blocks of random bytes with scales that give the standard deviation `std`, within 10 %.
fn random_blocks(dtype: Dtype, blocks: usize, std: f32, rng: &mut Rng) -> Vec<u8> {
    // Where the f16 scales of a block are, the second relative to the first (chosen so that the mean is
    // 0), and the standard deviation of random codes with a first scale of 1.
    let (at, second, unit) = match dtype {
        Dtype::Q4_0 => (0, None, 4.61),
        Dtype::Q4_1 => (0, Some(-7.5), 4.61),
        Dtype::Q5_0 => (0, None, 9.23),
        Dtype::Q5_1 => (0, Some(-15.5), 9.23),
        Dtype::Q2_K => (80, Some(1.5), 13.8),
        Dtype::Q3_K => (108, None, 43.5),
        Dtype::Q4_K => (0, Some(7.5), 258.0),
        Dtype::Q5_K => (0, Some(15.5), 529.0),
        Dtype::Q6_K => (208, None, 1366.0),
        Dtype::IQ4_NL => (0, None, 67.4),
        Dtype::IQ4_XS => (0, None, 1243.0),
        _ => panic!("no random blocks of type {}", dtype.name()),
    };
    let mut out = vec![0; blocks * dtype.block_bytes()];
    rng.fill(&mut out);
    for block in out.chunks_exact_mut(dtype.block_bytes()) {
        // Negative ones too, which also cancels the small mean that codes of an odd number have.
        let sign = if rng.below(2) == 0 { -1.0 } else { 1.0 };
        let scale = sign * std / unit * (1.0 + 0.1 * rng.uniform());
        block[at..at + 2].copy_from_slice(&f16::from_f32(scale).to_le_bytes());
        if let Some(factor) = second {
            block[at + 2..at + 4].copy_from_slice(&f16::from_f32(scale * factor).to_le_bytes());
        }
    }
    out
}

/// A small valid SentencePiece vocabulary: unknown, BOS, EOS, the 256 byte tokens, a blank, letters,
/// and pieces that merges of these reach.
fn spm_vocabulary(writer: &mut GgufWriter, vocab: usize) {
    const LETTERS: &str = "etaoinshrdlucmfwypvbgkjqxz.,";
    const BLANK: char = '\u{2581}';
    let mut tokens: Vec<(String, i32)> = vec![("<unk>".into(), 2), ("<s>".into(), 3), ("</s>".into(), 3)];
    if vocab >= 260 {
        tokens.extend((0..256).map(|byte| (format!("<0x{byte:02X}>"), 6)));
    }
    let special = tokens.len();
    let letters = || LETTERS.chars();
    let singles = std::iter::once(BLANK).chain(letters()).map(String::from);
    let starts = letters().map(|c| format!("{BLANK}{c}"));
    let pairs = letters().flat_map(|a| letters().map(move |b| format!("{a}{b}")));
    let longer = pairs.clone().flat_map(|a| letters().map(move |b| format!("{a}{b}")));
    tokens.extend(singles.chain(starts).chain(pairs).chain(longer).map(|piece| (piece, 1)));
    assert!(tokens.len() >= vocab, "a vocabulary of {vocab} is more than this makes");
    tokens.truncate(vocab);
    let scores: Vec<f32> = (0..vocab).map(|id| 0.0 - id.saturating_sub(special) as f32).collect();
    let (pieces, kinds): (Vec<String>, Vec<i32>) = tokens.into_iter().unzip();
    writer
        .set("tokenizer.ggml.model", "llama")
        .set("tokenizer.ggml.pre", "default")
        .set("tokenizer.ggml.tokens", pieces)
        .set("tokenizer.ggml.scores", scores)
        .set("tokenizer.ggml.token_type", kinds)
        .set("tokenizer.ggml.bos_token_id", 1u32)
        .set("tokenizer.ggml.eos_token_id", 2u32)
        .set("tokenizer.ggml.unknown_token_id", 0u32)
        .set("tokenizer.ggml.add_bos_token", true)
        .set("tokenizer.ggml.add_eos_token", false);
}
