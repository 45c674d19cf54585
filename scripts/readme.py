#!/usr/bin/env python3
"""Runs every block of the README as a reader would: each in an empty folder, next to a folder called gleed.

  scripts/readme.py    needs Rust, a C compiler and Python with venv; CARGO_TARGET_DIR is where it builds

A block is identified by its heading. A block that this script does not run is an error, and so is a missing one.
"""

import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
STORY = "Once upon a time, there was a"
# Ids that greedy decoding adds to the same text.
IDS = "952 384 281 261 378 428 "
# Sampled text differs between the programs, so only the prompt is compared.
BEGIN = "Once upon a time"


def blocks():
    """Returns heading, language and text of each block."""
    heading, found, fence = "", [], None
    for line in (ROOT / "README.md").read_text().splitlines():
        if fence is not None and line == "```":
            found.append((heading, fence, "\n".join(text) + "\n"))
            fence = None
        elif fence is not None:
            text.append(line)
        elif line.startswith("```"):
            fence, text = line[3:], []
        elif line.startswith("## "):
            heading = line[3:]
    return found


def run(command, folder, **more):
    print(f"  {command}", flush=True)
    result = subprocess.run(["bash", "-euc", command], cwd=folder, text=True, stdout=subprocess.PIPE, **more)
    if result.returncode:
        sys.exit(f"{result.stdout}\nended with {result.returncode}")
    return result.stdout


def expect(begin, output):
    if not output.startswith(begin) or len(output) < 60:
        sys.exit(f"it says {output[:200]!r}, and should begin with {begin!r}")


def rust(folder, shell, program, add=None):
    """Runs the lines of a block of commands, with the program in src/main.rs before cargo run. Returns its output."""
    for line in shell.splitlines():
        if line.startswith("cargo new"):
            run(line.split("&&")[0], folder)
            folder = folder / "story"
        elif line.startswith("cargo run"):
            (folder / "src/main.rs").write_text(program)
            return run(line.split("#")[0], folder)
        else:
            run(add if add and line.startswith("cargo add") else line, folder)
    sys.exit("the block runs nothing")


def c(folder, shell):
    # The README names the default folder of build results.
    target = os.environ.get("CARGO_TARGET_DIR")
    lines = shell.splitlines()
    if target:
        lines = [line.replace("../gleed/target", shlex.quote(target)) for line in lines]
    expect(STORY, [run(line, folder) for line in lines][-1])


def python(folder, program):
    run("python3 -m venv venv && venv/bin/pip install --quiet --disable-pip-version-check ../gleed/bindings/python", folder)
    (folder / "story.py").write_text(program)
    expect(BEGIN, run("venv/bin/python story.py", folder))


def main():
    found = blocks()

    def take(heading, language):
        """Returns the next block of a language under a heading."""
        for index, block in enumerate(found):
            if block[:2] == (heading, language):
                return found.pop(index)[2]
        sys.exit(f"no block of {language} under {heading}")

    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        (place / "gleed").symlink_to(ROOT)
        folders = iter(range(100))

        def empty():
            folder = place / f"empty-{next(folders)}"
            folder.mkdir()
            (folder / "gleed").symlink_to(ROOT)
            inner = folder / "reader"
            inner.mkdir()
            return inner

        print("Two commands")
        shell, shown = take("Two commands", "sh"), take("Two commands", "text")
        story, tests = shell.splitlines()
        expect(shown.split("\n")[0][len("Once upon a time"):], run(story, ROOT))
        # .ci/run runs the second command itself.
        assert tests == "cargo test --workspace", tests

        print("In Rust")
        program, shell = take("In Rust", "rust"), take("In Rust", "sh")
        expect(BEGIN, rust(place, shell, program))

        print("In C")
        c(empty(), take("In C", "sh"))
        # tests/docs compiles the other block.
        take("In C", "c")

        print("With C++")
        c(empty(), take("With C++", "sh"))
        shown, program = take("With C++", "cpp"), (ROOT / "examples/cpp/frames.cpp").read_text()
        assert textwrap.indent(shown, "    ") in program, "the program has another frame"

        print("In Python")
        python(empty(), take("In Python", "python"))

        # bindings/js/test.sh runs these.
        take("In JavaScript", "sh")
        take("In JavaScript", "js")

        print("Without a heap")
        (place / "story").rename(place / "first-story")
        add = "cargo add gleed --path ../gleed --no-default-features --features full"
        if add not in (ROOT / "README.md").read_text():
            sys.exit(f"the README does not say: {add}")
        expect(IDS, rust(place, shell, take("Without a heap", "rust"), add))
    if found:
        sys.exit(f"nothing runs the block under {found[0][0]}: {found[0][2]}")
    print("all blocks run")


main()
