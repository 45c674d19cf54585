"""Tiny Hugging Face folders with what transformers generates from them: `hf/NAME` and `hf/expected.json`.

    PYTHONPATH=../shared/fixtures/make python tests/data/hf.py tests/data/hf

Weights are bf16, and the reference computes with exactly these, in float64, anew for each token.
"""

import json
import math
import os
import re
import sys

import numpy as np
import torch
import transformers as tf
from transformers.models.mpt import modeling_mpt

import parity_lib as L

PROMPT, GREEDY = 24, 16
OUT = sys.argv[1]


def mpt_alibi(self, heads, length, device=None):
    """As MPT's own code has it; transformers ignores the configured maximum."""
    return modeling_mpt.build_mpt_alibi_tensor(heads, length, self.config.attn_config.alibi_bias_max, device)


modeling_mpt.MptModel.build_mpt_alibi_tensor = mpt_alibi

BASE = dict(vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2,
            pad_token_id=None)
PLAIN = dict(rope_type="default", rope_theta=10000.0)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=16)
GEMMA = dict(BASE, tie_word_embeddings=True, head_dim=8, pad_token_id=0)
SOME = {k: BASE[k] for k in ("vocab_size", "hidden_size", "tie_word_embeddings", "bos_token_id", "eos_token_id")}
TINY = dict(n_layer=2, n_head=4, tie_word_embeddings=True)


MODELS = {
    "llama": ("Llama", tf.LlamaConfig, dict(BASE, head_dim=12, attention_bias=True, mlp_bias=True, rope_parameters=dict(
        rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=16))),
    "mistral": ("Mistral", tf.MistralConfig, dict(BASE, sliding_window=12, rms_norm_eps=1e-3, rope_parameters=PLAIN)),
    "mixtral": ("Mixtral", tf.MixtralConfig, dict(BASE, num_local_experts=3, num_experts_per_tok=2, rope_parameters=PLAIN)),
    "smollm3": ("SmolLM3", tf.SmolLM3Config, dict(BASE, num_hidden_layers=4, tie_word_embeddings=True, rope_parameters=PLAIN)),
    "granite": ("Granite", tf.GraniteConfig, dict(BASE, attention_multiplier=0.375, embedding_multiplier=3.0,
                                                  residual_multiplier=0.625, logits_scaling=0.5, rope_parameters=PLAIN)),
    "qwen2": ("Qwen2", tf.Qwen2Config, dict(BASE, rope_parameters=YARN)),
    "qwen3": ("Qwen3", tf.Qwen3Config, dict(BASE, head_dim=8, rope_parameters=dict(PLAIN, rope_theta=1e6))),
    "qwen3moe": ("Qwen3Moe", tf.Qwen3MoeConfig, dict(BASE, head_dim=8, num_experts=3, num_experts_per_tok=2,
                                                     moe_intermediate_size=12, norm_topk_prob=True, rope_parameters=PLAIN)),
    "gemma": ("Gemma", tf.GemmaConfig, dict(GEMMA, rope_parameters=PLAIN)),
    "gemma2": ("Gemma2", tf.Gemma2Config, dict(GEMMA, query_pre_attn_scalar=12, sliding_window=12, attn_logit_softcapping=3.0,
                                               final_logit_softcapping=6.0, rope_parameters=PLAIN)),
    "gemma3": ("Gemma3", tf.Gemma3TextConfig, dict(
        GEMMA, num_hidden_layers=3, query_pre_attn_scalar=8, sliding_window=12,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters=dict(full_attention=dict(PLAIN, rope_type="linear", rope_theta=1e6, factor=8.0), sliding_attention=PLAIN))),
    "phi3": ("Phi3", tf.Phi3Config, dict(
        BASE, num_attention_heads=2, num_key_value_heads=1, original_max_position_embeddings=16, rope_parameters=dict(
            rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.75, original_max_position_embeddings=16,
            long_factor=[1.25, 3.5, 6.0], short_factor=[1.0, 1.125, 1.75]))),
    "gpt2": ("GPT2LMHead", tf.GPT2Config, dict(TINY, vocab_size=40, n_embd=16, n_positions=64, n_inner=24)),
    "bloom": ("Bloom", tf.BloomConfig, dict(TINY, vocab_size=40, hidden_size=16)),
    "mpt": ("Mpt", tf.MptConfig, dict(d_model=18, n_heads=3, n_layers=2, max_seq_len=64, vocab_size=40, expansion_ratio=4,
                                      tie_word_embeddings=True, attn_config=dict(alibi=True, alibi_bias_max=6, clip_qkv=1.75))),
    "gptneox": ("GPTNeoX", tf.GPTNeoXConfig, dict(SOME, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
                                                  max_position_embeddings=64, use_parallel_residual=True,
                                                  rope_parameters=dict(PLAIN, partial_rotary_factor=0.5))),
    "stablelm": ("StableLm", tf.StableLmConfig, dict(BASE, use_qkv_bias=True, rope_parameters=dict(PLAIN, partial_rotary_factor=0.5))),
    "stablelm-12b": ("StableLm", tf.StableLmConfig, dict(BASE, use_parallel_residual=True, qk_layernorm=True,
                                                         rope_parameters=dict(PLAIN, partial_rotary_factor=0.5))),
    "olmo2": ("Olmo2", tf.Olmo2Config, dict(BASE, rope_parameters=PLAIN)),
    "olmo3": ("Olmo3", tf.Olmo3Config, dict(BASE, num_hidden_layers=4, sliding_window=12, rope_parameters=dict(
        full_attention=YARN, sliding_attention=PLAIN))),
    "starcoder2": ("Starcoder2", tf.Starcoder2Config, dict(BASE, use_bias=True, sliding_window=12, tie_word_embeddings=True,
                                                           rope_parameters=PLAIN)),
}


def fill(model, seed, tied, offset):
    with torch.no_grad():
        for name, p in model.named_parameters():
            x = L.tensor_rng(seed, name).standard_normal(tuple(p.shape))
            if name.endswith("bias"):
                v = 0.1 * x
            elif p.dim() == 1:
                v = 1.0 + 0.15 * x - offset
            elif re.search(r"embed_tokens|wte|embed_in|word_embeddings", name):
                v = x * (1.5 / math.sqrt(p.shape[-1]) if tied else 0.3)
            elif re.search(r"lm_head|embed_out", name):
                v = x * 2.0 / math.sqrt(p.shape[-1])
            else:
                v = x * 1.3 / math.sqrt(p.shape[-1])
            p.copy_(torch.from_numpy(v).to(torch.bfloat16).to(p.dtype))


def make(name, seed):
    kind, config_class, args = MODELS[name]
    config = config_class(**args)
    if hasattr(config, "num_local_experts") or hasattr(config, "num_experts"):
        config._experts_implementation = "eager"
    made = L.build_model(getattr(tf, kind + ("Model" if kind.endswith("LMHead") else "ForCausalLM")), config)
    fill(made, seed, config.tie_word_embeddings, 1.0 if name.startswith("gemma") else 0.0)
    for attempt in range(500):
        rng = np.random.default_rng([seed, attempt])
        prompt = [int(x) for x in rng.integers(3, 40, PROMPT)]
        greedy, margins = L.greedy(made, prompt, GREEDY)
        if min(margins) > 0.005 and len(set(greedy)) >= 4:
            break
    else:
        raise RuntimeError(f"{name}: no prompt found")
    folder = os.path.join(OUT, name)
    made = made.to(torch.bfloat16)
    made.config.dtype = "bfloat16"
    made.save_pretrained(folder, max_shard_size="12KB" if name == "qwen3" else "1GB")
    if os.path.exists(os.path.join(folder, "generation_config.json")):
        os.remove(os.path.join(folder, "generation_config.json"))
    print(name, attempt, min(margins), len(set(greedy)), flush=True)
    return dict(prompt=prompt, greedy=greedy)


expected = {name: make(name, 100 + i) for i, name in enumerate(MODELS)}
with open(os.path.join(OUT, "expected.json"), "w") as file:
    rows = (f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in expected.items())
    file.write("{\n" + ",\n".join(rows) + "\n}\n")
