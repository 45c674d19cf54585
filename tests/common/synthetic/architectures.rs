//! Which tensors and keys the files of an architecture have.

use super::forms;
use super::more_forms;

/// Which architecture a [`SyntheticModel`](super::SyntheticModel) has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Adjacent rotary pairs.
    Llama,
    /// No rotation in the layers 3, 7, 11, ...
    SmolLm3,
    /// Scales of embeddings, branches, scores and logits.
    Granite,
    /// Rotary halves, biases of q, k and v.
    Qwen2,
    /// Rotary halves, norms over each head of q and k.
    Qwen3,
    /// The same with experts.
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
    /// ALiBi without biases.
    Mpt,
    /// Attention and feed-forward part side by side.
    GptNeoX,
    Starcoder2,
    StableLm,
    /// Norms after attention and feed-forward part only.
    Olmo2,
    Ernie45,
    /// A dense layer, then experts that are chosen with biases, and a shared one.
    Ernie45Moe,
    /// Squared ReLU, no gate.
    Arcee,
    /// YaRN, a temperature.
    Mistral3,
    /// Norms of q and k after the rotation.
    Hunyuan,
    /// Norms before and after both parts.
    Glm4,
    /// Norms after both parts and over each head.
    Exaone4,
    SeedOss,
    /// Sinks, biases of experts, a window in every other layer.
    GptOss,
    /// A shared expert with a gate.
    Qwen2Moe,
    Olmoe,
    /// Gated short convolutions in every other layer.
    Lfm2,
    /// The same with experts, but for the first layer.
    Lfm2Moe,
    /// The gated delta rule in every other layer.
    Qwen35,
    /// The same with experts and a shared one, which has a gate.
    Qwen35Moe,
    /// State spaces in every other layer.
    GraniteHybrid,
    /// State spaces and attention side by side.
    FalconH1,
    /// A state space, a feed-forward part, attention: a layer has one of them.
    NemotronH,
    /// The same with experts, and a shared one, that have no gate.
    NemotronHMoe,
    /// Rotary halves.
    Exaone,
    InternLm2,
    Xverse,
    /// Scales that a file need not say.
    MiniCpm,
    GraniteMoe,
    /// Attention and feed-forward part side by side after one norm without a bias.
    CommandR,
    /// The same with a window in three layers of four, and no rotation in the fourth.
    Cohere2,
    /// Norms with biases, squared ReLU, no gate.
    Nemotron,
    Orion,
    ChatGlm,
    /// Adjacent pairs, norms after the rotation.
    Maincoder,
    Pangu,
    /// Learned positions, one head of keys and values.
    Starcoder,
    Qwen2Vl,
    Qwen3Vl,
    Qwen3VlMoe,
    BailingMoe,
    /// Groups of experts, of which some are chosen first.
    BailingMoe2,
    /// Norms before and after both parts, a gate of each element, a window in three layers of four, a shared expert.
    Afmoe,
    /// Scales, sinks, a window in two layers of three.
    GraniteSwa,
    DeepSeek,
    Dots1,
    Glm4Moe,
    HunyuanMoe,
    /// Experts, a window in three layers of four, and YaRN in the fourth.
    Mellum,
    /// xIELU, with numbers of each layer.
    Apertus,
    /// A gate of each head, a window in some layers.
    Spark,
}

/// The rows of all architectures.
const FORMS: [Form; forms::FORMS.len() + more_forms::FORMS.len()] = {
    let mut all = [forms::FORMS[0]; forms::FORMS.len() + more_forms::FORMS.len()];
    let mut i = 0;
    while i < all.len() {
        all[i] = if i < forms::FORMS.len() { forms::FORMS[i] } else { more_forms::FORMS[i - forms::FORMS.len()] };
        i += 1;
    }
    all
};

/// Some value of a key.
#[derive(Clone, Copy, Debug)]
pub enum Fixed {
    U32(u32),
    F32(f32),
    Bool(bool),
    Text(&'static str),
}

/// A row of the table: an architecture and usual sizes.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    pub architecture: Architecture,
    pub name: &'static str,
    /// The tensors of a layer. `+`: and a bias. `=`: the name is whole, without "weight". After a colon: which of
    /// several shapes, or which layers have it: `local`, those with a window; `own`, those with keys and values of
    /// their own.
    pub layer: &'static str,
    /// Those of the first layer, where they are others.
    pub first: Option<&'static str>,
    /// Where layers of several kinds take turns: those of the kinds before `layer`, which ends each turn.
    pub others: &'static [&'static str],
    /// Those before and after the layers, without `output`.
    pub before: &'static str,
    pub after: &'static str,
    pub eps_key: &'static str,
    pub keys: &'static [(&'static str, Fixed)],
    /// How much of a head rotates. 0: nothing, and no keys about it.
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

    /// After so many layers the kinds of layers begin again.
    pub fn turn(self) -> usize {
        self.form().others.len() + 1
    }

    /// Its name in a file.
    pub fn name(self) -> &'static str {
        self.form().name
    }

    pub fn form(self) -> &'static Form {
        FORMS.iter().find(|form| form.architecture == self).expect("a row for each")
    }
}

impl Form {
    /// Whether the file has the number of shared experts, not the width of all of them.
    pub fn counts_shared(&self) -> bool {
        self.keys.iter().any(|(key, _)| *key == "expert_shared_count")
    }
}
