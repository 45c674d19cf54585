"""The choice of a token from logits."""

from __future__ import annotations

from typing import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from ._core import Owner, call, floats_of, hold, number, struct, words
from ._native import ffi, lib


class Sampler(Owner):
    """Chooses tokens: parameters, the last accepted tokens, and a random generator. It belongs to no engine. The same seed gives the same
    tokens."""

    def __init__(
        self,
        *,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 0.0,
        min_p: float = 0.0,
        repetition_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        presence_penalty: float = 0.0,
        penalty_window: int = 0,
        seed: int = 0,
        biases: Mapping[int, float] | None = None,
    ) -> None:
        """0 means the default. Without arguments the most probable token is chosen.

        ``temperature`` divides the logits. ``top_k`` keeps this number of the most probable tokens, ``top_p`` the most probable tokens
        that together have this probability, ``min_p`` tokens with at least this part of the largest probability. The penalties count the
        last ``penalty_window`` accepted tokens (64). At most 64 ``biases`` are added to logits. ``-math.inf`` bans a token.
        """
        params = struct(
            "gleed_sampler_params",
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            repetition_penalty=repetition_penalty,
            frequency_penalty=frequency_penalty,
            presence_penalty=presence_penalty,
            penalty_window=penalty_window,
            seed=seed,
        )
        self._held = hold(
            "gleed_sampler",
            lambda *out: call(lib.gleed_sampler_size, *out),
            lambda *at: call(lib.gleed_sampler_init, params, *at),
        )
        self._scratch = np.empty(0, dtype=np.uint64)
        self.probability = 0.0
        """The probability of the last chosen token among the tokens that it was drawn from."""
        if biases:
            self.set_biases(biases)

    def set_biases(self, biases: Mapping[int, float]) -> None:
        """Replaces all biases."""
        held = self._use()
        pairs = ffi.new("gleed_bias[]", [(token, bias) for token, bias in biases.items()])
        with held.lock:
            call(lib.gleed_sampler_set_biases, held.pointer, pairs, len(pairs))

    def sample(self, logits: Iterable[float], mask: npt.NDArray[np.uint32] | None = None) -> int:
        """Returns a chosen token. With a mask of `Matcher.mask` it is one of the allowed tokens."""
        held, values = self._use(), floats_of(logits)
        token, probability = ffi.new("uint32_t *"), ffi.new("float *")
        with held.lock:
            if len(self._scratch) < len(values):
                self._scratch = np.empty(len(values), dtype=np.uint64)
            room = (ffi.from_buffer("uint64_t[]", self._scratch), len(self._scratch))
            given = (held.pointer, ffi.from_buffer("float[]", values), len(values))
            if mask is None:
                call(lib.gleed_sample, *given, *room, token, probability)
            else:
                allowed = np.ascontiguousarray(mask, dtype=np.uint32)
                call(lib.gleed_sample_masked, *given, words(allowed), len(allowed), *room, token, probability)
            self.probability = float(probability[0])
        return int(token[0])

    def accept(self, token: int) -> None:
        """Adds a token to the tokens that the penalties count. `sample` does not do this."""
        held = self._use()
        with held.lock:
            call(lib.gleed_sampler_accept, held.pointer, token)

    @property
    def state(self) -> int:
        """The state of the random generator, to save it with a text. It can be set."""
        held = self._use()
        return number(lib.gleed_sampler_state, held.pointer, kind="uint64_t")

    @state.setter
    def state(self, state: int) -> None:
        held = self._use()
        with held.lock:
            call(lib.gleed_sampler_set_state, held.pointer, state)


def argmax(logits: Iterable[float]) -> int:
    """Returns the most probable token, and among equal ones the lowest id."""
    values = floats_of(logits)
    return number(lib.gleed_argmax, ffi.from_buffer("float[]", values), len(values), kind="uint32_t")
