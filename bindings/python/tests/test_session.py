"""Tests of stories, conversations, streams and their ends."""

from __future__ import annotations

import asyncio
import threading

import gleed
import pytest
from conftest import MODEL, NATIVE, PROMPT


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_story_has_the_ids_of_the_native_example(model: gleed.Model, threads: int) -> None:
    with gleed.Session(model, context=256, threads=threads) as session:
        story = session.tell(PROMPT)
        pieces = list(story)
    assert story.ids == NATIVE
    assert story.reason == "end"
    assert len(pieces) > 200
    assert "".join(pieces) == model.decode(NATIVE, continues=True)


def test_a_session_that_cannot_begin_closes_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[gleed.Model] = []

    class Noted(gleed.Model):
        def __init__(self, path: gleed.model.PathLike) -> None:
            super().__init__(path)
            opened.append(self)

    monkeypatch.setattr("gleed.session.Model", Noted)
    with pytest.raises(gleed.LimitError):
        gleed.Session(MODEL, rows=10**9)
    assert [model.closed for model in opened] == [True]


def test_pieces_come_while_the_text_is_made(session: gleed.Session) -> None:
    story = session.tell(PROMPT)
    for count, _ in enumerate(story, 1):
        assert story.reason is None
        assert len(story.ids) == count
        if count == 5:
            break
    # The sequence has the prompt, and all tokens except the last one.
    assert session.sequence.tokens == session.model.encode(PROMPT) + NATIVE[:4]


def test_a_text_ends_for_a_reason(session: gleed.Session, model: gleed.Model) -> None:
    story = session.tell(PROMPT, tokens=7)
    text = story.read()
    assert (story.reason, story.ids) == ("length", NATIVE[:7])
    rest = session.resume()
    assert (rest.read(), rest.ids) == (model.decode(NATIVE[7:], continues=True), NATIVE[7:])
    assert session.resume().read() == ""
    story = session.tell(PROMPT, stop=["Lil", "nowhere"])
    assert text.startswith(story.read().rstrip()[:20])
    assert story.reason == "stop"
    with gleed.Session(model, context=16) as short:
        story = short.tell(PROMPT)
        story.read()
        assert story.reason == "context"
        assert story.ids == NATIVE[:11]


def test_a_text_can_be_cancelled_and_closed(session: gleed.Session) -> None:
    story = session.tell(PROMPT)
    next(story)
    story.cancel()
    assert list(story) == []
    assert story.reason == "cancelled"
    assert session.resume(tokens=3).read() == session.model.decode(NATIVE[1:4], continues=True)
    with session.tell(PROMPT) as story:
        next(story)
    assert story.reason == "cancelled"
    assert list(story) == []
    # Another text ends the one before.
    first = session.tell(PROMPT)
    next(first)
    second = session.tell(PROMPT)
    assert list(first) == []
    assert first.reason == "cancelled"
    assert second.read() and second.ids == NATIVE


def test_a_prompt_is_cancelled_while_it_is_computed(model: gleed.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    with gleed.Session(model) as session:
        story, step, queued = session.tell("The dog was big. " * 80), session.engine.step, []

        def short(_: int) -> gleed.Step:
            status = step(session.engine.units_per_token)
            queued.append(session.sequence.info.queued)
            if len(queued) == 3:
                # Another thread may cancel at any time.
                thread = threading.Thread(target=story.cancel)
                thread.start()
                thread.join()
            return status

        monkeypatch.setattr(session.engine, "step", short)
        assert list(story) == []
        assert story.reason == "cancelled"
        assert len(queued) == 3 and queued[-1] > 0
        assert len(session.sequence) == 0
        monkeypatch.undo()
        story = session.tell(PROMPT, tokens=20)
        story.read()
        assert story.ids == NATIVE[:20]


def test_async_for(model: gleed.Model) -> None:
    async def read(session: gleed.Session) -> list[int]:
        story = session.tell(PROMPT)
        async for _ in story:
            pass
        return story.ids

    async def both() -> None:
        sessions = [gleed.Session(model, context=256) for _ in range(2)]
        assert await asyncio.gather(*map(read, sessions)) == [NATIVE, NATIVE]

    asyncio.run(both())


def test_a_task_can_be_cancelled(session: gleed.Session) -> None:
    async def cancelled() -> None:
        story, begun = session.tell(PROMPT), asyncio.Event()

        async def read() -> None:
            async for _ in story:
                begun.set()

        task = asyncio.create_task(read())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await story.aclose()
        assert story.reason == "cancelled"

    asyncio.run(cancelled())
    assert session.tell(PROMPT, tokens=3).read() == session.model.decode(NATIVE[:3], continues=True)


def test_a_conversation_is_written_in_turns(model: gleed.Model) -> None:
    turns = gleed.Turns(model, "chatml")
    with gleed.Session(model, turns="chatml", system="Be kind.") as session:
        first = session.ask("Hello!", tokens=6)
        first.read()
        begin = turns.encode([("system", "Be kind."), ("user", "Hello!")])
        assert session.sequence.tokens == begin + first.ids[:-1]
        # A cancelled question counts as not asked.
        question = session.ask("What?")
        question.cancel()
        assert list(question) == []
        second = session.ask("And then?", tokens=6)
        second.read()
        more = turns.encode([("user", "And then?")], after=gleed.AFTER_REPLY)
        assert session.sequence.tokens == begin + first.ids + more + second.ids[:-1]
        with pytest.raises(gleed.ContextError) as error:
            session.ask("word " * 600).read()
        assert error.value.needed == 512 < error.value.given
        # The conversation is as it was.
        assert session.ask("And then?", tokens=2).read() is not None
    with gleed.Session(model) as session, pytest.raises(ValueError, match="turn format"):
        session.ask("Hello!")
    with pytest.raises(ValueError, match="nonsense"):
        gleed.Turns(model, "nonsense")


def test_a_story_goes_on_from_a_file(model: gleed.Model, tmp_path) -> None:
    def session(seed: int) -> gleed.Session:
        return gleed.Session(model, context=256, sampler=gleed.Sampler(temperature=1.0, min_p=0.05, seed=seed))

    with session(7) as first, session(8) as second:
        first.tell(PROMPT, tokens=30).read()
        (tmp_path / "story").write_bytes(first.save())
        expected = first.resume().read()
        second.load((tmp_path / "story").read_bytes())
        assert second.resume().read() == expected != ""
        # Damaged bytes change nothing, also in a session without a text.
        damaged = bytearray(first.save())
        damaged[-1] ^= 1
        before = second.sequence.tokens
        with pytest.raises(gleed.SnapshotError):
            second.load(bytes(damaged))
        assert second.sequence.tokens == before
        second.reset()
        with pytest.raises(gleed.SnapshotError):
            second.load(bytes(damaged))
        assert second.sequence.tokens == [] and second.tell(PROMPT, tokens=2).read() != ""


def test_a_path_is_enough() -> None:
    with gleed.Session(str(MODEL), context=32) as session:
        assert session.tell(PROMPT, tokens=3).read() == ", there was"
    with pytest.raises(gleed.ClosedError):
        session.tell(PROMPT)
