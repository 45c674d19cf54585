#!/usr/bin/env bash
# Runs tests/miri in Miri: the reader, the arena and its tiles, and a tiny engine, on two threads in orders that a seed decides.
#
#   scripts/miri.sh [SEEDS] [FIRST]   with so many seeds (4), from this one on (0)
#
# Needs rustup; installs the nightly toolchain and Miri where they are missing.
set -euo pipefail
cd "$(dirname "$0")/.."

rustup toolchain list | grep -q ^nightly || rustup toolchain install nightly --profile minimal
rustup component add --toolchain nightly miri rust-src
seeds=${1:-4} first=${2:-0}
MIRIFLAGS="-Zmiri-many-seeds=$first..$((first + seeds))" cargo +nightly miri test --locked --quiet --manifest-path tests/miri/Cargo.toml \
    --target-dir "${CARGO_TARGET_DIR:-$PWD/target}/miri"
