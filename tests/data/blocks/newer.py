#!/usr/bin/env python3
"""Make the samples of the newer formats:  python newer.py ../../../../shared/fixtures/blocks2026

A few blocks of the full set, and for formats with a codebook, blocks with every entry of it: their values come from the Python
package gguf (0.19.0), which shares no code with Gleed.
"""

import json
import pathlib
import sys

import numpy as np
from gguf import GGMLQuantizationType
from gguf.quants import dequantize

KEPT = ["random bytes", "scale smallest subnormal", "scale -65504", "exponent byte 0", "exponent byte 1", "all four scales 0x07",
        "all four scales 0x7E", "every other byte 0xFF", "byte i = i (inexact)", "byte i = i, scale 0.1"]


def index_fields(name, entries):
    """Blocks that name all entries in order, with random signs and sub-scales; the scale is 0.1."""
    rng = np.random.default_rng([26, entries])
    per_block = 64 if name.startswith("IQ3") else 32
    blocks = []
    for first in range(0, entries, per_block):
        i = np.arange(first, first + per_block)
        rand = lambda n: rng.integers(0, 256, n, dtype=np.uint8)
        scale = np.frombuffer(np.float16(0.1).tobytes(), np.uint8)
        low, high = (i & 255).astype(np.uint8), i >> 8
        if name == "IQ1_S":
            qh = rng.integers(0, 16, 8).astype(np.uint16) << 12
            for j in range(32):
                qh[j // 4] |= high[j] << (3 * (j % 4))
            parts = [scale, low, qh.astype("<u2").view(np.uint8)]
        elif name == "IQ2_XXS":
            parts = [scale] + [x for j in range(8) for x in (low[4 * j:4 * j + 4], rand(4))]
        elif name == "IQ2_XS":
            words = i.astype(np.uint16) | rng.integers(0, 128, 32).astype(np.uint16) << 9
            parts = [scale, words.astype("<u2").view(np.uint8), rand(8)]
        elif name == "IQ2_S":
            qh = (high.reshape(8, 4) << np.array([0, 2, 4, 6])).sum(axis=1).astype(np.uint8)
            parts = [scale, low, rand(32), qh, rand(8)]
        elif name == "IQ3_XXS":
            parts = [scale, low, rand(32)]
        else:
            qh = (high.reshape(8, 8) << np.arange(8)).sum(axis=1).astype(np.uint8)
            parts = [scale, low, qh, rand(32), rand(4)]
        blocks.append(np.concatenate(parts))
    return np.stack(blocks)


def main():
    source, target = pathlib.Path(sys.argv[1]), pathlib.Path(__file__).parent
    codebooks = {"IQ1_S": 2048, "IQ2_XXS": 256, "IQ2_XS": 512, "IQ2_S": 1024, "IQ3_XXS": 256, "IQ3_S": 512}
    for name, entry in json.loads((source / "blocks.json").read_text())["formats"].items():
        cases, kept, left = entry["cases"], [], list(KEPT)
        for i, case in enumerate(cases):
            found = next((k for k in left if case.startswith(k)), None)
            if found:
                left.remove(found)
                kept.append(i)
        raw = np.fromfile(source / f"{name}.bin", np.uint8).reshape(-1, entry["block_bytes"])[kept]
        values = np.fromfile(source / f"{name}.f32", "<f4").reshape(-1, entry["block_size"])[kept]
        if name in codebooks:
            walk = index_fields(name, codebooks[name])
            raw = np.concatenate([raw, walk])
            values = np.concatenate([values, dequantize(walk, GGMLQuantizationType[name]).astype("<f4")])
        raw.tofile(target / f"{name}.bin")
        values.tofile(target / f"{name}.f32")


if __name__ == "__main__":
    main()
