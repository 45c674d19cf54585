#!/usr/bin/env bash
# Runs tests/miri in Miri: the reader, the arena and its tiles, and a tiny engine. A seed chooses the order of two threads.
#
#   scripts/miri.sh [SEEDS] [FIRST]   runs SEEDS seeds (4) from FIRST (0) on; tests with one thread run with the first seed only
#
# Needs rustup. Installs the toolchain of scripts/nightly.sh and Miri if they are missing.
set -euo pipefail
cd "$(dirname "$0")/.."

toolchain=$(scripts/nightly.sh miri rust-src)
seeds=${1:-4} first=${2:-0}

run() {
    cargo "+$toolchain" miri test --locked --quiet --manifest-path tests/miri/Cargo.toml --target-dir "${CARGO_TARGET_DIR:-$PWD/target}/miri" "$@"
}

export MIRIFLAGS=-Zmiri-seed=$first
run --test reader --test cache --test level
run --test engine -- windows
MIRIFLAGS=-Zmiri-many-seeds=$first..$((first + seeds))
run --test arena
run --test engine -- two_threads
