"""Writes vocabulary.json: a small vocabulary of words like that of Jina's Chinese encoder, and what `tokenizers` makes of texts with it.

    pip install tokenizers==0.23.3 && python tests/data/words/make.py
"""

import json
import pathlib
import random

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).parent
CORPUS = (HERE.parent.parent.parent / "LICENSE-APACHE").read_text()
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]

learner = Tokenizer(models.BPE())
learner.normalizer = normalizers.Lowercase()
learner.pre_tokenizer = pre_tokenizers.Whitespace()
more = ["模型读取权重", "你好，世界！", "été là", "i̇stanbul", "über-fluß", "a_b 12.5%", "ありがとう ございます"] * 20
learner.train_from_iterator([CORPUS] + more, trainers.BpeTrainer(vocab_size=260, special_tokens=SPECIAL, show_progress=False))
learned = json.loads(learner.to_str())["model"]
# Characters without a token.
rare = set("qzü読")
merges = [pair for pair in learned["merges"] if not rare & set("".join(pair))]
tokens = SPECIAL + [piece for piece in sorted(learned["vocab"], key=learned["vocab"].get) if piece not in SPECIAL and not rare & set(piece)]

vocab = {token: id for id, token in enumerate(tokens)}
tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[tuple(pair) for pair in merges], unk_token="<unk>"))
tokenizer.normalizer = normalizers.Lowercase()
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()

random.seed(8)
alphabet = list("aeinorstT  \n\t_-.,'12qzüÉÜİΣ\u0307\u0301\u200d\u2160²Ⓐ模型你好，！\u3000\u00a0\u2028あり\U0001f600\0")
texts = ["", " ", "\n", "The MODEL reads the weights.", "  ÉTÉ\n\n\n là  ", "你好，世界！模型", "İstanbul ΣΑΣ", "<s>it's a_b</s>", "Über-Fluß 12.5%"]
for _ in range(60):
    start = random.randrange(len(CORPUS) - 80)
    texts.append(CORPUS[start : start + random.randrange(80)])
    texts.append("".join(random.choices(alphabet, k=random.randrange(20))))
cases = [{"text": text, "ids": tokenizer.encode(text, add_special_tokens=False).ids} for text in texts]
tokenizer.normalizer = None
cased = [{"text": text, "ids": tokenizer.encode(text, add_special_tokens=False).ids} for text in texts[:60]]
out = {"tokens": tokens[len(SPECIAL):], "merges": [" ".join(pair) for pair in merges], "lowercase": cases, "cased": cased}
(HERE / "vocabulary.json").write_text(json.dumps(out, ensure_ascii=True, separators=(",", ":")) + "\n")
