"""Language-model inference that embeds: GGUF files in, tokens and text out, the same bits on every machine.

>>> import gleed
>>> for piece in gleed.Session("model.gguf").tell("Once upon a time"):
...     print(piece, end="")

`Session` writes texts and has conversations. Below it are `Model` (a file), `Engine` and `Sequence` (tokens in, logits out), `Sampler`,
`Grammar` and `Matcher`. Each has a ``close`` and is a context manager. A closed object raises `ClosedError`, and never crashes. An object
keeps the objects that it borrows, so objects may be closed in any order. Errors are exceptions below `GleedError`, with the numbers of
``gleed.h``.
"""

from ._native import ffi, lib
from .adapter import Adapter
from .conversation import Conversation, Keep, New
from .engine import Engine, EngineInfo, Row, Step
from .errors import (
    CallError,
    ClosedError,
    ContextError,
    FileError,
    FullError,
    GleedError,
    GrammarError,
    LimitError,
    MemorySizeError,
    ModelError,
    ResultError,
    SequenceError,
    SnapshotError,
    TextError,
)
from .grammar import Grammar, Matcher, Stops
from .grammar_build import GrammarBuild
from .guesses import Guesses
from .metrics import Metrics, Passes, Times
from .model import Model, ModelInfo
from .policy import NEVER, Block
from .sampler import Sampler, argmax
from .sequence import Sequence, SequenceInfo, SnapshotInfo, describe_snapshot
from .session import Session
from .stream import Stream
from .tokenizer import Detokenizer, Tokenizer, Vocabulary
from .tools import Call, Calls, Part, ToolResult
from .turns import AFTER_NOTHING, AFTER_REPLY, ROLES, Turns
from .writing import Writing, WritingInfo

NO_TOKEN: int = lib.GLEED_NO_TOKEN
"""No token: the vocabulary has no token for a purpose."""


def allow_amx() -> bool:
    """Asks Linux to let this process use AMX, the tiles of some Intel processors. Prefill is faster with them, and has the same bits.

    Returns False if the processor has no AMX. Call it before an engine is made. It holds to the end of the process.
    """
    return bool(lib.gleed_allow_amx())


__version__: str = ffi.string(lib.gleed_version()).decode()

__all__ = [
    "AFTER_NOTHING",
    "AFTER_REPLY",
    "NEVER",
    "NO_TOKEN",
    "Adapter",
    "Block",
    "Call",
    "CallError",
    "Calls",
    "ClosedError",
    "ContextError",
    "Conversation",
    "Detokenizer",
    "Engine",
    "EngineInfo",
    "FileError",
    "FullError",
    "GleedError",
    "Grammar",
    "GrammarBuild",
    "GrammarError",
    "Guesses",
    "Keep",
    "LimitError",
    "Matcher",
    "MemorySizeError",
    "Metrics",
    "Model",
    "ModelError",
    "ModelInfo",
    "New",
    "Part",
    "Passes",
    "ROLES",
    "ResultError",
    "Row",
    "Sampler",
    "Sequence",
    "SequenceError",
    "SequenceInfo",
    "Session",
    "SnapshotError",
    "SnapshotInfo",
    "Step",
    "Stops",
    "Stream",
    "TextError",
    "Times",
    "Tokenizer",
    "ToolResult",
    "Turns",
    "Vocabulary",
    "Writing",
    "WritingInfo",
    "allow_amx",
    "argmax",
    "describe_snapshot",
]
