#!/usr/bin/env bash
# Compares every kernel of every level of a machine with the scalar one: tests/attack.
#
#   scripts/attack.sh CASES [SEED [MACHINE]]   compares CASES outputs of each kernel, level and format, chosen by SEED (0), and prints a line
#                                              for each. MACHINE is aarch64 (in qemu-user) or wasm32 (with SIMD, in Node); default: this one
set -euo pipefail
cd "$(dirname "$0")/.."

export GLEED_CASES=${1:?cases} GLEED_SEED=${2:-0}
how=()
case ${3:-} in
"") ;;
aarch64)
    how=(--target aarch64-unknown-linux-musl)
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER="qemu-aarch64 -cpu max"
    ;;
wasm32)
    how=(--target wasm32-wasip1 --no-default-features --features full)
    export CARGO_TARGET_WASM32_WASIP1_RUNNER="node --no-warnings tests/cross/wasi.mjs" CARGO_TARGET_WASM32_WASIP1_RUSTFLAGS="-C target-feature=+simd128"
    ;;
*) echo "unknown machine $3: aarch64 or wasm32" >&2 && exit 2 ;;
esac
[ ${#how[@]} -eq 0 ] || rustup target add "${how[1]}"
cargo test --locked --quiet -p gleed --test attack "${how[@]}" -- --nocapture | grep -o 'attack: .*'
