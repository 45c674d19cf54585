"""A sequence of tokens, and its logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ._core import Held, Ids, call, choice, ids_of, number, record, struct, words
from ._native import ffi, lib
from .engine import Engine, _close
from .errors import ClosedError, GleedError
from .model import embedding

WANTS = {
    "last": lib.GLEED_LOGITS_LAST,
    "all": lib.GLEED_LOGITS_ALL,
    "last hidden": lib.GLEED_LOGITS_LAST_HIDDEN,
    "hidden": lib.GLEED_LOGITS_HIDDEN,
}


@dataclass(frozen=True)
class SequenceInfo:
    """The state of a sequence."""

    tokens: int
    """Number of finished tokens."""
    queued: int
    """Number of tokens that are not finished yet."""
    own_blocks: int
    """Number of blocks that only this sequence holds."""
    shared_blocks: int
    is_busy: int
    units_done: int
    units_left: int
    own_bytes: int
    shared_bytes: int


@dataclass(frozen=True)
class SnapshotInfo:
    """The header of a snapshot."""

    tokens: int
    """Number of tokens of the sequence."""
    base: int
    """Number of first tokens that the snapshot leaves out. If it is not 0, the snapshot is a delta."""
    size: int
    """Size of the snapshot in bytes."""
    fingerprint: int
    """`ModelInfo.fingerprint` of the model."""
    state: bytes
    """The bytes of the program in the snapshot."""


class Sequence:
    """The tokens of one text in an engine: `Engine.open`. ``len`` is the number of finished tokens.

    A sequence without references is closed by the next call on its engine.
    """

    def __init__(self, engine: Engine, held: Held, handle: int) -> None:
        self.engine = engine
        self._handle = handle
        self._left = held.left

    @property
    def handle(self) -> int:
        """The number of the sequence in the library. Raises `ClosedError` if it has been closed."""
        self.engine._use()
        if self._handle == 0:
            raise ClosedError("this Sequence has been closed", lib.GLEED_E_OBJECT)
        return self._handle

    @property
    def closed(self) -> bool:
        """Whether the sequence or its engine has been closed."""
        return self._handle == 0 or self.engine.closed

    def close(self) -> None:
        """Frees the blocks, and drops queued tokens. A second call does nothing."""
        handle, self._handle = self._handle, 0
        if handle != 0 and not self.engine.closed:
            with self.engine._changing() as held:
                _close(held, handle)

    def __enter__(self) -> Sequence:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # Another call may be using the engine, so the next call closes the sequence.
        if getattr(self, "_handle", 0) != 0:
            self._left.append(self._handle)

    def prefill(self, tokens: Ids, *, reuse: bool = False, copy: bool = False) -> npt.NDArray[np.float32]:
        """Appends tokens and returns the logits of the last token: a view, see `Engine`, or a copy.

        ``reuse`` begins with the cached prefix of the tokens. It needs an engine with ``prefix_cache``, and an empty sequence.
        """
        ids = ids_of(tokens)
        function = lib.gleed_prefill_prompt if reuse else lib.gleed_prefill
        return self._logits(function, copy, words(ids), len(ids))

    def decode_step(self, token: int, *, copy: bool = False) -> npt.NDArray[np.float32]:
        """Appends one token and returns its logits: a view, see `Engine`, or a copy."""
        return self._logits(lib.gleed_decode_step, copy, int(ids_of([token])[0]))

    def logits(self, *, copy: bool = False) -> npt.NDArray[np.float32]:
        """Returns the logits of the sequence's last row in the last step: a view, see `Engine`, or a copy."""
        return self._logits(lib.gleed_logits, copy)

    def _logits(self, function: Any, copy: bool, *arguments: Any) -> npt.NDArray[np.float32]:
        values, length = ffi.new("float **"), ffi.new("size_t *")
        with self.engine._changing() as held:
            call(function, held.pointer, self.handle, *arguments, values, length)
            view = held.floats(values[0], length[0])
            return view.copy() if copy else view

    def queue(self, tokens: Ids, *, want: str = "last") -> None:
        """Queues tokens for `Engine.step`. ``want`` says which tokens get results.

        With ``"last"`` the last token gets logits, with ``"all"`` all tokens do. With ``"last hidden"`` and ``"hidden"`` they get
        hidden states. Sequences that are queued together are computed together.
        """
        ids = ids_of(tokens)
        self._change(lib.gleed_queue, words(ids), len(ids), choice(want, WANTS, "want"))

    def cancel(self) -> None:
        """Drops queued tokens that are not finished."""
        self._change(lib.gleed_cancel)

    def reset(self) -> None:
        """Removes all tokens."""
        self._change(lib.gleed_reset)

    def rewind(self, keep: int) -> None:
        """Keeps only the first ``keep`` tokens."""
        self._change(lib.gleed_rewind, keep)

    def checkpoint(self) -> None:
        """Makes a checkpoint of the recurrent layers, so that a later rewind to this length computes nothing again."""
        self._change(lib.gleed_checkpoint)

    def fork(self, keep: int | None = None) -> Sequence:
        """Opens a sequence with the first ``keep`` tokens of this one, or with all. The two share memory until it changes."""
        with self.engine._changing() as held:
            keep = self._describe(held).tokens if keep is None else keep
            return Sequence(self.engine, held, number(lib.gleed_fork, held.pointer, self.handle, keep, kind="gleed_seq"))

    def reuse(self, tokens: Ids) -> int:
        """Puts the cached prefix of a prompt into this sequence, which must be empty.

        Returns the number of tokens in this prefix, which is smaller than that of the prompt. `prefill` with ``reuse`` also appends the
        rest.
        """
        ids = ids_of(tokens)
        with self.engine._changing() as held:
            return number(lib.gleed_reuse, held.pointer, self.handle, words(ids), len(ids))

    def set_adapter(self, adapter: int, scale: float = 1.0) -> None:
        """Sets the scale of an adapter (`Engine.load_adapter`) from the next token on. With 0 the adapter has no effect.

        A new sequence has the scale 0 for all adapters. A fork has the scales of its parent. A snapshot does not contain the scales.
        """
        self._change(lib.gleed_seq_set_adapter, adapter, scale)

    def adapter(self, adapter: int) -> float:
        """Returns the scale of an adapter."""
        scale = ffi.new("float *")
        self._change(lib.gleed_seq_adapter, adapter, scale)
        return float(scale[0])

    def can_extend(self, tokens: int = 1) -> bool:
        """Returns whether this number of additional tokens fits in the sequence and in the engine."""
        try:
            self._change(lib.gleed_can_extend, tokens)
        except GleedError as error:
            if error.status in (lib.GLEED_FULL, lib.GLEED_E_CONTEXT, lib.GLEED_E_TOO_MANY):
                return False
            raise
        return True

    def make_room(self, tokens: int = 1) -> int:
        """Closes idle sequences of the engine until this number of additional tokens fits in this one. Returns how many were closed.

        The least recently used sequences are closed first, or those that ``close`` of `Engine.set_policy` ranks lowest. If they are
        not enough, it raises `FullError` and closes none. A call of a sequence that was closed in this way raises `SequenceError`.
        """
        with self.engine._changing() as held:
            return number(lib.gleed_make_room, held.pointer, self.handle, tokens, ffi.NULL, ffi.NULL)

    def _change(self, function: Any, *arguments: Any) -> None:
        with self.engine._changing() as held:
            call(function, held.pointer, self.handle, *arguments)

    @property
    def info(self) -> SequenceInfo:
        """The state of the sequence."""
        with self.engine._changing() as held:
            return self._describe(held)

    def _describe(self, held: Held) -> SequenceInfo:
        info = struct("gleed_seq_info")
        call(lib.gleed_seq_describe, held.pointer, self.handle, info)
        return record(SequenceInfo, info)

    def __len__(self) -> int:
        return self.info.tokens

    def __bool__(self) -> bool:
        return True

    @property
    def tokens(self) -> list[int]:
        """The ids of the finished tokens. Raises `SequenceError` if a window has evicted some of them."""
        with self.engine._changing() as held:
            ids = np.empty(self._describe(held).tokens, dtype=np.uint32)
            call(lib.gleed_seq_tokens, held.pointer, self.handle, 0, words(ids), len(ids))
        return [int(token) for token in ids]

    def embed(self, tokens: Ids, *, pooling: str = "model") -> npt.NDArray[np.float32]:
        """Appends tokens and returns their embedding, which is not scaled to length 1."""
        which, _, elements = embedding(self.engine._model, pooling)
        return self._values(lib.gleed_embed, tokens, elements, which)

    def log_probs(self, tokens: Ids) -> npt.NDArray[np.float32]:
        """Appends tokens. Returns the natural logarithm of the probability of each token after the ones before it, except the first
        token."""
        return self._values(lib.gleed_log_probs, tokens, max(len(ids_of(tokens)) - 1, 0))

    def _values(self, function: Any, tokens: Ids, count: int, *options: int) -> npt.NDArray[np.float32]:
        ids, values = ids_of(tokens), np.zeros(count, dtype=np.float32)
        self._change(function, words(ids), len(ids), *options, ffi.from_buffer("float[]", values), count)
        return values

    def snapshot(self, *, base: int = 0, state: bytes = b"") -> bytes:
        """Returns the sequence as bytes for `Engine.restore`, in this engine or another one of the same model.

        ``base`` is the number of first tokens, a multiple of 16, that are left out because the reader has them. ``state`` are at most
        256 bytes of the program.
        """
        data = ffi.from_buffer("uint8_t[]", state)
        options = struct("gleed_snapshot_options", base=base, state=data, state_len=len(data))
        with self.engine._changing() as held:
            size = number(lib.gleed_snapshot_size, held.pointer, self.handle, options)
            snapshot = np.empty(size, dtype=np.uint8)
            room = ffi.from_buffer("uint8_t[]", snapshot)
            number(lib.gleed_snapshot, held.pointer, self.handle, options, room, size)
        return snapshot.tobytes()


def describe_snapshot(snapshot: Any) -> SnapshotInfo:
    """Returns the header of a snapshot. The bytes after the header are not read."""
    data, info = ffi.from_buffer("uint8_t[]", snapshot), struct("gleed_snapshot_info")
    call(lib.gleed_snapshot_describe, data, len(data), info)
    state = bytes(ffi.buffer(info.state))[: info.state_len]
    return SnapshotInfo(info.tokens, info.base, info.bytes, info.fingerprint, state)
