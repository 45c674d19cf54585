"""The figures of an engine's work."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Times:
    """Times in nanoseconds. All are 0 if nothing was measured."""

    count: int
    sum: int
    min: int
    max: int


@dataclass(frozen=True)
class Passes:
    """Batches that ran through the whole model."""

    count: int
    rows: int
    """Number of tokens in the passes."""
    times: Times
    p50: int
    """The median of the times in nanoseconds, at most 1/16 off."""
    p99: int


@dataclass(frozen=True)
class Metrics:
    """The figures of an engine since it was made, or since `Engine.reset_metrics`. ``docs/metrics.md`` says when each
    number changes."""

    prefill: Passes
    """Passes with tokens of prompts."""
    decode: Passes
    """Passes with single tokens, and guesses after them."""
    mixed: Passes
    """Passes with both."""
    dropped: int
    """Number of passes that were dropped."""
    first_token: Times
    """The time from a prompt to its logits."""
    decode_tokens: int
    """Number of tokens that decode passes appended."""
    rows_again: int
    """Number of rows of tokens that their sequence had before."""
    saved_prefix: int
    """Number of rows that were not computed, because a cached prefix, a fork, a checkpoint or a conversation had
    them."""
    saved_fork: int
    saved_checkpoint: int
    saved_conversation: int
    guesses_proposed: int
    guesses_accepted: int
    steps: int
    yields: int
    """Number of steps that were ended by their units or by `Engine.stop`."""
    overshoot: Times
    """The time by which steps with a deadline ended too late."""
    blocks_used: int
    blocks_high_water: int
    slots_used: int
    """Number of slots with states of recurrent layers."""
    slots_high_water: int

    @property
    def tokens_per_second(self) -> float:
        """Tokens per second of decode passes, or 0 before the first pass. The time to choose tokens does not count."""
        return 1e9 * self.decode_tokens / self.decode.times.sum if self.decode.times.sum else 0.0


def metrics_of(told: Any) -> Metrics:
    """Returns ``gleed_metrics`` as a dataclass."""
    times = {field.name for field in fields(Metrics) if field.type == "Times"}
    passes = {field.name for field in fields(Metrics) if field.type == "Passes"}

    def value(name: str) -> Any:
        field = getattr(told, name)
        if name in times:
            return _times(field)
        return Passes(field.count, field.rows, _times(field.times), field.p50, field.p99) if name in passes else field

    return Metrics(**{field.name: value(field.name) for field in fields(Metrics)})


def _times(told: Any) -> Times:
    return Times(told.count, told.sum, told.min, told.max)
