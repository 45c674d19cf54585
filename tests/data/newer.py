"""Small models of the newer families in `newer/`, in sizes that the larger set of `../shared/fixtures/parity2026` does not have.

    python tests/data/newer.py ../shared/fixtures/make OUT --llama-src LLAMA_CPP
    python tests/data/trim.py ../shared/fixtures MORE OUT

The families and their weights are those of `make_parity26.py`, the files those of llama.cpp's converter, the numbers those of
transformers (5.23.0) in float64. Here are the sizes: odd numbers of heads and groups, states and heads that are no powers of
two, kernels of other widths, other orders of layers, other numbers of experts. The vocabularies have some 50 tokens.
"""

import json
import os
import sys
import tempfile

SIZES = {
    "lfm2": dict(hidden=28, ffn=33, layers=4, attn=[0, 3], heads=7, kv=1, conv=4, vocab=47),
    "lfm2moe": dict(hidden=30, ffn=36, layers=4, attn=[1], heads=3, kv=3, conv=2, vocab=49, experts=5, used=3, moe_ffn=14, dense=1),
    "qwen35": dict(hidden=36, ffn=44, layers=4, attn=[0], heads=3, kv=1, head_dim=12, rotary=0.5, sections=[1, 1, 1], lin_k=3, lin_v=6,
                   lin_dim=10, conv=3, vocab=47),
    "qwen35moe": dict(hidden=28, layers=3, attn=[1], heads=3, kv=3, head_dim=16, lin_k=1, lin_v=3, lin_dim=12, conv=5, experts=5, used=3,
                      moe_ffn=10, shared_ffn=18, vocab=49),
    "gemma4": dict(hidden=28, ffn=20, layers="SFSSFSF", shared=2, heads=3, kv=1, head_dim=12, head_dim_full=20, ple=5, window=9, partial=0.5,
                   vocab=50),
    "gemma4-moe": dict(hidden=24, layers="SSFS", heads=6, kv=3, kv_full=2, head_dim=8, head_dim_full=12, ffn=14, experts=5, used=3, moe_ffn=10,
                       ple=3, window=7, vocab=50),
    "granitehybrid": dict(hidden=30, ffn=26, layers="AMM", heads=3, kv=3, m_heads=5, m_groups=5, m_state=14, m_head=12, conv=3, vocab=49),
    "granitehybrid-moe": dict(hidden=28, layers="MMA", heads=7, kv=1, m_heads=14, m_groups=7, m_state=6, m_head=4, conv=2, experts=5, used=3,
                              ffn=12, moe_ffn=14, vocab=47),
    "falcon-h1": dict(hidden=28, ffn=30, layers=3, heads=3, kv=1, head_dim=12, m_heads=5, m_groups=5, m_state=10, m_head=6, conv=2, vocab=49,
                      norm=False),
    "nemotron_h": dict(hidden=30, ffn=40, layers="M*-M-", heads=3, kv=1, head_dim=14, m_heads=6, m_groups=3, m_state=10, m_head=6, conv=3,
                       vocab=47),
    "ernie4_5": dict(hidden=28, ffn=34, layers=2, heads=3, kv=1, head_dim=12, vocab=49, tied=False),
    "exaone4": dict(hidden=30, ffn=34, layers=2, heads=3, kv=3, vocab=47, tied=False),
    "hunyuan-dense": dict(hidden=28, ffn=34, layers=2, heads=5, kv=1, head_dim=12, vocab=49, alpha=500.0),
    "mistral3": dict(hidden=28, ffn=34, layers=2, heads=6, kv=3, head_dim=12, vocab=49, orig=48, beta=0.3),
    "glm4": dict(hidden=28, ffn=30, layers=2, heads=6, kv=2, head_dim=12, vocab=47),
    "afmoe": dict(hidden=28, ffn=30, layers=5, heads=3, kv=1, head_dim=12, window=9, experts=5, used=3, moe_ffn=10, shared=2, vocab=47),
    "granite_swa": dict(hidden=36, ffn=30, layers="FSSFS", no_rope=[1, 4], heads=3, kv=1, window=7, vocab=49),
    "glm4moe-groups": dict(hidden=28, ffn=30, layers=2, heads=3, kv=1, head_dim=12, experts=12, used=3, groups=4, groups_used=2, moe_ffn=10,
                           vocab=47),
    "gpt-oss": dict(hidden=32, ffn=32, layers=3, heads=3, kv=1, head_dim=12, vocab=47, experts=5, used=3, window=9, factor=4.0, orig=64),
    "nomic-bert": dict(hidden=30, ffn=36, layers=2, heads=5, vocab=49),
    "bert": dict(hidden=30, ffn=33, layers=2, heads=3, vocab=49, pooling="mean"),
    "gemma-embedding": dict(hidden=30, ffn=22, layers="SSFSS", heads=3, kv=3, head_dim=10, window=8, dense=13, vocab=50),
}


def small_vocabulary(w, n, model="llama", kinds=0):
    """Names that no test reads."""
    w.add_tokenizer_model(model)
    w.add_tokenizer_pre("default")
    w.add_token_list(["<unk>", "<s>", "</s>", *(f"t{i}" for i in range(n - 3))])
    w.add_token_scores([-float(i) for i in range(n)])
    w.add_token_types([2, 3, 3] + [1] * (n - 3))
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)
    if kinds:
        w.add_token_type_count(kinds)


def more_families(A):
    """Families that `archs26.py` does not have."""
    import transformers as tf

    experts = A.Plain.rules + ((r"(mlp\.gate|router\.gate)\.weight", ("gain", 2.0)), (r"(expert_bias|e_score_correction_bias)", ("normal", 0.0, 0.3)),
                               (r"experts\.gate_up_proj", ("gain", 1.2)), (r"experts\.down_proj", ("gain", 2.0)))

    class Afmoe(A.Plain):
        name, hf_class, rules = "afmoe", tf.AfmoeForCausalLM, experts
        sizes = dict(ctx=512, eps=1e-5, tied=False, dense=1)

        def config(self):
            s = self.sz
            return tf.AfmoeConfig(**self.base(num_dense_layers=s["dense"], num_experts=s["experts"], num_experts_per_tok=s["used"],
                                              num_shared_experts=s["shared"], moe_intermediate_size=s["moe_ffn"], route_scale=2.5,
                                              sliding_window=s["window"], mup_enabled=True))

        def edit_hf_dir(self, d):
            self.edit_config(d, lambda c: c.update(route_norm=True, score_func="sigmoid"))

    class GraniteSwa(A.Plain):
        name, hf_class = "granite_swa", tf.GraniteSWAForCausalLM
        sizes = dict(ctx=512, eps=1e-5, tied=True, head_dim=None)
        rules = A.Plain.rules + ((r"sinks", ("normal", 0.3, 1.0)),)

        def config(self):
            s = self.sz
            kinds = ["full_attention" if c == "F" else "sliding_attention" for c in s["layers"]]
            keys = self.base(num_hidden_layers=len(kinds), layer_types=kinds, sliding_window=s["window"], embedding_multiplier=2.5,
                             residual_multiplier=0.7, attention_multiplier=0.4, logits_scaling=0.6,
                             layer_rope_theta=[0 if i in s["no_rope"] else 10000.0 for i in range(len(kinds))])
            keys.pop("head_dim")
            return tf.GraniteSWAConfig(**keys)

        def edit_hf_dir(self, d):
            rotary = [int(i not in self.sz["no_rope"]) for i in range(len(self.sz["layers"]))]
            self.edit_config(d, lambda c: c.update(no_rope_layers=rotary))

    class Glm4Moe(A.Plain):
        name, hf_class, rules = "glm4moe-groups", tf.Glm4MoeForCausalLM, experts
        sizes = dict(ctx=512, eps=1e-5, tied=False)

        def config(self):
            s = self.sz
            return tf.Glm4MoeConfig(**self.base(n_routed_experts=s["experts"], num_experts_per_tok=s["used"], n_group=s["groups"],
                                                topk_group=s["groups_used"], moe_intermediate_size=s["moe_ffn"], n_shared_experts=1,
                                                routed_scaling_factor=1.5, attention_bias=True, num_mtp_layers=0,
                                                rope_parameters=self.rope(partial_rotary_factor=0.5)))

    A.ARCHS.update({c.name: c for c in (Afmoe, GraniteSwa, Glm4Moe)})


def main():
    make, out = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    sizes = tempfile.NamedTemporaryFile("w", suffix=".json", delete=False)
    json.dump(SIZES, sizes)
    sizes.close()
    sys.argv[1:] = ["--out", out, "--seed", "8", "--sizes", sizes.name, *sys.argv[3:]]
    sys.path.insert(0, make)
    # The first one finds llama.cpp's `gguf`.
    import make_parity26
    import archs26

    archs26.tokenizer_kv = lambda w, kind, pre, n: small_vocabulary(w, n)
    archs26.gemma4_vocab_kv = small_vocabulary
    archs26.wordpiece_vocab_kv = lambda w, n, kinds: small_vocabulary(w, n, kinds=kinds)
    archs26.prompt_range = lambda kind, n: (3, n)
    more_families(archs26)
    make_parity26.main()


if __name__ == "__main__":
    main()
