"""An engine: sequences of tokens over one model, and the memory that it computes in."""

from __future__ import annotations

import enum
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Iterator, NamedTuple, Sequence as Many

import numpy as np
import numpy.typing as npt

from ._core import Held, Ids, Owner, call, choice, hold, ids_of, number, record, struct, words
from ._native import ffi, lib
from .errors import CallError, GleedError
from .metrics import Metrics, metrics_of
from .model import Model, embedding

if TYPE_CHECKING:
    from .adapter import Adapter
    from .policy import RankBlock, RankSequence
    from .sequence import Sequence

KINDS = {"paged": lib.GLEED_KV_PAGED, "basic": lib.GLEED_KV_BASIC, "off": lib.GLEED_KV_OFF}
TYPES = {"f16": lib.GLEED_KV_F16, "f32": lib.GLEED_KV_F32, "q8_0": lib.GLEED_KV_Q8_0, "q4_0": lib.GLEED_KV_Q4_0}


class Step(enum.IntEnum):
    """The reason why a step has ended."""

    DONE = lib.GLEED_OK
    """Nothing is queued."""
    YIELDED = lib.GLEED_YIELDED
    """The units are used up. The next step goes on."""
    STOPPED = lib.GLEED_STOPPED
    """`Engine.stop` was called. The next step goes on."""
    READY = lib.GLEED_READY
    """Rows with logits or hidden states are finished. Read them, then go on."""


class Row(NamedTuple):
    """A row of results."""

    sequence: int
    """`Sequence.handle` of the row's sequence."""
    position: int
    """The position of the row's token."""
    values: npt.NDArray[np.float32]
    """Logits, or a hidden state."""


@dataclass(frozen=True)
class EngineInfo:
    """The state of an engine. A block has 16 tokens, and is used, free or reclaimable."""

    sequences: int
    """Number of open sequences."""
    blocks: int
    blocks_used: int
    blocks_free: int
    blocks_reclaimable: int
    """Number of blocks that no sequence holds, and that hold a cached prefix."""
    blocks_pinned: int
    blocks_high_water: int
    is_busy: int
    """1 while any sequence has unfinished work."""
    results: int
    """Number of rows that `Engine.result` can return."""
    kv_bytes: int
    kv_bytes_used: int
    kv_bytes_high_water: int
    prefix_lookups: int
    prefix_hits: int
    prefix_hit_tokens: int
    prefix_missed_tokens: int


class Engine(Owner):
    """Sequences of tokens over one model. All of the engine's memory is taken when it is made.

    Calls on one engine and on its sequences wait for each other. Other threads of Python run meanwhile.

    Logits and hidden states are views into the engine's memory: **their numbers change with the next call that computes or that opens,
    closes or changes a sequence.** Copy the numbers that you keep (``copy=True``, or ``array.copy()``). A view keeps the memory alive,
    also after the engine is closed, so it never reads memory that was freed.
    """

    def __init__(
        self,
        model: Model,
        *,
        context: int = 0,
        sequences: int = 1,
        threads: int = 1,
        rows: int = 0,
        logit_rows: int = 0,
        cache: str = "paged",
        keys: str = "f16",
        values: str | None = None,
        blocks: int = 0,
        window_sinks: int = 0,
        window_last: int = 0,
        prefix_cache: bool = False,
        level: int = 0,
        checkpoints: int = 0,
        checkpoint_every: int = 0,
        adapters: int = 0,
        adapter_rank: int = 0,
    ) -> None:
        """Plans the engine and takes its memory. 0 means the default.

        ``context`` is the largest number of tokens of a sequence, by default the context of the model, at most 4096. ``sequences`` is the
        largest number of open sequences. ``threads`` compute together; results have the same bits with any number. At most ``rows`` tokens
        are computed together (256), and at most ``logit_rows`` of these have logits (1). ``cache`` is ``"paged"``, ``"basic"`` or
        ``"off"``; its ``keys`` and ``values`` are ``"f16"``, ``"f32"``, ``"q8_0"`` or ``"q4_0"``. ``adapters`` is the largest number of
        loaded LoRA adapters, ``adapter_rank`` their largest rank (64). The other arguments are those of ``gleed_config`` in ``gleed.h``.
        """
        held = model._use()
        types = choice(keys, TYPES, "keys"), choice(values or keys, TYPES, "values")
        config = struct(
            "gleed_config",
            sequences=sequences,
            context=context,
            rows=rows,
            kv_kind=choice(cache, KINDS, "cache"),
            kv_type=types[0] | (types[1] + 1) << 8,
            kv_blocks=blocks,
            logit_rows=logit_rows,
            window_sinks=window_sinks,
            window_last=window_last,
            prefix_cache=prefix_cache,
            workers=threads,
            level=level,
            checkpoints=checkpoints,
            checkpoint_every=checkpoint_every,
            adapters=adapters,
            adapter_rank=adapter_rank,
        )
        plan = struct("gleed_plan_info")
        call(lib.gleed_plan_describe, held.pointer, config, plan)
        pool = _Threads(threads) if threads > 1 else None
        self.context, self.sequences, self.threads = int(plan.context), int(plan.sequences), int(plan.workers)
        self.units_per_token = int(plan.units_per_token)
        """The largest number of units of work for one token and its logits: see `step`."""
        self.bytes = int(plan.bytes)
        """The engine's memory in bytes."""
        self._model = held
        self._held = hold(
            "gleed_engine",
            lambda *out: call(lib.gleed_plan, held.pointer, config, *out),
            lambda *at: call(lib.gleed_engine_init, held.pointer, config, *at),
            held,
            pool,
        )
        call(lib.gleed_set_clock, self._held.pointer, ffi.addressof(lib, "gleed_python_nanoseconds"), ffi.NULL)
        if pool is not None:
            executor = struct("gleed_executor", parallel_for=pool.run, ctx=pool.threads)
            call(lib.gleed_set_executor, self._held.pointer, executor)

    @contextmanager
    def _changing(self) -> Iterator[Held]:
        """Waits until no other call uses the engine, and closes sequences without references."""
        held = self._use()
        with held.lock:
            while held.left:
                _close(held, held.left[0])
                held.left.popleft()
            try:
                yield held
            finally:
                if held.policy is not None:
                    held.policy.rethrow()

    @property
    def info(self) -> EngineInfo:
        """The state of the engine."""
        with self._changing() as held:
            info = struct("gleed_engine_info")
            call(lib.gleed_engine_describe, held.pointer, info)
            return record(EngineInfo, info)

    @property
    def metrics(self) -> Metrics:
        """Counts and times of the engine's work. Times are in nanoseconds."""
        with self._changing() as held:
            metrics = struct("gleed_metrics")
            call(lib.gleed_engine_metrics, held.pointer, metrics)
            return metrics_of(metrics)

    def reset_metrics(self) -> None:
        """Sets all figures back to 0."""
        with self._changing() as held:
            call(lib.gleed_engine_reset_metrics, held.pointer)

    def set_policy(
        self,
        *,
        close: RankSequence | None = None,
        evict: RankBlock | None = None,
        hand_out: RankBlock | None = None,
    ) -> None:
        """Lets functions choose in a full cache. Each function ranks the candidates, and the candidate with the lowest rank is taken.
        `make_room` asks ``close`` for each sequence. A call that takes blocks asks ``evict`` for each cached prefix and ``hand_out`` for
        each free block.

        Without a function, and among equal ranks, the library chooses by itself. No rank changes any logits. A function cannot use the
        engine. If a function raises an exception, its candidate gets rank 0, the call does its work, and then raises the exception. A
        sequence that the call has opened is closed.
        """
        from .policy import Policy

        policy = Policy(close, evict, hand_out)
        with self._changing() as held:
            call(lib.gleed_set_cache_policy, held.pointer, policy.pointer)
            held.policy = policy

    def open(self) -> Sequence:
        """Opens an empty sequence. Raises `FullError` if the engine has no free sequence."""
        from .sequence import Sequence

        with self._changing() as held:
            return Sequence(self, held, number(lib.gleed_seq_open, held.pointer, kind="gleed_seq"))

    def restore(self, snapshot: Any, base: Sequence | None = None) -> Sequence:
        """Opens a sequence with the contents of a snapshot: bytes, or anything with a buffer.

        A delta needs ``base``, a sequence with the tokens before it. A snapshot that is damaged, or of another
        model, raises a `SnapshotError` and changes nothing.
        """
        from .sequence import Sequence

        data = ffi.from_buffer("uint8_t[]", snapshot)
        before = ffi.NULL if base is None else ffi.new("gleed_seq *", base.handle)
        with self._changing() as held:
            handle = number(lib.gleed_restore, held.pointer, before, data, len(data), kind="gleed_seq")
            return Sequence(self, held, handle)

    def load_adapter(self, adapter: Adapter) -> int:
        """Loads an adapter and returns its number, from 0 on. It has no effect on a sequence before `Sequence.set_adapter`."""
        loaded = adapter._use()
        with self._changing() as held:
            which = number(lib.gleed_engine_load_adapter, held.pointer, loaded.pointer, kind="uint32_t")
            held.keeps += (loaded,)
            return which

    def pin(self, tokens: Ids) -> int:
        """Keeps the cached prefix of a prompt in the cache until `unpin`, even if no sequence holds it.

        Returns the number of tokens in this prefix. To undo it exactly, `unpin` these first tokens. The engine needs ``prefix_cache``.
        """
        return self._pinned(lib.gleed_pin, tokens)

    def unpin(self, tokens: Ids) -> int:
        """Removes one pin from each pinned block of a prompt. Returns the number of tokens in these blocks."""
        return self._pinned(lib.gleed_unpin, tokens)

    def _pinned(self, function: Any, tokens: Ids) -> int:
        ids = ids_of(tokens)
        with self._changing() as held:
            return number(function, held.pointer, words(ids), len(ids))

    def step(self, units: int = 0) -> Step:
        """Computes queued tokens until rows are finished, nothing is queued, ``units`` are used up, or `stop` is called.

        0 units means no limit. `units_per_token` units suffice for one token. Results do not depend on how the work is divided.
        """
        with self._changing() as held:
            budget = struct("gleed_budget", units=units, cancel=held.flag)
            status = Step(call(lib.gleed_step, held.pointer, budget))
            if status is Step.STOPPED:
                held.flag[0] = 0
            return status

    def stop(self) -> None:
        """Ends the running step, or else the next one, after at most one unit of work. Any thread may call it. It never waits."""
        self._use().flag[0] = 1

    def result(self, index: int = 0, *, copy: bool = False) -> Row:
        """Returns a row of logits of the last step, counted from 0. Raises `SequenceError` past the last row."""
        return self._row(lib.gleed_result, index, copy)

    def hidden(self, index: int = 0, *, copy: bool = False) -> Row:
        """Returns a row with a hidden state of the last step, counted from 0. The next call of `hidden` overwrites it.

        Raises `SequenceError` past the last row.
        """
        return self._row(lib.gleed_hidden, index, copy)

    def _row(self, function: Any, index: int, copy: bool) -> Row:
        sequence, position = ffi.new("gleed_seq *"), ffi.new("uint32_t *")
        values, length = ffi.new("float **"), ffi.new("size_t *")
        with self._changing() as held:
            call(function, held.pointer, index, sequence, position, values, length)
            view = held.floats(values[0], length[0])
            return Row(int(sequence[0]), int(position[0]), view.copy() if copy else view)

    def embed(self, texts: Many[Ids], *, pooling: str = "model") -> npt.NDArray[np.float32]:
        """Returns the embeddings of texts, given as token ids: [texts, elements]. They are not scaled to length 1.

        As many texts as fit a batch run together, each in a free sequence of the engine. An encoder needs at least as many ``rows`` as the
        longest text has tokens.
        """
        lists = [ids_of(tokens) for tokens in texts]
        ids = np.concatenate(lists) if lists else np.empty(0, dtype=np.uint32)
        lengths = ffi.new("size_t[]", [len(tokens) for tokens in lists])
        which, _, elements = embedding(self._model, pooling)
        values = np.zeros((len(lists), elements), dtype=np.float32)
        with self._changing() as held:
            room = ffi.from_buffer("float[]", values)
            texts_of = (words(ids), len(ids), lengths, len(lists))
            call(lib.gleed_embed_texts, held.pointer, *texts_of, which, room, values.size)
        return values


class _Threads:
    """Threads that an engine computes on. They end when nothing refers to them."""

    def __init__(self, threads: int) -> None:
        self.threads = lib.gleed_python_threads_start(threads)
        if self.threads == ffi.NULL:
            raise CallError(f"the system does not give {threads} threads", lib.GLEED_E_VALUE, given=threads)
        self.run = ffi.addressof(lib, "gleed_python_threads_run")

    def __del__(self, end: Any = lib.gleed_python_threads_end, null: Any = ffi.NULL) -> None:
        if self.threads != null:
            end(self.threads)


def _close(held: Held, handle: int) -> None:
    """Closes a sequence and drops its queued tokens."""
    try:
        call(lib.gleed_cancel, held.pointer, handle)
        call(lib.gleed_seq_close, held.pointer, handle)
    except GleedError as error:
        # `Sequence.make_room` of another sequence has closed it.
        if error.status != lib.GLEED_E_SEQUENCE:
            raise
