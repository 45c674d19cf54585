//! Architectures: for each one a row of the properties that its files do not state.

/// Pairs of elements of a head that rotate together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotary {
    /// Elements 2i and 2i + 1.
    Pairs,
    /// Elements i and i + n / 2.
    Halves,
    /// No elements rotate.
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// `x / sqrt(mean(x^2) + eps)`.
    Rms,
    /// `(x - mean(x)) / sqrt(variance(x) + eps)`.
    Layer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `x / (1 + exp(-x))`.
    Silu,
    /// `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))`.
    GeluTanh,
    /// `x / 2 * (1 + erf(x / sqrt(2)))`.
    GeluErf,
    /// `max(x, 0)^2`.
    SquaredRelu,
    /// `x / (1 + exp(-1.702 x))` with x bounded to at most 7. Its factor is bounded to -7..=7, and 1 is added to it.
    Bounded,
    /// [`xielu`], whose parameters differ between layers.
    Xielu,
}

/// How router logits become the weights of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scores {
    /// The softmax of the chosen logits.
    OfChosen,
    /// The softmax of all logits.
    Softmax,
    /// The softmax of all logits, divided by the sum for the chosen experts.
    Normalized,
    /// The sigmoid of each logit, divided by the sum for the chosen experts.
    Sigmoid,
}

/// Whether a layer's attention and its feed-forward part read the same residual stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parallel {
    Never,
    /// If the key `use_parallel_residual` says so.
    Key,
    /// In layers without `ffn_norm`, whose `attn_norm` is also the norm before the feed-forward part. The key does not
    /// count: converters write "true" where the original says nothing, which means "false".
    WithoutNorm,
}

/// Kind of the layers that have a state, beside attention or in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mixer {
    /// No layer has a state.
    Off,
    /// Short convolutions between two gates.
    ShortConvolution,
    /// The gated delta rule. <https://arxiv.org/abs/2412.06464>
    DeltaRule,
    /// Mamba-2. <https://arxiv.org/abs/2405.21060>
    StateSpace,
}

/// Which layers have attention, a state and a feed-forward part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// All layers have attention and a feed-forward part, and none has a state.
    Attention,
    /// A layer has a state if its `attention.head_count_kv` is 0, and attention otherwise. All have a feed-forward
    /// part.
    ByHeads,
    /// A layer has a state if `attention.recurrent_layers` says so, and attention otherwise. Without that key, the last
    /// of every `full_attention_interval` layers has attention. All have a feed-forward part.
    ByKey,
    /// All layers have attention and a state side by side, and a feed-forward part.
    Both,
    /// Each layer has one of the three: attention if `attention.head_count_kv` is not 0, a feed-forward part if
    /// `feed_forward_length` is not 0, and a state otherwise.
    OneOfThree,
}

/// Whether an architecture has a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    No,
    Optional,
    Needed,
}

/// Properties that the files of an architecture do not state. (Files show the others: a linear layer or a norm has a
/// bias if the file has one; q, k and v, and gate and up, may be one tensor.)
#[derive(Clone, Copy, Debug)]
pub struct Architecture {
    pub name: &'static str,
    pub rotary: Rotary,
    pub norm: NormKind,
    pub activation: Activation,
    pub parallel: Parallel,
    /// Norms before attention and the feed-forward part: `attn_norm` and `ffn_norm`.
    pub pre_norms: bool,
    /// Whether the first layer has an `attn_norm`, too.
    pub first_norm: bool,
    /// Norms after attention and the feed-forward part: `post_attention_norm` and `post_ffw_norm`.
    pub post_norms: bool,
    /// Norms of the residual stream after attention and the feed-forward part: `attn_output_norm` and
    /// `layer_output_norm`.
    pub sum_norms: bool,
    /// Whether a token sees only itself and earlier tokens, if the file has no key `attention.causal`.
    pub causal: bool,
    /// `attn_q_norm` and `attn_k_norm`. Each is a norm over as many elements as it has weights.
    pub qk_norm: Part,
    /// Whether these norms come after the rotation.
    pub qk_norm_last: bool,
    /// Whether each head of the values has a norm without weights.
    pub value_norm: bool,
    /// `attn_sinks`: each head has one more score, without a value.
    pub sinks: bool,
    /// Name of the norm before the feed-forward part. A `=` at its end means that the file's name has no `.weight`.
    pub ffn_norm: &'static str,
    /// Name of the norm after the last layer, or an empty text if there is none.
    pub output_norm: &'static str,
    pub mixer: Mixer,
    pub layout: Layout,
    /// `ssm_norm`.
    pub state_norm: Part,
    /// Whether `attn_q` has, for each head, rows of a query and as many rows of a gate. The head's output is multiplied
    /// by the sigmoid of the gate.
    pub gated_attention: bool,
    /// `attn_gate` with one number for each head, whose sigmoid multiplies the head's output.
    pub gated_heads: bool,
    /// `attn_gate` with one number for each element.
    pub gated_elements: bool,
    pub scores: Scores,
    /// Number that is added to the sum by which scores are divided.
    pub scores_eps: f64,
    /// Whether the shared expert has a gate, `ffn_gate_inp_shexp`.
    pub shared_gate: bool,
    /// Whether layers with experts have an ordinary feed-forward part, too, and norms of both and of the router's
    /// input.
    pub dense_beside_experts: bool,
    /// `position_embd`.
    pub positions: Part,
    /// `token_types`: its first row is added to every embedding.
    pub types: Part,
    /// `token_embd_norm`.
    pub embedding_norm: bool,
    /// `ffn_gate`, or a `ffn_up` with twice as many rows.
    pub gated: bool,
    /// Whether embeddings are multiplied by sqrt(hidden).
    pub scaled_embedding: bool,
    /// Whether scores are scaled by 1 and not by 1 / sqrt(head_dim).
    pub unscaled_scores: bool,
    /// Period of the layers without a window, in a model with a window: the last layer of each period sees all
    /// positions. 0 means that no layer does. The key `attention.sliding_window_pattern` takes precedence.
    pub window_period: usize,
    /// Whether the first layer of each period sees all positions, and not the last.
    pub window_begins: bool,
    /// Rotary base of layers with a window, if the file has no key `rope.freq_base_swa`. `None` means that of other
    /// layers.
    pub local_base: Option<f64>,
    /// Whether `rope.scaling` applies to layers with a window, too.
    pub scaled_locally: bool,
    /// Whether `rope_freqs` apply to layers with a window, too.
    pub divided_locally: bool,
    /// Period of the layers that do not rotate: the last layer of each period.
    pub unrotated_period: usize,
    /// Whether only layers with a window rotate, in a model that has a window.
    pub rotated_locally: bool,
    /// Whether no layer rotates if the key `rope.scaling.finetuned` is false.
    pub rotated_by_key: bool,
    /// Whether, without the keys, embeddings are multiplied by 12, branches by 1.4 / sqrt(layers), and logits by 256 /
    /// hidden.
    pub scaled_as_minicpm: bool,
    /// Whether the key `logit_scale` multiplies the logits and does not divide them.
    pub logits_multiplied: bool,
    /// Largest exponent of the ALiBi slopes, if the file has no key `attention.max_alibi_bias`.
    pub alibi: f64,
    /// Number of layers of the model that scales scores by 1 / sqrt(hidden / heads).
    pub layers_scaled_by_width: usize,
}

const LLAMA: Architecture = Architecture {
    name: "llama",
    rotary: Rotary::Pairs,
    norm: NormKind::Rms,
    activation: Activation::Silu,
    parallel: Parallel::Never,
    pre_norms: true,
    first_norm: true,
    post_norms: false,
    sum_norms: false,
    causal: true,
    qk_norm: Part::No,
    qk_norm_last: false,
    value_norm: false,
    sinks: false,
    ffn_norm: "ffn_norm",
    output_norm: "output_norm",
    mixer: Mixer::Off,
    layout: Layout::Attention,
    state_norm: Part::Needed,
    gated_attention: false,
    gated_heads: false,
    gated_elements: false,
    scores: Scores::OfChosen,
    scores_eps: 0.0,
    shared_gate: false,
    dense_beside_experts: false,
    positions: Part::No,
    types: Part::No,
    embedding_norm: false,
    gated: true,
    scaled_embedding: false,
    unscaled_scores: false,
    window_period: 0,
    window_begins: false,
    local_base: None,
    scaled_locally: true,
    divided_locally: true,
    unrotated_period: 0,
    rotated_locally: false,
    rotated_by_key: false,
    scaled_as_minicpm: false,
    logits_multiplied: false,
    alibi: 0.0,
    layers_scaled_by_width: 0,
};
const QWEN2: Architecture = Architecture { name: "qwen2", rotary: Rotary::Halves, ..LLAMA };
const QWEN3: Architecture = Architecture { name: "qwen3", qk_norm: Part::Needed, ..QWEN2 };
const GEMMA: Architecture =
    Architecture { name: "gemma", activation: Activation::GeluTanh, scaled_embedding: true, ..QWEN2 };
const GEMMA2: Architecture =
    Architecture { name: "gemma2", post_norms: true, window_period: 2, layers_scaled_by_width: 46, ..GEMMA };
const GEMMA3: Architecture = Architecture {
    name: "gemma3",
    qk_norm: Part::Needed,
    window_period: 6,
    local_base: Some(10000.0),
    scaled_locally: false,
    layers_scaled_by_width: 62,
    ..GEMMA2
};
const GPT2: Architecture = Architecture {
    name: "gpt2",
    rotary: Rotary::Off,
    norm: NormKind::Layer,
    activation: Activation::GeluTanh,
    gated: false,
    positions: Part::Needed,
    ..LLAMA
};
const GPTNEOX: Architecture = Architecture {
    name: "gptneox",
    rotary: Rotary::Halves,
    activation: Activation::GeluErf,
    parallel: Parallel::Key,
    positions: Part::No,
    ..GPT2
};
const STABLELM: Architecture = Architecture {
    name: "stablelm",
    norm: NormKind::Layer,
    parallel: Parallel::WithoutNorm,
    qk_norm: Part::Optional,
    ..QWEN2
};
const OLMO2: Architecture = Architecture {
    name: "olmo2",
    pre_norms: false,
    post_norms: true,
    qk_norm: Part::Needed,
    window_period: 4,
    scaled_locally: false,
    ..QWEN2
};
const MPT: Architecture = Architecture {
    name: "mpt",
    activation: Activation::GeluErf,
    positions: Part::Optional,
    qk_norm: Part::Optional,
    ..GPT2
};
/// The encoder, which predicts no tokens.
const NOMIC_BERT: Architecture = Architecture {
    name: "nomic-bert",
    norm: NormKind::Layer,
    pre_norms: false,
    sum_norms: true,
    causal: false,
    output_norm: "",
    types: Part::Optional,
    embedding_norm: true,
    ..QWEN2
};
const COMMAND_R: Architecture = Architecture {
    name: "command-r",
    norm: NormKind::Layer,
    parallel: Parallel::WithoutNorm,
    logits_multiplied: true,
    ..LLAMA
};
const NEMOTRON_H: Architecture = Architecture {
    name: "nemotron_h",
    rotary: Rotary::Off,
    activation: Activation::SquaredRelu,
    gated: false,
    ffn_norm: "attn_norm",
    mixer: Mixer::StateSpace,
    layout: Layout::OneOfThree,
    ..LLAMA
};
const LFM2: Architecture = Architecture {
    name: "lfm2",
    output_norm: "token_embd_norm",
    mixer: Mixer::ShortConvolution,
    layout: Layout::ByHeads,
    ..QWEN3
};
const QWEN35: Architecture = Architecture {
    name: "qwen35",
    ffn_norm: "post_attention_norm",
    mixer: Mixer::DeltaRule,
    layout: Layout::ByKey,
    gated_attention: true,
    ..QWEN3
};

pub const ARCHITECTURES: &[Architecture] = &[
    LLAMA,
    Architecture { name: "granite", ..LLAMA },
    Architecture { name: "smollm3", unrotated_period: 4, ..LLAMA },
    QWEN2,
    QWEN3,
    Architecture { name: "qwen3moe", ..QWEN3 },
    GEMMA,
    GEMMA2,
    GEMMA3,
    Architecture {
        name: "gemma4",
        qk_norm: Part::Needed,
        value_norm: true,
        // The softmax of all logits, divided by its sum for the chosen ones, is the softmax of the chosen ones.
        scores: Scores::OfChosen,
        dense_beside_experts: true,
        unscaled_scores: true,
        window_period: 0,
        local_base: Some(10000.0),
        divided_locally: false,
        ..GEMMA2
    },
    Architecture { name: "gemma-embedding", causal: false, ..GEMMA3 },
    NOMIC_BERT,
    Architecture {
        name: "bert",
        rotary: Rotary::Off,
        activation: Activation::GeluErf,
        gated: false,
        positions: Part::Needed,
        ..NOMIC_BERT
    },
    Architecture {
        name: "nomic-bert-moe",
        activation: Activation::GeluErf,
        gated: false,
        scores: Scores::Softmax,
        ..NOMIC_BERT
    },
    Architecture {
        name: "jina-bert-v2",
        rotary: Rotary::Off,
        activation: Activation::GeluErf,
        alibi: 8.0,
        qk_norm: Part::Optional,
        ..NOMIC_BERT
    },
    Architecture { name: "jina-bert-v3", activation: Activation::GeluErf, gated: false, ..NOMIC_BERT },
    Architecture {
        name: "modern-bert",
        norm: NormKind::Layer,
        activation: Activation::GeluErf,
        first_norm: false,
        causal: false,
        embedding_norm: true,
        window_period: 3,
        window_begins: true,
        local_base: Some(10000.0),
        ..QWEN2
    },
    Architecture { name: "neo-bert", causal: false, output_norm: "enc.output_norm", ..LLAMA },
    Architecture { name: "eurobert", causal: false, ..QWEN2 },
    Architecture { name: "phi3", ..QWEN2 },
    GPT2,
    Architecture { name: "bloom", embedding_norm: true, alibi: 8.0, positions: Part::No, ..GPT2 },
    MPT,
    GPTNEOX,
    Architecture { name: "starcoder2", rotary: Rotary::Halves, positions: Part::No, ..GPT2 },
    STABLELM,
    OLMO2,
    Architecture { name: "ernie4_5", ..LLAMA },
    Architecture { name: "ernie4_5-moe", scores: Scores::Normalized, ..LLAMA },
    Architecture { name: "arcee", activation: Activation::SquaredRelu, gated: false, ..LLAMA },
    Architecture { name: "mistral3", ..LLAMA },
    Architecture { name: "hunyuan-dense", qk_norm_last: true, ..QWEN3 },
    Architecture { name: "glm4", post_norms: true, ..LLAMA },
    Architecture { name: "exaone4", rotated_locally: true, scaled_locally: true, ..OLMO2 },
    Architecture { name: "seed_oss", ffn_norm: "post_attention_norm", ..QWEN2 },
    Architecture {
        name: "gpt-oss",
        activation: Activation::Bounded,
        sinks: true,
        ffn_norm: "post_attention_norm",
        window_period: 2,
        ..QWEN2
    },
    Architecture { name: "qwen2moe", scores: Scores::Softmax, shared_gate: true, ..QWEN2 },
    Architecture { name: "olmoe", scores: Scores::Softmax, ..QWEN3 },
    LFM2,
    Architecture { name: "lfm2moe", scores: Scores::Sigmoid, scores_eps: 1e-6, ..LFM2 },
    QWEN35,
    Architecture { name: "qwen35moe", shared_gate: true, ..QWEN35 },
    Architecture {
        name: "granitehybrid",
        mixer: Mixer::StateSpace,
        layout: Layout::ByHeads,
        rotated_by_key: true,
        ..LLAMA
    },
    Architecture {
        name: "falcon-h1",
        ffn_norm: "ffn_norm=",
        mixer: Mixer::StateSpace,
        layout: Layout::Both,
        state_norm: Part::Optional,
        ..QWEN2
    },
    NEMOTRON_H,
    Architecture { name: "nemotron_h_moe", scores: Scores::Sigmoid, ..NEMOTRON_H },
    Architecture { name: "exaone", ..QWEN2 },
    Architecture { name: "internlm2", ..LLAMA },
    Architecture { name: "xverse", ..LLAMA },
    Architecture { name: "minicpm", scaled_as_minicpm: true, ..LLAMA },
    Architecture { name: "granitemoe", ..LLAMA },
    COMMAND_R,
    Architecture { name: "cohere2", window_period: 4, rotated_locally: true, ..COMMAND_R },
    Architecture {
        name: "nemotron",
        norm: NormKind::Layer,
        activation: Activation::SquaredRelu,
        gated: false,
        ..QWEN2
    },
    Architecture { name: "orion", norm: NormKind::Layer, ..QWEN2 },
    Architecture { name: "chatglm", ..LLAMA },
    Architecture { name: "maincoder", qk_norm: Part::Needed, qk_norm_last: true, ..LLAMA },
    Architecture { name: "pangu-embedded", ..QWEN2 },
    Architecture { name: "starcoder", ..GPT2 },
    Architecture { name: "qwen2vl", ..QWEN2 },
    Architecture { name: "qwen3vl", ..QWEN3 },
    Architecture { name: "qwen3vlmoe", ..QWEN3 },
    Architecture { name: "bailingmoe", scores: Scores::Softmax, ..LLAMA },
    Architecture { name: "bailingmoe2", scores: Scores::Sigmoid, ..QWEN3 },
    Architecture {
        name: "afmoe",
        post_norms: true,
        gated_elements: true,
        scaled_embedding: true,
        scores: Scores::Sigmoid,
        window_period: 4,
        rotated_locally: true,
        ..QWEN3
    },
    Architecture { name: "granite_swa", sinks: true, ..LLAMA },
    Architecture { name: "deepseek", scores: Scores::Softmax, ..LLAMA },
    Architecture { name: "dots1", ..QWEN3 },
    Architecture {
        name: "glm4moe",
        qk_norm: Part::Optional,
        ffn_norm: "post_attention_norm",
        scores: Scores::Sigmoid,
        ..QWEN2
    },
    Architecture { name: "hunyuan-moe", qk_norm_last: true, ..QWEN3 },
    Architecture { name: "mellum", window_period: 4, scaled_locally: false, ..QWEN3 },
    Architecture { name: "llama-embed", causal: false, ..LLAMA },
    Architecture { name: "apertus", activation: Activation::Xielu, gated: false, ..QWEN3 },
    Architecture {
        name: "spark2_5",
        activation: Activation::GeluErf,
        gated_heads: true,
        divided_locally: false,
        ..QWEN2
    },
];

/// The activation xIELU, with its parameters from the file: alpha for x above 0, alpha for x below 0, beta, epsilon.
/// <https://arxiv.org/abs/2411.13010>
pub fn xielu([positive, negative, beta, epsilon]: [f64; 4], x: f64) -> f64 {
    let softplus = |x: f64| x.exp().ln_1p();
    if x > 0.0 {
        return softplus(positive) * x * x + beta * x;
    }
    (x.min(epsilon).exp_m1() - x) * (beta + softplus(negative)) + beta * x
}

impl Activation {
    /// Returns the factor that the activation of a gate is multiplied by.
    pub fn factor(self, up: f64) -> f64 {
        if self == Self::Bounded { up.clamp(-7.0, 7.0) + 1.0 } else { up }
    }

    pub fn of(self, x: f64) -> f64 {
        match self {
            Self::Silu => x / (1.0 + (-x).exp()),
            Self::GeluTanh => {
                x / 2.0 * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
            }
            Self::GeluErf => x / 2.0 * (1.0 + libm::erf(x * std::f64::consts::FRAC_1_SQRT_2)),
            Self::SquaredRelu => x.max(0.0).powi(2),
            Self::Xielu => panic!("it needs the numbers of a layer"),
            Self::Bounded => {
                let x = x.min(7.0);
                x / (1.0 + (-1.702 * x).exp())
            }
        }
    }
}
