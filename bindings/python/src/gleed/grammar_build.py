"""Grammars that are compiled in units of work."""

from __future__ import annotations

from typing import Any, Iterable

import numpy as np

from ._core import Held, Owner, call, choice, hold, memory_of, words
from ._native import ffi, lib
from .errors import GleedError
from .grammar import KINDS, Grammar, Source, flags_of


class GrammarBuild(Owner):
    """A grammar that is compiled step by step, for programs that cannot wait for `Grammar`. The result is the same,
    byte for byte.

    >>> build = gleed.GrammarBuild(schema)
    >>> while not build.step():
    ...     draw_a_frame()
    >>> grammar = build.finish()
    """

    def __init__(
        self,
        text: str | dict[str, Any] | bool,
        kind: str = "schema",
        *,
        whitespace: str = "bounded",
        closed: bool = False,
        one_of_as_any_of: bool = False,
        all_escapes: bool = False,
        close: bool = True,
        states: int = 0,
        ignore: Iterable[str] = (),
    ) -> None:
        """Begins. All arguments are as in `Grammar`."""
        flags = flags_of(closed, one_of_as_any_of, all_escapes, close)
        self._source = Source(text, choice(kind, KINDS, "kind"), whitespace, flags, states, ignore)
        # gleed.h says that this number suffices for most sources.
        self._held = self._begin(262_144 + 64 * len(self._source.text))
        self._grammar: Any = None

    def step(self, units: int = 4) -> bool:
        """Goes on for at most this number of units of work, about ten microseconds each, or with 0 to the end. Returns
        whether it is finished.

        If the text is no grammar, this call and each later one raise `GrammarError`.
        """
        held = self._use()
        with held.lock:
            while True:
                try:
                    status = call(lib.gleed_grammar_build_step, held.pointer, units)
                except GleedError as error:
                    if error.status != lib.GLEED_E_SCRATCH_TOO_SMALL or error.needed <= self._scratch:
                        raise
                    # Begins again with more scratch.
                    self._held, self._grammar = self._begin(error.needed), None
                    return False
                if status == lib.GLEED_YIELDED:
                    return False
                if self._grammar is not None:
                    return True
                self._place(held)
                if units:
                    return False

    def finish(self) -> Grammar:
        """Returns the grammar, once. Raises `GleedError` before `step` has returned True."""
        held, pointer = self._use(), ffi.new("gleed_grammar **")
        with held.lock:
            call(lib.gleed_grammar_build_finish, held.pointer, pointer)
        grammar = Grammar.__new__(Grammar)
        grammar._held, grammar.closes = Held(pointer[0], self._grammar, ()), self._source.closes
        self.close()
        return grammar

    def _begin(self, scratch: int) -> Held:
        source, self._scratch = self._source, scratch
        pad = np.empty(scratch, dtype=np.uint32)
        what = (source.text, len(source.text), words(pad), len(pad), source.options)
        return hold(
            "gleed_grammar_build",
            lambda *out: call(lib.gleed_grammar_build_size, *out),
            lambda *at: call(lib.gleed_grammar_build_init, *what, *at),
            pad,
            source,
        )

    def _place(self, held: Held) -> None:
        memory = memory_of(lambda *out: call(lib.gleed_grammar_build_plan, held.pointer, *out))
        call(lib.gleed_grammar_build_place, held.pointer, ffi.cast("void *", memory.ctypes.data), len(memory))
        self._grammar = memory
