#!/usr/bin/env bash
# Prints the sizes of docs/size.md: the C library with all kernels as a shared and as a static library, an image for a
# microcontroller with one architecture, one type of matrices and one instruction set, and a module for WebAssembly. Fails where
# one is above its goal. Needs binutils; the images of examples/bare-c and examples/wasm are built if their tools are there.
#
# usage: ffi/size.sh
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}
dir=$CARGO_TARGET_DIR/size
host=$(rustc -vV | sed -n 's/^host: //p')
lld=$(rustc --print sysroot)/lib/rustlib/$host/bin/rust-lld
functions=$(grep -oE '\bgleed_[a-z0-9_]+\(' "$root/include/gleed.h" | tr -d '(' | sort -u)
status=0

# report NAME BYTES GOAL
report() {
    printf '%-64s %9d bytes, goal %7d\n' "$1" "$2" "$3"
    [ "$2" -le "$3" ] || { echo "  above the goal"; status=1; }
}

# sections FILE: code, constants, and what is written to.
sections() {
    "${SIZE:-size}" -A "$1" | awk '$1 ~ /^\.(text|rodata|data|bss|eh_frame|gcc_except_table|data.rel.ro|rela.dyn)/ { printf "    %-24s %9d\n", $1, $2 }'
}

mkdir -p "$dir"
for opt in 3 s; do
    # The library without std: what a program links of it, if it uses every function.
    CARGO_PROFILE_RELEASE_OPT_LEVEL=$opt cargo build --quiet --release --manifest-path "$root/ffi/bare/Cargo.toml" \
        --target-dir "$dir/$opt" --target "$host"
    library=$dir/$opt/$host/release/libgleed.a
    keep=() given=()
    for name in $functions; do keep+=("--undefined=$name"); done
    # What the program's C library has. At level s the compiler leaves checks in whose panics cannot happen: they end in gleed_panic.
    for name in memcpy memmove memset memcmp bcmp strlen gleed_panic; do given+=("--defsym=$name=0"); done
    "$lld" -flavor gnu --gc-sections --strip-all --entry=gleed_version "${keep[@]}" "${given[@]}" "$library" \
        -o "$dir/static-$opt" 2>/dev/null
    report "linked from the static library, all kernels, opt-level $opt" "$(stat -c %s "$dir/static-$opt")" $((700 * 1024))
    sections "$dir/static-$opt"
    "$root/ffi/bare/shared.sh" "$library" "$dir/shared-$opt.so"
    report "shared library without std, all kernels, opt-level $opt" "$(stat -c %s "$dir/shared-$opt.so")" $((700 * 1024))
done

if command -v arm-none-eabi-gcc >/dev/null; then
    "$root/examples/bare-c/run.sh" >/dev/null
    for opt in s 3; do
        image=$CARGO_TARGET_DIR/bare-c/story-$opt.elf
        model=$(stat -c %s "$root/examples/assets/gleed-tales-q8_0.gguf")
        bytes=$(($(arm-none-eabi-size "$image" | awk 'NR == 2 { print $1 + $2 }') - model))
        report "Cortex-M4F program, one of each, opt-level $opt" "$bytes" $((200 * 1024))
    done
fi
if command -v node >/dev/null; then
    # wasm NAME FEATURES: as it is linked, and after wasm-opt, which the goal is for. What .ci/run builds, too.
    wasm() {
        local name=$1 features=gleed/arch-dense,$2 used
        for used in include/gleed.h examples/wasm/run.mjs; do
            USED_BY=$root/$used WASM_OPT='' "$root/examples/wasm/build.sh" "$dir/linked.wasm" --no-default-features --features "$features"
            printf '%-64s %9d bytes\n' "$name, functions of ${used##*/}, linked" "$(stat -c %s "$dir/linked.wasm")"
            USED_BY=$root/$used "$root/examples/wasm/build.sh" "$dir/gleed.wasm" --no-default-features --features "$features"
            report "the same after wasm-opt, if it is there" "$(stat -c %s "$dir/gleed.wasm")" $((400 * 1024))
        done
    }
    export OPT_LEVEL=s
    types=gleed/quant-legacy,gleed/quant-k
    wasm "WebAssembly, plain" "$types,gleed/quant-float,gleed/quant-iq4_nl,gleed/quant-iq4_xs,gleed/kv-all"
    RUSTFLAGS="-C target-feature=+simd128" wasm "WebAssembly, simd128" "$types"
fi
exit $status
