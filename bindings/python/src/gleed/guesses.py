"""Tokens that are computed before they are chosen, several in one pass. The text stays the same, bit for bit."""

from __future__ import annotations

from time import perf_counter_ns

import numpy as np
import numpy.typing as npt

from ._core import Ids, Owner, call, hold, ids_of, number, words
from ._native import ffi, lib
from .engine import Step
from .errors import GleedError
from .sequence import Sequence


class Guesses(Owner):
    """Guesses of the next tokens of a sequence: the tokens that followed the same tokens earlier in its text, and guesses of the
    program.

    The program chooses tokens from the logits of one row after the other, as without guesses. The first token that differs from its
    guess ends a pass, and the rows that were computed after it are taken back. The engine needs ``logit_rows`` of at least 2.

    >>> guesses = gleed.Guesses(sequence)
    >>> token = gleed.argmax(sequence.prefill(prompt))
    >>> while not ends(token):
    ...     guesses.queue(token)
    ...     for logits in guesses.advance():
    ...         token = gleed.argmax(logits)
    ...         guesses.take(token)

    Nothing else may change the sequence between `queue` and `end`.
    """

    def __init__(self, sequence: Sequence, *, most: int = 7, places: int | None = None) -> None:
        """Takes the memory for ``most`` guesses at a time, 1 to 31, and for tables of ``places`` entries, by default the engine's
        context. With 0 places the text is not searched.
        """
        self._sequence = sequence
        engine = sequence.engine
        places = engine.context if places is None else places
        with engine._changing() as held:
            self._held = hold(
                "gleed_guesses",
                lambda *out: call(lib.gleed_guesses_plan, most, places, *out),
                lambda *at: call(lib.gleed_guesses_init, held.pointer, sequence.handle, most, places, *at),
                held,
            )
        self._began = 0
        self._ready = 0

    def queue(self, token: int, guesses: Ids = ()) -> int:
        """Queues the last chosen token and guesses after it: first at most 31 of the program, then guesses from the text.

        Returns the number of guesses. It is smaller, or 0, if guesses do not pay or do not fit. Guesses that do not pay pause, and are
        tried again from time to time.
        """
        held, ids = self._use(), ids_of(guesses)
        with self._sequence.engine._changing() as engine, held.lock:
            chosen = int(ids_of([token])[0])
            self._began, self._ready = perf_counter_ns(), 0
            return number(lib.gleed_guesses_queue, held.pointer, engine.pointer, chosen, words(ids), len(ids))

    def logits(self, *, copy: bool = False) -> npt.NDArray[np.float32] | None:
        """Returns the logits from which the next token is to be chosen: a view, see `Engine`, or a copy.

        ``None`` while they are not computed, and if no more follow before `end`.
        """
        held = self._use()
        values, length = ffi.new("float **"), ffi.new("size_t *")
        with self._sequence.engine._changing() as engine, held.lock:
            try:
                call(lib.gleed_guesses_logits, held.pointer, engine.pointer, values, length)
            except GleedError as error:
                if error.status == lib.GLEED_E_NO_LOGITS:
                    return None
                raise
            self._ready = self._ready or perf_counter_ns()
            view = engine.floats(values[0], length[0])
            return view.copy() if copy else view

    def take(self, token: int) -> None:
        """Takes the token that was chosen from `logits`. If it equals its guess, there are logits for the next token."""
        held = self._use()
        with self._sequence.engine._changing() as engine, held.lock:
            call(lib.gleed_guesses_take, held.pointer, engine.pointer, int(ids_of([token])[0]))

    def end(self) -> None:
        """Takes back guesses that were not chosen. The sequence then has all taken tokens except the last one.

        It may be called at any time, also after an error of a step.
        """
        held = self._use()
        with self._sequence.engine._changing() as engine, held.lock:
            ticks = max(self._ready - self._began, 0) if self._ready else 0
            call(lib.gleed_guesses_end, held.pointer, engine.pointer, ticks)

    def advance(self) -> Advance:
        """Computes the queued tokens. Returns an iterator over the logits: each `take` leads to the next. At its end it calls `end`."""
        return Advance(self)


class Advance:
    """The logits of one pass."""

    def __init__(self, guesses: Guesses) -> None:
        self._guesses = guesses

    def __iter__(self) -> Advance:
        return self

    def __next__(self) -> npt.NDArray[np.float32]:
        guesses = self._guesses
        while True:
            logits = guesses.logits()
            if logits is not None:
                return logits
            if guesses._sequence.engine.step() is Step.DONE:
                guesses.end()
                raise StopIteration
