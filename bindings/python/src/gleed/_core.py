"""Calls of the C library: memory for its objects, arrays, and errors as exceptions."""

from __future__ import annotations

import dataclasses
import threading
from collections import deque
from typing import Any, Callable, Iterable, Sequence, TypeVar, Union

import numpy as np
import numpy.typing as npt

from ._native import ffi, lib
from .errors import ClosedError, GleedError, class_of

Ids = Union[Sequence[int], npt.NDArray[Any]]
"""Token ids: a list, or an array of integers."""

Record = TypeVar("Record")

# The header and the library of this package are built together. This check finds a library that was exchanged.
if lib.gleed_abi_version() != lib.GLEED_ABI_VERSION:
    raise ImportError(f"the library has version {lib.gleed_abi_version()} of the interface, not {lib.GLEED_ABI_VERSION}")


def struct(kind: str, /, **values: Any) -> Any:
    """Returns a struct of ``gleed.h`` that begins with its size. Fields that are not named are 0."""
    return ffi.new(f"{kind} *", {"struct_size": ffi.sizeof(kind), **values})


def call(function: Callable[..., int], *arguments: Any) -> int:
    """Calls a function whose last argument is the error. Returns a status that is no error, and raises an error."""
    error = struct("gleed_error")
    status = function(*arguments, error)
    if status < 0 or status == lib.GLEED_FULL:
        told = error.status == status
        text = ffi.string(error.text).decode() if told else ""
        text = text or ffi.string(lib.gleed_status_text(status)).decode()
        raise class_of(status)(text, status, error.at, error.needed, error.given)
    return status


def number(function: Callable[..., int], *arguments: Any, kind: str = "size_t") -> int:
    """Calls a function whose last result is one number, and returns it."""
    result = ffi.new(f"{kind} *")
    call(function, *arguments, result)
    return int(result[0])


class Held:
    """An object of the library with everything that it needs to live: its memory, and the objects that it borrows.

    A method takes a reference to it before it calls the library. So a close in another thread frees nothing that a call
    still uses.
    """

    __slots__ = ("flag", "keeps", "left", "lock", "memory", "pointer", "policy")

    def __init__(self, pointer: Any, memory: npt.NDArray[np.uint8], keeps: tuple[Any, ...]) -> None:
        self.pointer = pointer
        self.memory = memory
        self.keeps = keeps
        # Calls that change the object wait for each other. A function of a policy that calls its own engine is refused by the library.
        self.lock = threading.RLock()
        # For an engine: handles of sequences without references, and the flag that ends a step.
        self.left: deque[int] = deque()
        self.flag = ffi.new("uint32_t *")
        # For an engine: the functions that choose in its cache.
        self.policy: Any = None

    def floats(self, pointer: Any, count: int) -> npt.NDArray[np.float32]:
        """Returns numbers within the memory as an array, which keeps the memory alive and cannot be written to."""
        offset = int(ffi.cast("uintptr_t", pointer)) - self.memory.ctypes.data
        view = self.memory[offset : offset + 4 * count].view(np.float32)
        view.flags.writeable = False
        return view


class Owner:
    """Base of the classes with a ``close``."""

    _held: Held | None = None

    def _use(self) -> Held:
        held = self._held
        if held is None:
            raise ClosedError(f"this {type(self).__name__} has been closed", lib.GLEED_E_OBJECT)
        return held

    @property
    def closed(self) -> bool:
        """Whether the object has been closed."""
        return self._held is None

    def close(self) -> None:
        """Gives the memory back as soon as nothing else uses it. A second call does nothing."""
        self._held = None

    def __enter__(self: Record) -> Record:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def hold(kind: str, size: Callable[[Any, Any], object], start: Callable[[Any, int, Any], object], *keeps: Any) -> Held:
    """Makes an object: ``size`` returns how much memory it takes, ``start`` makes it in that memory."""
    memory = memory_of(size)
    pointer = ffi.new(f"{kind} **")
    start(ffi.cast("void *", memory.ctypes.data), len(memory), pointer)
    return Held(pointer[0], memory, keeps)


def memory_of(size: Callable[[Any, Any], object]) -> npt.NDArray[np.uint8]:
    """Returns memory of the size and the alignment that ``size`` returns."""
    wanted, align = ffi.new("size_t *"), ffi.new("size_t *")
    size(wanted, align)
    # The system provides a page when it is first written to, so an engine that is planned for long texts costs only the
    # memory that it uses.
    memory = np.empty(wanted[0] + align[0], dtype=np.uint8)
    first = -memory.ctypes.data % align[0]
    return memory[first : first + wanted[0]]


def grow(function: Callable[..., int], scratch: int, result: int = 0) -> tuple[Any, int]:
    """Calls ``function(scratch, result)`` with growing arrays until they suffice. Returns the arrays, and the
    function's number."""
    while True:
        pad, ids = np.empty(scratch, dtype=np.uint32), np.empty(result, dtype=np.uint32)
        try:
            return (pad, ids), function(pad, ids)
        except GleedError as error:
            if error.status == lib.GLEED_E_SCRATCH_TOO_SMALL and error.needed > scratch:
                scratch = error.needed
            elif error.status == lib.GLEED_E_OUTPUT_TOO_SMALL and error.needed > result:
                result = error.needed
            else:
                raise


def ids_of(tokens: Ids) -> npt.NDArray[np.uint32]:
    """Returns token ids in the form that the library reads. Raises ``ValueError`` for values that cannot be ids."""
    array = np.atleast_1d(np.asarray(tokens))
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError("token ids are a list of integers")
    if array.size and (array.min() < 0 or array.max() >= 2**32):
        raise ValueError("token ids are from 0 to 2^32 - 1")
    return np.ascontiguousarray(array, dtype=np.uint32)


def words(array: npt.NDArray[np.uint32]) -> Any:
    """Returns an array of 32-bit numbers as a C array."""
    return ffi.from_buffer("uint32_t[]", array)


def floats_of(values: Iterable[float]) -> npt.NDArray[np.float32]:
    """Returns numbers in the form that the library reads."""
    return np.ascontiguousarray(values, dtype=np.float32).reshape(-1)


def record(kind: type[Record], told: Any) -> Record:
    """Returns a struct of ``gleed.h`` as a dataclass with fields of the same names."""

    def value(name: str) -> Any:
        field = getattr(told, name)
        return field if isinstance(field, int) else ffi.string(field).decode(errors="replace")

    return kind(**{field.name: value(field.name) for field in dataclasses.fields(kind)})  # type: ignore[arg-type]


def choice(name: str, values: dict[str, int], what: str) -> int:
    """Returns the number of a name. Raises ``ValueError`` if ``values`` does not have the name."""
    if name not in values:
        raise ValueError(f"{what} is one of {', '.join(values)}, not {name!r}")
    return values[name]
