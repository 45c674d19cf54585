"""Texts that follow a JSON Schema, a grammar or a regular expression, and strings that end a text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Callable, Iterable

import numpy as np
import numpy.typing as npt

from ._core import Held, Owner, call, choice as choose, grow, hold, number, struct, words
from ._native import ffi, lib
from .model import Model

if TYPE_CHECKING:
    from .tools import ToolList
    from .turns import Turns

KINDS = {"schema": lib.GLEED_GRAMMAR_SCHEMA, "gbnf": lib.GLEED_GRAMMAR_GBNF, "regex": lib.GLEED_GRAMMAR_REGEX}
WHITESPACE = {
    "bounded": lib.GLEED_WHITESPACE_BOUNDED,
    "compact": lib.GLEED_WHITESPACE_COMPACT,
    "spaced": lib.GLEED_WHITESPACE_SPACED,
    "any": lib.GLEED_WHITESPACE_ANY,
}
CHOICES = {"auto": lib.GLEED_CHOICE_AUTO, "required": lib.GLEED_CHOICE_REQUIRED}


class Grammar(Owner):
    """A compiled grammar. It never changes, so any number of texts and threads may use it. ``docs/structured.md`` describes the sources."""

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
        """Compiles a JSON Schema (a text or a dict), a grammar in GBNF (``kind="gbnf"``) or a regular expression (``"regex"``).

        ``whitespace`` is the white space between the parts of JSON: ``"bounded"``, ``"compact"``, ``"spaced"`` or ``"any"``. ``closed``
        allows no members that a schema does not declare. ``close`` makes ``Matcher.mask(within=...)`` possible and takes twice the memory.
        ``ignore`` names keywords of schemas that are ignored.
        """
        flags = flags_of(closed, one_of_as_any_of, all_escapes, close)
        self._compile(Source(text, choose(kind, KINDS, "kind"), whitespace, flags, states, ignore))

    @classmethod
    def tools(
        cls,
        tools: ToolList,
        turns: Turns,
        *,
        choice: str = "auto",
        tool: str | None = None,
        parallel: bool = True,
        whitespace: str = "spaced",
        closed: bool = False,
        one_of_as_any_of: bool = False,
        close: bool = True,
        states: int = 0,
        ignore: Iterable[str] = (),
    ) -> Grammar:
        """Compiles a list of tools. The texts are replies that may call the tools, with valid calls only. `Calls` reads them.

        ``turns`` says how the model calls tools. With the ``choice`` ``"auto"`` a reply may call a tool, with ``"required"`` it must call
        one, and with ``tool`` it must call this tool. Without ``parallel`` it ends after the first call. The other arguments are as in
        `Grammar`.
        """
        if turns.calls == lib.GLEED_NO_CALLS:
            raise ValueError(f"it is not known how a model with the turn format {turns.name!r} calls tools")
        which = lib.GLEED_CHOICE_NAMED if tool is not None else choose(choice, CHOICES, "choice")
        vocabulary, name = turns._use(), ffi.from_buffer("char[]", (tool or "").encode())
        calls = dict(
            calls=turns.calls,
            choice=which,
            thoughts=turns.thoughts,
            call_flags=0 if parallel else lib.GLEED_CALLS_SINGLE,
            tool=name,
            tool_len=len(name),
            tokenizer=vocabulary.pointer,
        )
        text = tools if isinstance(tools, str) else json.dumps(list(tools), ensure_ascii=False)
        flags = flags_of(closed, one_of_as_any_of, False, close)
        grammar = cls.__new__(cls)
        grammar._compile(Source(text, lib.GLEED_GRAMMAR_TOOLS, whitespace, flags, states, ignore, calls, (vocabulary, name)))
        return grammar

    def _compile(self, source: Source) -> None:
        size, align = ffi.new("size_t *"), ffi.new("size_t *")
        text = source.text

        def plan(pad: Any, _: Any) -> int:
            return call(lib.gleed_grammar_plan, text, len(text), words(pad), len(pad), size, align, source.options)

        (pad, _), _ = grow(plan, 0)

        room = (text, len(text), words(pad), len(pad), source.options)
        self._held = hold("gleed_grammar", _planned(size, align), lambda *at: call(lib.gleed_grammar_init, *room, *at))
        self.closes = source.closes


class Source:
    """The text of a grammar and its options, in the form that the library takes."""

    def __init__(
        self,
        text: str | dict[str, Any] | bool,
        kind: int,
        whitespace: str,
        flags: int,
        states: int,
        ignore: Iterable[str],
        calls: dict[str, Any] | None = None,
        keeps: tuple[Any, ...] = (),
    ) -> None:
        keywords = ffi.from_buffer("char[]", " ".join(ignore).encode())
        self.text = ffi.from_buffer("char[]", (text if isinstance(text, str) else json.dumps(text)).encode())
        self.closes = bool(flags & lib.GLEED_GRAMMAR_CLOSE)
        self.options = struct(
            "gleed_grammar_options",
            kind=kind,
            whitespace=choose(whitespace, WHITESPACE, "whitespace"),
            flags=flags,
            states=states,
            ignore=keywords,
            ignore_len=len(keywords),
            **(calls or {}),
        )
        self.keeps = (keywords, *keeps)
        """The objects that `options` points to."""


def flags_of(closed: bool, one_of_as_any_of: bool, all_escapes: bool, close: bool) -> int:
    """Returns the flags of a grammar."""
    return int(
        closed * lib.GLEED_GRAMMAR_CLOSED
        | one_of_as_any_of * lib.GLEED_GRAMMAR_ONE_OF_AS_ANY_OF
        | all_escapes * lib.GLEED_GRAMMAR_ALL_ESCAPES
        | close * lib.GLEED_GRAMMAR_CLOSE
    )


class Matcher(Owner):
    """The state of one text under a grammar."""

    def __init__(self, grammar: Grammar, model: Model) -> None:
        """Starts with an empty text, for the tokens of the model."""
        rules = grammar._use()
        self._start(model, rules, lambda *at: call(lib.gleed_matcher_init, rules.pointer, ffi.NULL, *at))

    def _start(self, model: Model, rules: Held, start: Any) -> None:
        self._model = model
        self._rules = rules
        self._tokens = model.tokenizer._use()
        self._trie = trie_of(model)
        self._mask_len = number(lib.gleed_trie_mask_len, self._trie.pointer)
        self._held = hold(
            "gleed_matcher",
            lambda size, align: call(lib.gleed_matcher_plan, size, align, ffi.NULL),
            start,
            rules,
            self._trie,
            self._tokens,
        )

    def mask(self, *, within: int | None = None, ends: bool = True) -> npt.NDArray[np.uint32]:
        """Returns the tokens that may follow: bit ``id % 32`` of element ``id // 32``. For `Sampler.sample`.

        With ``within`` the text ends within this number of tokens, if the vocabulary allows it. The grammar needs ``close``. ``ends``
        allows tokens that end a text where the text may end. Raises `GrammarError` if nothing may follow.
        """
        held, mask = self._use(), np.zeros(self._mask_len, dtype=np.uint32)
        rest = (0, ends * lib.GLEED_MASK_ENDS, words(mask), len(mask))
        with held.lock:
            if within is None:
                call(lib.gleed_matcher_mask, held.pointer, self._trie.pointer, *rest)
            else:
                call(lib.gleed_matcher_mask_within, held.pointer, self._trie.pointer, within, *rest)
        return mask

    def accept(self, token: int) -> bool:
        """Takes a token. Returns False, and changes nothing, if the grammar does not allow it."""
        held = self._use()
        with held.lock:
            return bool(number(lib.gleed_matcher_accept, held.pointer, self._tokens.pointer, token, kind="uint32_t"))

    def accept_text(self, text: str) -> int:
        """Takes the longest beginning of a text that the grammar allows. Returns its number of bytes."""
        held, data = self._use(), text.encode()
        with held.lock:
            return number(lib.gleed_matcher_accept_text, held.pointer, data, len(data))

    @property
    def is_end(self) -> bool:
        """Whether the text may end here."""
        return bool(number(lib.gleed_matcher_is_end, self._use().pointer, kind="uint32_t"))

    @property
    def is_free(self) -> bool:
        """Whether any text may follow, up to the mark that begins a call of a tool. If so, a program samples without a mask."""
        return bool(number(lib.gleed_matcher_is_free, self._use().pointer, kind="uint32_t"))

    def forced_tokens(self) -> list[int]:
        """Returns the tokens that must follow. Give each to `accept`, and all to the engine in one call."""
        return forced_tokens(lib.gleed_matcher_forced_tokens, self._use(), self._tokens.pointer, self._trie.pointer)

    def fork(self) -> Matcher:
        """Returns a copy that does not depend on this matcher."""
        held, copy = self._use(), Matcher.__new__(Matcher)
        with held.lock:
            copy._start(self._model, self._rules, lambda *at: call(lib.gleed_matcher_fork, held.pointer, *at))
        return copy

    def rewind(self, tokens: int) -> None:
        """Takes the last tokens back."""
        self._change(lib.gleed_matcher_rewind, tokens)

    def reset(self) -> None:
        """Goes back to the empty text."""
        self._change(lib.gleed_matcher_reset)

    def snapshot(self) -> bytes:
        """Returns the state as a few hundred bytes."""
        held = self._use()
        with held.lock:
            state = np.empty(number(lib.gleed_matcher_snapshot_size, held.pointer), dtype=np.uint8)
            number(lib.gleed_matcher_snapshot, held.pointer, ffi.from_buffer("uint8_t[]", state), len(state))
        return state.tobytes()

    def restore(self, snapshot: Any) -> None:
        """Takes the state of a snapshot of the same grammar."""
        data = ffi.from_buffer("uint8_t[]", snapshot)
        self._change(lib.gleed_matcher_restore, data, len(data))

    def _change(self, function: Any, *arguments: Any) -> None:
        held = self._use()
        with held.lock:
            call(function, held.pointer, *arguments)


class Stops(Owner):
    """Finds at most 16 strings that end a text, of 1 to 256 bytes. They may begin and end within tokens."""

    def __init__(self, strings: Iterable[str]) -> None:
        texts = [ffi.from_buffer("char[]", text.encode()) for text in strings]
        array = ffi.new("gleed_string[]", [(text, len(text)) for text in texts])
        self._held = hold(
            "gleed_stops",
            lambda *out: call(lib.gleed_stops_size, *out),
            lambda *at: call(lib.gleed_stops_init, array, len(array), *at),
            texts,
        )

    def push(self, piece: str) -> tuple[str, bool]:
        """Takes the next piece. Returns the text that can be shown now, and whether a string has ended the text."""
        held, data, shown = self._use(), piece.encode(), struct("gleed_shown")
        with held.lock:
            call(lib.gleed_stops_push, held.pointer, data, len(data), shown)
            before = bytes(ffi.buffer(shown.held, shown.held_len)) if shown.held_len else b""
        return (before + data[: shown.text_len]).decode(), shown.stop != lib.GLEED_NO_STOP

    def finish(self) -> str:
        """Ends the text. Returns the text that was held back because it could have begun a string."""
        held, text, length = self._use(), ffi.new("char **"), ffi.new("size_t *")
        with held.lock:
            call(lib.gleed_stops_finish, held.pointer, text, length)
            return bytes(ffi.buffer(text[0], length[0])).decode() if length[0] else ""


def forced_tokens(function: Any, held: Held, tokens: Any, trie: Any) -> list[int]:
    """Returns the tokens that must follow. ``function`` writes the tokens of a matcher or of a writing."""

    def forced(pad: Any, ids: Any) -> int:
        return number(function, held.pointer, tokens, trie, words(pad), len(pad), words(ids), len(ids))

    with held.lock:
        (_, ids), count = grow(forced, 4000, 256)
    return [int(token) for token in ids[:count]]


def trie_of(model: Model) -> Held:
    """Returns the tokens of a model by their bytes. The first call makes them."""
    tokens = model.tokenizer._use()
    with model._lock:
        if model._trie is None:
            size, align = ffi.new("size_t *"), ffi.new("size_t *")

            def plan(pad: Any, _: Any) -> int:
                return call(lib.gleed_trie_plan, tokens.pointer, words(pad), len(pad), size, align)

            (pad, _), _ = grow(plan, 0)

            room = (tokens.pointer, words(pad), len(pad))
            model._trie = hold("gleed_trie", _planned(size, align), lambda *at: call(lib.gleed_trie_init, *room, *at))
        return model._trie


def _planned(size: Any, align: Any) -> Callable[[Any, Any], None]:
    """Returns a `size` function for `hold` that returns the size of a finished plan."""

    def tell(wanted: Any, alignment: Any) -> None:
        wanted[0], alignment[0] = size[0], align[0]

    return tell
