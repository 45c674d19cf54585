"""Turn formats: the chat templates of families of models, for plain messages."""

from __future__ import annotations

from typing import Any, Iterable

from ._core import Owner, call, choice, grow, number, struct, words
from ._native import ffi, lib
from .model import Model

AFTER_NOTHING: int = lib.GLEED_AFTER_NOTHING
"""The conversation begins."""
AFTER_REPLY: int = lib.GLEED_AFTER_REPLY
"""The model has written a reply, and its turn is open."""
ROLES: dict[str, int] = {"system": lib.GLEED_ROLE_SYSTEM, "user": lib.GLEED_ROLE_USER, "assistant": lib.GLEED_ROLE_ASSISTANT}


class Turns(Owner):
    """The turn format of a model's file, or the format with a name (``docs/templates.md`` lists them)."""

    def __init__(self, model: Model, name: str | None = None) -> None:
        """Raises ``ValueError`` if no format has this name, or if the library does not know the format of the file."""
        held, self._held = model._use(), model.tokenizer._use()
        if name is None:
            self._format = number(lib.gleed_turns_find, held.pointer, self._held.pointer, kind="uint32_t")
        else:
            data = name.encode()
            self._format = number(lib.gleed_turns_named, data, len(data), kind="uint32_t")
        if self._format == lib.GLEED_NO_TURNS:
            raise ValueError(f"no turn format is called {name!r}" if name else "the turn format of the model's file is not known")
        info = struct("gleed_turns_info")
        call(lib.gleed_turns_describe, self._format, info)
        self.name: str = ffi.string(info.name).decode()
        calls, thoughts = ffi.new("uint32_t *"), ffi.new("uint32_t *")
        call(lib.gleed_turns_calls, held.pointer, self._format, calls, thoughts)
        self.calls, self.thoughts = int(calls[0]), int(thoughts[0])
        """Numbers of ``gleed.h`` that say how the model calls tools and marks its thoughts, for `Calls` and `Grammar.tools`."""
        # If the file has a template, the template decides about BOS.
        self._flags = 0 if model.string("tokenizer.chat_template") is not None else lib.GLEED_TURNS_ADD_BOS

    def encode(self, messages: Iterable[tuple[str, str]], *, after: int = AFTER_NOTHING, reply: bool = True) -> list[int]:
        """Returns the tokens of messages, pairs of a role (``"system"``, ``"user"``, ``"assistant"``) and a text.

        Append them to a sequence that ends with ``after``: `AFTER_NOTHING`, a number of `ROLES`, or `AFTER_REPLY`. ``reply`` opens the
        model's turn at the end. The text of a message never becomes a special token.
        """
        held = self._use()
        texts = [(choice(role, ROLES, "a role"), ffi.from_buffer("char[]", text.encode())) for role, text in messages]
        array = ffi.new("gleed_message[]", [{"role": role, "text": text, "text_len": len(text)} for role, text in texts])
        flags = self._flags | reply * lib.GLEED_TURNS_REPLY
        length = sum(len(text) for _, text in texts)

        def encode(pad: Any, ids: Any) -> int:
            room = (words(pad), len(pad), words(ids), len(ids))
            return number(lib.gleed_turns_encode, held.pointer, self._format, after, array, len(array), flags, *room)

        (_, ids), count = grow(encode, 4000 + length // 4, 1000 + length)
        return [int(token) for token in ids[:count]]

    def is_stop(self, token: int) -> bool:
        """Returns whether a token ends the model's turn. Do not append it to the sequence: the next turn writes the end of this turn."""
        return bool(number(lib.gleed_turns_is_stop, self._use().pointer, self._format, token, kind="uint32_t"))
