"""Runs the examples as a user does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import gleed
from conftest import MODEL, NATIVE, PROMPT, ROOT

EXAMPLES = ROOT / "bindings/python/examples"


def run(*arguments: object, **options: object) -> str:
    done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, encoding="utf-8", **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_story_is_the_native_one(model: gleed.Model) -> None:
    story = PROMPT + model.decode(NATIVE, continues=True) + "\n"
    assert run(EXAMPLES / "story.py", MODEL) == story
    # The program of the README, which is run in the repository's folder.
    readme = (ROOT / "bindings/python/README.md").read_text(encoding="utf-8")
    lines = re.search(r"```python\n(.*?)```", readme, re.S)[1]
    assert len(lines.splitlines()) <= 10
    assert run("-c", lines, cwd=ROOT) == story


def test_two_stories_at_once_are_those_of_one(model: gleed.Model) -> None:
    with gleed.Session(model, context=128) as session:
        stories = [text + session.tell(text, tokens=40).read() for text in ("Once upon a time", "One day")]
    assert run(EXAMPLES / "crowd.py", MODEL) == "\n\n".join(stories) + "\n"


def test_the_plot_is_drawn(tmp_path: Path) -> None:
    assert run(EXAMPLES / "plot.py", MODEL, tmp_path / "plot.svg").startswith(", there was a little girl")
    assert "<svg" in (tmp_path / "plot.svg").read_text(encoding="utf-8")
