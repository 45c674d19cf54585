#!/usr/bin/env bash
# Builds the shared library for the tests of the bindings, with what the demo model needs, and prints where it is.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target/bindings}")
cargo rustc --quiet --release --locked -p gleed-ffi --lib --target-dir "$target" --crate-type cdylib \
    --no-default-features --features std,grammar,gleed/arch-llama,gleed/quant-q8_0 >&2
echo "$target/release/libgleed_ffi.so"
