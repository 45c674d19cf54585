"""A program's choices about a full cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Optional

from ._core import record, struct
from ._native import ffi, lib
from .sequence import SequenceInfo

NEVER: int = lib.GLEED_RANK_NEVER
"""The rank of a sequence that is never closed."""


@dataclass(frozen=True)
class Block:
    """A block of 16 tokens that could be chosen."""

    block: int
    """Number of the block in its pool."""
    group: int
    """Number of the pool: 0, or 1 for the second layer group."""
    sequence: int
    """`Sequence.handle` of the sequence that gets it."""
    position: int
    """The position of its first token."""
    tokens: tuple[int, ...]
    """The tokens of a cached prefix, or none."""


RankSequence = Callable[[int, SequenceInfo], int]
RankBlock = Callable[[Block], int]


class Policy:
    """The functions of `Engine.set_policy` in the form that the library calls."""

    def __init__(self, close: Optional[RankSequence], evict: Optional[RankBlock], hand_out: Optional[RankBlock]) -> None:
        self.error: BaseException | None = None
        """The first exception that a function has raised. Its candidate then has rank 0."""
        self._functions = {
            name: ffi.callback(kind, self._guarded(function, adapt))
            for name, kind, function, adapt in (
                ("close", "gleed_rank_seq", close, lambda seq, info: (int(seq), record(SequenceInfo, info))),
                ("evict", "gleed_rank_block", evict, lambda block: (_block(block),)),
                ("hand_out", "gleed_rank_block", hand_out, lambda block: (_block(block),)),
            )
            if function is not None
        }
        self.pointer = struct("gleed_cache_policy", **self._functions)

    def rethrow(self) -> None:
        """Raises the exception that a function has raised, if there is one."""
        error, self.error = self.error, None
        if error is not None:
            raise error

    def _guarded(self, function: Callable[..., int], adapt: Callable[..., tuple[Any, ...]]) -> Callable[..., int]:
        def rank(_: Any, *candidate: Any) -> int:
            try:
                rank = int(function(*adapt(*candidate)))
                if not 0 <= rank < 2**64:
                    raise ValueError(f"a rank is from 0 to 2^64 - 1, not {rank}")
                return rank
            except BaseException as error:  # C cannot pass it on: the call that asked raises it.
                self.error = self.error or error
                return 0

        return rank


def _block(told: Any) -> Block:
    tokens = tuple(told.tokens[0:16]) if told.is_cached else ()
    return Block(told.block, told.group, told.seq, told.position, tokens)
