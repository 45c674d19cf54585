#!/usr/bin/env python3
"""Copy the committed fixtures from the full set, and those of more.py and newer.py:  python trim.py ../../../shared/fixtures more newer

The GGUF and .npy files are copied as they are; of the JSON files only what the tests read is kept.
"""

import json
import pathlib
import shutil
import sys

PARITY = ["llama3-rope", "qwen3"]
QUANT = {"llama-small": ["F16"], "qwen3": ["Q4_K"]}
PARITY_KEYS = ["name", "gguf_sha256", "prompt", "greedy", "positions", "logits", "hidden_position", "hidden"]
CASE_KEYS = ["prompt", "greedy", "positions", "logits"]
VECTOR_KEYS = ["pooling", "inputs", "embeddings", "token_input", "token_embeddings"]
QUANT_KEYS = ["model", "prompt", "positions", "llama_cpp_build", "llama_cpp_settings"]


def write(path, document):
    path.write_text(json.dumps(document, separators=(",", ":")) + "\n")


def main():
    source, target = pathlib.Path(sys.argv[1]), pathlib.Path(__file__).parent
    parity = [source / f"parity/{name}.json" for name in PARITY]
    more = sorted(pathlib.Path(sys.argv[2]).glob("*.json"))
    for folder, paths in ("parity", parity), ("more", more):
        for path in paths:
            shutil.copyfile(path.with_suffix(".gguf"), target / folder / f"{path.stem}.gguf")
            full = json.loads(path.read_text())
            write(target / folder / path.name, {key: full[key] for key in PARITY_KEYS})
    for path in sorted(pathlib.Path(sys.argv[3]).glob("*.json")):
        shutil.copyfile(path.with_suffix(".gguf"), target / "newer" / f"{path.stem}.gguf")
        full = json.loads(path.read_text())
        kept = {key: full[key] for key in (CASE_KEYS if "prompt" in full else VECTOR_KEYS)}
        if "long" in full:
            kept["long"] = {key: full["long"][key] for key in CASE_KEYS}
        write(target / "newer" / path.name, kept)
    for model, types in QUANT.items():
        full = json.loads((source / f"quant/{model}.json").read_text())
        kept = {key: full[key] for key in QUANT_KEYS}
        kept["files"] = {}
        for dtype in types:
            for end in ["gguf", "ideal.npy", "llamacpp.npy"]:
                shutil.copyfile(source / f"quant/{model}-{dtype}.{end}", target / f"quant/{model}-{dtype}.{end}")
            file = full["files"][dtype]
            kept["files"][dtype] = {"sha256": file["sha256"], "llama_cpp": {"batch": file["llama_cpp"]["batch"]}}
        write(target / f"quant/{model}.json", kept)


if __name__ == "__main__":
    main()
