"""Tests that errors have numbers, that memory is given back, and that the package has all functions of the header."""

from __future__ import annotations

import gc
import re
from pathlib import Path

import gleed
import gleed.errors
import pytest
from conftest import MODEL, PROMPT, ROOT
from gleed._native import lib

HEADER = re.sub(r"/\*.*?\*/", " ", (ROOT / "include/gleed.h").read_text(), flags=re.S)


def test_the_package_has_every_function_of_the_header() -> None:
    names = set(re.findall(r"(?<!\(\*)\b(gleed_[a-z_0-9]+)\s*\(", HEADER))
    assert len(names) >= 114
    for name in names:
        assert callable(getattr(lib, name)), name
    numbers = dict(re.findall(r"^\s*(?:#define )?(GLEED_[A-Z_0-9]+)(?: = | )(-?\d+)u?\b", HEADER, flags=re.M))
    assert len(numbers) > 150
    for name, number in numbers.items():
        assert getattr(lib, name) == int(number), name
    largest = re.findall(r"^#define (GLEED_[A-Z_0-9]+) UINT(32|64)_MAX", HEADER, flags=re.M)
    assert len(largest) >= 4
    for name, bits in largest:
        assert getattr(lib, name) == 2 ** int(bits) - 1, name


def test_every_error_has_a_class() -> None:
    numbers = [int(number) for number in re.findall(r"GLEED_E_[A-Z_]+ = (-\d+)", HEADER)]
    assert len(numbers) > 60
    for number in numbers:
        kind = gleed.errors.class_of(number)
        assert kind is not gleed.GleedError and kind("text", number).name.startswith("GLEED_E_")


def test_a_wrong_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        gleed.Model(tmp_path / "nothing.gguf")
    with pytest.raises(OSError):
        gleed.Model(tmp_path)
    data = MODEL.read_bytes()
    for name, content, status in (
        ("empty", b"", "GLEED_E_FILE_MAGIC"),
        ("text", b"no model at all" * 9, "GLEED_E_FILE_MAGIC"),
        ("cut", data[: len(data) // 2], "GLEED_E_FILE_TRUNCATED"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(gleed.FileError) as error:
            gleed.Model(tmp_path / name)
        assert error.value.name == status
    assert error.value.needed > error.value.given == len(data) // 2


def test_a_split_file_needs_all_parts(tmp_path: Path) -> None:
    (tmp_path / "tales-00001-of-00002.gguf").write_bytes(MODEL.read_bytes())
    with pytest.raises(FileNotFoundError, match="tales-00002-of-00002.gguf"):
        gleed.Model(tmp_path / "tales-00001-of-00002.gguf")
    (tmp_path / "tales-00002-of-00002.gguf").write_bytes(MODEL.read_bytes())
    with pytest.raises(gleed.FileError) as error:
        gleed.Model(tmp_path / "tales-00001-of-00002.gguf")
    assert error.value.name.startswith("GLEED_E_FILE_PART")


def test_a_wrong_call_has_the_number_that_was_wrong(model: gleed.Model) -> None:
    with model.engine(context=16) as engine, engine.open() as sequence:
        with pytest.raises(gleed.SequenceError) as error:
            sequence.prefill([1, 2, 5000])
        assert (error.value.name, error.value.at, error.value.needed, error.value.given) == ("GLEED_E_TOKEN", 2, 1024, 5000)
        assert error.value.status == lib.GLEED_E_TOKEN and "5000" in str(error.value)
        for wrong in ([-1], [2**32], [1.5], ["a"], [[1, 2]]):
            with pytest.raises(ValueError):
                sequence.prefill(wrong)
        with pytest.raises(gleed.SequenceError):
            sequence.prefill([])
        with pytest.raises(gleed.ContextError) as error:
            sequence.prefill([1] * 17)
        assert (error.value.needed, error.value.given) == (16, 17)
        assert len(sequence) == 0 and sequence.can_extend(16) and not sequence.can_extend(17)
        with pytest.raises(gleed.FullError):
            engine.open()
        with pytest.raises(gleed.SequenceError):
            engine.result(0)
        with pytest.raises(gleed.SnapshotError):
            engine.restore(b"no snapshot")
    with pytest.raises(gleed.LimitError) as error:
        model.engine(context=2**31)
    assert error.value.given == 2**31
    with pytest.raises(gleed.GleedError):
        model.engine(threads=10**6)
    with pytest.raises(ValueError, match="cache"):
        model.engine(cache="nonsense")
    with pytest.raises(gleed.CallError):
        gleed.Sampler(temperature=-1.0)
    with pytest.raises(gleed.ResultError):
        gleed.argmax([float("nan")])


def resident() -> int:
    """Returns the resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not say how much memory a process has")
@pytest.mark.parametrize("closes", [True, False])
def test_memory_is_given_back(closes: bool) -> None:
    letters = gleed.Grammar("[a-z ]*", "regex")

    def use() -> int:
        session = gleed.Session(MODEL, threads=2)
        view = session.sequence.prefill([1, 2])
        # These texts are left unfinished. They keep no memory, either.
        next(session.tell(PROMPT * 30, grammar=letters))
        story = session.tell(PROMPT * 30, tokens=9, grammar=letters)
        next(story)
        used = session.engine.info.kv_bytes_used
        if closes:
            session.close()
        del view
        return used

    for _ in range(5):
        used = use()
    before = resident()
    # Memory is given back without the collector of reference cycles.
    gc.disable()
    try:
        for _ in range(50):
            use()
    finally:
        gc.enable()
    grown = resident() - before
    assert 50 * used > 12e6
    assert grown < 4e6, f"{grown} bytes more after 50 times"
