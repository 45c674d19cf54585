//! The shape of a model: its sizes and its tensors.

/// Number of token types of an encoder: one for the tokens of a text, and one for those of a second text after it.
pub(super) const TOKEN_TYPES: usize = 2;

/// A model without its weights.
#[derive(Clone, Copy)]
pub struct Shape {
    pub name: &'static str,
    pub(super) architecture: &'static str,
    pub layers: usize,
    pub hidden: usize,
    pub ffn: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub(super) head_dim: usize,
    /// Number of elements of a head that are rotated.
    pub(super) rotary: usize,
    pub vocab: usize,
    pub(super) context: u32,
    pub(super) rope_base: f32,
    pub(super) norm_epsilon: f32,
    /// Whether the embedding is also the output matrix.
    pub(super) tied: bool,
    /// Whether the heads of Q and K are normalized.
    pub(super) qk_norm: bool,
    /// Whether there is a tensor with divisors of the rotary frequencies, as in Llama 3.1 and later.
    pub(super) rope_freqs: bool,
    /// Returns whether the layer with this index has attention. The other layers are recurrent.
    pub(super) attends: fn(usize) -> bool,
    pub(super) recurrent: Recurrent,
    pub(super) experts: Option<Experts>,
    pub(super) family: Family,
    pub(super) pre_tokenizer: &'static str,
    pub(super) bos: bool,
}

/// The set of tensors and metadata of a model.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// RMSNorm before both parts of a layer, no biases, a feed-forward layer with a gate.
    Llama,
    /// Norms with biases before both parts, biases everywhere, no gate, learned positions.
    Gpt2,
    /// As GPT-2, with the norms after both parts: BERT.
    Bert,
}

/// Sizes of the recurrent layers.
#[derive(Clone, Copy)]
pub(super) struct Recurrent {
    pub(super) mixer: Mixer,
    /// Number of rows that the convolution sees.
    pub(super) kernel: usize,
    pub(super) heads: usize,
    pub(super) key_dim: usize,
    pub(super) value_dim: usize,
    /// Number of groups of heads that share keys and queries.
    pub(super) groups: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mixer {
    None,
    ShortConvolution,
    DeltaRule,
    StateSpace,
}

impl Recurrent {
    /// Returns the number of elements of all values.
    pub(super) fn inner(self) -> usize {
        self.heads * self.value_dim
    }

    /// Returns the number of channels of the convolution: values, keys and queries.
    fn channels(self) -> usize {
        self.inner() + 2 * self.groups * self.key_dim
    }
}

/// Sizes of the feed-forward layers with experts.
#[derive(Clone, Copy)]
pub(super) struct Experts {
    pub(super) count: usize,
    /// Number of experts that are chosen for a token.
    pub(super) used: usize,
    pub(super) width: usize,
    /// Number of layers at the start without experts.
    pub(super) dense_layers: usize,
    /// Whether biases are added to the scores before experts are chosen.
    pub(super) biased: bool,
}

/// The role of a tensor, on which its element type and its contents depend.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The token embedding.
    Embedding,
    /// The output matrix, where it is not the embedding.
    Output,
    /// The value matrix, or a matrix that contains it.
    Value,
    AttentionOutput,
    Down,
    /// Any other matrix.
    Matrix,
    /// The router of experts, the weights of convolutions, embeddings of positions and token types: always f32.
    Small,
    /// The weights of a norm, and other elements around 1.
    Norm,
    /// Biases, elements around 0.
    Bias,
    /// Decay rates of a state: -16 to -1.
    Decay,
    /// Biases of the step length, which are added before softplus.
    StepBias,
    RopeDivisors,
}

/// A tensor without its contents.
pub struct TensorShape {
    pub name: String,
    pub role: Role,
    /// Sizes of the dimensions. The first is the number of columns.
    pub dims: Vec<usize>,
    /// Index among the tensors with this role, and their number: (0, 1) outside of layers.
    pub place: (usize, usize),
}

impl TensorShape {
    /// Returns whether the elements are f32 in every file type.
    pub fn is_f32(&self) -> bool {
        use Role::{Bias, Decay, Norm, RopeDivisors, Small, StepBias};
        matches!(self.role, Small | Norm | Bias | Decay | StepBias | RopeDivisors)
    }

    pub fn cols(&self) -> usize {
        self.dims[0]
    }

    pub fn rows(&self) -> usize {
        self.dims[1..].iter().product()
    }
}

/// Collects tensors.
struct Tensors {
    list: Vec<TensorShape>,
    layer: Option<usize>,
}

impl Tensors {
    fn add(&mut self, name: &str, role: Role, dims: &[usize]) {
        let name = match self.layer {
            Some(layer) => format!("blk.{layer}.{name}"),
            None => name.to_owned(),
        };
        self.list.push(TensorShape { name, role, dims: dims.to_vec(), place: (0, 1) });
    }

    /// Adds a tensor and its bias.
    fn biased(&mut self, name: &str, role: Role, dims: &[usize]) {
        self.add(&format!("{name}.weight"), role, dims);
        self.add(&format!("{name}.bias"), Role::Bias, &dims[dims.len() - 1..]);
    }

    fn norm(&mut self, name: &str, len: usize) {
        self.add(name, Role::Norm, &[len]);
    }

    fn matrix(&mut self, name: &str, rows: usize, cols: usize) {
        self.add(name, Role::Matrix, &[cols, rows]);
    }
}

impl Shape {
    /// Returns all tensors, in the order of the file.
    pub fn tensors(&self) -> Vec<TensorShape> {
        let mut tensors = Tensors { list: Vec::new(), layer: None };
        tensors.add("token_embd.weight", Role::Embedding, &[self.hidden, self.vocab]);
        match self.family {
            Family::Llama => self.llama(&mut tensors),
            Family::Gpt2 => self.gpt2(&mut tensors),
            Family::Bert => self.bert(&mut tensors),
        }
        number(&mut tensors.list);
        tensors.list
    }

    /// Adds all tensors except the token embedding. So do `gpt2` and `bert`.
    fn llama(&self, tensors: &mut Tensors) {
        let hidden = self.hidden;
        // LFM2 names the final norm differently.
        let short = self.recurrent.mixer == Mixer::ShortConvolution;
        tensors.norm(if short { "token_embd_norm.weight" } else { "output_norm.weight" }, hidden);
        if !self.tied {
            tensors.add("output.weight", Role::Output, &[hidden, self.vocab]);
        }
        if self.rope_freqs {
            tensors.add("rope_freqs.weight", Role::RopeDivisors, &[self.head_dim / 2]);
        }
        for layer in 0..self.layers {
            tensors.layer = Some(layer);
            tensors.norm("attn_norm.weight", hidden);
            match (self.attends)(layer) {
                true => self.attention(tensors),
                false => self.mixer(tensors),
            }
            let late = self.recurrent.mixer == Mixer::DeltaRule;
            tensors.norm(if late { "post_attention_norm.weight" } else { "ffn_norm.weight" }, hidden);
            self.feed_forward(layer, tensors);
        }
    }

    fn gpt2(&self, tensors: &mut Tensors) {
        let (hidden, ffn) = (self.hidden, self.ffn);
        tensors.add("position_embd.weight", Role::Small, &[hidden, self.context as usize]);
        tensors.biased("output_norm", Role::Norm, &[hidden]);
        for layer in 0..self.layers {
            tensors.layer = Some(layer);
            tensors.biased("attn_norm", Role::Norm, &[hidden]);
            tensors.biased("attn_qkv", Role::Value, &[hidden, 3 * hidden]);
            tensors.biased("attn_output", Role::AttentionOutput, &[hidden, hidden]);
            tensors.biased("ffn_norm", Role::Norm, &[hidden]);
            tensors.biased("ffn_up", Role::Matrix, &[hidden, ffn]);
            tensors.biased("ffn_down", Role::Down, &[ffn, hidden]);
        }
    }

    fn bert(&self, tensors: &mut Tensors) {
        let (hidden, ffn) = (self.hidden, self.ffn);
        tensors.add("position_embd.weight", Role::Small, &[hidden, self.context as usize]);
        tensors.add("token_types.weight", Role::Small, &[hidden, TOKEN_TYPES]);
        tensors.biased("token_embd_norm", Role::Norm, &[hidden]);
        for layer in 0..self.layers {
            tensors.layer = Some(layer);
            tensors.biased("attn_q", Role::Matrix, &[hidden, hidden]);
            tensors.biased("attn_k", Role::Matrix, &[hidden, hidden]);
            tensors.biased("attn_v", Role::Value, &[hidden, hidden]);
            tensors.biased("attn_output", Role::AttentionOutput, &[hidden, hidden]);
            tensors.biased("attn_output_norm", Role::Norm, &[hidden]);
            tensors.biased("ffn_up", Role::Matrix, &[hidden, ffn]);
            tensors.biased("ffn_down", Role::Down, &[ffn, hidden]);
            tensors.biased("layer_output_norm", Role::Norm, &[hidden]);
        }
    }

    fn attention(&self, tensors: &mut Tensors) {
        let (q, kv, hidden) = (self.heads * self.head_dim, self.kv_heads * self.head_dim, self.hidden);
        // The query matrix of Qwen 3.5 also has the gates.
        let gated = self.recurrent.mixer == Mixer::DeltaRule;
        tensors.matrix("attn_q.weight", if gated { 2 * q } else { q }, hidden);
        tensors.matrix("attn_k.weight", kv, hidden);
        tensors.add("attn_v.weight", Role::Value, &[hidden, kv]);
        if self.qk_norm {
            tensors.norm("attn_q_norm.weight", self.head_dim);
            tensors.norm("attn_k_norm.weight", self.head_dim);
        }
        tensors.add("attn_output.weight", Role::AttentionOutput, &[q, hidden]);
    }

    fn mixer(&self, tensors: &mut Tensors) {
        let recurrent @ Recurrent { mixer, kernel, heads, value_dim, groups, .. } = self.recurrent;
        let (hidden, inner, channels) = (self.hidden, recurrent.inner(), recurrent.channels());
        match mixer {
            Mixer::None => return,
            Mixer::ShortConvolution => {
                tensors.matrix("shortconv.in_proj.weight", 3 * hidden, hidden);
                tensors.add("shortconv.conv.weight", Role::Small, &[kernel, hidden]);
                tensors.matrix("shortconv.out_proj.weight", hidden, hidden);
                return;
            }
            Mixer::DeltaRule => {
                tensors.add("attn_qkv.weight", Role::Value, &[hidden, channels]);
                tensors.matrix("attn_gate.weight", inner, hidden);
                tensors.matrix("ssm_alpha.weight", heads, hidden);
                tensors.matrix("ssm_beta.weight", heads, hidden);
                tensors.add("ssm_a", Role::Decay, &[heads]);
                tensors.norm("ssm_norm.weight", value_dim);
            }
            Mixer::StateSpace => {
                tensors.matrix("ssm_in.weight", inner + channels + heads, hidden);
                tensors.add("ssm_conv1d.bias", Role::Bias, &[channels]);
                tensors.add("ssm_a", Role::Decay, &[1, heads]);
                tensors.add("ssm_d", Role::Norm, &[1, heads]);
                tensors.add("ssm_norm.weight", Role::Norm, &[inner / groups, groups]);
            }
        }
        tensors.add("ssm_conv1d.weight", Role::Small, &[kernel, channels]);
        tensors.add("ssm_dt.bias", Role::StepBias, &[heads]);
        tensors.matrix("ssm_out.weight", hidden, inner);
    }

    fn feed_forward(&self, layer: usize, tensors: &mut Tensors) {
        let (hidden, ffn) = (self.hidden, self.ffn);
        let Some(Experts { count, width, biased, .. }) = self.experts.filter(|experts| layer >= experts.dense_layers)
        else {
            tensors.matrix("ffn_gate.weight", ffn, hidden);
            tensors.matrix("ffn_up.weight", ffn, hidden);
            return tensors.add("ffn_down.weight", Role::Down, &[ffn, hidden]);
        };
        tensors.add("ffn_gate_inp.weight", Role::Small, &[hidden, count]);
        tensors.add("ffn_gate_exps.weight", Role::Matrix, &[hidden, width, count]);
        tensors.add("ffn_up_exps.weight", Role::Matrix, &[hidden, width, count]);
        tensors.add("ffn_down_exps.weight", Role::Down, &[width, hidden, count]);
        if biased {
            tensors.add("exp_probs_b.bias", Role::Bias, &[count]);
        }
    }
}

/// Sets the `place` of each tensor.
fn number(tensors: &mut [TensorShape]) {
    for index in 0..tensors.len() {
        let role = tensors[index].role;
        let same = |tensors: &[TensorShape]| tensors.iter().filter(|tensor| tensor.role == role).count();
        tensors[index].place = (same(&tensors[..index]), same(tensors));
    }
}
