"""Texts under a grammar, kept together with their sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import numpy as np
import numpy.typing as npt

from ._core import Held, Owner, call, hold, number, struct, words
from ._native import ffi, lib
from .grammar import Grammar, forced_tokens, trie_of
from .model import Model
from .sequence import Sequence


@dataclass(frozen=True)
class WritingInfo:
    """The state of a text."""

    begin: int
    """The position of its first token in the sequence."""
    end: int
    """The position after its last token."""
    is_end: bool
    """Whether the text may end here."""
    bytes_to_end: int | None
    """The smallest number of bytes to its end, or None if the grammar was compiled without ``close``."""


class Writing(Owner):
    """A sequence that writes a text under a grammar, and its matcher.

    The two stay together through `fork`, `rewind` and snapshots. After a step that was dropped, `follow` brings the text to the end of
    the sequence.

    >>> writing = gleed.Writing(sequence, grammar, model)
    >>> token = sampler.sample(logits, writing.mask())
    >>> writing.accept(token)
    >>> logits = sequence.decode_step(token)
    """

    def __init__(self, sequence: Sequence, grammar: Grammar, model: Model, *, state: bytes | None = None) -> None:
        """Starts an empty text after the tokens of the sequence.

        With ``state``, the bytes of `Writing.state`, the text of a restored sequence goes on. A state of another grammar raises a
        `SnapshotError`.
        """
        rules = grammar._use()
        self._begin(sequence, model, rules)
        tables = self._tokens.pointer

        def start(engine: Held, *at: Any) -> int:
            handle = sequence.handle
            if state is None:
                return call(lib.gleed_writing_init, engine.pointer, handle, rules.pointer, ffi.NULL, *at)
            data = ffi.from_buffer("uint8_t[]", state)
            what = (engine.pointer, tables, handle, rules.pointer, data, len(data), ffi.NULL)
            return call(lib.gleed_writing_resume, *what, *at)

        with sequence.engine._changing() as engine:
            self._held = self._made(lambda *at: start(engine, *at))

    def _begin(self, sequence: Sequence, model: Model, rules: Held) -> None:
        self.sequence = sequence
        self._model = model
        self._rules = rules
        self._tokens = model.tokenizer._use()
        self._trie = trie_of(model)
        self._mask_len = number(lib.gleed_trie_mask_len, self._trie.pointer)

    def _made(self, start: Callable[..., int]) -> Held:
        return hold(
            "gleed_writing",
            lambda *out: call(lib.gleed_writing_plan, *out, ffi.NULL),
            start,
            self._rules,
            self._trie,
            self._tokens,
        )

    def mask(self, *, within: int | None = None, ends: bool = True) -> npt.NDArray[np.uint32]:
        """Returns the tokens that may follow, as `Matcher.mask` does. For `Sampler.sample`."""
        held, mask = self._use(), np.zeros(self._mask_len, dtype=np.uint32)
        last = lib.GLEED_NO_END if within is None else within
        rest = (0, ends * lib.GLEED_MASK_ENDS, words(mask), len(mask))
        with held.lock:
            call(lib.gleed_writing_mask, held.pointer, self._trie.pointer, last, *rest)
        return mask

    def accept(self, token: int) -> bool:
        """Takes a token that the program then appends to the sequence. Returns False if the grammar does not allow it."""
        held = self._use()
        with held.lock:
            return bool(number(lib.gleed_writing_accept, held.pointer, self._tokens.pointer, token, kind="uint32_t"))

    def forced_tokens(self) -> list[int]:
        """Returns the tokens that must follow. Give each to `accept`, and all to the engine in one call."""
        return forced_tokens(lib.gleed_writing_forced_tokens, self._use(), self._tokens.pointer, self._trie.pointer)

    def follow(self) -> None:
        """Brings the text to the end of the sequence: takes back tokens that the sequence has no longer, and takes its additional
        tokens."""
        self._change(lib.gleed_writing_follow)

    def rewind(self, keep: int) -> None:
        """Keeps only the first ``keep`` tokens of the sequence, and of its text."""
        self._change(lib.gleed_writing_rewind, keep)

    def fork(self, keep: int | None = None) -> Writing:
        """Opens a sequence with the first ``keep`` tokens of this one, or with all, and with its text. The two share memory until it
        changes."""
        held, other = self._use(), Writing.__new__(Writing)
        keep = len(self.sequence) if keep is None else keep
        tables = self._tokens.pointer
        other._begin(self.sequence, self._model, self._rules)
        # What the library refuses to describe is refused before a sequence is opened.
        self._describe()
        try:
            # A function of a policy may raise at the end: the sequence has an owner before.
            with self.sequence.engine._changing() as engine, held.lock:
                other._held = other._made(lambda *at: call(lib.gleed_writing_fork, held.pointer, engine.pointer, tables, keep, *at))
                other.sequence = Sequence(self.sequence.engine, engine, int(other._describe().seq))
        except BaseException:
            if other.sequence is not self.sequence:
                other.sequence.close()
            raise
        return other

    @property
    def info(self) -> WritingInfo:
        """The positions of the text, and whether it may end."""
        info = self._describe()
        to_end = None if info.bytes_to_end == lib.GLEED_NO_END else int(info.bytes_to_end)
        return WritingInfo(int(info.begin), int(info.end), bool(info.is_end), to_end)

    def state(self) -> bytes:
        """Returns the 16 bytes that must be saved with the sequence: ``sequence.snapshot(state=writing.state())``."""
        held, room = self._use(), np.empty(256, dtype=np.uint8)
        with held.lock:
            count = number(lib.gleed_writing_state, held.pointer, ffi.from_buffer("uint8_t[]", room), len(room))
        return room[:count].tobytes()

    def _describe(self) -> Any:
        held, info = self._use(), struct("gleed_writing_info")
        with held.lock:
            call(lib.gleed_writing_describe, held.pointer, info)
        return info

    def _change(self, function: Callable[..., int], *arguments: int) -> None:
        held = self._use()
        with self.sequence.engine._changing() as engine, held.lock:
            call(function, held.pointer, engine.pointer, self._tokens.pointer, *arguments)
