"""Writes vocabulary.json: a small vocabulary like that of Gemma 4, and what `tokenizers` makes of texts with it.

    pip install tokenizers==0.23.3 && python tests/data/characters/make.py
"""

import json
import pathlib
import random

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).parent
CORPUS = (HERE.parent.parent.parent / "LICENSE-APACHE").read_text()
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]

# Learned on words; Gemma 4 itself has no pre-tokenizer that cuts anything.
learner = Tokenizer(models.BPE())
learner.normalizer = normalizers.Replace(" ", "\u2581")
learner.pre_tokenizer = pre_tokenizers.Split(Regex("\n+|\u2581*[^\u2581\n]+|\u2581+"), "isolated")
more = ["\n\n\n\n", "      ", "été là", "ありがとう", "été ありがとう"] * 20
learner.train_from_iterator([CORPUS] + more, trainers.BpeTrainer(vocab_size=320, show_progress=False))
learned = json.loads(learner.to_str())["model"]
# The rare characters are left to their bytes.
rare = set("Vkqzé")
merges = [pair for pair in learned["merges"] if not rare & set("".join(pair))]
pieces = [piece for piece in sorted(learned["vocab"], key=learned["vocab"].get) if not rare & set(piece)]
tokens = ["<pad>", "<eos>", "<bos>", "<unk>"] + BYTES + pieces

tokenizer = Tokenizer(
    models.BPE(
        vocab={token: id for id, token in enumerate(tokens)},
        merges=[tuple(pair) for pair in merges],
        unk_token="<unk>",
        byte_fallback=True,
        fuse_unk=True,
    )
)
tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
tokenizer.decoder = decoders.Sequence(
    [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
)

random.seed(7)
alphabet = list("aeinorst  \n\u2581VkqzéÉ語あり\U0001f600\0\t.,'12")
texts = ["", " ", "\n", "\n" * 9, "The model reads the weights.", "  été\n\n\n là  ", "ありがとう ござい", "<bos><0x41>"]
for _ in range(60):
    start = random.randrange(len(CORPUS) - 80)
    texts.append(CORPUS[start : start + random.randrange(80)])
    texts.append("".join(random.choices(alphabet, k=random.randrange(20))))
cases = []
for text in texts:
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == text.replace("\u2581", " "), text
    cases.append({"text": text, "ids": ids})
out = {"tokens": tokens[260:], "merges": [" ".join(pair) for pair in merges], "cases": cases}
(HERE / "vocabulary.json").write_text(json.dumps(out, ensure_ascii=True, separators=(",", ":")) + "\n")
