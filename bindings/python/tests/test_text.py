"""Tests of the tokenizer, the sampler, grammars and embeddings."""

from __future__ import annotations

import json
import math
import re

import gleed
import numpy as np
import pytest
from conftest import NATIVE, PROMPT, ROOT


def test_texts_become_tokens_and_back(model: gleed.Model) -> None:
    assert model.encode(PROMPT) == [1, 414, 435, 261, 385]
    assert model.encode(PROMPT, special=False) == [414, 435, 261, 385]
    text = "Zoë saw a 🦊 — twice.\n" * 300
    assert model.decode(model.encode(text)) == text
    assert model.decode([]) == "" and model.encode("", special=False) == []
    vocabulary = model.tokenizer.vocabulary
    assert (vocabulary.tokens, vocabulary.bos, vocabulary.eos) == (1024, 1, 2)
    assert model.tokenizer.is_end(2) and not model.tokenizer.is_end(414)
    assert model.tokenizer.find("</s>") == 2 and model.tokenizer.find("nowhere") == gleed.NO_TOKEN
    pieces = gleed.Detokenizer(model.tokenizer)
    fox = [pieces.push(token) for token in model.encode("🦊", special=False)]
    assert "".join(fox) == "🦊" and fox[-1] == "🦊"
    assert pieces.push(model.encode("🦊", special=False)[1]) == "" and pieces.finish() == "\ufffd"


def test_the_model_says_what_it_is(model: gleed.Model) -> None:
    info = model.info
    assert (info.name, info.architecture, info.layers, info.vocab) == ("Gleed Tales 2.6M", "llama", 4, 1024)
    assert info.file_bytes == model.path.stat().st_size
    assert model.string("general.architecture") == "llama" and model.string("nothing") is None


def test_the_same_seed_chooses_the_same_tokens() -> None:
    logits = np.random.default_rng(3).normal(size=500).astype(np.float32)

    def chosen(seed: int, **params: float) -> list[int]:
        sampler = gleed.Sampler(temperature=1.0, seed=seed, **params)
        return [sampler.sample(logits) for _ in range(20)]

    assert chosen(1) == chosen(1) != chosen(2)
    assert set(chosen(1, top_k=3)) <= set(np.argsort(logits)[-3:])
    greedy, best = gleed.Sampler(), int(np.argmax(logits))
    assert greedy.sample(logits) == greedy.sample(list(logits)) == gleed.argmax(logits) == best
    # Logits that are a part of a larger array.
    assert greedy.sample(np.stack([logits, logits], axis=1)[:, 1]) == best
    greedy.set_biases({best: -math.inf})
    assert greedy.sample(logits) == int(np.argsort(logits)[-2])
    drawn = gleed.Sampler(temperature=1.0, seed=5)
    state = drawn.state
    first = [drawn.sample(logits) for _ in range(5)]
    probability = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    assert drawn.probability == pytest.approx(probability[first[-1]], rel=1e-4)
    drawn.state = state
    assert [drawn.sample(logits) for _ in range(5)] == first
    penalized = gleed.Sampler(presence_penalty=100.0)
    penalized.accept(best)
    assert penalized.sample(logits) != best


def test_a_text_follows_a_schema(session: gleed.Session) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"}, "kind": {"enum": ["dog", "cat"]}},
        "required": ["name", "age", "kind"],
        "additionalProperties": False,
    }
    for seed in range(5):
        session.sampler = gleed.Sampler(temperature=1.5, seed=seed)
        story = session.tell(PROMPT, grammar=gleed.Grammar(schema, whitespace="compact"), tokens=60)
        value = json.loads(story.read())
        assert sorted(value) == ["age", "kind", "name"]
        assert isinstance(value["age"], int) and len(value["name"]) <= 12 and value["kind"] in ("dog", "cat")
    dates = gleed.Grammar(r"[0-9]{4}-(0[1-9]|1[0-2])", "regex")
    assert re.fullmatch(r"\d{4}-\d\d", session.tell(PROMPT, grammar=dates).read())
    words = gleed.Grammar('root ::= "red" | "green"', "gbnf", close=False)
    assert session.tell(PROMPT, grammar=words).read() in ("red", "green")


def test_matchers_look_ahead_and_go_back(model: gleed.Model) -> None:
    matcher = gleed.Matcher(gleed.Grammar('root ::= "a big dog" | "a big cat"', "gbnf"), model)
    assert model.decode(matcher.forced_tokens(), continues=True).strip() in "a big "
    assert matcher.accept_text("a big dinosaur") == len("a big d")
    copy, state = matcher.fork(), matcher.snapshot()
    assert matcher.accept_text("og") == 2 and matcher.is_end and not copy.is_end
    assert not matcher.accept(model.encode("x", special=False)[-1])
    mask = matcher.mask()
    assert [token for token in range(1024) if mask_has(mask, token)] == [2]
    assert not matcher.mask(ends=False).any()
    matcher.restore(state)
    assert not matcher.is_end and copy.accept_text("og") == 2
    token = next(token for token in range(1024) if mask_has(matcher.mask(ends=False), token))
    assert matcher.accept(token)
    matcher.rewind(1)
    assert matcher.snapshot() == state
    matcher.reset()
    assert matcher.accept_text("a big cat") == 9
    with pytest.raises(gleed.GrammarError) as error:
        gleed.Grammar('{"type": "nonsense"}')
    assert error.value.at > 0


def mask_has(mask: np.ndarray, token: int) -> bool:
    return bool(mask[token // 32] >> token % 32 & 1)


def test_stop_strings_are_found_wherever_tokens_end() -> None:
    stops = gleed.Stops(["END", "Ä!"])
    assert [stops.push(piece) for piece in ("aE", "Nd", "Ä", "b E")] == [("a", False), ("ENd", False), ("", False), ("Äb ", False)]
    assert stops.push("NDc") == ("", True)
    assert gleed.Stops(["xy"]).push("x") == ("", False)


def test_an_encoder_makes_the_vectors_of_transformers() -> None:
    folder = ROOT / "tests/data/encoders"
    expected = json.loads((folder / "xlm-roberta.json").read_text())
    with gleed.Model(folder / "xlm-roberta.gguf") as model, model.engine(context=32, rows=32, sequences=4) as engine:
        values = engine.embed(expected["inputs"])
    wanted = np.array(expected["embeddings"])
    assert values.shape == wanted.shape
    # `tests/encoders.rs` allows less. This test compares the order of rows and elements.
    assert np.abs(values - wanted).max() < 0.05 * np.abs(wanted).max()


def test_texts_become_vectors(model: gleed.Model) -> None:
    texts = ["The dog was happy.", "The puppy was happy.", "It rained."]
    vectors = model.embed(texts)
    assert vectors.shape == (3, 256)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-5)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]
    assert model.embed(texts[1]).tobytes() == vectors[1:2].tobytes()
    plain = model.embed(texts, normalize=False)
    assert (plain / np.linalg.norm(plain, axis=1, keepdims=True)).tobytes() == vectors.tobytes()
    assert model.embed([]).shape == (0, 256)
    with pytest.raises(ValueError, match="pooling"):
        model.embed(texts, pooling="nonsense")
    assert len(NATIVE) == 233
