"""Tests of conversations, figures, and a program's choices in a full cache."""

from __future__ import annotations

import gleed
import numpy as np
import pytest
from conftest import NATIVE, PROMPT
from gleed._core import hold


def reply(talk: gleed.Conversation, new: gleed.New, model: gleed.Model, count: int = 8) -> str:
    """Returns the text of the most probable tokens."""
    ids = [gleed.argmax(talk.sequence.prefill(new.tokens))]
    while len(ids) < count:
        ids.append(gleed.argmax(talk.sequence.decode_step(ids[-1])))
    talk.sequence.decode_step(ids[-1])
    return model.decode(ids, continues=True)


def fresh(engine: gleed.Engine, talk: gleed.Conversation) -> bytes:
    """Returns the logits after a conversation's tokens in a sequence that reads them all."""
    with engine.open() as sequence:
        return sequence.prefill(talk.sequence.tokens).tobytes()


def test_a_conversation_reads_nothing_twice(model: gleed.Model) -> None:
    with model.engine(context=400, sequences=4) as engine:
        talk = gleed.Conversation(engine, gleed.Turns(model, "vicuna"))
        messages: list[tuple[str, str]] = []
        for question in ["Tell me of a dog.", "And then?", "Who was it?"]:
            messages.append(("user", question))
            before = len(talk.sequence)
            new = talk.update(messages)
            assert (new.position, list(new.left_out)) == (before, [])
            messages.append(("assistant", reply(talk, new, model)))
            assert len(talk.sequence) == before + len(new.tokens) + 8
        assert engine.metrics.saved_conversation > 0
        # To write the last reply again, one token is read: the one before the reply.
        new = talk.update(messages[:-1])
        assert len(new.tokens) == 1
        assert talk.sequence.prefill(new.tokens, copy=True).tobytes() == fresh(engine, talk)
        # If an early message changes, the tokens before it stay.
        position = talk.update([("user", "Tell me of a cat."), *messages[1:]]).position
        assert 0 < position <= 12
        with pytest.raises(ValueError, match="a role is one of"):
            talk.update([("nobody", "Hi")])


def test_a_conversation_is_forked_saved_and_loaded(model: gleed.Model) -> None:
    with model.engine(context=400, sequences=4) as engine:
        talk = gleed.Conversation(engine, gleed.Turns(model, "vicuna"))
        messages = [("user", "Tell me of a dog.")]
        messages.append(("assistant", reply(talk, talk.update(messages), model)))
        saved = talk.save(messages)
        fork = talk.fork()
        loaded, again = talk.load(saved)
        assert again == messages
        messages.append(("user", "And then? Ä \N{DOG}"))
        expected = talk.update(messages)
        logits = talk.sequence.prefill(expected.tokens, copy=True).tobytes()
        for other in (fork, loaded):
            assert other.sequence.handle != talk.sequence.handle
            new = other.update(messages)
            assert (new.position, new.tokens.tolist()) == (expected.position, expected.tokens.tolist())
            assert other.sequence.prefill(new.tokens, copy=True).tobytes() == logits
            other.close()
            other.close()
        assert engine.info.sequences == 1
        damaged = bytearray(saved)
        damaged[len(saved) // 2] ^= 1
        with pytest.raises(gleed.SnapshotError):
            talk.load(damaged)
        assert engine.info.sequences == 1
        with pytest.raises(gleed.ClosedError):
            fork.update(messages)
        talk.sequence.close()
        with pytest.raises(gleed.ClosedError):
            talk.update(messages)


def test_what_fails_leaves_no_sequence_open(model: gleed.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(*_: object) -> int:
        raise KeyError("refused")

    # As long as there is an error, there is what its call has made.
    with model.engine(context=100, sequences=4) as engine:
        turns = gleed.Turns(model, "vicuna")
        talk = gleed.Conversation(engine, turns)
        messages = [("user", "Tell me of a dog.")]
        messages.append(("assistant", reply(talk, talk.update(messages), model)))
        saved = talk.save(messages)
        engine.set_policy(hand_out=raises)
        with pytest.raises(KeyError) as error:
            talk.load(saved)
        engine.set_policy()
        assert engine.info.sequences == 1, error
        with monkeypatch.context() as patch:
            patch.setattr("gleed.conversation.hold", lambda kind, *_: raises() if kind == "gleed_conversation" else hold(kind, *_))
            with pytest.raises(KeyError) as error:
                gleed.Conversation(engine, turns)
        assert engine.info.sequences == 1, error
        writing = gleed.Writing(talk.sequence, gleed.Grammar("[a-z]*", "regex"), model)
        with monkeypatch.context() as patch:
            patch.setattr(gleed.Writing, "_describe", raises)
            with pytest.raises(KeyError) as error:
                writing.fork()
        assert engine.info.sequences == 1, error
        with writing.fork().sequence:
            assert engine.info.sequences == 2


def test_a_full_context_leaves_turns_out(model: gleed.Model) -> None:
    with model.engine(context=120, sequences=1) as engine:
        talk = gleed.Conversation(engine, gleed.Turns(model, "vicuna"))
        messages: list[tuple[str, str]] = []
        asked: list[tuple[int, int]] = []

        def summary(first: int, count: int) -> tuple[str, str] | None:
            asked.append((first, count))
            return ("user", "Much has happened.")

        def bad(first: int, count: int) -> tuple[str, str] | None:
            raise KeyError("bad")

        keep = gleed.Keep(room=20, first=1, last=1, summary=summary)
        left_out = False
        for turn in range(8):
            messages.append(("user", f"What did the little girl do on day {turn}?"))
            try:
                new = talk.update(messages)
            except gleed.ContextError:
                before = talk.sequence.tokens
                with pytest.raises(KeyError, match="bad"):
                    talk.update(messages, gleed.Keep(room=20, first=1, last=1, summary=bad))
                assert talk.sequence.tokens == before
                new = talk.update(messages, keep)
                assert new.left_out.start == 2 and len(new.left_out) % 2 == 0
                left_out = left_out or len(new.left_out) > 0
            messages.append(("assistant", reply(talk, new, model)))
        assert left_out and asked[0][0] == 2


def test_figures(model: gleed.Model) -> None:
    with model.engine(context=64) as engine:
        assert engine.metrics.prefill.count == 0 and engine.metrics.tokens_per_second == 0
        sequence = engine.open()
        sequence.prefill(model.encode(PROMPT))
        for token in NATIVE[:5]:
            sequence.decode_step(token)
        metrics = engine.metrics
        assert (metrics.prefill.count, metrics.prefill.rows) == (1, len(model.encode(PROMPT)))
        assert (metrics.decode.count, metrics.decode_tokens, metrics.first_token.count) == (5, 5, 1)
        times = metrics.decode.times
        assert times.count == 5 and 0 < times.min <= metrics.decode.p50 <= metrics.decode.p99 <= times.max <= times.sum < 60e9
        assert metrics.tokens_per_second == pytest.approx(5e9 / times.sum)
        engine.reset_metrics()
        assert engine.metrics.decode == gleed.Passes(0, 0, gleed.Times(0, 0, 0, 0), 0, 0)


def test_a_program_chooses_in_a_full_cache(model: gleed.Model) -> None:
    ids = model.encode(PROMPT) + NATIVE[:27]
    with model.engine(context=64, sequences=3, blocks=5, prefix_cache=True) as engine:
        first, second = engine.open(), engine.open()
        expected = first.prefill(ids, copy=True)
        second.prefill(list(reversed(ids)))
        third = engine.open()
        with pytest.raises(gleed.FullError):
            third.prefill(ids)
        # The least recently used sequence is `first`, but the program wants to keep it.
        handle = first.handle
        engine.set_policy(close=lambda sequence, info: gleed.NEVER if sequence == handle else info.tokens)
        assert third.make_room(len(ids)) == 1
        assert np.array_equal(third.prefill(ids), expected) and len(first) == len(ids)
        with pytest.raises(gleed.SequenceError):
            second.decode_step(5)
        second.close()
        del second
        assert engine.info.sequences == 2

        # The program chooses the cached blocks that are evicted and the free blocks that are handed out. The logits are the same.
        first.close()
        seen: list[gleed.Block] = []
        turned = list(reversed(ids))
        engine.set_policy(evict=lambda block: seen.append(block) or 64 - block.position, hand_out=lambda block: 99 - block.block)
        again = engine.open()
        again.prefill([5] * 40)
        assert seen and all(list(block.tokens) == turned[block.position : block.position + 16] for block in seen)

        def raises(block: gleed.Block) -> int:
            raise KeyError("rank")

        again.reset()
        engine.set_policy(hand_out=raises, evict=raises)
        with pytest.raises(KeyError, match="rank"):
            again.prefill(ids)
        # A function that calls its engine is refused.
        again.reset()
        engine.set_policy(hand_out=lambda block: engine.info.blocks, evict=lambda block: engine.info.blocks)
        with pytest.raises(gleed.GleedError) as error:
            again.prefill(ids)
        assert error.value.name == "GLEED_E_REENTRANT"
        engine.set_policy()
        again.reset()
        assert np.array_equal(again.prefill(ids), expected)
