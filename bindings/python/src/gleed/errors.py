"""Errors of the library as exceptions. The status and the numbers of the error are attributes."""

from __future__ import annotations

from ._native import lib

__all__ = [
    "CallError",
    "ClosedError",
    "ContextError",
    "FileError",
    "FullError",
    "GleedError",
    "GrammarError",
    "LimitError",
    "MemorySizeError",
    "ModelError",
    "ResultError",
    "SequenceError",
    "SnapshotError",
    "TextError",
]


class GleedError(Exception):
    """A call was refused. It has changed nothing, unless ``gleed.h`` says otherwise for the function.

    ``status`` is the number of ``gleed.h``, ``name`` its name there. The meaning of ``at``, ``needed`` and ``given`` depends
    on the status: the comment of each status in ``gleed.h`` describes it.
    """

    def __init__(self, message: str, status: int = 0, at: int = 0, needed: int = 0, given: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.at = at
        self.needed = needed
        self.given = given

    @property
    def name(self) -> str:
        """The name of the status in ``gleed.h``, ``"GLEED_E_CONTEXT"`` for example."""
        return _NAMES.get(self.status, str(self.status))


class FullError(GleedError):
    """There are too few free sequences or blocks. Close a sequence, or give the engine more sequences or blocks."""


class CallError(GleedError, ValueError):
    """An argument is wrong."""


class ClosedError(CallError):
    """The object has been closed."""


class MemorySizeError(GleedError):
    """Memory is too small, or the limits need more than the machine can address."""


class FileError(GleedError):
    """The file is damaged or no GGUF, or parts of it are missing."""


class ModelError(GleedError):
    """The model is not supported. The text names the key or the tensor."""


class LimitError(GleedError, ValueError):
    """A limit of an engine is out of range. ``needed`` is the nearest value in range."""


class SequenceError(GleedError):
    """A sequence cannot do this, or cannot do it now."""


class ContextError(SequenceError):
    """The sequence would be longer than its context."""


class ResultError(GleedError):
    """A computed number is not finite, or no token is left to choose."""


class TextError(GleedError, ValueError):
    """The vocabulary is not supported, or a text cannot be written with it."""


class SnapshotError(GleedError, ValueError):
    """The bytes are no snapshot, are damaged, or belong to another model."""


class GrammarError(GleedError, ValueError):
    """The grammar is wrong or not supported; or no token can follow."""


# The hundreds of a status say what kind of error it is.
_CLASSES: tuple[type[GleedError], ...] = (
    CallError,
    MemorySizeError,
    FileError,
    ModelError,
    LimitError,
    SequenceError,
    ResultError,
    TextError,
    SnapshotError,
    GrammarError,
)
_NAMES = {getattr(lib, name): name for name in dir(lib) if name.startswith("GLEED_E_") or name == "GLEED_FULL"}


def class_of(status: int) -> type[GleedError]:
    """Returns the class of the exceptions with a status."""
    if status == lib.GLEED_FULL:
        return FullError
    if status == lib.GLEED_E_CONTEXT:
        return ContextError
    hundred = -status // 100
    return _CLASSES[hundred] if status < 0 and hundred < len(_CLASSES) else GleedError
