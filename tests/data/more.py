"""More parity fixtures, for what `../shared/fixtures/parity` does not have: a plugin for its `make_parity.py`.

    python ../shared/fixtures/make/make_parity.py --out more --seed 2 --hf "" --plugin tests/data/more.py --only \
        llama-linear,llama-yarn,llama-biases,granite,mixtral,qwen3moe,gemma3-linear,phi3-long,phi3-short,mpt,\
        gptneox-sequential,starcoder2,stablelm-parallel,olmo3
    python tests/data/trim.py ../shared/fixtures more

Small: every model is 16 or 24 wide and has 48 tokens, which is fewer than `parity_lib` makes vocabularies of.
"""

import math
import re

import numpy as np
import torch
import transformers as tf
from transformers.models.mpt import modeling_mpt

import archs as A
import gguf
import parity_lib as L


def small_tokenizer(w, kind, pre, n_vocab):
    tokens = ["<unk>", "<s>", "</s>", "\u2581"] + [chr(97 + i) for i in range(26)] + ["\u2581" + chr(97 + i) for i in range(26)]
    w.add_tokenizer_model("llama")
    w.add_tokenizer_pre("default")
    w.add_token_list(tokens[:n_vocab])
    w.add_token_scores([-float(max(i - 2, 0)) for i in range(n_vocab)])
    w.add_token_types([2, 3, 3] + [1] * (n_vocab - 3))
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)
    w.add_add_bos_token(True)
    w.add_add_eos_token(False)


def fill_weights(model, seed, tied, norm_offset=0.0):
    """As parity_lib's, but it knows more names: seeded by name, exact in float32."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            x = L.tensor_rng(seed, name).standard_normal(tuple(p.shape))
            if name.endswith("bias"):
                v = 0.1 * x
            elif p.dim() == 1:
                v = (1.0 + 0.15 * x).astype(np.float32).astype(np.float64) - norm_offset
            elif re.search(r"embed_tokens|wte|embed_in", name):
                v = x * (1.5 / math.sqrt(p.shape[-1]) if tied else 0.3)
            elif re.search(r"lm_head|embed_out", name):
                v = x * 2.0 / math.sqrt(p.shape[-1])
            else:
                v = x * 1.3 / math.sqrt(p.shape[-1])
            p.copy_(torch.from_numpy(v.astype(np.float32)).to(p.dtype))


def mpt_alibi(self, heads, length, device=None):
    """As MPT's own code has it; transformers ignores the configured maximum."""
    return modeling_mpt.build_mpt_alibi_tensor(heads, length, self.config.attn_config.alibi_bias_max, device)


modeling_mpt.MptModel.build_mpt_alibi_tensor = mpt_alibi
L.tokenizer_kv = small_tokenizer
L.fill_weights = fill_weights

BASE = dict(vocab_size=48, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=128, tie_word_embeddings=False,
            bos_token_id=1, eos_token_id=2, pad_token_id=0)
PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32}


def kv(w, cfg, rms=True):
    A.kv_common(w, cfg, 128, cfg.intermediate_size, rms=rms)


class Spec(A.Spec):
    min_distinct = 5
    tied = False
    norm_offset = 0.0

    def fill_args(self):
        return dict(tied=self.tied, norm_offset=self.norm_offset)

    def heads(self, cfg, name):
        return {"q": cfg.num_attention_heads, "k": cfg.num_key_value_heads}.get(name.split("_proj")[0][-1])


class Pairs(Spec):
    """Rotary pairs side by side."""

    def convert(self, name, a, cfg):
        if re.search(r"self_attn\.[qk]_proj", name):
            return L.interleave_rope_rows(a, self.heads(cfg, name))
        return a


class Llama(Pairs):
    gguf_arch = "llama"
    hf_class = tf.LlamaForCausalLM
    rope = PLAIN
    more = {}

    def config(self):
        return tf.LlamaConfig(**BASE, head_dim=12, rms_norm_eps=1e-5, rope_parameters=dict(self.rope), **self.more)

    def write_kv(self, w, cfg):
        kv(w, cfg)
        w.add_key_length(12)
        w.add_value_length(12)
        w.add_rope_dimension_count(12)
        w.add_rope_freq_base(10000.0)


class LlamaLinear(Llama):
    name = "llama-linear"
    rope = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}

    def write_kv(self, w, cfg):
        super().write_kv(w, cfg)
        w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        w.add_rope_scaling_factor(4.0)


class LlamaYarn(Llama):
    name = "llama-yarn"
    rope = YARN

    def write_kv(self, w, cfg):
        super().write_kv(w, cfg)
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(4.0)
        w.add_rope_scaling_orig_ctx_len(32)


class LlamaBiases(Llama):
    name = "llama-biases"
    more = dict(attention_bias=True, mlp_bias=True)


class Granite(Pairs):
    name = "granite"
    gguf_arch = "granite"
    hf_class = tf.GraniteForCausalLM

    def config(self):
        return tf.GraniteConfig(**BASE, rms_norm_eps=1e-5, rope_parameters=dict(PLAIN), attention_multiplier=0.375,
                                embedding_multiplier=3.0, residual_multiplier=0.625, logits_scaling=0.5)

    def write_kv(self, w, cfg):
        kv(w, cfg)
        w.add_rope_freq_base(10000.0)
        w.add_rope_dimension_count(4)
        w.add_attention_scale(cfg.attention_multiplier)
        w.add_embedding_scale(cfg.embedding_multiplier)
        w.add_residual_scale(cfg.residual_multiplier)
        w.add_logit_scale(cfg.logits_scaling)


def eager(config):
    """Experts one after the other: the grouped product knows no float64."""
    def make(**args):
        made = config(**args)
        made._experts_implementation = "eager"
        return made
    return make


class Experts:
    """Weights of all experts of a layer in one tensor, gate and up in one, too."""

    def map_tensor(self, name, a, cfg, names):
        return None if ".mlp." in name else super().map_tensor(name, a, cfg, names)

    def extra_tensors(self, model):
        out = {}
        for i, layer in enumerate(model.model.layers):
            array = lambda p: p.detach().numpy().astype(np.float32)
            gate, up = np.split(array(layer.mlp.experts.gate_up_proj), 2, axis=1)
            parts = dict(gate_inp=array(layer.mlp.gate.weight), gate_exps=gate, up_exps=up,
                         down_exps=array(layer.mlp.experts.down_proj))
            out.update({f"blk.{i}.ffn_{k}.weight": v for k, v in parts.items()})
        return list(out.items())


class Mixtral(Experts, Pairs):
    name = "mixtral"
    gguf_arch = "llama"
    hf_class = tf.MixtralForCausalLM

    def config(self):
        return eager(tf.MixtralConfig)(**BASE, num_local_experts=5, num_experts_per_tok=2, rms_norm_eps=1e-5,
                                rope_parameters=dict(PLAIN))

    def write_kv(self, w, cfg):
        kv(w, cfg)
        w.add_rope_freq_base(10000.0)
        w.add_rope_dimension_count(4)
        w.add_expert_count(5)
        w.add_expert_used_count(2)


class Qwen3Moe(Experts, Spec):
    name = "qwen3moe"
    gguf_arch = "qwen3moe"
    hf_class = tf.Qwen3MoeForCausalLM

    def config(self):
        return eager(tf.Qwen3MoeConfig)(**BASE, head_dim=8, num_experts=5, num_experts_per_tok=3, moe_intermediate_size=20,
                                 norm_topk_prob=True, rms_norm_eps=1e-6, rope_parameters=dict(PLAIN))

    def write_kv(self, w, cfg):
        kv(w, cfg)
        w.add_rope_freq_base(10000.0)
        w.add_key_length(8)
        w.add_value_length(8)
        w.add_expert_count(5)
        w.add_expert_used_count(3)
        w.add_expert_feed_forward_length(20)


class Gemma3Linear(Spec):
    name = "gemma3-linear"
    gguf_arch = "gemma3"
    hf_class = tf.Gemma3ForCausalLM
    tied, norm_offset = True, 1.0

    def config(self):
        return tf.Gemma3TextConfig(**{**BASE, "num_hidden_layers": 6, "tie_word_embeddings": True}, head_dim=8,
                                   query_pre_attn_scalar=8, rms_norm_eps=1e-6, sliding_window=12,
                                   hidden_activation="gelu_pytorch_tanh", rope_parameters={
                                       "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
                                       "sliding_attention": dict(PLAIN)})

    def write_kv(self, w, cfg):
        kv(w, cfg)
        w.add_key_length(8)
        w.add_value_length(8)
        w.add_rope_freq_base(1e6)
        w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        w.add_rope_scaling_factor(8.0)
        w.add_sliding_window(12)

    def convert(self, name, a, cfg):
        return (a + np.float32(1.0)).astype(np.float32) if name.endswith("norm.weight") else a


class Phi3Long(Spec):
    """Longer than the original context: the long factors."""
    name = "phi3-long"
    gguf_arch = "phi3"
    hf_class = tf.Phi3ForCausalLM
    original = 32
    window = None

    def config(self):
        return tf.Phi3Config(**{**BASE, "num_attention_heads": 2, "num_key_value_heads": 1}, rms_norm_eps=1e-5,
                             sliding_window=self.window, original_max_position_embeddings=self.original,
                             rope_parameters={
                                 "rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": 0.75,
                                 "original_max_position_embeddings": self.original, "attention_factor": 1.1875,
                                 "long_factor": [1.25, 3.5, 6.0], "short_factor": [1.0, 1.125, 1.75]})

    def write_kv(self, w, cfg):
        kv(w, cfg)
        w.add_rope_dimension_count(6)
        w.add_rope_freq_base(10000.0)
        w.add_rope_scaling_orig_ctx_len(self.original)
        w.add_rope_scaling_attn_factors(1.1875)
        w.add_sliding_window(self.window or 0)

    def extra_tensors(self, model):
        p = model.config.rope_parameters
        return [(f"rope_factors_{k}.weight", np.array(p[f"{k}_factor"], np.float32)) for k in ("long", "short")]


class Phi3Short(Phi3Long):
    """Shorter than the original context: the short factors. And a window in all layers."""
    name = "phi3-short"
    original = 100
    window = 20


class Mpt(Spec):
    name = "mpt"
    gguf_arch = "mpt"
    hf_class = tf.MptForCausalLM
    tied = True

    def config(self):
        return tf.MptConfig(d_model=24, n_heads=6, n_layers=2, max_seq_len=128, vocab_size=48,
                            attn_config=dict(alibi=True, alibi_bias_max=6, clip_qkv=1.75))

    def n_layer(self, cfg):
        return cfg.n_layers

    def write_kv(self, w, cfg):
        w.add_context_length(128)
        w.add_embedding_length(24)
        w.add_block_count(2)
        w.add_feed_forward_length(96)
        w.add_head_count(6)
        w.add_layer_norm_eps(1e-5)
        w.add_clamp_kqv(cfg.attn_config.clip_qkv)
        w.add_max_alibi_bias(cfg.attn_config.alibi_bias_max)

    def map_tensor(self, name, a, cfg, names):
        return None if name.startswith("lm_head") else super().map_tensor(name, a, cfg, names)


class GPTNeoXSequential(Spec):
    name = "gptneox-sequential"
    gguf_arch = "gptneox"
    hf_class = tf.GPTNeoXForCausalLM

    def config(self):
        return tf.GPTNeoXConfig(**{k: v for k, v in BASE.items() if k != "num_key_value_heads"}, hidden_act="gelu",
                                use_parallel_residual=False, layer_norm_eps=1e-5,
                                rope_parameters=dict(PLAIN, partial_rotary_factor=0.5))

    def write_kv(self, w, cfg):
        w.add_context_length(128)
        w.add_embedding_length(cfg.hidden_size)
        w.add_block_count(cfg.num_hidden_layers)
        w.add_feed_forward_length(cfg.intermediate_size)
        w.add_rope_dimension_count(2)
        w.add_head_count(cfg.num_attention_heads)
        w.add_parallel_residual(False)
        w.add_layer_norm_eps(1e-5)

    def convert(self, name, a, cfg):
        return L.split_fused_heads(a, cfg.num_attention_heads) if "query_key_value" in name else a


class Starcoder2(Spec):
    name = "starcoder2"
    gguf_arch = "starcoder2"
    hf_class = tf.Starcoder2ForCausalLM

    def config(self):
        return tf.Starcoder2Config(**BASE, use_bias=True, norm_epsilon=1e-5, rope_parameters=dict(PLAIN))

    def write_kv(self, w, cfg):
        kv(w, cfg, rms=False)
        w.add_rope_freq_base(10000.0)
        w.add_layer_norm_eps(1e-5)


class StableLMParallel(Spec):
    name = "stablelm-parallel"
    gguf_arch = "stablelm"
    hf_class = tf.StableLmForCausalLM

    def config(self):
        return tf.StableLmConfig(**BASE, use_parallel_residual=True, qk_layernorm=True, use_qkv_bias=False,
                                 layer_norm_eps=1e-5, rope_parameters=dict(PLAIN, partial_rotary_factor=0.5))

    def write_kv(self, w, cfg):
        kv(w, cfg, rms=False)
        w.add_rope_dimension_count(2)
        w.add_parallel_residual(True)
        w.add_layer_norm_eps(1e-5)

    def map_tensor(self, name, a, cfg, names):
        return None if "_layernorm.norms" in name else super().map_tensor(name, a, cfg, names)

    def extra_tensors(self, model):
        stack = lambda norm: np.stack([n.weight.detach().numpy().astype(np.float32) for n in norm.norms])
        return [(f"blk.{i}.attn_{k}_norm.weight", stack(getattr(layer.self_attn, f"{k}_layernorm")))
                for i, layer in enumerate(model.model.layers) for k in "qk"]


class Olmo3(Spec):
    """An olmo2 with windows, and with YaRN in the layers without."""
    name = "olmo3"
    gguf_arch = "olmo2"
    hf_class = tf.Olmo3ForCausalLM

    def config(self):
        return tf.Olmo3Config(**{**BASE, "num_hidden_layers": 5}, rms_norm_eps=1e-6, sliding_window=12,
                              rope_parameters={"full_attention": dict(YARN), "sliding_attention": dict(PLAIN)})

    def write_kv(self, w, cfg):
        kv(w, cfg)
        w.add_rope_freq_base(10000.0)
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(4.0)
        w.add_rope_scaling_orig_ctx_len(32)
        w.add_sliding_window(12)


ARCHS = {c.name: c for c in (LlamaLinear, LlamaYarn, LlamaBiases, Granite, Mixtral, Qwen3Moe, Gemma3Linear, Phi3Long,
                             Phi3Short, Mpt, GPTNeoXSequential, Starcoder2, StableLMParallel, Olmo3)}
