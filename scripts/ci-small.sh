#!/usr/bin/env bash
# What every system can check in some minutes, Windows (Git Bash) and macOS included: the library and its tests, the C programs, a story.
# Everything that has to hold is in .ci/run, which needs Linux.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_PROFILE_DEV_DEBUG=${CARGO_PROFILE_DEV_DEBUG:-0}

cargo --version
cargo test --locked -p gguf-rs-lite -p gleed --lib
# The same bits for all chunks, threads and levels of this machine; budgets; nothing is allocated; hostile files.
cargo test --locked -p gleed --test equality --test budget --test no_alloc --test bad_input --test regressions
# Compiles programs in C against gleed.h, where there is a compiler.
case $(uname -s) in
    MINGW* | MSYS*) cargo build --locked -p gleed-ffi --example gleed_hosted ;;
    *) cargo test --locked -p gleed-ffi --test abi --test c_programs ;;
esac
story=$(cargo run --locked --example hello | tr -d '\r')
echo "$story"
[ "$(head -c 36 <<<"$story")" = "Once upon a time, there was a little" ]
