"""Fixtures that the tests share: the demo model, and reference data of the repository."""

from __future__ import annotations

from pathlib import Path
from typing import Iterator

import gleed
import pytest

ROOT = Path(__file__).resolve().parents[3]
MODEL = ROOT / "examples/assets/gleed-tales-q8_0.gguf"
PROMPT = "Once upon a time"
# The ids that `examples/hello.rs` chooses after the prompt, until the model ends the story.
NATIVE = [int(token) for token in (Path(__file__).parent / "native_ids.txt").read_text().split()]


@pytest.fixture()
def model() -> Iterator[gleed.Model]:
    with gleed.Model(MODEL) as model:
        yield model


@pytest.fixture()
def session(model: gleed.Model) -> Iterator[gleed.Session]:
    with gleed.Session(model, context=256) as session:
        yield session
