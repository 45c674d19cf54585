#!/usr/bin/env python3
"""Writes calls.jsonl: the rows of ../shared/fixtures/structured/tool-calls.jsonl (CC0), with the list of tools as a text, so
that the order of its members stays, and without what the tests do not read.

    tests/data/tools/make.py ../shared/fixtures/structured/tool-calls.jsonl
"""

import json
import pathlib
import sys

KEPT = ["case", "family", "format", "tools", "messages", "prompt", "text", "content", "calls", "error"]

with open(pathlib.Path(__file__).parent / "calls.jsonl", "w") as out:
    for line in open(sys.argv[1]):
        row = json.loads(line)
        row["tools"] = json.dumps(row["tools"], ensure_ascii=False)
        row = {key: row[key] for key in KEPT if row.get(key) is not None}
        out.write(json.dumps(row, ensure_ascii=False) + "\n")
