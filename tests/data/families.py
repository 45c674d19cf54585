"""Tiny Hugging Face folders of families of 2024 to 2026, with what transformers computes from them: `families/NAME` and `families/expected.json`.

    PYTHONPATH=../shared/fixtures/make python tests/data/families.py tests/data/families [NAME ...]

Weights are BF16, and the reference computes with exactly these, in float64, anew for each token. Models whose code is not part of
transformers are one of transformers under other names and in another order of rows: `dressed` says how.
"""

import json
import math
import os
import re
import sys

import numpy as np
import safetensors.numpy
import torch
import transformers as tf

import parity_lib as L

PROMPT, GREEDY, VOCAB = 24, 12, 32
OUT = sys.argv[1]
ONLY = sys.argv[2:]

PLAIN = dict(rope_type="default", rope_theta=10000.0)
BASE = dict(vocab_size=VOCAB, hidden_size=8, intermediate_size=12, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=64, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, pad_token_id=None, rms_norm_eps=1e-5,
            head_dim=4, rope_parameters=PLAIN)
NO_HEAD = {k: v for k, v in BASE.items() if k != "head_dim"}
HALF = dict(PLAIN, partial_rotary_factor=0.5)
EXPERTS = dict(num_experts=3, num_experts_per_tok=2, moe_intermediate_size=6)
VISION = dict(depth=1, hidden_size=8, embed_dim=8, intermediate_size=8, num_heads=1, patch_size=2, out_hidden_size=8)
MROPE = dict(PLAIN, mrope_section=[1, 1, 0])


def layer_types(*kinds):
    return [{"s": "sliding_attention", "f": "full_attention"}[kind] for kind in kinds]


# --- models of transformers: the class, its configuration

MODELS = {
    "apertus": ("Apertus", tf.ApertusConfig, dict(BASE, hidden_act="xielu")),
    "arcee": ("Arcee", tf.ArceeConfig, dict(BASE)),
    "seed_oss": ("SeedOss", tf.SeedOssConfig, dict(BASE, attention_bias=True)),
    "olmoe": ("Olmoe", tf.OlmoeConfig, dict(NO_HEAD, **{k: v for k, v in EXPERTS.items() if k != "moe_intermediate_size"}, norm_topk_prob=False)),
    "qwen2moe": ("Qwen2Moe", tf.Qwen2MoeConfig, dict(NO_HEAD, **EXPERTS, shared_expert_intermediate_size=10, norm_topk_prob=False)),
    "ernie4_5-moe": ("Ernie4_5_Moe", tf.Ernie4_5_MoeConfig, dict(
        BASE, moe_num_experts=3, moe_k=2, moe_intermediate_size=6, moe_num_shared_experts=2, moe_layer_start_index=1, use_bias=False)),
    "granitemoe": ("GraniteMoeShared", tf.GraniteMoeSharedConfig, dict(
        NO_HEAD, num_local_experts=3, num_experts_per_tok=2, shared_intermediate_size=10, attention_multiplier=0.375,
        embedding_multiplier=3.0, residual_multiplier=0.625, logits_scaling=0.5)),
    "command-r": ("Cohere", tf.CohereConfig, dict(NO_HEAD, logit_scale=0.5, use_qk_norm=True, tie_word_embeddings=True)),
    "cohere2": ("Cohere2", tf.Cohere2Config, dict(
        BASE, num_hidden_layers=4, sliding_window=12, logit_scale=0.5, tie_word_embeddings=True, layer_types=layer_types(*"sssf"))),
    "nemotron": ("Nemotron", tf.NemotronConfig, dict(BASE, norm_eps=1e-5, hidden_act="relu2", rope_parameters=HALF)),
    "chatglm": ("Glm", tf.GlmConfig, dict(BASE, attention_bias=True, rope_parameters=HALF)),
    "starcoder": ("GPTBigCode", tf.GPTBigCodeConfig, dict(
        vocab_size=VOCAB, n_embd=8, n_layer=2, n_head=4, n_positions=64, n_inner=12, multi_query=True,
        activation_function="gelu_pytorch_tanh", tie_word_embeddings=True)),
    "glm4moe": ("Glm4Moe", tf.Glm4MoeConfig, dict(
        BASE, n_routed_experts=3, num_experts_per_tok=2, moe_intermediate_size=6, n_shared_experts=2, first_k_dense_replace=1,
        routed_scaling_factor=1.5, norm_topk_prob=True, n_group=1, topk_group=1, use_qk_norm=True, attention_bias=True,
        rope_parameters=HALF)),
    "dots1": ("Dots1", tf.Dots1Config, dict(
        BASE, n_routed_experts=3, num_experts_per_tok=2, moe_intermediate_size=6, n_shared_experts=2, first_k_dense_replace=1,
        routed_scaling_factor=2.5, norm_topk_prob=True, n_group=1, topk_group=1)),
    "hunyuan-moe": ("HunYuanMoEV1", tf.HunYuanMoEV1Config, dict(BASE, intermediate_size=6, num_experts=3, moe_topk=[2, 2])),
    "mellum": ("Mellum", tf.MellumConfig, dict(
        BASE, **EXPERTS, norm_topk_prob=True, sliding_window=12, layer_types=layer_types(*"sf"),
        rope_parameters=dict(sliding_attention=PLAIN, full_attention=dict(
            rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=16)))),
    "nemotron_h_moe": ("NemotronH", tf.NemotronHConfig, dict(
        BASE, num_hidden_layers=3, layers_block_type=["mamba", "moe", "attention"], ssm_state_size=4, n_groups=2, mamba_num_heads=4,
        mamba_head_dim=4, conv_kernel=4, chunk_size=8, n_routed_experts=3, num_experts_per_tok=2, moe_intermediate_size=6,
        moe_shared_expert_intermediate_size=10, n_shared_experts=1, routed_scaling_factor=2.5, norm_topk_prob=True, n_group=1,
        topk_group=1, layer_norm_epsilon=1e-5, moe_latent_size=None)),
    "qwen2vl": ("Qwen2_5_VLForConditionalGeneration", tf.Qwen2_5_VLConfig, dict(
        text_config=dict(NO_HEAD, rope_parameters=dict(PLAIN, mrope_section=[1, 0, 0])), vision_config=VISION)),
    "qwen3vl": ("Qwen3VLForConditionalGeneration", tf.Qwen3VLConfig, dict(
        text_config=dict(BASE, rope_parameters=MROPE), vision_config=dict(VISION, deepstack_visual_indexes=[0]))),
    "qwen3vlmoe": ("Qwen3VLMoeForConditionalGeneration", tf.Qwen3VLMoeConfig, dict(
        text_config=dict(BASE, **EXPERTS, norm_topk_prob=True, rope_parameters=MROPE),
        vision_config=dict(VISION, deepstack_visual_indexes=[0]))),
}

# --- models of transformers in the dress of others: the model that computes, the class and its configuration, names and rows


def rows_in_groups(w, prefix):
    """Of each KV head: its query heads, its key, its value."""
    q, k, v = (w.pop(f"{prefix}.{x}_proj.weight") for x in "qkv")
    parts = []
    for head in range(2):
        parts += [q[8 * head:8 * head + 8], k[4 * head:4 * head + 4], v[4 * head:4 * head + 4]]
    return np.concatenate(parts)


def rows_of_pairs(a, heads):
    """Halves of heads, in the order of adjacent pairs."""
    n = a.shape[0] // heads
    return a.reshape(heads, 2, n // 2, *a.shape[1:]).swapaxes(1, 2).reshape(a.shape)


def internlm2(w):
    out = {}
    for layer in range(2):
        out[f"model.layers.{layer}.attention.wqkv.weight"] = rows_in_groups(w, f"model.layers.{layer}.self_attn")
    names = [("model.embed_tokens", "model.tok_embeddings"), ("lm_head", "output"), ("self_attn.o_proj", "attention.wo"),
             ("mlp.gate_proj", "feed_forward.w1"), ("mlp.up_proj", "feed_forward.w3"), ("mlp.down_proj", "feed_forward.w2"),
             ("input_layernorm", "attention_norm"), ("post_attention_layernorm", "ffn_norm")]
    return {**out, **renamed(w, names)}


def renamed(w, names):
    def of(name):
        for old, new in names:
            name = name.replace(old, new)
        return name
    return {of(name): value for name, value in w.items()}


EXAONE = [("model.embed_tokens", "transformer.wte"), ("model.norm", "transformer.ln_f"), ("model.layers", "transformer.h"),
          ("input_layernorm", "ln_1"), ("post_attention_layernorm", "ln_2"), ("self_attn.o_proj", "attn.attention.out_proj"),
          ("self_attn", "attn.attention"), ("mlp.gate_proj", "mlp.c_fc_0"), ("mlp.up_proj", "mlp.c_fc_1"), ("mlp.down_proj", "mlp.c_proj")]


def shared_without_gate(w):
    """The gate of the shared expert is 1/2: its weights are 0. So is what it multiplies. Each expert has matrices of its own."""
    out = {}
    for name, value in w.items():
        at, _, stacked = name.partition("experts.")
        if stacked in ("gate_up_proj", "down_proj"):
            for expert, both in enumerate(value):
                parts = zip(("gate", "up"), np.split(both, 2)) if stacked == "gate_up_proj" else [("down", both)]
                out.update({f"{at}experts.{expert}.{part}_proj.weight": matrix for part, matrix in parts})
            continue
        if "shared_expert_gate" not in name:
            half = "shared_expert.down_proj" in name
            out[name.replace("shared_expert.", "shared_experts.")] = value * np.float32(0.5) if half else value
    return out


def bailing(w):
    w = shared_without_gate(w)
    for layer in range(2):
        at = f"model.layers.{layer}"
        parts = [w.pop(f"{at}.self_attn.{x}_proj.weight") for x in "qkv"]
        w[f"{at}.attention.query_key_value.weight"] = np.concatenate(parts)
    return renamed(w, [("self_attn.o_proj", "attention.dense"), ("embed_tokens", "word_embeddings")])


def maincoder(w):
    """Norms of heads after the rotation, as Hunyuan has them; their elements in the order of the pairs, too."""
    out = {}
    for name, value in w.items():
        if re.search(r"[qk]_proj", name):
            value = rows_of_pairs(value, 4 if "q_proj" in name else 2)
        if re.search(r"(query|key)_layernorm", name):
            value = rows_of_pairs(value, 1)
        out[name] = value
    return renamed(out, [("query_layernorm", "q_norm"), ("key_layernorm", "k_norm"), ("mlp.", "feed_forward.")])


def no_shared_gate(name):
    return 0.0 if "shared_expert_gate" in name else None


LLAMA = ("Llama", tf.LlamaConfig, dict(BASE))
PLAIN_LLAMA = dict(BASE, hidden_act="silu")
QWEN2MOE = dict(NO_HEAD, **EXPERTS, hidden_size=16, shared_expert_intermediate_size=12, qkv_bias=False)
DRESSED = {
    "internlm2": (*LLAMA, "InternLM2ForCausalLM", dict(PLAIN_LLAMA, bias=False), internlm2),
    "xverse": (*LLAMA, "XverseForCausalLM", PLAIN_LLAMA, lambda w: w),
    "exaone": (*LLAMA, "ExaoneForCausalLM", dict(PLAIN_LLAMA, activation_function="silu", layer_norm_epsilon=1e-5, num_layers=2),
               lambda w: renamed(w, EXAONE)),
    "orion": (*LLAMA, "OrionForCausalLM", PLAIN_LLAMA, lambda w: w),
    "pangu-embedded": ("Llama", tf.LlamaConfig, dict(BASE, attention_bias=True), "PanguEmbeddedForCausalLM", dict(PLAIN_LLAMA, bias=True),
                       lambda w: w),
    "minicpm": ("Granite", tf.GraniteConfig, dict(
        NO_HEAD, hidden_size=16, attention_multiplier=0.5, embedding_multiplier=12.0, residual_multiplier=1.4 / math.sqrt(2), logits_scaling=2.0),
        "MiniCPMForCausalLM", dict(PLAIN_LLAMA, hidden_size=16, scale_emb=12, scale_depth=1.4, dim_model_base=8), lambda w: w),
    "maincoder": ("HunYuanDenseV1", tf.HunYuanDenseV1Config, dict(BASE), "MaincoderForCausalLM",
                  dict(PLAIN_LLAMA, use_qk_norm=True, intermediate_size_mlp=12), maincoder),
    "deepseek": ("Qwen2Moe", tf.Qwen2MoeConfig, dict(QWEN2MOE, norm_topk_prob=False, mlp_only_layers=[0]), "DeepseekForCausalLM",
                 dict(PLAIN_LLAMA, hidden_size=16, n_routed_experts=3, num_experts_per_tok=2, moe_intermediate_size=6, n_shared_experts=2,
                      first_k_dense_replace=1, norm_topk_prob=False, scoring_func="softmax", moe_layer_freq=1), shared_without_gate),
    "bailingmoe": ("Qwen2Moe", tf.Qwen2MoeConfig, dict(QWEN2MOE, norm_topk_prob=True), "BailingMoeForCausalLM",
                   dict(PLAIN_LLAMA, hidden_size=16, num_experts=3, num_experts_per_tok=2, moe_intermediate_size=6, num_shared_experts=2,
                        first_k_dense_replace=0, norm_topk_prob=True, norm_head=False), bailing),
}


def fill(model, seed, tied, offset):
    with torch.no_grad():
        buffers = [(n, b) for n, b in model.named_buffers() if n.endswith("correction_bias")]
        for name, p in [*model.named_parameters(), *buffers]:
            x = L.tensor_rng(seed, name).standard_normal(tuple(p.shape))
            if no_shared_gate(name) is not None:
                v = 0.0 * x
            elif name.endswith("A_log"):
                v = 0.3 * x
            elif name.endswith("bias"):
                v = 0.1 * x
            elif "alpha" in name:
                v = 0.5 + 0.25 * x
            elif p.dim() == 1:
                v = 1.0 + 0.15 * x - offset
            elif re.search(r"embed_tokens|embeddings|wte|wpe", name):
                v = x * (1.5 / math.sqrt(p.shape[-1]) if tied else 0.3)
            elif "lm_head" in name:
                v = x * 2.0 / math.sqrt(p.shape[-1])
            else:
                v = x * 1.3 / math.sqrt(p.shape[-1])
            p.copy_(torch.from_numpy(np.asarray(v)).to(torch.bfloat16).to(p.dtype))


def build(kind, config_class, args, name, seed):
    config = config_class(**args)
    for part in (config, getattr(config, "text_config", None)):
        if part is not None:
            part._experts_implementation = "eager"
    if hasattr(config, "text_config"):
        config.text_config._attn_implementation = "eager"
    made = L.build_model(getattr(tf, kind if kind.endswith("Generation") else kind + "ForCausalLM"), config)
    if name == "orion":
        as_orion(made)
    tied = bool(getattr(config, "tie_word_embeddings", False))
    fill(made, seed, tied, 1.0 if name == "nemotron" else 0.0)
    return made


def as_orion(model):
    """Norms with a mean and biases."""
    def norm():
        return torch.nn.LayerNorm(BASE["hidden_size"], eps=BASE["rms_norm_eps"], dtype=torch.float64)
    model.model.norm = norm()
    for layer in model.model.layers:
        layer.input_layernorm, layer.post_attention_layernorm = norm(), norm()


def without_images(folder):
    """Leaves out the tensors of images, but for one: `convert` leaves it out, too."""
    path = os.path.join(folder, "model.safetensors")
    tensors = safetensors.torch.load_file(path)
    visual = sorted((t.numel(), name) for name, t in tensors.items() if "visual" in name)
    for _, name in visual[1:]:
        del tensors[name]
    safetensors.torch.save_file(tensors, path, metadata=dict(format="pt"))


def make(name, seed):
    dressed = DRESSED.get(name)
    made = build(*(dressed or MODELS[name])[:3], name, seed)
    for attempt in range(500):
        rng = np.random.default_rng([seed, attempt])
        prompt = [int(x) for x in rng.integers(3, VOCAB, PROMPT)]
        greedy, margins = L.greedy(made, prompt, GREEDY)
        if min(margins) > 0.005 and len(set(greedy)) >= 3:
            break
    else:
        raise RuntimeError(f"{name}: no prompt found")
    logits = L.forward_logits(made, prompt)[-1]
    folder = os.path.join(OUT, name)
    os.makedirs(folder, exist_ok=True)
    made = made.to(torch.bfloat16)
    if dressed:
        _, _, _, kind, config, dress = dressed
        tensors = {n: t.float().numpy() for n, t in made.state_dict().items()}
        tensors = {n: torch.from_numpy(np.ascontiguousarray(t)).to(torch.bfloat16) for n, t in dress(tensors).items()}
        safetensors.torch.save_file(tensors, os.path.join(folder, "model.safetensors"), metadata=dict(format="pt"))
        config = dict(config, architectures=[kind])
    else:
        made.config.dtype = "bfloat16"
        made.save_pretrained(folder)
        if name.endswith(("vl", "vlmoe")):
            without_images(folder)
        with open(os.path.join(folder, "config.json")) as file:
            config = json.load(file)
        if "vision_config" in config:
            config["vision_config"] = {k: v for k, v in config["vision_config"].items() if k in ("model_type", "deepstack_visual_indexes")}
        for file in set(os.listdir(folder)) - {"config.json", "model.safetensors"}:
            os.remove(os.path.join(folder, file))
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file, separators=(",", ":"))
    size = sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder))
    print(name, attempt, min(margins), len(set(greedy)), size, flush=True)
    return dict(prompt=prompt, greedy=greedy, logits=[float(f"{x:.8e}") for x in logits])


# --- encoders: the model, its configuration, the widths of the matrices behind the pooling

SHORT = dict(vocab_size=VOCAB, hidden_size=8, intermediate_size=12, num_hidden_layers=2, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0)
ENCODERS = {
    "gemma-embedding": (tf.Gemma3TextModel, tf.Gemma3TextConfig, dict(
        SHORT, num_attention_heads=4, num_key_value_heads=2, head_dim=4, query_pre_attn_scalar=4, sliding_window=8,
        use_bidirectional_attention=True, layer_types=layer_types(*"sf"), rms_norm_eps=1e-6,
        rope_parameters=dict(full_attention=dict(PLAIN, rope_theta=1e6), sliding_attention=PLAIN)), [10, 6]),
    "jina-bert-v3": (tf.JinaEmbeddingsV3Model, tf.JinaEmbeddingsV3Config, dict(SHORT, num_attention_heads=2), []),
}


def make_encoder(name, seed):
    model_class, config_class, args, widths = ENCODERS[name]
    made = L.build_model(model_class, config_class(**args))
    fill(made, seed, False, 1.0 if name.startswith("gemma") else 0.0)
    prompt = [int(x) for x in np.random.default_rng(seed).integers(3, VOCAB, PROMPT)]
    with L.float64_mode():
        vector = made(torch.tensor([prompt])).last_hidden_state[0].mean(0)
    folder = os.path.join(OUT, name)
    os.makedirs(os.path.join(folder, "1_Pooling"), exist_ok=True)
    with open(os.path.join(folder, "1_Pooling", "config.json"), "w") as file:
        json.dump(dict(pooling_mode_mean_tokens=True), file)
    for number, width in enumerate(widths):
        dense = os.path.join(folder, f"{number + 2}_Dense")
        os.makedirs(dense, exist_ok=True)
        matrix = torch.from_numpy(L.tensor_rng(seed, dense[-7:]).standard_normal((width, len(vector))) / 3).to(torch.bfloat16)
        vector = matrix.double() @ vector
        safetensors.torch.save_file({"linear.weight": matrix}, os.path.join(dense, "model.safetensors"), metadata=dict(format="pt"))
        with open(os.path.join(dense, "config.json"), "w") as file:
            json.dump(dict(activation_function="torch.nn.modules.linear.Identity"), file)
    made = made.to(torch.bfloat16)
    made.save_pretrained(folder)
    with open(os.path.join(folder, "config.json")) as file:
        config = json.load(file)
    if "sliding_window" in args:
        # The library makes half of it in the configuration that it keeps.
        config["sliding_window"] = args["sliding_window"]
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file, separators=(",", ":"))
    print(name, flush=True)
    return dict(prompt=prompt, vector=[float(f"{x:.8e}") for x in vector])


import safetensors.torch

path = os.path.join(OUT, "expected.json")
os.makedirs(OUT, exist_ok=True)
expected = json.load(open(path)) if os.path.exists(path) else {}
for i, name in enumerate([*MODELS, *DRESSED, *ENCODERS]):
    if ONLY and name not in ONLY:
        continue
    try:
        expected[name] = (make_encoder if name in ENCODERS else make)(name, 300 + i)
    except Exception as error:
        print(name, "FAILED", type(error).__name__, str(error)[:300], flush=True)
with open(path, "w") as file:
    rows = (f"{json.dumps(name)}: {json.dumps(expected[name])}" for name in sorted(expected))
    file.write("{\n" + ",\n".join(rows) + "\n}\n")
