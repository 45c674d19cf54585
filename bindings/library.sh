#!/usr/bin/env bash
# Builds the shared library for the tests of the bindings, with the features that the demo model needs, and prints its
# path. With `staticlib` it builds the static library.
set -euo pipefail
cd "$(dirname "$0")/.."
kind=${1:-cdylib}
target=$(realpath -m "${CARGO_TARGET_DIR:-target/bindings}")
cargo rustc --quiet --release --locked -p gleed-ffi --lib --target-dir "$target" --crate-type "$kind" \
    --no-default-features --features "std,grammar,${FAMILIES:-gleed/arch-llama,gleed/quant-q8_0}" >&2
case $kind in staticlib) echo "$target/release/libgleed_ffi.a" ;; *) echo "$target/release/libgleed_ffi.so" ;; esac
