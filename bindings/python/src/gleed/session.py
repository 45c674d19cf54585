"""The shortest way from a file to a text: an engine with one sequence, and the objects that turn text into tokens and back."""

from __future__ import annotations

import struct as layout
import weakref
from typing import Any, Callable, Generator, Iterable

import numpy as np
import numpy.typing as npt

from ._native import lib
from .engine import Step
from .grammar import Grammar, Matcher, Stops
from .model import Model, PathLike
from .sampler import Sampler
from .sequence import describe_snapshot
from .stream import Progress, Stream
from .tokenizer import Detokenizer
from .turns import AFTER_NOTHING, AFTER_REPLY, Turns

# The host's bytes in a saved session: the state of the sampler, what the sequence ends with, and the last token.
SAVED = "<QII"
# Largest work of a step, in tokens: short enough for Ctrl-C, and long enough to cost nothing.
TOKENS_OF_A_STEP = 32


class Session:
    """A text or a conversation: ``for piece in Session(path).tell("Once upon a time"): print(piece, end="")``.

    A session writes one text at a time. A new text ends the one before. A session belongs to one thread at a time. Other threads may
    only call `Stream.cancel`.
    """

    def __init__(
        self,
        model: Model | PathLike,
        *,
        context: int = 0,
        threads: int = 1,
        system: str | None = None,
        turns: str | None = None,
        sampler: Sampler | None = None,
        **limits: Any,
    ) -> None:
        """Opens a file, or uses an open model.

        ``context`` is the largest number of tokens of a text. ``threads`` is the number of threads that compute; the text is the same
        with any number. Without a ``sampler`` the most probable token is taken each time. `ask` begins a conversation with the message
        ``system``, in the turn format with the name ``turns``, by default in that of the file. ``limits`` are other arguments of
        `Engine`.
        """
        self._owns = not isinstance(model, Model)
        self.model = model if isinstance(model, Model) else Model(model)
        try:
            self._tokenizer = self.model.tokenizer
            self.engine = self.model.engine(context=context, threads=threads, **limits)
            self.sequence = self.engine.open()
            self.sampler = Sampler() if sampler is None else sampler
        except BaseException:
            if self._owns:
                self.model.close()
            raise
        self.system = system
        self._format = turns
        self._turns: Turns | None = None
        self._after = AFTER_NOTHING
        # The last chosen token. The sequence gets it with the next computation.
        self._pending: list[int] = []
        self._stream: Callable[[], Stream | None] = lambda: None

    def tell(
        self,
        text: str,
        *,
        tokens: int | None = None,
        stop: str | Iterable[str] = (),
        grammar: Grammar | None = None,
    ) -> Stream:
        """Begins a new text and returns its continuation after ``text``, piece by piece.

        The text ends after ``tokens`` tokens, at a string of ``stop``, when the model ends it, or when the context is full.
        With a ``grammar``, the continuation follows the grammar.
        """
        ids = self._tokenizer.encode(text)
        self.reset()
        return self._write(ids, self._tokenizer.is_end, AFTER_NOTHING, tokens, stop, grammar)

    def ask(
        self,
        text: str,
        *,
        tokens: int | None = None,
        stop: str | Iterable[str] = (),
        grammar: Grammar | None = None,
    ) -> Stream:
        """Says something to the model and returns its reply, piece by piece. The conversation goes on with the next call.

        Raises ``ValueError`` if the turn format of the model's file is not known. If the conversation does not fit the context, the
        stream raises a `ContextError`: a session leaves out no turns by itself. The other arguments are as in `tell`.
        """
        if self._turns is None:
            self._turns = Turns(self.model, self._format)
        messages = [("user", text)]
        if self._after == AFTER_NOTHING and self.system is not None:
            messages.insert(0, ("system", self.system))
        ids = self._turns.encode(messages, after=self._after)
        return self._write(ids, self._turns.is_stop, AFTER_REPLY, tokens, stop, grammar)

    def reset(self) -> None:
        """Forgets all text and the conversation."""
        self._end()
        self.sequence.reset()
        self._pending, self._after = [], AFTER_NOTHING

    def save(self) -> bytes:
        """Returns the text so far, with the state of the sampler, as bytes for `load`."""
        self._end()
        last = self._pending[0] if self._pending else lib.GLEED_NO_TOKEN
        return self.sequence.snapshot(state=layout.pack(SAVED, self.sampler.state, self._after, last))

    def load(self, saved: bytes) -> None:
        """Loads a text from `save`. The same model and sampler then give the same text.

        Bytes that are refused change nothing. If a window of this session has evicted tokens, call `reset` first.
        """
        state, after, last = layout.unpack(SAVED, describe_snapshot(saved).state)
        self._end()
        if self.engine.sequences == 1:
            # The engine has no room for two sequences. The present one is restored if the new one is refused.
            before = self.sequence.snapshot()
            self.sequence.close()
            try:
                self.sequence = self.engine.restore(saved)
            except BaseException:
                self.sequence = self.engine.restore(before)
                raise
        else:
            sequence = self.engine.restore(saved)
            self.sequence.close()
            self.sequence = sequence
        self.sampler.state, self._after = state, after
        self._pending = [] if last == lib.GLEED_NO_TOKEN else [last]

    def resume(self, *, tokens: int | None = None, stop: str | Iterable[str] = ()) -> Stream:
        """Goes on with a text that the model has not ended itself, for example after ``tokens``, `Stream.close` or `load`.

        A text that the model has ended, or that has not begun, gives no pieces.
        """
        is_end = self._tokenizer.is_end if self._after == AFTER_NOTHING or not self._turns else self._turns.is_stop
        return self._write([], is_end, self._after, tokens, stop, None)

    def close(self) -> None:
        """Gives the memory back. A second call does nothing."""
        self._end()
        self.engine.close()
        if self._owns:
            self.model.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(
        self,
        ids: list[int],
        is_end: Callable[[int], bool],
        after: int,
        tokens: int | None,
        stop: str | Iterable[str],
        grammar: Grammar | None,
    ) -> Stream:
        strings = [stop] if isinstance(stop, str) else list(stop)
        stops = Stops(strings) if strings else None
        matcher = None if grammar is None else Matcher(grammar, self.model)
        closes = grammar is not None and grammar.closes
        self._end()
        progress = Progress()

        def choose(logits: npt.NDArray[np.float32]) -> int:
            if matcher is None:
                return self.sampler.sample(logits)
            within = tokens - len(progress.ids) if closes and tokens is not None else None
            return self.sampler.sample(logits, matcher.mask(within=within))

        def take(token: int) -> None:
            self.sampler.accept(token)
            if matcher is not None:
                matcher.accept(token)

        def pieces() -> Generator[str, None, None]:
            text = Detokenizer(self._tokenizer, continues=True)
            for token in self._tokens(progress, ids, is_end, after, tokens, choose):
                take(token)
                piece, is_stopped = text.push(token), False
                if stops is not None:
                    piece, is_stopped = stops.push(piece)
                if is_stopped:
                    progress.reason = "stop"
                if piece:
                    yield piece
                if is_stopped:
                    return
            rest = text.finish()
            rest = rest if stops is None else stops.push(rest)[0] + stops.finish()
            if rest:
                yield rest

        stream = Stream(progress, pieces(), self.engine.stop)
        # A weak reference: a stream keeps its session, and both are freed as soon as nothing else refers to them.
        self._stream = weakref.ref(stream)
        return stream

    def _end(self) -> None:
        """Ends the unfinished text, if there is one."""
        stream = self._stream()
        if stream is not None:
            stream.close()

    def _tokens(
        self,
        progress: Progress,
        ids: list[int],
        is_end: Callable[[int], bool],
        after: int,
        most: int | None,
        choose: Callable[[npt.NDArray[np.float32]], int],
    ) -> Generator[int, None, None]:
        """Chooses tokens until the text ends, and sets the reason."""
        queued = self._pending + ids
        while True:
            if most is not None and len(progress.ids) >= most:
                progress.reason = "length"
                return
            logits = self._compute(progress, queued) if queued else None
            if logits is None:
                progress.reason = "cancelled" if queued else "end"
                return
            self._after, self._pending = after, []
            token = choose(logits)
            if is_end(token):
                progress.reason = "end"
                return
            if not self.sequence.can_extend():
                progress.reason = "context"
                return
            self._pending = queued = [token]
            progress.ids.append(token)
            yield token

    def _compute(self, progress: Progress, ids: list[int]) -> npt.NDArray[np.float32] | None:
        """Appends tokens and returns the logits of the last one. If the text is cancelled, it returns None and appends nothing."""
        before = len(self.sequence)
        self.sequence.queue(ids)
        try:
            while not progress.cancelled:
                if self.engine.step(TOKENS_OF_A_STEP * self.engine.units_per_token) in (Step.READY, Step.DONE):
                    return self.sequence.logits()
        except BaseException:
            self._undo(before)
            raise
        self._undo(before)
        return None

    def _undo(self, before: int) -> None:
        if not self.sequence.closed:
            self.sequence.cancel()
            self.sequence.rewind(before)
