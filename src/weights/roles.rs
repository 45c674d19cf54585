//! The tensors that models can have: one table of their roles, names and shapes.

use super::config::{Config, FinalNorm, Gate};
use super::layer::LayerShape;
use super::recurrent::Mixer;
use super::shapes::{
    Shape, bias, biases, classifier_norm, divisors, fused_experts, gate, gated_experts, k_norm, kernel, kv_matrix,
    long_rope, mixer_norm, of, optional, own_gates, per_head, per_layer, qk_norm, qk_norm_bias, rows, selects,
    separate, shared, up_width,
};

/// A row of the table.
pub(super) struct Spec {
    pub(super) role: Role,
    /// Suffix of the name after `blk.N.`, or the whole name.
    pub(super) name: &'static str,
    /// Function that returns the shape in a layer of a model, or `None` if the configuration excludes the tensor.
    pub(super) shape: fn(&Config, &LayerShape) -> Option<Shape>,
}

/// Makes the enum [`Role`] and the table [`SPECS`] from the same rows, so that both have the same order.
macro_rules! tensors {
    (
        model { $($m_role:ident $m_name:literal $m_shape:expr $(, bias $m_bias:ident $m_bias_name:literal $m_bias_shape:expr)?;)* }
        layer { $($l_role:ident $l_name:literal $l_shape:expr $(, bias $l_bias:ident $l_bias_name:literal $l_bias_shape:expr)?;)* }
    ) => {
        /// The purpose of a tensor. Operations name tensors by their roles.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Role {
            $($m_role, $($m_bias,)?)*
            $($l_role, $($l_bias,)?)*
        }

        /// All rows, in the order of the roles: first those of the model, then those of a layer.
        const SPECS: &[Spec] = &[
            $(Spec { role: Role::$m_role, name: $m_name, shape: $m_shape },
            $(Spec { role: Role::$m_bias, name: $m_bias_name, shape: $m_bias_shape },)?)*
            $(Spec { role: Role::$l_role, name: $l_name, shape: $l_shape },
            $(Spec { role: Role::$l_bias, name: $l_bias_name, shape: $l_bias_shape },)?)*
        ];

        const OF_MODEL: usize = [$($m_name, $($m_bias_name,)?)*].len();

        impl Role {
            /// Returns the role of the bias that is added to the results of this tensor.
            pub(super) fn bias(self) -> Option<Self> {
                match self {
                    $($(Self::$m_role => Some(Self::$m_bias),)?)*
                    $($(Self::$l_role => Some(Self::$l_bias),)?)*
                    _ => None,
                }
            }

            /// Returns the role whose bias this one is, or the role itself.
            pub(super) fn owner(self) -> Self {
                match self {
                    $($(Self::$m_bias => Self::$m_role,)?)*
                    $($(Self::$l_bias => Self::$l_role,)?)*
                    own => own,
                }
            }
        }
    };
}

tensors! {
    model {
        Embedding "token_embd.weight" |c, _| Some(Shape::Matrix(c.vocab, c.hidden));
        Positions "position_embd.weight" |c, _| (c.embedding.positions > 0).then_some(Shape::Matrix(c.embedding.positions, c.hidden));
        TokenTypes "token_types.weight" |c, _| (c.embedding.types > 0).then_some(Shape::Matrix(c.embedding.types, c.hidden));
        EmbeddingNorm "token_embd_norm.weight" |c, _| (c.embedding.norm || c.head.norm == FinalNorm::Embedding).then_some(Shape::Vector(c.hidden)),
            bias EmbeddingNormBias "token_embd_norm.bias" |c, _| if c.embedding.norm { bias(c.biases.norm, c.hidden) } else { None };
        OutputNorm "output_norm.weight" |c, _| Some(Shape::Vector(c.hidden)),
            bias OutputNormBias "output_norm.bias" |c, _| bias(c.biases.norm, c.hidden);
        EncoderNorm "enc.output_norm.weight" |c, _| Some(Shape::Vector(c.hidden));
        // Missing if the embedding is also the output matrix (tied).
        Output "output.weight" |c, _| Some(Shape::OptionalMatrix(c.vocab, c.hidden));
        RopeDivisors "rope_freqs.weight" |c, _| divisors(c, true).map(Shape::OptionalVector);
        LongRopeDivisors "rope_factors_long.weight" |c, _| divisors(c, long_rope(c)).map(Shape::Vector);
        ShortRopeDivisors "rope_factors_short.weight" |c, _| divisors(c, long_rope(c)).map(Shape::Vector);
        // The input of every layer besides the residual stream: by token, from the residual stream, and its norm.
        PerLayerEmbedding "per_layer_token_embd.weight" |c, _| per_layer(c).map(|n| Shape::Matrix(c.vocab, c.layers * n));
        PerLayerProjection "per_layer_model_proj.weight" |c, _| per_layer(c).map(|n| Shape::Matrix(c.layers * n, c.hidden));
        PerLayerNorm "per_layer_proj_norm.weight" |c, _| per_layer(c).map(Shape::Vector);
        // Tensors of a layer that predicts further ahead. Their names follow `blk.N.`.
        PredictorEmbedding "nextn.embed_tokens.weight" |c, _| c.is_predictor().then_some(Shape::OptionalMatrix(c.vocab, c.hidden));
        PredictorTokenNorm "nextn.enorm.weight" |c, _| c.is_predictor().then_some(Shape::Vector(c.hidden));
        PredictorHiddenNorm "nextn.hnorm.weight" |c, _| c.is_predictor().then_some(Shape::Vector(c.hidden));
        PredictorInput "nextn.eh_proj.weight" |c, _| c.is_predictor().then_some(Shape::Matrix(c.hidden, 2 * c.hidden));
        PredictorNorm "nextn.shared_head_norm.weight" |c, _| (c.head.norm == FinalNorm::Predictor).then_some(Shape::Vector(c.hidden));
        PredictorOutput "nextn.shared_head_head.weight" |c, _| c.is_predictor().then_some(Shape::OptionalMatrix(c.vocab, c.hidden));
        // Matrices and norms after the pooling.
        Dense2 "dense_2.weight" |c, _| rows(c.pooler.dense[0], c.hidden),
            bias Dense2Bias "dense_2.bias" |c, _| optional(c.pooler.dense[0]);
        Dense3 "dense_3.weight" |c, _| rows(c.pooler.dense[1], if c.pooler.dense[0] > 0 { c.pooler.dense[0] } else { c.hidden }),
            bias Dense3Bias "dense_3.bias" |c, _| optional(c.pooler.dense[1]);
        Classifier "cls.weight" |c, _| rows(c.pooler.classifier, c.hidden),
            bias ClassifierBias "cls.bias" |c, _| optional(c.pooler.classifier);
        ClassifierNorm "cls.norm.weight" |c, _| classifier_norm(c);
        Classes "cls.output.weight" |c, _| rows(c.pooler.classes, if c.pooler.classifier > 0 { c.pooler.classifier } else { c.hidden }),
            bias ClassesBias "cls.output.bias" |c, _| optional(c.pooler.classes);
    }
    layer {
        AttentionNorm "attn_norm.weight" |c, _| Some(Shape::Vector(c.hidden)),
            bias AttentionNormBias "attn_norm.bias" |c, _| bias(c.biases.norm, c.hidden);
        Q "attn_q.weight" |c, l| separate(c).then_some(Shape::Matrix(l.q_rows(), c.hidden)),
            bias QBias "attn_q.bias" |c, l| if separate(c) { bias(c.biases.qkv, l.q_rows()) } else { None };
        K "attn_k.weight" |c, l| separate(c).then_some(kv_matrix(c, l)),
            bias KBias "attn_k.bias" |c, l| if separate(c) { bias(c.biases.qkv, l.kv_width()) } else { None };
        V "attn_v.weight" |c, l| (separate(c) && !l.keys_as_values).then_some(kv_matrix(c, l)),
            bias VBias "attn_v.bias" |c, l| if separate(c) { bias(c.biases.qkv, l.kv_width()) } else { None };
        Qkv "attn_qkv.weight" |c, l| (!separate(c)).then_some(Shape::Matrix(l.qkv_width(), c.hidden)),
            bias QkvBias "attn_qkv.bias" |c, l| if separate(c) { None } else { bias(c.biases.qkv, l.qkv_width()) };
        HeadGate "attn_gate.weight" |c, l| own_gates(c).then_some(Shape::Matrix(l.gates_width(), c.hidden));
        QNorm "attn_q_norm.weight" |c, l| qk_norm(c, l, l.heads),
            bias QNormBias "attn_q_norm.bias" |c, l| qk_norm_bias(c, l.q_width());
        KNorm "attn_k_norm.weight" |c, l| k_norm(c, l),
            bias KNormBias "attn_k_norm.bias" |c, l| qk_norm_bias(c, l.kv_width());
        SinkScores "attn_sinks.weight" |c, _| c.attention.sink_scores.then_some(Shape::Vector(c.heads));
        AttentionOutput "attn_output.weight" |c, l| Some(Shape::Matrix(c.hidden, l.q_width())),
            bias AttentionOutputBias "attn_output.bias" |c, _| bias(c.biases.output, c.hidden);
        PostAttentionNorm "post_attention_norm.weight" |c, _| Some(Shape::Vector(c.hidden));
        FfnNorm "ffn_norm.weight" |c, _| Some(Shape::Vector(c.hidden)),
            bias FfnNormBias "ffn_norm.bias" |c, _| bias(c.biases.norm, c.hidden);
        Router "ffn_gate_inp.weight" |c, _| Some(Shape::Matrix(c.feed_forward.experts, c.hidden)),
            bias RouterBias "ffn_gate_inp.bias" |c, _| bias(c.biases.ffn, c.feed_forward.experts);
        // Norm of the router's input, if that differs from the experts' input.
        RouterNorm "ffn_gate_inp.scale" |c, _| Some(Shape::Vector(c.hidden));
        // Added to the scores by which experts are chosen.
        SelectionBias "exp_probs_b.bias" |c, _| selects(c).then_some(Shape::OptionalVector(c.feed_forward.experts));
        Gate "ffn_gate.weight" |c, l| gate(c).then_some(Shape::Matrix(l.ffn, c.hidden)),
            bias GateBias "ffn_gate.bias" |c, l| if gate(c) { bias(c.biases.ffn, l.ffn) } else { None };
        Up "ffn_up.weight" |c, l| Some(Shape::Matrix(up_width(c, l), c.hidden)),
            bias UpBias "ffn_up.bias" |c, l| bias(c.biases.ffn, up_width(c, l));
        Down "ffn_down.weight" |c, l| Some(Shape::Matrix(c.hidden, l.ffn)),
            bias DownBias "ffn_down.bias" |c, _| bias(c.biases.ffn, c.hidden);
        GateUpExperts "ffn_gate_up_exps.weight" |c, _| fused_experts(c).then_some(Shape::Matrices(c.feed_forward.experts, 2 * c.feed_forward.expert_width, c.hidden));
        GateExperts "ffn_gate_exps.weight" |c, _| gated_experts(c).then_some(Shape::Matrices(c.feed_forward.experts, c.feed_forward.expert_width, c.hidden)),
            bias GateExpertsBias "ffn_gate_exps.bias" |c, _| if gated_experts(c) { biases(c, c.feed_forward.expert_width) } else { None };
        UpExperts "ffn_up_exps.weight" |c, _| (!fused_experts(c)).then_some(Shape::Matrices(c.feed_forward.experts, c.feed_forward.expert_width, c.hidden)),
            bias UpExpertsBias "ffn_up_exps.bias" |c, _| biases(c, c.feed_forward.expert_width);
        DownExperts "ffn_down_exps.weight" |c, _| Some(Shape::Matrices(c.feed_forward.experts, c.hidden, c.feed_forward.expert_width)),
            bias DownExpertsBias "ffn_down_exps.bias" |c, _| biases(c, c.hidden);
        // Scales of matrices of experts, one for each expert.
        GateUpExpertsScales "ffn_gate_up_exps.scale" |c, _| fused_experts(c).then_some(Shape::OptionalVector(c.feed_forward.experts));
        GateExpertsScales "ffn_gate_exps.scale" |c, _| gated_experts(c).then_some(Shape::OptionalVector(c.feed_forward.experts));
        UpExpertsScales "ffn_up_exps.scale" |c, _| (!fused_experts(c)).then_some(Shape::OptionalVector(c.feed_forward.experts));
        DownExpertsScales "ffn_down_exps.scale" |c, _| Some(Shape::OptionalVector(c.feed_forward.experts));
        SharedGate "ffn_gate_inp_shexp.weight" |c, _| c.feed_forward.shared_gate.then_some(Shape::Matrix(1, c.hidden));
        GateShared "ffn_gate_shexp.weight" |c, _| (shared(c) && c.feed_forward.gate != Gate::None).then_some(Shape::Matrix(c.feed_forward.shared_width, c.hidden));
        UpShared "ffn_up_shexp.weight" |c, _| shared(c).then_some(Shape::Matrix(c.feed_forward.shared_width, c.hidden));
        DownShared "ffn_down_shexp.weight" |c, _| shared(c).then_some(Shape::Matrix(c.hidden, c.feed_forward.shared_width));
        PostFfnNorm "post_ffw_norm.weight" |c, _| Some(Shape::Vector(c.hidden));
        // Norms of the feed-forward layer's result and of the experts' result, before these are added.
        PostDenseNorm "post_ffw_norm_1.weight" |c, _| Some(Shape::Vector(c.hidden));
        PostExpertsNorm "post_ffw_norm_2.weight" |c, _| Some(Shape::Vector(c.hidden));
        // Norm of the experts' input, if that differs from the feed-forward layer's input.
        ExpertsNorm "pre_ffw_norm_2.weight" |c, _| Some(Shape::Vector(c.hidden));
        // The input of a layer besides the residual stream.
        LayerInputGate "inp_gate.weight" |c, _| per_layer(c).map(|n| Shape::Matrix(n, c.hidden));
        LayerInputOut "proj.weight" |c, _| per_layer(c).map(|n| Shape::Matrix(c.hidden, n));
        PostInputNorm "post_norm.weight" |c, _| Some(Shape::Vector(c.hidden));
        // Factor of the residual stream at the end of a layer.
        LayerScale "layer_output_scale.weight" |_, _| Some(Shape::OptionalVector(1));
        // Norm of the residual stream after a branch was added.
        AttentionOutputNorm "attn_output_norm.weight" |c, _| Some(Shape::Vector(c.hidden)),
            bias AttentionOutputNormBias "attn_output_norm.bias" |c, _| bias(c.biases.norm, c.hidden);
        // Second norm of the residual stream, in models that add the branch twice.
        SecondAttentionNorm "attn_norm_2.weight" |c, _| Some(Shape::Vector(c.hidden)),
            bias SecondAttentionNormBias "attn_norm_2.bias" |c, _| bias(c.biases.norm, c.hidden);
        LayerOutputNorm "layer_output_norm.weight" |c, _| Some(Shape::Vector(c.hidden)),
            bias LayerOutputNormBias "layer_output_norm.bias" |c, _| bias(c.biases.norm, c.hidden);
        // The name that files of Falcon-H1 have.
        PlainFfnNorm "ffn_norm" |c, _| Some(Shape::Vector(c.hidden));
        // Tensors of recurrent layers.
        // The name `attn_qkv.weight` is also that of a matrix of attention, which these models do not have.
        DeltaQkv "attn_qkv.weight" |c, _| of(c, Mixer::DeltaRule, Shape::Matrix(c.recurrent.channels, c.hidden));
        MixerGate "attn_gate.weight" |c, _| of(c, Mixer::DeltaRule, Shape::Matrix(c.recurrent.inner(), c.hidden));
        Alpha "ssm_alpha.weight" |c, _| of(c, Mixer::DeltaRule, Shape::Matrix(c.recurrent.heads, c.hidden));
        Beta "ssm_beta.weight" |c, _| of(c, Mixer::DeltaRule, Shape::Matrix(c.recurrent.heads, c.hidden));
        ShortConvIn "shortconv.in_proj.weight" |c, _| of(c, Mixer::ShortConvolution, Shape::Matrix(c.recurrent.input_width(), c.hidden));
        ShortConv "shortconv.conv.weight" |c, _| of(c, Mixer::ShortConvolution, kernel(c));
        ShortConvOut "shortconv.out_proj.weight" |c, _| of(c, Mixer::ShortConvolution, Shape::Matrix(c.hidden, c.recurrent.inner()));
        ScanIn "ssm_in.weight" |c, _| of(c, Mixer::StateSpace, Shape::Matrix(c.recurrent.input_width(), c.hidden));
        Conv "ssm_conv1d.weight" |c, _| c.recurrent.heads.gt(&0).then_some(kernel(c)),
            bias ConvBias "ssm_conv1d.bias" |c, _| of(c, Mixer::StateSpace, Shape::OptionalVector(c.recurrent.channels));
        StepBias "ssm_dt.bias" |c, _| c.recurrent.heads.gt(&0).then_some(Shape::Vector(c.recurrent.heads));
        Decay "ssm_a" |c, _| per_head(c);
        Skip "ssm_d" |c, _| of(c, Mixer::StateSpace, Shape::Vectors(c.recurrent.heads, 1));
        MixerNorm "ssm_norm.weight" |c, _| mixer_norm(c);
        MixerOut "ssm_out.weight" |c, _| c.recurrent.heads.gt(&0).then_some(Shape::Matrix(c.hidden, c.recurrent.inner()));
    }
}

impl Role {
    /// Number of roles outside of layers.
    pub(super) const OF_MODEL: usize = OF_MODEL;

    /// Number of roles in each layer.
    pub(super) const OF_LAYER: usize = SPECS.len() - OF_MODEL;

    /// Number of all roles.
    pub(crate) const COUNT: usize = SPECS.len();

    /// Returns the role of the scales of the experts' matrices of this role.
    #[cfg(feature = "experts")]
    pub(super) fn scales(self) -> Option<Self> {
        match self {
            Self::GateUpExperts => Some(Self::GateUpExpertsScales),
            Self::GateExperts => Some(Self::GateExpertsScales),
            Self::UpExperts => Some(Self::UpExpertsScales),
            Self::DownExperts => Some(Self::DownExpertsScales),
            _ => None,
        }
    }

    /// Returns whether rows of the matrix are looked up instead of multiplied.
    pub(super) fn is_table(self) -> bool {
        matches!(
            self,
            Self::Embedding | Self::Positions | Self::TokenTypes | Self::PerLayerEmbedding | Self::PredictorEmbedding
        )
    }

    /// Matrices that pooled vectors go through, outside of programs.
    pub(crate) const OF_POOLER: [Self; 4] = [Self::Dense2, Self::Dense3, Self::Classifier, Self::Classes];

    /// The beginning of the names of tensors that only a layer that predicts further ahead has.
    pub(super) const PREDICTOR: &str = "nextn.";

    /// Returns whether each layer has a tensor of this role.
    pub(crate) fn is_of_layer(self) -> bool {
        self as usize >= Self::OF_MODEL
    }

    /// Returns the tensor's name in a file, or its suffix after `blk.N.` for a tensor of a layer.
    pub(crate) fn name(self) -> &'static str {
        self.spec().map_or("", |spec| spec.name)
    }

    /// Returns whether a layer of a model with this configuration can have the tensor.
    pub(crate) fn is_in(self, config: &Config, layer: usize) -> bool {
        self.shape(config, layer).is_some()
    }

    /// Returns the shape of the tensor in a layer of a model, or `None` if the configuration excludes the tensor. For
    /// roles outside of layers, `layer` is ignored.
    pub(super) fn shape(self, config: &Config, layer: usize) -> Option<Shape> {
        (self.spec()?.shape)(config, &config.layer(layer))
    }

    fn spec(self) -> Option<&'static Spec> {
        SPECS.get(self as usize)
    }
}

/// Returns all rows of the table, in the order of the roles: first those of the model, then those of a layer.
pub(super) fn specs() -> impl Iterator<Item = &'static Spec> {
    SPECS.iter()
}

/// Returns the roles of a layer's tensor with this suffix after `blk.N.`. No model has more than one of them in a
/// layer.
pub(super) fn roles_in_layer(suffix: &str) -> impl Iterator<Item = Role> {
    specs().filter(move |spec| spec.role.is_of_layer() && spec.name == suffix).map(|spec| spec.role)
}

/// Returns the role of the tensor outside of layers with this name.
pub(super) fn role_in_model(name: &str) -> Option<Role> {
    specs().find(|spec| !spec.role.is_of_layer() && spec.name == name).map(|spec| spec.role)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_has_its_row() {
        assert_eq!(specs().count(), Role::COUNT);
        for (index, spec) in specs().enumerate() {
            assert_eq!(spec.role as usize, index, "{}", spec.name);
            assert_eq!(spec.role.name(), spec.name);
            assert_eq!(spec.role.is_of_layer(), index >= Role::OF_MODEL);
            match spec.role.is_of_layer() {
                true => assert!(roles_in_layer(spec.name).any(|role| role == spec.role), "{}", spec.name),
                false => assert_eq!(role_in_model(spec.name), Some(spec.role), "names are unique"),
            }
        }
    }

    #[test]
    fn a_bias_has_the_name_of_its_owner() {
        for spec in specs() {
            let owner = spec.role.owner();
            if owner == spec.role {
                let others = ["ffn_norm", "ssm_a", "ssm_d", "ssm_dt.bias", "ffn_gate_inp.scale"];
                let other = spec.role == Role::SelectionBias || others.contains(&spec.name);
                let other = other || spec.name.ends_with("_exps.scale");
                assert!(other || spec.name.ends_with(".weight"), "{}", spec.name);
            } else {
                assert_eq!(owner.bias(), Some(spec.role));
                assert_eq!(owner.name().replace(".weight", ".bias"), spec.name);
            }
        }
    }
}
