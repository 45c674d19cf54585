#!/usr/bin/env bash
# Builds the plugin, and runs it in the host of tests/host.rs. Needs Rust, a C compiler and glibc.
set -euo pipefail
cd "$(dirname "$0")"
CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export CARGO_TARGET_DIR
# The library is built before its test, which loads it as a file.
cargo build --quiet --release --locked
cargo test --quiet --release --locked -- --nocapture
