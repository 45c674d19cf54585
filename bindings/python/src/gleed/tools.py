"""Tools that a model may call. The model's calls are read from its text, and their results go back to the model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Iterable, NamedTuple, Union

import numpy as np

from ._core import Owner, call, hold, struct
from ._native import ffi, lib
from .errors import GleedError
from .turns import Turns

ToolList = Union[str, Iterable[Any]]
"""A list of functions with ``name``, ``description`` and ``parameters`` (a JSON Schema), plain or in the form of OpenAI's
API; or the JSON of such a list."""

KINDS = {
    lib.GLEED_PART_TEXT: "text",
    lib.GLEED_PART_THOUGHT: "thought",
    lib.GLEED_PART_CALL: "call",
    lib.GLEED_PART_WRONG: "wrong",
}
WRONG = {
    lib.GLEED_CALL_INCOMPLETE: "incomplete",
    lib.GLEED_CALL_INVALID: "invalid",
    lib.GLEED_CALL_TOO_DEEP: "too deep",
    lib.GLEED_CALL_POSITIONAL: "positional argument",
    lib.GLEED_CALL_UNKNOWN_TOOL: "unknown tool",
    lib.GLEED_CALL_NO_OBJECT: "no object",
    lib.GLEED_CALL_MISSING: "missing argument",
    lib.GLEED_CALL_UNKNOWN_ARGUMENT: "unknown argument",
    lib.GLEED_CALL_TYPE: "wrong type",
    lib.GLEED_CALL_VALUE: "wrong value",
}


class ToolResult(NamedTuple):
    """The result of a tool: a message of a `Conversation`, after the reply that has called the tool."""

    text: str
    name: str
    """The name of the tool."""
    id: str = ""
    """The identifier of the call, if it has one."""


@dataclass(frozen=True)
class Call:
    """A call of a tool."""

    name: str
    arguments: Any
    """The arguments, as ``json.loads`` reads them."""
    id: str
    """The identifier that the model gave the call, or empty if it gave none."""


@dataclass(frozen=True)
class Part:
    """A part of a model's text."""

    kind: str
    """``"text"``, ``"thought"``, ``"call"``, or ``"wrong"``: a call that cannot be read."""
    text: str
    """The part, as the model has written it."""
    call: Call | None
    """The call, if the part is one."""
    wrong: str | None
    """The error in a call or in its arguments: ``"unknown tool"``, ``"missing argument"`` and so on. None if there is no
    error."""


class Calls(Owner):
    """Reads a reply while the model writes it: text, thoughts and calls of tools.

    The pieces must contain the names of control tokens (``Detokenizer(special=True)``), but not the token that ends the
    turn.
    """

    def __init__(self, turns: Turns, tools: ToolList = (), *, in_thought: bool = False) -> None:
        """Starts to read a reply of a model with these turns. Without ``tools``, names and arguments are not checked.

        Raises ``ValueError`` if it is not known how the model calls tools. ``in_thought`` says that the prompt has opened a
        thought.
        """
        if turns.calls == lib.GLEED_NO_CALLS:
            raise ValueError(f"it is not known how a model with the turn format {turns.name!r} calls tools")
        data = tool_list(tools)
        flags = turns.thoughts | in_thought * lib.GLEED_THOUGHTS_OPEN
        self._held = hold(
            "gleed_calls",
            lambda *out: call(lib.gleed_calls_size, *out),
            lambda *at: call(lib.gleed_calls_init, turns.calls, flags, data, len(data), *at),
            data,
        )
        self._text = bytearray()

    def push(self, piece: str) -> list[Part]:
        """Takes the next piece of the reply. Returns the parts that are certain now."""
        return self._read(piece, False)

    def finish(self) -> list[Part]:
        """Ends the reply. Returns the parts that were held back."""
        return self._read("", True)

    def _read(self, piece: str, is_whole: bool) -> list[Part]:
        held, parts = self._use(), []
        with held.lock:
            self._text += piece.encode()
            text = bytes(self._text)
            while (part := self._next(held.pointer, text, is_whole)) is not None:
                parts.append(part)
        return parts

    def _next(self, pointer: Any, text: bytes, is_whole: bool) -> Part | None:
        part, room = struct("gleed_calls_part"), len(text) + 64
        while True:
            buffer = np.empty(room, dtype=np.uint8)
            try:
                call(lib.gleed_calls_next, pointer, text, len(text), is_whole, ffi.from_buffer("char[]", buffer), room, part)
                break
            except GleedError as error:
                if error.status != lib.GLEED_E_OUTPUT_TOO_SMALL or error.needed <= room:
                    raise
                room = error.needed
        if part.kind == lib.GLEED_PART_NONE:
            return None

        def cut(at: int, length: int) -> str:
            return text[at : at + length].decode()

        found = None
        if part.kind == lib.GLEED_PART_CALL:
            arguments = json.loads(buffer[: part.json_len].tobytes() or b"null")
            found = Call(cut(part.name_at, part.name_len), arguments, cut(part.id_at, part.id_len))
        return Part(KINDS[part.kind], cut(part.at, part.len), found, WRONG.get(part.wrong))


def tool_list(tools: ToolList) -> Any:
    """Returns a list of tools in the form that the library reads."""
    text = tools if isinstance(tools, str) else json.dumps(list(tools), ensure_ascii=False)
    return ffi.from_buffer("char[]", text.encode())
