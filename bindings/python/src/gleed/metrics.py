"""What an engine has done, in numbers."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Times:
    """Times in nanoseconds. All are 0 where there are none."""

    count: int
    sum: int
    min: int
    max: int


@dataclass(frozen=True)
class Passes:
    """Batches that ran through the whole model."""

    count: int
    rows: int
    """Tokens in them."""
    times: Times
    p50: int
    """Half of the times are not longer, in nanoseconds; at most 1/16 off."""
    p99: int


@dataclass(frozen=True)
class Metrics:
    """What an engine has done since it was made or `Engine.reset_metrics`. ``docs/metrics.md`` says when each number changes."""

    prefill: Passes
    """Of prompts."""
    decode: Passes
    """Of single tokens, and of guesses behind them."""
    mixed: Passes
    """Of both."""
    dropped: int
    """Passes that were dropped."""
    first_token: Times
    """From a prompt to its logits."""
    decode_tokens: int
    """Tokens that decode passes appended."""
    rows_again: int
    """Rows of tokens that their sequence had before."""
    saved_prefix: int
    """Rows that were not computed, because a cached prefix, a fork, a checkpoint or a conversation had them."""
    saved_fork: int
    saved_checkpoint: int
    saved_conversation: int
    guesses_proposed: int
    guesses_accepted: int
    steps: int
    yields: int
    """Steps that their units or `Engine.stop` ended."""
    overshoot: Times
    """How late steps with a deadline ended."""
    blocks_used: int
    blocks_high_water: int
    slots_used: int
    """States of recurrent layers."""
    slots_high_water: int

    @property
    def tokens_per_second(self) -> float:
        """Tokens per second of decode passes; 0 before the first one. The choice of tokens is not in it."""
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
