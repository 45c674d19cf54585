"""Conversations that read no token twice."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Iterator, Optional, Tuple, Union

import numpy as np
import numpy.typing as npt

from ._core import Held, Owner, call, choice, hold, number, struct
from ._native import ffi, lib
from .engine import Engine
from .errors import GleedError
from .sequence import Sequence
from .tools import ToolList, ToolResult, tool_list
from .turns import ROLES, Turns

Message = Union[Tuple[str, str], ToolResult]
Messages = Iterable[Message]
"""Pairs of a role (``"system"``, ``"user"``, ``"assistant"``) and a text, or results of tools."""
Summary = Callable[[int, int], Optional[Tuple[str, str]]]
"""Gets the index of the first message that is left out, and the number of such messages. Returns a message in their place, or None."""

NAMES = {role: name for name, role in ROLES.items()}


@dataclass(frozen=True)
class Keep:
    """The turns that stay if a conversation does not fit the context. Whole turns are left out: a message of the user and all up to the
    next."""

    room: int = 1
    """Number of tokens that stay free for the reply."""
    first: int = 0
    """Number of turns at the beginning that stay."""
    last: int = 1
    """Number of turns at the end that stay."""
    target: int = 0
    """Turns are left out until the conversation has at most this number of tokens. By default half of the context."""
    summary: Summary | None = None
    """Writes a message in place of the turns that are left out. It cannot use the engine."""


@dataclass(frozen=True)
class New:
    """The part of a conversation that the model has not read yet."""

    position: int
    """The position of the first token: the length of the sequence."""
    tokens: npt.NDArray[np.uint32]
    """At least one token. Append them to the sequence. The logits of the last one are those for the reply's first token."""
    left_out: range
    """The indices of the messages that are left out because the context is full."""


class Conversation(Owner):
    """A list of messages in its own sequence. The program keeps the list, and may change it in any way.

    After any change (a message appended, edited or removed, a reply to be written again) `update` returns the tokens that the model has not
    read yet. The tokens that are appended to the sequence after these are the reply. Its text becomes a message, and keeps these tokens.
    ``docs/conversation.md`` says which tokens are read again after which change.

    >>> new = talk.update(messages)
    >>> logits = talk.sequence.prefill(new.tokens)
    """

    def __init__(
        self,
        engine: Engine,
        turns: Turns,
        *,
        think: bool | None = None,
        keep_thoughts: bool = False,
        tools: ToolList = (),
        tool_format: str | None = None,
        text: int = 0,
        word: int = 0,
        replies: int = 0,
        entries: int = 0,
    ) -> None:
        """Begins in an empty sequence. Raises `FullError` if the engine has no free sequence.

        ``turns`` is the turn format of the model's file. ``think`` tells the model to think, or not to think. Thoughts of earlier turns are
        left out if the format does so, unless ``keep_thoughts``. ``tools`` are offered to the model in the tool format with the name
        ``tool_format`` (``docs/tools.md``), by default in that of the turn format. The other arguments reserve memory: for ``text`` bytes
        between two replies (16384), for ``word`` bytes of the longest word (as long as a text), for the tokens of ``replies`` replies (64),
        and for ``entries`` messages (256).
        """
        flags = (0 if turns._flags else lib.GLEED_SCRIPT_NO_BOS) | keep_thoughts * lib.GLEED_SCRIPT_KEEP_THOUGHTS
        told = lib.GLEED_THINK_DEFAULT if think is None else lib.GLEED_THINK_YES if think else lib.GLEED_THINK_NO
        tokenizer = turns._use()
        limits = struct("gleed_desk_limits", context=engine.context, text=text, word=word, replies=replies, entries=entries)
        self.engine = engine
        self._tokenizer = tokenizer
        offered = ffi.NULL if tools == () else tool_list(tools)
        written = ffi.from_buffer("char[]", (tool_format or "").encode())
        self._offered = (offered, written)
        self._script = struct(
            "gleed_script",
            format=turns._format,
            think=told,
            flags=flags,
            tools=offered,
            tools_len=0 if tools == () else len(offered),
            tool_format=written,
            tool_format_len=len(written),
        )
        self._limits = struct("gleed_conversation_limits", replies=replies)
        # Conversations of one engine wait for each other, so forks share it.
        self._desk = hold(
            "gleed_desk",
            lambda *out: call(lib.gleed_desk_plan, tokenizer.pointer, *out, limits),
            lambda *at: call(lib.gleed_desk_init, tokenizer.pointer, limits, *at),
        )
        self.sequence: Sequence = engine.open()
        """The program appends tokens to it. Only the conversation may rewind it."""
        try:
            with engine._changing() as held:
                handle = self.sequence.handle
                self._held = self._made(held, lambda *at: call(lib.gleed_conversation_init, held.pointer, handle, self._limits, *at))
        except BaseException:
            self.sequence.close()
            raise

    def update(self, messages: Messages, keep: Keep | None = None) -> New:
        """Rewinds the sequence to its longest common beginning with these messages, and returns the tokens of the rest.

        If the last message is the assistant's, the model continues it. Otherwise it begins a reply. Messages that do not fit raise
        `ContextError`, unless ``keep`` says which turns are left out. An error changes nothing, except that after `FullError` the sequence
        may be shorter.
        """
        entries, update, rules = _Entries(messages), struct("gleed_update"), _Rules(keep)
        with self._changing() as (held, engine):
            around = (self._tokenizer.pointer, self._desk.pointer, entries.array, len(entries.array), self._script)
            try:
                call(lib.gleed_conversation_update, held.pointer, engine.pointer, *around, rules.pointer, update)
            except GleedError as error:
                raise rules.error or error from None
            tokens = np.frombuffer(ffi.buffer(update.tokens, 4 * update.tokens_len), dtype=np.uint32).copy()
        first = update.left_out if update.left_out_len else 0
        return New(update.position, tokens, range(first, first + update.left_out_len))

    def fork(self) -> Conversation:
        """Opens a second conversation with the same text, in a new sequence. The two share their memory until it changes."""
        own = self._use()
        return self._another(lambda held, *at: call(lib.gleed_conversation_fork, own.pointer, held.pointer, *at))

    def save(self, messages: Messages) -> bytes:
        """Returns the conversation and its messages as bytes for `load`, in this engine or another one of the same model."""
        entries = _Entries(messages)
        with self._changing() as (held, engine):
            what = (held.pointer, engine.pointer, self._desk.pointer, entries.array, len(entries.array))
            saved = np.empty(number(lib.gleed_conversation_saved_size, *what), dtype=np.uint8)
            number(lib.gleed_conversation_save, *what, ffi.from_buffer("uint8_t[]", saved), len(saved))
        return saved.tobytes()

    def load(self, saved: Any) -> tuple[Conversation, list[Message]]:
        """Opens a saved conversation in a new sequence, with the options of this conversation. Returns it and its messages.

        Bytes that are damaged, or of another model, raise a `SnapshotError`.
        """
        data = ffi.from_buffer("uint8_t[]", saved)
        messages = _messages(data)
        where = (data, len(data), self._limits)
        return self._another(lambda held, *at: call(lib.gleed_conversation_load, held.pointer, *where, *at)), messages

    def close(self) -> None:
        """Closes the conversation and its sequence. A second call does nothing."""
        if not self.closed:
            self.sequence.close()
        super().close()

    @contextmanager
    def _changing(self) -> Iterator[tuple[Held, Held]]:
        """Waits until no other call uses the engine."""
        held = self._use()
        with self.engine._changing() as engine:
            # The sequence can be closed separately. Then this raises an error.
            _ = self.sequence.handle
            yield held, engine

    def _made(self, engine: Held, start: Callable[..., int]) -> Held:
        """Makes the object in new memory."""
        return hold(
            "gleed_conversation",
            lambda *out: call(lib.gleed_conversation_plan, engine.pointer, *out, self._limits),
            start,
            engine,
        )

    def _another(self, start: Callable[..., int]) -> Conversation:
        """Returns a conversation with the same options in a new sequence."""
        other = Conversation.__new__(Conversation)
        for name in ("engine", "_tokenizer", "_offered", "_script", "_limits", "_desk"):
            setattr(other, name, getattr(self, name))
        try:
            # A function of a policy may raise at the end: the sequence has an owner before.
            with self.engine._changing() as engine:
                other._held = self._made(engine, lambda *at: start(engine, *at))
                handle = number(lib.gleed_conversation_seq, other._held.pointer, kind="gleed_seq")
                other.sequence = Sequence(self.engine, engine, handle)
        except BaseException:
            other.close()
            raise
        return other


class _Entries:
    """Messages in the form that the library takes, with their texts."""

    def __init__(self, messages: Messages) -> None:
        self.texts: list[Any] = []
        self.array = ffi.new("gleed_entry[]", [self._entry(message) for message in messages])

    def _entry(self, message: Message) -> dict[str, Any]:
        if not isinstance(message, ToolResult):
            role, text = message
            return {"role": choice(role, ROLES, "a role"), **self._text("text", text)}
        texts = {**self._text("text", message.text), **self._text("name", message.name), **self._text("id", message.id)}
        return {"role": lib.GLEED_ROLE_TOOL, **texts}

    def _text(self, field: str, text: str) -> dict[str, Any]:
        data = ffi.from_buffer("char[]", text.encode())
        self.texts.append(data)
        return {field: data, f"{field}_len": len(data)}


class _Rules:
    """`Keep` in the form that the library takes."""

    def __init__(self, keep: Keep | None) -> None:
        self.error: BaseException | None = None
        """The exception that the summary has raised."""
        self._summary = keep.summary if keep else None
        self._texts: list[Any] = []
        self._callback = ffi.callback("gleed_summary", self._write) if self._summary else ffi.NULL
        numbers = {} if keep is None else dict(room=keep.room, first=keep.first, last=keep.last, target=keep.target)
        self.pointer = struct("gleed_keep", **numbers, summary=self._callback) if keep else ffi.NULL

    def _write(self, _: Any, first: int, count: int, message: Any) -> int:
        try:
            assert self._summary is not None
            said = self._summary(first, count)
            if said is None:
                return 0
            text = ffi.from_buffer("char[]", said[1].encode())
            # The library reads the text until the call ends.
            self._texts.append(text)
            message.role, message.text, message.text_len = choice(said[0], ROLES, "a role"), text, len(text)
        except BaseException as error:  # C cannot pass it on: a role that is none makes the call fail, which raises it.
            self.error = self.error or error
            message.role = lib.GLEED_NO_TOKEN
        return 1


def _messages(data: Any) -> list[Message]:
    """Reads the messages of a saved conversation."""
    count = 0
    while True:
        entries = ffi.new("gleed_entry[]", count)
        try:
            found = number(lib.gleed_conversation_saved_entries, data, len(data), entries, count)
            break
        except GleedError as error:
            if error.status != lib.GLEED_E_OUTPUT_TOO_SMALL:
                raise
            count = error.needed

    def told(text: Any, length: int) -> str:
        return bytes(ffi.buffer(text, length)).decode() if length else ""

    def message(entry: Any) -> Message:
        text = told(entry.text, entry.text_len)
        if entry.role == lib.GLEED_ROLE_TOOL:
            return ToolResult(text, told(entry.name, entry.name_len), told(entry.id, entry.id_len))
        return NAMES[entry.role], text

    return [message(entry) for entry in entries[0:found]]
