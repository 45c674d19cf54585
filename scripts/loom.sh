#!/usr/bin/env bash
# Runs the pool, the tiles and the loop over tiles in every order of their threads: tests/loom.
#
#   scripts/loom.sh [PREEMPTIONS] [MODEL...]   orders with at most PREEMPTIONS preemptions (2), of these models or of all
set -euo pipefail
cd "$(dirname "$0")/.."

out=${CARGO_TARGET_DIR:-$PWD/target}/loom
RUSTFLAGS="--cfg loom" cargo build --locked --quiet --manifest-path tests/loom/Cargo.toml --target-dir "$out"
"$out/debug/gleed-loom" "$@"
