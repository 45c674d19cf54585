//! The tensors and keys that the files of each architecture have.

use super::forms;
use super::more_forms;

/// Architecture of a [`SyntheticModel`](super::SyntheticModel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Adjacent rotary pairs.
    Llama,
    /// Layers 3, 7, 11, ... do not rotate.
    SmolLm3,
    /// Scales of embeddings, branches, scores and logits.
    Granite,
    /// Rotary halves, biases of q, k and v.
    Qwen2,
    /// Rotary halves, norms over each head of q and k.
    Qwen3,
    /// Qwen 3 with experts.
    Qwen3Moe,
    Gemma,
    /// Soft caps, a window in every other layer.
    Gemma2,
    /// A window in five layers of six.
    Gemma3,
    /// Other heads in every third layer, keys and values that later layers read, inputs of every layer.
    Gemma4,
    /// One tensor of q, k and v, one of gate and up.
    Phi3,
    /// Learned positions.
    Gpt2,
    /// ALiBi.
    Bloom,
    /// ALiBi, and no biases.
    Mpt,
    /// Attention and feed-forward part side by side.
    GptNeoX,
    Starcoder2,
    StableLm,
    /// Norms after attention and after the feed-forward part, and none before.
    Olmo2,
    Ernie45,
    /// A dense layer, then layers with experts, which are chosen with biases, and a shared expert.
    Ernie45Moe,
    /// Squared ReLU, no gate.
    Arcee,
    /// YaRN, a temperature.
    Mistral3,
    /// Norms of q and k after the rotation.
    Hunyuan,
    /// Norms before and after both parts of a layer.
    Glm4,
    /// Norms after both parts of a layer, and over each head of q and k.
    Exaone4,
    SeedOss,
    /// Sinks, biases of experts, a window in every other layer.
    GptOss,
    /// A shared expert with a gate.
    Qwen2Moe,
    Olmoe,
    /// Gated short convolutions in every other layer.
    Lfm2,
    /// LFM2 with experts in all layers except the first.
    Lfm2Moe,
    /// The gated delta rule in every other layer.
    Qwen35,
    /// Qwen 3.5 with experts, and a shared expert with a gate.
    Qwen35Moe,
    /// State spaces in every other layer.
    GraniteHybrid,
    /// State spaces and attention side by side.
    FalconH1,
    /// Each layer has one of three parts: a state space, a feed-forward part, or attention.
    NemotronH,
    /// Nemotron-H with experts and a shared expert, all without gates.
    NemotronHMoe,
    /// Rotary halves.
    Exaone,
    InternLm2,
    Xverse,
    /// Scales that have defaults, which a file need not state.
    MiniCpm,
    GraniteMoe,
    /// Attention and feed-forward part side by side, after one norm without a bias.
    CommandR,
    /// Command R with a window in three layers of four, and no rotation in the fourth.
    Cohere2,
    /// Norms with biases, squared ReLU, no gate.
    Nemotron,
    Orion,
    ChatGlm,
    /// Adjacent pairs, norms after the rotation.
    Maincoder,
    Pangu,
    /// Learned positions, one KV head.
    Starcoder,
    Qwen2Vl,
    Qwen3Vl,
    Qwen3VlMoe,
    BailingMoe,
    /// Groups of experts. Some groups are chosen before the experts.
    BailingMoe2,
    /// Norms before and after both parts, a gate for each element, a window in three layers of four, and a shared
    /// expert.
    Afmoe,
    /// Scales, sinks, a window in two layers of three.
    GraniteSwa,
    DeepSeek,
    Dots1,
    Glm4Moe,
    HunyuanMoe,
    /// Experts, a window in three layers of four, and YaRN in the fourth.
    Mellum,
    /// xIELU with parameters for each layer.
    Apertus,
    /// A gate for each head, a window in some layers.
    Spark,
}

/// The rows of all architectures, in one table.
const FORMS: [Form; forms::FORMS.len() + more_forms::FORMS.len()] = {
    let mut all = [forms::FORMS[0]; forms::FORMS.len() + more_forms::FORMS.len()];
    let mut i = 0;
    while i < all.len() {
        all[i] = if i < forms::FORMS.len() { forms::FORMS[i] } else { more_forms::FORMS[i - forms::FORMS.len()] };
        i += 1;
    }
    all
};

/// A value of a key.
#[derive(Clone, Copy, Debug)]
pub enum Fixed {
    U32(u32),
    F32(f32),
    Bool(bool),
    Text(&'static str),
}

/// A row of the table: an architecture and its usual sizes.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    pub architecture: Architecture,
    pub name: &'static str,
    /// The tensors of a layer. `+` means that the tensor has a bias, too. `=` means that the name has no "weight"
    /// behind it. The word after a colon says which of several shapes a tensor has, or which layers have it: `local`
    /// for layers with a window, `own` for layers with keys and values of their own.
    pub layer: &'static str,
    /// The tensors of the first layer, if they differ.
    pub first: Option<&'static str>,
    /// The tensors of the kinds of layers before `layer`, if several kinds take turns. `layer` is the last of each
    /// turn.
    pub others: &'static [&'static str],
    /// The tensors before the layers.
    pub before: &'static str,
    /// The tensors after the layers, without `output`.
    pub after: &'static str,
    pub eps_key: &'static str,
    pub keys: &'static [(&'static str, Fixed)],
    /// Share of a head that rotates. With 0, nothing rotates, and the file has no keys about rotation.
    pub rotary_share: f32,
    pub layers: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub tied: bool,
    pub rope_base: f32,
    pub norm_eps: f32,
    pub experts: usize,
    pub seed: u64,
}

impl Architecture {
    pub const ALL: [Self; FORMS.len()] = {
        let mut all = [Self::Llama; FORMS.len()];
        let mut i = 0;
        while i < all.len() {
            all[i] = FORMS[i].architecture;
            i += 1;
        }
        all
    };

    /// Returns the number of layers after which the kinds of layers repeat.
    pub fn turn(self) -> usize {
        self.form().others.len() + 1
    }

    /// Returns the name of the architecture in a file.
    pub fn name(self) -> &'static str {
        self.form().name
    }

    pub fn form(self) -> &'static Form {
        FORMS.iter().find(|form| form.architecture == self).expect("a row for each")
    }
}

impl Form {
    /// Returns whether the file states the number of shared experts, and not their width.
    pub fn counts_shared(&self) -> bool {
        self.keys.iter().any(|(key, _)| *key == "expert_shared_count")
    }
}
