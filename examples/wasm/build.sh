#!/usr/bin/env bash
# Links the C library for WebAssembly, with the functions of include/gleed.h as exports, no imports and no allocator.
# RUSTFLAGS="-C target-feature=+simd128" makes a module that uses SIMD, OPT_LEVEL=s a small module. With USED_BY=FILE it has
# only the functions that are named in that file. Without the default features it has no grammars, unless they are asked for. If
# binaryen's wasm-opt is installed, it makes a small module 6 % smaller. WASM_OPT= leaves that out. LINK holds more arguments
# for the linker.
#
# usage: examples/wasm/build.sh OUT.wasm [CARGO ARGUMENT...]
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
out=$1
shift
target=wasm32-unknown-unknown
target_dir=${CARGO_TARGET_DIR:-$root/target}/wasm
lld=$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin/rust-lld

CARGO_PROFILE_RELEASE_OPT_LEVEL=${OPT_LEVEL:-3} cargo build --locked --quiet --release --target $target \
    --manifest-path "$root/ffi/bare/Cargo.toml" --target-dir "$target_dir" "$@"
# The functions of the feature `grammar` are between these two lines of the header.
left_out=
case " $* " in *grammar*) ;; *" --no-default-features "*) left_out='/^#ifndef GLEED_NO_GRAMMAR/,/^#endif .* GLEED_NO_GRAMMAR/d' ;; esac
exports=$(sed "$left_out" "${USED_BY:-$root/include/gleed.h}" | grep -oE '\bgleed_[a-z0-9_]+\(' | tr -d '(' | sort -u | sed 's/^/--export=/')
# shellcheck disable=SC2086
"$lld" -flavor wasm --gc-sections --no-entry --strip-all --compress-relocations ${LINK:-} $exports "$target_dir/$target/release/libgleed.a" -o "$out"

case ${OPT_LEVEL:-3} in s | z) optimizer=${WASM_OPT-wasm-opt} ;; *) optimizer= ;; esac
if [ -n "$optimizer" ] && command -v "$optimizer" >/dev/null; then
    # The features that compilers for wasm32 use today. With --all-features wasm-opt could use more.
    "$optimizer" -Oz --converge --enable-simd --enable-bulk-memory --enable-sign-ext --enable-mutable-globals \
        --enable-nontrapping-float-to-int --enable-reference-types --enable-multivalue "$out" -o "$out"
fi
