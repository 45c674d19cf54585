"""LoRA adapters: small matrices that are added to those of a model, with a scale for each sequence."""

from __future__ import annotations

from pathlib import Path

from ._core import Owner, call, hold, struct
from ._native import ffi, lib
from .model import Model, PathLike, map_file


class Adapter(Owner):
    """The GGUF file of a LoRA adapter, mapped into memory. Any number of engines over its model share it.

    >>> engine = model.engine(adapters=1)
    >>> number = engine.load_adapter(gleed.Adapter(model, "style.gguf"))
    >>> sequence.set_adapter(number, 1.0)
    """

    def __init__(self, model: Model, path: PathLike) -> None:
        """Opens a file that fits the model. Raises ``OSError``, `FileError` or `ModelError`."""
        held, file = model._use(), map_file(Path(path))
        data = ffi.from_buffer("uint8_t[]", file)
        self._held = hold(
            "gleed_adapter",
            lambda *out: call(lib.gleed_adapter_size, *out),
            lambda *at: call(lib.gleed_adapter_open, held.pointer, data, len(file), *at),
            file,
            data,
        )
        info = struct("gleed_adapter_info")
        call(lib.gleed_adapter_describe, self._held.pointer, info)
        self.rank = int(info.rank)
        """The largest rank of its matrices. ``adapter_rank`` of the engine must be at least this."""
