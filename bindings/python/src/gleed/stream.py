"""A text that is generated piece by piece."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Callable, Generator

from .errors import GleedError


@dataclass
class Progress:
    """The progress of a text. It has no reference to its stream, so that both are freed as soon as nothing refers to the stream."""

    ids: list[int] = field(default_factory=list)
    reason: str | None = None
    cancelled: bool = False


class Stream:
    """The pieces of a text while it is generated: ``for piece in stream`` or ``async for piece in stream``.

    Nothing is computed before the program asks for a piece. `cancel` ends the text from another thread, `close` from this one.
    Leaving the loop ends it, too. The session then goes on from the generated text.
    """

    def __init__(self, progress: Progress, pieces: Generator[str, None, None], stop: Callable[[], None]) -> None:
        self._progress = progress
        self._pieces = pieces
        self._stop = stop

    @property
    def ids(self) -> list[int]:
        """The token ids so far."""
        return list(self._progress.ids)

    @property
    def reason(self) -> str | None:
        """The reason why the text has ended, or None before its end.

        ``"end"``: the model has ended it; ``"length"``: it has the requested number of tokens; ``"context"``: the context is full;
        ``"stop"``: it has reached a stop string; ``"cancelled"``: `cancel`, `close`, or another text was begun.
        """
        return self._progress.reason

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> str:
        return next(self._pieces)

    def read(self) -> str:
        """Returns the rest of the text."""
        return "".join(self)

    def cancel(self) -> None:
        """Ends the text within a unit of work, also while a piece is computed. Any thread may call it."""
        if self.reason is not None:
            return
        self._progress.cancelled = True
        try:
            self._stop()
        except GleedError:  # The session has been closed: nothing is computed any more.
            pass

    def close(self) -> None:
        """Ends the text. If another thread computes a piece of it, that ends, too."""
        self.cancel()
        try:
            self._pieces.close()
        except ValueError:  # Another thread computes a piece. It ends by itself, within a unit of work.
            pass
        self._progress.reason = self.reason or "cancelled"

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> str:
        # Another thread computes, so that the event loop goes on meanwhile.
        future = asyncio.get_running_loop().run_in_executor(None, next, self, None)
        try:
            piece = await asyncio.shield(future)
        except asyncio.CancelledError:
            self.cancel()
            await asyncio.wait([future])
            raise
        if piece is None:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        """Ends the text: `close`, for ``contextlib.aclosing``."""
        self.close()
