"""Text to token ids and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._core import Held, Ids, Owner, call, grow, hold, ids_of, number, record, struct, words
from ._native import ffi, lib


@dataclass(frozen=True)
class Vocabulary:
    """The properties of a vocabulary. A token that it does not have is ``gleed.NO_TOKEN``."""

    tokens: int
    """Number of tokens. Ids are below it."""
    bos: int
    """The token that begins a text."""
    eos: int
    """The token that ends a text."""
    eot: int
    """The token that ends a turn."""
    eom: int
    """The token that ends a message."""
    unknown: int
    """The token for text that no other token spells."""
    max_text: int
    """Largest number of bytes that one token completes."""
    adds_bos: int
    """1 if ``encode`` puts ``bos`` in front."""
    adds_eos: int
    """1 if ``encode`` puts ``eos`` at the end."""


class Tokenizer(Owner):
    """The vocabulary of a model with its tables: ``Model.tokenizer``. Any number of threads may share it."""

    def __init__(self, model: Held) -> None:
        self._held = hold(
            "gleed_tokenizer",
            lambda *out: call(lib.gleed_tokenizer_size, model.pointer, *out),
            lambda *at: call(lib.gleed_tokenizer_init, model.pointer, *at),
            model,
        )
        info = struct("gleed_vocab_info")
        call(lib.gleed_tokenizer_describe, self._held.pointer, info)
        self.vocabulary = record(Vocabulary, info)

    def encode(
        self, text: str, *, special: bool = True, parse_special: bool = False, exact: bool = False, continues: bool = False
    ) -> list[int]:
        """Returns the token ids of a text.

        ``special`` adds the tokens that begin and end a text, if the vocabulary says so. ``parse_special`` turns names of control
        tokens into these tokens. Do not use it for text from outside. ``exact`` refuses bytes that the vocabulary cannot spell.
        Without it they are left out. ``continues`` is for text that continues another text: no blank is put before it.
        """
        held, data = self._use(), text.encode()
        flags = (
            special * lib.GLEED_ENCODE_ADD_SPECIAL
            | parse_special * lib.GLEED_ENCODE_PARSE_SPECIAL
            | exact * lib.GLEED_ENCODE_EXACT
            | continues * lib.GLEED_ENCODE_CONTINUES
        )

        def encode(pad: Any, ids: Any) -> int:
            room = (words(pad), len(pad), words(ids), len(ids))
            return number(lib.gleed_encode, held.pointer, data, len(data), flags, *room)

        (_, ids), count = grow(encode, 2000, len(data) + 2)
        return [int(token) for token in ids[:count]]

    def decode(self, tokens: Ids, *, special: bool = False, continues: bool = False) -> str:
        """Returns the text of token ids. ``special`` writes the names of control tokens. ``continues`` is as in `encode`."""
        detokenizer = Detokenizer(self, special=special, continues=continues)
        pieces = [detokenizer.push(int(token)) for token in ids_of(tokens)]
        return "".join(pieces) + detokenizer.finish()

    def find(self, text: str) -> int:
        """Returns the id of the token with exactly this text, as the file spells it, or ``gleed.NO_TOKEN``."""
        data = text.encode()
        return number(lib.gleed_vocab_find, self._use().pointer, data, len(data), kind="uint32_t")

    def is_end(self, token: int) -> bool:
        """Returns whether a token ends a generation: the end of a text, of a turn or of a message."""
        kind, is_end = ffi.new("uint32_t *"), ffi.new("uint32_t *")
        call(lib.gleed_token_kind, self._use().pointer, token, kind, is_end)
        return bool(is_end[0])


class Detokenizer(Owner):
    """Turns a stream of tokens into text. A character of several tokens comes with the last of them."""

    def __init__(self, tokenizer: Tokenizer, *, special: bool = False, continues: bool = False) -> None:
        tables = tokenizer._use()
        flags = special * lib.GLEED_DECODE_RENDER_SPECIAL | continues * lib.GLEED_DECODE_CONTINUES
        self._tables = tables
        self._held = hold(
            "gleed_detokenizer",
            lambda *out: call(lib.gleed_detokenizer_size, *out),
            lambda *at: call(lib.gleed_detokenizer_init, tables.pointer, flags, *at),
            tables,
        )
        self._text = np.empty(max(tokenizer.vocabulary.max_text, 3), dtype=np.uint8)

    def push(self, token: int) -> str:
        """Returns the text that a token completes, which may be empty."""
        held = self._use()
        with held.lock:
            return self._read(lib.gleed_detokenize, held.pointer, self._tables.pointer, token)

    def finish(self) -> str:
        """Ends the text. Returns U+FFFD if the text ended within a character, otherwise an empty text. The next token begins
        another text."""
        held = self._use()
        with held.lock:
            return self._read(lib.gleed_detokenizer_finish, held.pointer)

    def _read(self, function: Any, *arguments: Any) -> str:
        count = number(function, *arguments, ffi.from_buffer("char[]", self._text), len(self._text))
        return self._text[:count].tobytes().decode()
