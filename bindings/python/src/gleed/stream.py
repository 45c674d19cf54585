"""A text in the making, piece by piece."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Callable, Generator

from .errors import GleedError


@dataclass
class Progress:
    """How far a text is. It knows nothing of its stream, so that both end as soon as nobody has the stream."""

    ids: list[int] = field(default_factory=list)
    reason: str | None = None
    cancelled: bool = False


class Stream:
    """The pieces of a text, as they are generated: ``for piece in stream`` or ``async for piece in stream``.

    Nothing is computed before a piece is asked for. `cancel` ends it from another thread, `close` from this one; so does leaving the
    loop. The session then goes on from what has been generated.
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
        """Why the text has ended; None while it has not.

        ``"end"``: the model has ended it; ``"length"``: it has as many tokens as were asked for; ``"context"``: the context is full;
        ``"stop"``: a stop string; ``"cancelled"``: `cancel`, `close`, or another text was begun.
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
        """Ends the text, also while a piece is computed: within a unit of work. Any thread may call it."""
        if self.reason is not None:
            return
        self._progress.cancelled = True
        try:
            self._stop()
        except GleedError:  # The session has been closed: nothing is computed any more.
            pass

    def close(self) -> None:
        """Ends the text. What a thread computes of it ends, too."""
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
        # Computed in another thread, so that the loop goes on meanwhile.
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
