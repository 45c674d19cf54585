"""Makes the encoders of this folder: random weights, and the vectors that transformers (5.23.0) computes from them in float64.
Run: python make.py OUT"""
import json, sys
import gguf, numpy as np, torch
import transformers as tf

OUT = sys.argv[1]
SMALL = dict(vocab_size=48, hidden_size=16, num_attention_heads=2, max_position_embeddings=42, pad_token_id=1, bos_token_id=0, eos_token_id=2)
INPUTS = [[0, 7, 31, 12, 5, 2], [0, 2], [0, *((7 * i + i * i) % 45 + 3 for i in range(18)), 2]]


def fill(model, seed):
    rng = np.random.Generator(np.random.PCG64(seed))
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            x = rng.standard_normal(tuple(p.shape))
            x = 0.1 * x if name.endswith("bias") else 1 + 0.15 * x if p.dim() == 1 else x * (0.5 if "embeddings" in name else 1.3 / p.shape[-1] ** 0.5)
            # Matrices are BF16 in the file.
            x = torch.from_numpy(x.astype(np.float32))
            p.copy_(x.bfloat16().float() if p.dim() > 1 else x)


def make(name, architecture, model, keys, names, pooling):
    fill(model, 8)
    model = model.double().eval()
    w, config, p = gguf.GGUFWriter(f"{OUT}/{name}.gguf", architecture), model.config, dict(model.named_parameters())
    w.add_block_count(config.num_hidden_layers)
    w.add_context_length(40)
    w.add_embedding_length(16)
    w.add_feed_forward_length(config.intermediate_size)
    w.add_head_count(2)
    w.add_layer_norm_eps(1e-5)
    w.add_causal_attention(False)
    w.add_pooling_type({"mean": gguf.PoolingType.MEAN, "cls": gguf.PoolingType.CLS}[pooling])
    keys(w)
    w.add_tokenizer_model("t5")
    w.add_token_list(["<s>", "<pad>", "</s>", "<unk>", *(chr(97 + i) for i in range(44))])
    w.add_token_scores([0.0] * 4 + [-1.0 - i for i in range(44)])
    w.add_token_types([3, 3, 3, 2] + [1] * 44)
    for key, id in (("bos", 0), ("eos", 2), ("unk", 3)):
        getattr(w, f"add_{key}_token_id")(id)
    for to, value in names(p):
        kind = gguf.GGMLQuantizationType.BF16 if value.dim() > 1 else gguf.GGMLQuantizationType.F32
        w.add_tensor(to, gguf.quants.quantize(value.detach().numpy().astype(np.float32), kind), raw_dtype=kind)
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()
    with torch.no_grad():
        rows = [model(torch.tensor([ids])).last_hidden_state[0].numpy() for ids in INPUTS]
    nine = lambda x: [float(f"{v:.8e}") for v in x]
    pooled = [nine(x.mean(0) if pooling == "mean" else x[0]) for x in rows]
    json.dump({"pooling": pooling, "inputs": INPUTS, "embeddings": pooled, "token_input": 2, "token_embeddings": [nine(row) for row in rows[2]]},
        open(f"{OUT}/{name}.json", "w"), separators=(",", ":"))


def pair(to, of, p):
    for end in ("weight", "bias"):
        if f"{of}.{end}" in p:
            yield f"{to}.{end}", p[f"{of}.{end}"]


def modern(p):
    yield "token_embd.weight", p["embeddings.tok_embeddings.weight"]
    yield from pair("token_embd_norm", "embeddings.norm", p)
    yield from pair("output_norm", "final_norm", p)
    for i in range(4):
        for to, of in (("attn_norm", "attn_norm"), ("attn_qkv", "attn.Wqkv"), ("attn_output", "attn.Wo"), ("ffn_norm", "mlp_norm"), ("ffn_up", "mlp.Wi"), ("ffn_down", "mlp.Wo")):
            yield from pair(f"blk.{i}.{to}", f"layers.{i}.{of}", p)


def modern_keys(w):
    w.add_sliding_window(4)
    w.add_sliding_window_pattern(3)
    w.add_rope_freq_base(160000.0)
    w.add_rope_freq_base_swa(10000.0)


def jina(p):
    yield "token_embd.weight", p["embeddings.word_embeddings.weight"]
    yield "token_types.weight", p["embeddings.token_type_embeddings.weight"]
    yield from pair("token_embd_norm", "embeddings.LayerNorm", p)
    for i in range(2):
        for end in ("weight", "bias"):
            yield f"blk.{i}.attn_qkv.{end}", torch.cat([p[f"layers.{i}.self_attn.{x}_proj.{end}"] for x in "qkv"])
        for to, of in (("attn_output", "self_attn.o_proj"), ("attn_output_norm", "post_attention_layernorm"), ("ffn_up", "mlp.fc1"), ("ffn_down", "mlp.fc2"), ("layer_output_norm", "post_mlp_layernorm")):
            yield from pair(f"blk.{i}.{to}", f"layers.{i}.{of}", p)


def xlm_roberta(p):
    yield "token_embd.weight", p["embeddings.word_embeddings.weight"]
    yield "token_types.weight", p["embeddings.token_type_embeddings.weight"]
    yield "position_embd.weight", p["embeddings.position_embeddings.weight"][2:]
    yield from pair("token_embd_norm", "embeddings.LayerNorm", p)
    for i in range(2):
        for to, of in (("attn_q", "attention.self.query"), ("attn_k", "attention.self.key"), ("attn_v", "attention.self.value"), ("attn_output", "attention.output.dense"),
                       ("attn_output_norm", "attention.output.LayerNorm"), ("ffn_up", "intermediate.dense"), ("ffn_down", "output.dense"), ("layer_output_norm", "output.LayerNorm")):
            yield from pair(f"blk.{i}.{to}", f"encoder.layer.{i}.{of}", p)


EAGER = dict(attn_implementation="eager")
make("modern-bert", "modern-bert", tf.ModernBertModel(tf.ModernBertConfig(**SMALL | {"max_position_embeddings": 40}, intermediate_size=12, num_hidden_layers=4, local_attention=4, norm_eps=1e-5, cls_token_id=0, sep_token_id=2, **EAGER)), modern_keys, modern, "mean")
make("jina-bert-v3", "jina-bert-v3", tf.JinaEmbeddingsV3Model(tf.JinaEmbeddingsV3Config(**SMALL, intermediate_size=24, num_hidden_layers=2, **EAGER), add_pooling_layer=False), lambda w: w.add_rope_freq_base(20000.0), jina, "mean")
make("xlm-roberta", "bert", tf.XLMRobertaModel(tf.XLMRobertaConfig(**SMALL, intermediate_size=24, num_hidden_layers=2, type_vocab_size=1, layer_norm_eps=1e-5, **EAGER), add_pooling_layer=False), lambda w: None, xlm_roberta, "cls")
