"""A model: a mapped GGUF file."""

from __future__ import annotations

import mmap
import os
import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Sequence, Union

import numpy as np
import numpy.typing as npt

from ._core import Held, Ids, Owner, call, choice, hold, record, struct
from ._native import ffi, lib
from .errors import GleedError
from .tokenizer import Tokenizer

if TYPE_CHECKING:
    from .engine import Engine

PathLike = Union[str, "os.PathLike[str]"]

POOLINGS = {
    "mean": lib.GLEED_POOLING_MEAN,
    "last": lib.GLEED_POOLING_LAST,
    "cls": lib.GLEED_POOLING_CLS,
    "rank": lib.GLEED_POOLING_RANK,
    "model": lib.GLEED_POOLING_MODEL,
}


@dataclass(frozen=True)
class ModelInfo:
    """The properties of a model."""

    name: str
    """The name of the model, or empty if the file has none."""
    architecture: str
    """The name of the architecture in the file."""
    layers: int
    vocab: int
    """Number of tokens in the vocabulary. Token ids are below it, and a row of logits has this many elements."""
    context: int
    """Number of tokens of the context that the model was trained on."""
    hidden: int
    """Number of elements of a hidden state."""
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    fingerprint: int
    """A number that identifies the model. Snapshots contain it."""
    file_bytes: int
    """Size of all parts of the file in bytes."""


class Model(Owner):
    """A GGUF file, mapped into memory without a copy. A split file is opened by the name of its first part.

    Any number of engines and threads may share a model. Objects that were made from the model keep the file open, so a model may be
    closed before its engines. While the file is open, it must not be truncated.
    """

    def __init__(self, path: PathLike) -> None:
        """Opens a file. Raises ``OSError``, `FileError` or `ModelError`."""
        files = [map_file(part) for part in _parts(Path(path))]
        parts = ffi.new("gleed_part[]", [(ffi.from_buffer("uint8_t[]", file), len(file)) for file in files])
        self._held = hold(
            "gleed_model",
            lambda *out: call(lib.gleed_model_split_size, len(files), *out),
            lambda *at: call(lib.gleed_model_open_split, parts, len(files), *at),
            files,
        )
        self.path = Path(path)
        self._lock = threading.Lock()
        self._info: ModelInfo | None = None
        self._tokenizer: Tokenizer | None = None
        self._trie: Held | None = None

    def close(self) -> None:
        """Closes the file as soon as no engine and no tokenizer uses it. A second call does nothing."""
        super().close()
        if self._tokenizer is not None:
            self._tokenizer.close()

    @property
    def info(self) -> ModelInfo:
        """The properties of the model."""
        held = self._use()
        if self._info is None:
            info = struct("gleed_model_info")
            call(lib.gleed_model_describe, held.pointer, info)
            self._info = record(ModelInfo, info)
        return self._info

    def string(self, key: str) -> str | None:
        """Returns a text of the file's metadata, ``"tokenizer.chat_template"`` for example, or None if there is no such key."""
        held, data = self._use(), key.encode()
        text, length = ffi.new("char **"), ffi.new("size_t *")
        try:
            call(lib.gleed_model_string, held.pointer, data, len(data), text, length)
        except GleedError as error:
            if error.status == lib.GLEED_E_MODEL_KEY_MISSING:
                return None
            raise
        return bytes(ffi.buffer(text[0], length[0])).decode(errors="replace") if length[0] else ""

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the model. The first access makes it."""
        held = self._use()
        with self._lock:
            if self._tokenizer is None:
                self._tokenizer = Tokenizer(held)
            return self._tokenizer

    def encode(self, text: str, **flags: bool) -> list[int]:
        """Returns the token ids of a text: `Tokenizer.encode`."""
        return self.tokenizer.encode(text, **flags)

    def decode(self, tokens: Ids, **flags: bool) -> str:
        """Returns the text of token ids: `Tokenizer.decode`."""
        return self.tokenizer.decode(tokens, **flags)

    def engine(self, **limits: Any) -> Engine:
        """Returns an engine over this model, with the limits of `Engine`."""
        from .engine import Engine

        return Engine(self, **limits)

    def embed(
        self, texts: str | Sequence[str], *, pooling: str = "model", normalize: bool = True, threads: int = 1
    ) -> npt.NDArray[np.float32]:
        """Returns the embeddings of texts, one row for each: [texts, elements].

        ``pooling`` is ``"mean"``, ``"last"``, ``"cls"``, ``"rank"`` (the results of a reranker's classes) or ``"model"``, which is the
        pooling that the file asks for, or else the mean. ``normalize`` scales rows to length 1, except with ``"rank"``. The memory is
        given back afterwards.
        """
        from .engine import Engine

        tokens = [self.encode(text) for text in ([texts] if isinstance(texts, str) else texts)]
        longest = max((len(ids) for ids in tokens), default=1)
        # An encoder computes a text as a whole, so a batch must have room for the longest text. Shorter texts share a batch.
        rows, together = max(longest, 256), max(1, min(len(tokens), 256 // max(longest, 1)))
        with Engine(self, context=max(longest, 1), rows=min(rows, 65536), sequences=together, threads=threads) as engine:
            values = engine.embed(tokens, pooling=pooling)
        _, used, _ = embedding(self._use(), pooling)
        if normalize and used != lib.GLEED_POOLING_RANK:
            lengths = np.linalg.norm(values, axis=1, keepdims=True)
            values /= np.where(lengths > 0, lengths, 1)
        return values


def embedding(model: Held, pooling: str) -> tuple[int, int, int]:
    """Returns the number of a pooling, the number of the pooling that this model then uses, and the number of elements of an
    embedding."""
    used, elements = ffi.new("uint32_t *"), ffi.new("size_t *")
    which = choice(pooling, POOLINGS, "pooling")
    call(lib.gleed_model_embedding, model.pointer, which, used, elements)
    return which, int(used[0]), int(elements[0])


def _parts(path: Path) -> list[Path]:
    """Returns all parts of a split file if this is the name of its first part. Otherwise returns the file alone."""
    found = re.fullmatch(r"(.*)-00001-of-(\d{5})\.gguf", path.name)
    if found is None:
        return [path]
    count = int(found[2])
    return [path.with_name(f"{found[1]}-{part:05}-of-{found[2]}.gguf") for part in range(1, count + 1)]


def map_file(path: Path) -> npt.NDArray[np.uint8]:
    """Maps a file into memory."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return np.empty(0, dtype=np.uint8)
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), dtype=np.uint8)
