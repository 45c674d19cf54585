#!/usr/bin/env bash
# Makes the package in bindings/js/dist: the modules of src, and the C library as WebAssembly: plain, with SIMD, and with SIMD and threads. The
# library has the functions that the modules call, the usual architectures without experts, and the common types of weights. Each compressed build has
# about 300 KB. Needs Rust with the target wasm32-unknown-unknown, and gzip.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
dist=$here/dist
# The largest compressed size. The build with threads has 286.6 KB, the build with SIMD 285.9.
most=$((300 * 1024))
usual="llama smollm3 granite qwen2 qwen3 gemma gemma2 gemma3 phi3 gpt2 bloom mpt gptneox stablelm olmo2 starcoder2 ernie4_5 arcee mistral3
    hunyuan-dense glm4 exaone4 seed_oss"
# shellcheck disable=SC2086
families=$(printf 'gleed/arch-%s,' $usual)gleed/quant-float,gleed/quant-legacy,gleed/quant-k,grammar

mkdir -p "$dist"
rm -f "$dist"/*
cp "$here"/src/*.mjs "$here/gleed.d.ts" "$dist"
for build in plain simd threads; do
    flags= link="--export-table --growable-table" others=threads.mjs
    case $build in
    simd) flags="-C target-feature=+simd128" ;;
    threads)
        # The memory comes from JavaScript, with the size in library.mjs. Link-time optimization compiles core's code again, with atomics. The linker
        # refuses a shared memory for an object that was compiled without atomics, so a counter that is not atomic cannot slip in.
        flags="-C target-feature=+simd128,+atomics,+bulk-memory,+mutable-globals"
        link+=" --import-memory --shared-memory --initial-memory=2097152 --max-memory=4294967296 --export=__stack_pointer"
        others=none
        ;;
    esac
    find "$here/src" -name '*.mjs' -not -name $others -exec cat {} + >"$dist/functions"
    # The table can grow, because functions of JavaScript are added to it: the clock, and the function that runs the threads.
    RUSTFLAGS=$flags LINK=$link USED_BY=$dist/functions \
        "$root/examples/wasm/build.sh" "$dist/gleed-$build.wasm" --no-default-features --features "$families"
    chmod 644 "$dist/gleed-$build.wasm"
    bytes=$(gzip -9 -c "$dist/gleed-$build.wasm" | wc -c)
    echo "gleed-$build.wasm: $(stat -c %s "$dist/gleed-$build.wasm") bytes, $bytes compressed"
    [ "$bytes" -le $most ] || { echo "more than $most"; exit 1; }
done
rm "$dist/functions"
