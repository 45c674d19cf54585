"""Makes vocabulary.json: small unigram vocabularies of SentencePiece with rules of their own, and the ids that the library
`sentencepiece` (0.2.3) gives texts. Run: python make.py TEXTS.jsonl, where each line has a "text"."""
import io, json, random, sys
import sentencepiece as spm
from sentencepiece import sentencepiece_model_pb2 as pb

RULES = {
    "\t": " ", "\n": " ", "\r": " ", "\u00a0": " ", "\u3000": " ", "\u200b": "", "\ufeff": "", "\u0007": "",
    "\ufb01": "fi", "\u2460": "1", "\u00bd": "1\u20442", "\u00a8": " \u0308", "\ufdfa": "a b c" * 5,
    "e\u0301": "\u00e9", "e\u0301\u0323": "\u1eb9\u0301", "\u1112\u1161": "\ud558", "\u1112\u1161\u11ab": "\ud55c",
    "\u2581": "_", "...": "\u2026", "..": "\u2025", "\U0001d400": "A",
}
RULES |= {chr(0xFEE0 + c): chr(c) for c in range(0x21, 0x7F)}
SPECIAL = ["", " ", "  a", "a  ", " a  b ", "\u3000a\u3000\u3000b", "\u200b", "a\u200bb", "caf e\u0301 e\u0301\u0323 e\u0302", "\ufb01n \u2460\u00bd",
    "x\u00a8y", "\u1112\u1161\u11ab\u1112\u1161\u1112", "\uff28\uff45\uff4c\uff4c\uff4f", "a....b ... ..", "\u2581a \u2581", "\ufdfa", "\ufdfa\ufdfa x",
    "\U0001d400\U0001d401", "\U0001f600\U0001f601 \U0001f600", "the\u00ff\u00fe the", "<s> </s> <unk> <pad>", "a\n\n\tb\r\nc", "\u0301e", "qqqq\u4e00\u4e01\u4e02zz"]

def train(texts, **options):
    rules = "\n".join("\t".join(" ".join(f"{ord(c):X}" for c in side) for side in rule) for rule in RULES.items())
    open("rules.tsv", "w").write(rules + "\n")
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(sentence_iterator=iter(texts), model_writer=model, model_type="unigram",
        normalization_rule_tsv="rules.tsv", hard_vocab_limit=False, minloglevel=2, num_threads=1, **options)
    return model.getvalue()

def vocabulary(model, texts, prefix, merge):
    proto = pb.ModelProto.FromString(model)
    proto.normalizer_spec.add_dummy_prefix, proto.normalizer_spec.remove_extra_whitespaces = prefix, merge
    tokenizer = spm.SentencePieceProcessor(model_proto=proto.SerializeToString())
    kinds = [{1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6}[piece.type] for piece in proto.pieces]
    return {"tokens": [piece.piece for piece in proto.pieces], "scores": [piece.score for piece in proto.pieces], "kinds": kinds,
        "charsmap": proto.normalizer_spec.precompiled_charsmap.hex(), "prefix": prefix, "merge": merge,
        "cases": [{"text": text, "ids": tokenizer.encode(text)} for text in texts]}

lines = [json.loads(line)["text"] for line in open(sys.argv[1])]
lines = [line for line in lines if "\0" not in line]
random.Random(1).shuffle(lines)
short = SPECIAL + [line for line in lines if len(line) < 60][:70]
corpus = [line for text in lines for line in text.split("\n") if line and sum(ord(c) > 0x17F for c in line) <= 1]
usual = train(corpus, vocab_size=330, character_coverage=0.98, bos_id=0, pad_id=1, eos_id=2, unk_id=3)
other = train(corpus[:300], vocab_size=420, character_coverage=0.98, byte_fallback=True, split_by_whitespace=False, user_defined_symbols=["<mask>", "##"])
# Of a text that becomes nothing SentencePiece keeps the blank before it, and llama.cpp and tokenizers do not.
out = [vocabulary(usual, short, True, True), vocabulary(usual, SPECIAL, False, True), vocabulary(usual, [text for text in SPECIAL if text != "\u200b"], True, False), vocabulary(other, SPECIAL, True, True)]
for same in (1, 2):
    for key in ("tokens", "scores", "kinds", "charsmap"):
        del out[same][key]
json.dump(out, open(sys.argv[2], "w"), ensure_ascii=True, separators=(",", ":"))
