#!/usr/bin/env bash
# Checks that every system can run in some minutes, Windows (Git Bash) and macOS included: the library and its tests, the C programs, a story.
# .ci/run, which needs Linux, checks everything that must hold.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_PROFILE_DEV_DEBUG=${CARGO_PROFILE_DEV_DEBUG:-0}

cargo --version
cargo test --locked -p gguf-rs-lite -p gleed --lib
# Equal bits for all chunks, threads and levels of this machine, budgets, no allocation, hostile files.
cargo test --locked -p gleed --test equality --test budget --test no_alloc --test bad_input --test regressions
# Compile C programs against gleed.h, if the system has a compiler for them.
case $(uname -s) in
    MINGW* | MSYS*) cargo build --locked -p gleed-ffi --example gleed_hosted ;;
    *) cargo test --locked -p gleed-ffi --test abi --test c_programs ;;
esac
story=$(cargo run --locked --example hello | tr -d '\r')
echo "$story"
[ "$(head -c 36 <<<"$story")" = "Once upon a time, there was a little" ]
