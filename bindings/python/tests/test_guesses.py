"""Tests that guesses give the text and the logits of decoding token by token."""

from __future__ import annotations

import gleed
import pytest
from conftest import NATIVE, PROMPT


def plain(model: gleed.Model, prompt: list[int], sampler: gleed.Sampler, count: int) -> list[int]:
    with model.engine(context=256) as engine:
        sequence = engine.open()
        tokens = [sampler.sample(sequence.prefill(prompt))]
        while len(tokens) < count:
            tokens.append(sampler.sample(sequence.decode_step(tokens[-1])))
        return tokens


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
@pytest.mark.parametrize("known", [False, True])
def test_the_text_is_that_of_decoding_token_by_token(model: gleed.Model, seed: int | None, known: bool) -> None:
    def sampler() -> gleed.Sampler:
        return gleed.Sampler() if seed is None else gleed.Sampler(temperature=0.9, seed=seed)

    prompt = model.encode(PROMPT + " the dog ran. The cat ran. The dog ran. The cat")
    expected = plain(model, prompt, sampler(), 60)
    with model.engine(context=256, logit_rows=8) as engine:
        sequence, chooser = engine.open(), sampler()
        tokens = [chooser.sample(sequence.prefill(prompt))]
        with gleed.Guesses(sequence) as guesses:
            while len(tokens) < 60:
                # The guesses of a program that knows the text, with one wrong token in them.
                ahead = expected[len(tokens) : len(tokens) + 5] if known else []
                if len(tokens) % 3 == 0 and len(ahead) > 2:
                    ahead[2] = 7
                assert guesses.queue(tokens[-1], ahead) <= 7
                for logits in guesses.advance():
                    tokens.append(chooser.sample(logits))
                    guesses.take(tokens[-1])
        assert tokens[:60] == expected
        figures = engine.metrics
        assert sequence.tokens == (prompt + tokens)[:-1]
        assert figures.guesses_accepted <= figures.guesses_proposed
        if known:
            assert figures.guesses_accepted > 20 and figures.decode.count < 45


def test_a_pass_is_ended_anywhere(model: gleed.Model) -> None:
    prompt = model.encode(PROMPT)
    with model.engine(context=128, logit_rows=4) as engine:
        sequence = engine.open()
        first = gleed.argmax(sequence.prefill(prompt))
        guesses = gleed.Guesses(sequence, most=3, places=64)
        assert guesses.logits() is None
        assert 1 <= guesses.queue(first, [5, 6]) <= 2
        with pytest.raises(gleed.GleedError):
            guesses.queue(first)
        engine.step()
        guesses.end()
        # No token was chosen after `first`, so only `first` stays.
        assert sequence.tokens == prompt + [first]
        assert guesses.logits() is None
        with pytest.raises(gleed.LimitError):
            gleed.Guesses(sequence, most=32)
        with pytest.raises(ValueError):
            guesses.queue(-1)
        guesses.close()
        with pytest.raises(gleed.ClosedError):
            guesses.queue(1)
        sequence.close()
        with pytest.raises(gleed.ClosedError):
            gleed.Guesses(sequence)


def test_guesses_of_the_story(model: gleed.Model) -> None:
    with model.engine(context=256, logit_rows=8) as engine:
        sequence = engine.open()
        tokens = [gleed.argmax(sequence.prefill(model.encode(PROMPT)))]
        guesses = gleed.Guesses(sequence)
        while len(tokens) < 40:
            guesses.queue(tokens[-1], NATIVE[len(tokens) : len(tokens) + 6])
            for logits in guesses.advance():
                tokens.append(gleed.argmax(logits))
                guesses.take(tokens[-1])
        assert tokens[:40] == NATIVE[:40]
