//! Small models of any size with random weights, made in the test. A fresh clone tests with them.

mod architectures;
mod forms;
mod layers;
mod more_forms;
pub mod predictor;
mod recurrent;
mod weights;

use gleed::tensor::Dtype;

pub use architectures::Architecture;
use architectures::Fixed;
use forms::{
    GEMMA4_ALL, GEMMA4_DENSE, GEMMA4_EXPERTS, LLAMA_BIASES, LLAMA_EXPERTS, MPT_QK_NORM, QWEN3_BIASED, STABLELM_PARALLEL,
};
use layers::LayerShape;
pub use weights::{encode_f32, random_weights};

use super::gguf_writer::{GgufWriter, Meta};
use super::random::Rng;

/// Sizes and settings of a synthetic model. Start from [`SyntheticModel::llama`] or [`SyntheticModel::of`]:
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
    /// Number of tokens. With fewer than 260 there is no room for the byte tokens, so there is no byte fallback.
    pub vocab: usize,
    pub context: usize,
    /// Whether the file has no `output.weight`, so that the output matrix is the token embedding.
    pub tied: bool,
    /// Whether the file has a `rope_freqs.weight`.
    pub rope_freqs: bool,
    /// Original context of a file with `rope_factors_long.weight` and `rope_factors_short.weight`.
    pub long_rope: Option<usize>,
    pub rope_base: f32,
    pub norm_eps: f32,
    /// Number of experts, of which each token takes two, or 0 in a dense model.
    pub experts: usize,
    /// Tensors of a layer in the notation of the table, if they are not the usual ones of the architecture.
    pub layer: Option<&'static str>,
    /// Additional keys, or other values of keys, without the name of the architecture in front.
    pub keys: Vec<(&'static str, Meta)>,
    /// Element type of all matrices, including the embedding. Norms, biases, positions and routers are F32.
    pub weights: Dtype,
    pub seed: u64,
}

impl SyntheticModel {
    /// Returns a llama of 2 layers: 64 wide, 4 heads of 16 on 2 KV heads, separate output, F32.
    pub fn llama() -> Self {
        Self::of(Architecture::Llama)
    }

    /// Returns a qwen3 of 2 layers: 64 wide, 4 heads of 32 (not 64 / 4) on 1 KV head, tied output, F32.
    pub fn qwen3() -> Self {
        Self::of(Architecture::Qwen3)
    }

    /// Returns a llama with 4 experts.
    pub fn mixtral() -> Self {
        Self { experts: 4, layer: Some(LLAMA_EXPERTS), ..Self::llama() }
    }

    /// Returns a model with the usual sizes of the architecture, 64 wide, F32.
    pub fn of(architecture: Architecture) -> Self {
        let form = architecture.form();
        Self {
            architecture,
            hidden: 64,
            ffn: 96,
            layers: form.layers,
            heads: form.heads,
            kv_heads: form.kv_heads,
            head_dim: form.head_dim,
            vocab: 320,
            context: 1024,
            tied: form.tied,
            rope_freqs: false,
            long_rope: None,
            rope_base: form.rope_base,
            norm_eps: form.norm_eps,
            experts: form.experts,
            layer: None,
            keys: Vec::new(),
            weights: Dtype::F32,
            seed: form.seed,
        }
    }

    /// Returns a model of each architecture, and models of the options that change the arithmetic, with their names.
    pub fn all() -> Vec<(&'static str, Self)> {
        use Architecture::*;
        let of = Self::of;
        let mut all: Vec<_> = Architecture::ALL.into_iter().map(|one| (one.name(), of(one))).collect();
        let windowed = |model: Self| model.with("attention.sliding_window", 16u32);
        let scaled = |model: Self, kind: &str| {
            model
                .with("rope.scaling.type", kind)
                .with("rope.scaling.factor", 4f32)
                .with("rope.scaling.original_context_length", 256u32)
        };
        all.extend([
            ("mixtral", Self::mixtral()),
            ("minicpm, keys", {
                let model = of(MiniCpm).with("embedding_scale", 3f32).with("residual_scale", 0.5f32);
                model.with("logit_scale", 2f32)
            }),
            ("llama, rope_freqs", Self { rope_freqs: true, ..of(Llama) }),
            ("llama, biases", Self { layer: Some(LLAMA_BIASES), ..of(Llama) }),
            ("llama, window", windowed(of(Llama))),
            ("llama, window period", windowed(of(Llama)).with("attention.sliding_window_pattern", 2u32)),
            ("llama, linear", scaled(of(Llama), "linear")),
            ("llama, yarn", scaled(of(Llama), "yarn")),
            ("gemma3, linear", scaled(of(Gemma3), "linear")),
            ("gemma4, dense", Self { layer: Some(GEMMA4_DENSE), ..of(Gemma4) }),
            ("gemma4, experts", Self { layers: 5, experts: 6, layer: Some(GEMMA4_EXPERTS), ..of(Gemma4) }),
            ("gemma4, all", Self { experts: 5, layer: Some(GEMMA4_ALL), ..of(Gemma4) }),
            ("phi3, window", windowed(of(Phi3))),
            // Sequences of up to 30 tokens have the short factors, longer ones the long factors.
            ("phi3, long", Self { long_rope: Some(30), ..of(Phi3) }),
            ("mpt, q/k norm", Self { layer: Some(MPT_QK_NORM), ..of(Mpt) }),
            ("gptneox, sequential", of(GptNeoX).with("use_parallel_residual", false)),
            ("stablelm, parallel", {
                Self { layer: Some(STABLELM_PARALLEL), ..of(StableLm) }.with("use_parallel_residual", true)
            }),
            ("qwen3moe, sigmoid", {
                Self { layer: Some(QWEN3_BIASED), ..of(Qwen3Moe) }.with("expert_gating_func", 2u32)
            }),
            ("spark2_5, listed", {
                let slides = [true, false, true, true].map(Meta::Bool).to_vec();
                let listed = of(Spark).with("attention.sliding_window_pattern", Meta::Array(7, slides));
                Self { layers: 4, ..listed }.with("rope.dimension_count_swa", 8u32)
            }),
            ("exaone4, window", windowed(Self { layers: 4, rope_freqs: true, ..of(Exaone4) })),
            ("gpt-oss, no window", of(GptOss).with("attention.sliding_window", 0u32)),
            ("granitehybrid, rotary", of(GraniteHybrid).with("rope.scaling.finetuned", true)),
            ("olmo2, window and yarn", scaled(windowed(Self { layers: 4, ..of(Olmo2) }), "yarn")),
        ]);
        all
    }

    /// Adds a key, or replaces its value.
    pub fn with(mut self, key: &'static str, value: impl Into<Meta>) -> Self {
        self.keys.push((key, value.into()));
        self
    }

    /// Returns the GGUF file.
    pub fn bytes(&self) -> Vec<u8> {
        self.writer().finish()
    }

    /// Returns the contents of the file before it is written, so that a test can change or break them.
    pub fn writer(&self) -> GgufWriter {
        let mut writer = GgufWriter::default();
        self.hyperparameters(&mut writer);
        spm_vocabulary(&mut writer, self.vocab);
        self.tensors(&mut writer);
        writer
    }

    fn hyperparameters(&self, writer: &mut GgufWriter) {
        let form = self.architecture.form();
        let name = form.name;
        writer.set("general.architecture", name).set("general.name", "synthetic");
        let mut set = |key: &str, value: Meta| {
            writer.set(&format!("{name}.{key}"), value);
        };
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
        ];
        numbers.into_iter().for_each(|(key, value)| set(key, (value as u32).into()));
        if form.rotary_share > 0.0 {
            set("rope.dimension_count", (self.rope_dims() as u32).into());
            set("rope.freq_base", self.rope_base.into());
        }
        set(form.eps_key, self.norm_eps.into());
        if self.experts > 0 {
            set("expert_count", (self.experts as u32).into());
            set("expert_used_count", 2u32.into());
        }
        if self.architecture == Architecture::Qwen3Moe {
            // The width of dense layers. The model has none.
            set("feed_forward_length", (3 * self.ffn as u32).into());
        }
        if self.experts > 0 && self.architecture != Architecture::Llama {
            set("expert_feed_forward_length", (self.ffn as u32).into());
        }
        let has_shared = (0..self.layers).any(|layer| self.list_of(layer).contains("ffn_up_shexp"));
        if has_shared && !form.counts_shared() {
            set("expert_shared_feed_forward_length", (self.shared() as u32).into());
        }
        if let Some(original) = self.long_rope {
            set("rope.scaling.original_context_length", (original as u32).into());
            set("rope.scaling.attn_factor", 1.1875f32.into());
        }
        self.sizes_where_present(&mut set);
        if self.architecture == Architecture::Gemma4 {
            self.sizes_of_layers(&mut set);
        }
        for (key, value) in form.keys {
            set(key, value.meta());
        }
        self.keys.iter().for_each(|(key, value)| set(key, value.clone()));
        if self.architecture == Architecture::Apertus {
            self.numbers_of_activations(writer);
        }
    }

    /// Sets the parameters of xIELU in each layer.
    fn numbers_of_activations(&self, writer: &mut GgufWriter) {
        let list = |of: &dyn Fn(usize) -> f32| Meta::Array(6, (0..self.layers).map(|layer| of(layer).into()).collect());
        writer
            .set("xielu.alpha_p", list(&|layer| 0.5 - 0.75 * layer as f32))
            .set("xielu.alpha_n", list(&|layer| 0.25 + 0.5 * layer as f32))
            .set("xielu.beta", list(&|layer| 0.5 + 0.125 * layer as f32))
            .set("xielu.eps", list(&|_| -1e-6));
    }

    /// Returns the number of elements of a head that rotate.
    fn rope_dims(&self) -> usize {
        let share = self.head_dim as f32 * self.architecture.form().rotary_share;
        (share as usize / 2 * 2).max(2)
    }

    /// Returns the width of the shared expert.
    pub fn shared(&self) -> usize {
        2 * self.ffn
    }

    fn tensors(&self, writer: &mut GgufWriter) {
        let form = self.architecture.form();
        self.rope_factors(writer);
        self.tensor_list(writer, "", form.before, 0);
        for layer in 0..self.layers {
            self.tensor_list(writer, &format!("blk.{layer}."), self.list_of(layer), layer);
        }
        self.tensor_list(writer, "", form.after, 0);
        if !self.tied {
            self.tensor(writer, "", "output", 0);
        }
    }

    /// Adds rotary factors as in Llama 3: fast rotations stay, and slow ones become up to 8 times slower.
    fn rope_factors(&self, writer: &mut GgufWriter) {
        let pairs = self.rope_dims() / 2;
        let mut add = |name: &str, largest: f32| {
            let factors: Vec<f32> = (0..pairs).map(|i| 1.0 + (largest - 1.0) * i as f32 / pairs as f32).collect();
            writer.add_tensor(name, &[pairs as u64], 0, encode_f32(&factors));
        };
        if self.rope_freqs {
            add("rope_freqs.weight", 8.0);
        }
        if self.long_rope.is_some() {
            add("rope_factors_long.weight", 12.0);
            add("rope_factors_short.weight", 1.5);
        }
    }

    fn tensor_list(&self, writer: &mut GgufWriter, prefix: &str, list: &str, layer: usize) {
        let items = list.split_whitespace().filter_map(|item| self.item_in(layer, item));
        items.for_each(|item| self.tensor(writer, prefix, item, layer));
    }

    /// Adds a tensor of the table, and its bias. `layer` does not matter for tensors outside of layers.
    fn tensor(&self, writer: &mut GgufWriter, prefix: &str, item: &str, layer: usize) {
        let shape = item.trim_end_matches(['+', '=']);
        let name = shape.split(':').next().unwrap_or(shape);
        let dims = self.dims(shape, self.layer_shape(layer));
        let mut rng = self.rng(writer);
        let full_name = match item.ends_with('=') {
            // In files, this tensor is called a bias.
            true if name == "ssm_dt" => format!("{prefix}{name}.bias"),
            true => format!("{prefix}{name}"),
            false => format!("{prefix}{name}.weight"),
        };
        if name == "ssm_a" {
            add_vector(writer, &full_name, &dims, || -0.1 - rng.uniform().abs());
        } else if matches!(name, "ssm_dt" | "ssm_d" | "ssm_conv1d" | "shortconv.conv") {
            add_vector(writer, &full_name, &dims, || rng.normal() * 0.5);
        } else if name == "rope_freqs" {
            // As in files of Gemma 4, some pairs rotate and the others do not.
            let mut pairs = 0..dims[0];
            add_vector(writer, &full_name, &dims, || if pairs.next() <= Some(dims[0] / 4) { 1.0 } else { 1e30 });
        } else if name.contains("norm") || name.contains("scale") {
            // This model does not scale scores, so the norm of its queries does.
            let scales = self.architecture == Architecture::Gemma4 && name == "attn_q_norm";
            let size = if scales { (dims[0] as f32).sqrt().recip() } else { 1.0 };
            add_vector(writer, &full_name, &dims, || size * (1.0 + 0.25 * rng.uniform()));
        } else if name == "attn_sinks" {
            add_vector(writer, &full_name, &dims, || rng.normal());
        } else if name == "exp_probs_b" {
            add_vector(writer, &format!("{prefix}{name}.bias"), &dims, || 0.2 * rng.normal());
        } else {
            let dtype = if matches!(name, "position_embd" | "ffn_gate_inp" | "ffn_gate_inp_shexp") {
                Dtype::F32
            } else {
                self.weights
            };
            let gain = match name {
                "token_embd" | "position_embd" => 0.5,
                "output" => 1.5,
                "per_layer_token_embd" => 2.0,
                _ => 1.0,
            };
            add_matrix(writer, &full_name, &dims, dtype, gain, &mut rng);
        }
        if item.ends_with('+') {
            let mut rng = self.rng(writer);
            let dims = if name.contains("norm") { &dims } else { &dims[1..] };
            add_vector(writer, &format!("{prefix}{name}.bias"), dims, || 0.2 * rng.normal());
        }
    }

    /// Returns the dimensions of a tensor of the table, in the order of the file.
    fn dims(&self, shape: &str, layer: LayerShape) -> Vec<usize> {
        let Self { hidden, heads, experts, ffn: of_expert, .. } = *self;
        let LayerShape { kv_heads, head_dim, ffn } = layer;
        let (q, kv) = (heads * head_dim, kv_heads * head_dim);
        match shape {
            "token_embd" | "output" => vec![hidden, self.vocab],
            "position_embd" => vec![hidden, self.context],
            "attn_q" => vec![hidden, q],
            "attn_q:gated" => vec![hidden, 2 * q],
            "shortconv.in_proj" => vec![hidden, 3 * hidden],
            "shortconv.conv" => vec![self.key("shortconv.l_cache"), hidden],
            "shortconv.out_proj" => vec![hidden, hidden],
            "attn_qkv:delta" => vec![hidden, self.channels()],
            "attn_gate" => vec![hidden, self.key("ssm.inner_size")],
            "attn_gate:heads" => vec![hidden, heads],
            "attn_gate:elements" => vec![hidden, q],
            "ssm_alpha" | "ssm_beta" => vec![hidden, self.key("ssm.time_step_rank")],
            "ssm_in" => {
                vec![hidden, self.channels() + self.key("ssm.inner_size") + self.key("ssm.time_step_rank")]
            }
            "ssm_conv1d" => vec![self.key("ssm.conv_kernel"), self.channels()],
            "ssm_dt" | "ssm_a" => vec![self.key("ssm.time_step_rank")],
            "ssm_a:head" | "ssm_d:head" => vec![1, self.key("ssm.time_step_rank")],
            "ssm_norm:value" => vec![self.key("ssm.inner_size") / self.key("ssm.time_step_rank")],
            "ssm_norm:groups" => {
                let groups = self.key("ssm.group_count");
                vec![self.key("ssm.inner_size") / groups, groups]
            }
            "ssm_out" => vec![self.key("ssm.inner_size"), hidden],
            "attn_k" | "attn_v" => vec![hidden, kv],
            "attn_qkv" => vec![hidden, q + 2 * kv],
            "attn_output" => vec![q, hidden],
            "attn_q_norm" | "attn_k_norm" => vec![head_dim],
            "attn_q_norm:heads" => vec![head_dim, heads],
            "attn_k_norm:heads" => vec![head_dim, kv_heads],
            "attn_q_norm:whole" => vec![q],
            "attn_k_norm:whole" => vec![kv],
            "ffn_gate" | "ffn_up" => vec![hidden, ffn],
            "ffn_up:double" => vec![hidden, 2 * ffn],
            "ffn_down" => vec![ffn, hidden],
            "ffn_gate_inp" => vec![hidden, experts],
            "ffn_gate_exps" | "ffn_up_exps" => vec![hidden, of_expert, experts],
            "ffn_gate_up_exps" => vec![hidden, 2 * of_expert, experts],
            "ffn_down_exps" => vec![of_expert, hidden, experts],
            "ffn_gate_inp.scale" => vec![hidden],
            "ffn_down_exps.scale" => vec![experts],
            "layer_output_scale" => vec![1],
            "rope_freqs" => vec![self.full_shape().head_dim / 2],
            "per_layer_token_embd" => vec![self.layers * self.per_layer(), self.vocab],
            "per_layer_model_proj" => vec![hidden, self.layers * self.per_layer()],
            "per_layer_proj_norm" => vec![self.per_layer()],
            "inp_gate" => vec![hidden, self.per_layer()],
            "proj" => vec![self.per_layer(), hidden],
            "ffn_gate_inp_shexp" => vec![hidden],
            "ffn_gate_shexp" | "ffn_up_shexp" => vec![hidden, self.shared()],
            "ffn_down_shexp" => vec![self.shared(), hidden],
            "attn_sinks" => vec![heads],
            "exp_probs_b" => vec![experts],
            _ if shape.contains("norm") => vec![hidden],
            _ => panic!("no shape of {shape}"),
        }
    }

    /// Returns the number of a key. The model's own keys take precedence.
    fn key(&self, key: &str) -> usize {
        let own = self.keys.iter().find_map(|(name, value)| match value {
            Meta::U32(value) if *name == key => Some(*value),
            _ => None,
        });
        let usual = self.architecture.form().keys.iter().find_map(|(name, value)| match value {
            Fixed::U32(value) if *name == key => Some(*value),
            _ => None,
        });
        own.or(usual).expect("a number of this name") as usize
    }

    /// Returns the number of channels of the convolution of a recurrent layer.
    fn channels(&self) -> usize {
        self.key("ssm.inner_size") + 2 * self.key("ssm.group_count") * self.key("ssm.state_size")
    }

    /// Returns a generator for the next tensor. Each tensor has its own.
    fn rng(&self, writer: &GgufWriter) -> Rng {
        Rng::new(self.seed << 32 | writer.tensors.len() as u64)
    }
}

impl Fixed {
    fn meta(self) -> Meta {
        match self {
            Self::U32(value) => value.into(),
            Self::F32(value) => value.into(),
            Self::Bool(value) => value.into(),
            Self::Text(value) => value.into(),
        }
    }
}

/// Adds random weights with a standard deviation of `gain / sqrt(cols)`, so that a normed input gives outputs of about
/// `gain`.
fn add_matrix(writer: &mut GgufWriter, name: &str, dims: &[usize], dtype: Dtype, gain: f32, rng: &mut Rng) {
    let cols = dims[0];
    assert!(dtype.row_bytes(cols).is_some(), "{name}: {cols} columns do not fit {}", dtype.name());
    let data = random_weights(dtype, dims.iter().product(), gain / (cols as f32).sqrt(), rng);
    let dims: Vec<u64> = dims.iter().map(|dim| *dim as u64).collect();
    writer.add_tensor(name, &dims, dtype.ggml_number(), data);
}

fn add_vector(writer: &mut GgufWriter, name: &str, dims: &[usize], mut next: impl FnMut() -> f32) {
    let values: Vec<f32> = (0..dims.iter().product()).map(|_| next()).collect();
    let dims: Vec<u64> = dims.iter().map(|dim| *dim as u64).collect();
    writer.add_tensor(name, &dims, 0, encode_f32(&values));
}

/// Adds a small valid SentencePiece vocabulary: unknown, BOS, EOS, the 256 byte tokens, a blank, letters, and pieces
/// that merges of these can make.
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
    // This stays lazy: there are twenty thousand pieces, for which Miri takes a minute.
    let pieces = singles.chain(starts).chain(pairs).chain(longer).take(vocab.saturating_sub(special));
    tokens.extend(pieces.map(|piece| (piece, 1)));
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
