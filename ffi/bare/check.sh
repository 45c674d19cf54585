#!/usr/bin/env bash
# Proves that no function of include/gleed.h can panic or allocate, by linking the library without std on
# its own, for several targets: every function of the header is kept, everything that they do not reach is
# dropped, and nothing is there to satisfy what the panic handler calls. Two control builds, one with an
# unchecked index and one with a heap, must fail the same check. Of the core, every function that is compiled is searched for
# calls of panics, whether or not a function of the header reaches it.
#
# usage: ffi/bare/check.sh [TARGET...]
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
header=$here/../../include/gleed.h
target_dir=${CARGO_TARGET_DIR:-$here/../../target}/bare
host=$(rustc -vV | sed -n 's/^host: //p')
lld=$(rustc --print sysroot)/lib/rustlib/$host/bin/rust-lld
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=("$host" thumbv7em-none-eabihf riscv32imac-unknown-none-elf wasm32-unknown-unknown)
# Machine code of each crate on its own: then a control build compiles one small crate, and a check without optimization across crates
# holds for programs with it, too.
export CARGO_PROFILE_RELEASE_LTO=off

functions=$(grep -oE '\bgleed_[a-z0-9_]+\(' "$header" | tr -d '(' | sort -u)
[ -n "$functions" ] || { echo "no functions found in $header"; exit 1; }

# compile TARGET [ARGUMENT...]: with all families for this machine and for one of 32 bits: the others have the same sources as that one.
compile() {
    local families=grammar,full
    case $1 in
    "$host" | thumbv7em-*) ;;
    *) families=grammar,gleed/arch-llama,gleed/quant-q8_0 ;;
    esac
    cargo build --locked --quiet --release --manifest-path "$here/Cargo.toml" --target-dir "$target_dir" \
        --target "$1" --no-default-features --features "$families" "${@:2}"
}

# build TARGET [ARGUMENT...]: compiles the library, prints where it is.
build() {
    compile "$@" >&2 || return 1
    echo "$target_dir/$1/release/libgleed.a"
}

# link TARGET LIBRARY OUT FUNCTION...: keeps these functions and what they reach, and nothing else.
link() {
    local target=$1 library=$2 out=$3 options=(--gc-sections --error-limit=0) flavor=gnu keep=--undefined name
    shift 3
    if [[ $target = wasm* ]]; then
        flavor=wasm keep=--export
        options+=(--no-entry)
    else
        # What compilers call without being asked; a C library or compiler_builtins has them, and none of
        # them panics. For wasm they are in the library. The core of Rust comes compiled for programs that unwind, and names the
        # function which does so; only a panic calls it.
        for name in memcpy memmove memset memcmp bcmp strlen rust_eh_personality; do options+=(--defsym="$name=0"); done
        options+=(--entry=gleed_version)
    fi
    for name in "$@"; do options+=("$keep=$name"); done
    "$lld" -flavor "$flavor" "${options[@]}" ${unresolved:-} "$library" -o "$out"
}

# culprits IMAGE: every call of core's panic functions, with the functions and lines it was inlined from.
culprits() {
    objdump -d --no-show-raw-insn -C "$1" |
        awk '/^[0-9a-f]+ <.*>:$/ { inside = $0 }
             /core::(panicking|slice::index|str::slice_error|option::(expect|unwrap)|result::unwrap)/ &&
                 /(call|jmp)/ && inside !~ /core::(panicking|slice::index|str::slice_error|option|result)/ {
                 print $1, substr($0, index($0, "<")) }' |
        while read -r address callee; do
            echo "  calls ${callee}, in (innermost first):"
            addr2line -e "$1" -i -f -C -p "${address%:}" | sed 's/^/      /'
        done
}

# core_panics RLIB: every function of it that calls a panic of core, and who calls that function.
core_panics() {
    objdump -dr "$1" 2>/dev/null | awk '
        /^[0-9a-f]+ <.*>:$/ { inside = substr($2, 2, length($2) - 3) }
        $2 ~ /^R_/ { name = $3; gsub(/^\.text\.|[-+]0x[0-9a-f]+$/, "", name); calls[inside " " name] = 1
                     if (name ~ /9panicking|13(unwrap|expect)_failed|5slice5index.*fail|16slice_error_fail/)
                         bad[inside] = name }
        END { for (name in bad) {
                  print name " calls " bad[name]
                  for (call in calls) { split(call, pair, " "); if (pair[2] == name) print "    from " pair[1] } } }
        ' | c++filt
}

for target in "${targets[@]}"; do
    library=$(build "$target")
    image=$target_dir/$target.image
    if ! link "$target" "$library" "$image" $functions 2>"$image.log"; then
        echo "FAILED: the library for $target reaches a panic, or needs a symbol that is not there:"
        grep -v 'warning:' "$image.log" || true
        if [ "$target" = "$host" ]; then
            unresolved=--unresolved-symbols=ignore-all link "$target" "$library" "$image" $functions 2>/dev/null || true
            culprits "$image"
        else
            echo "(for the places: ffi/bare/check.sh $host)"
        fi
        exit 1
    fi
    if [ "$target" = "$host" ]; then
        missing=$(comm -23 <(echo "$functions") <(nm --defined-only "$image" | sed -n 's/^.* T //p' | sort -u))
        [ -z "$missing" ] || { echo "FAILED: declared in gleed.h, not in the library:" $missing; exit 1; }
        for crate in gleed gguf_rs_lite; do
            rlib=$(compile "$target" --message-format json | grep -oE "[^\"]*/lib$crate-[0-9a-f]+\.rlib" | tail -n 1)
            found=$(core_panics "$rlib")
            [ -z "$found" ] || { printf 'FAILED: %s can panic:\n%s\n' "$crate" "$found"; exit 1; }
            [ "$(nm "$rlib" 2>/dev/null | grep -c ' T ')" -gt 0 ] || { echo "FAILED: no code in $rlib"; exit 1; }
            echo "$crate: no call of core's panic functions"
        done
    fi

    library=$(build "$target" --features control-panic)
    if link "$target" "$library" "$image.control" $functions gleed_control 2>"$image.log"; then
        echo "FAILED: the check did not notice the panic of the control build for $target"
        exit 1
    fi
    grep -q 'undefined symbol: gleed_panic' "$image.log" || { cat "$image.log"; exit 1; }
    echo "$target: $(wc -w <<<"$functions") functions, no panic"
done

for target in "${targets[@]}"; do
    [ "$target" != "$host" ] || continue
    if build "$target" --features control-alloc >/dev/null 2>"$target_dir/control-alloc.log"; then
        echo "FAILED: the control build with a heap was built for $target"
        exit 1
    fi
    grep -q 'no global memory allocator found' "$target_dir/control-alloc.log" || { cat "$target_dir/control-alloc.log"; exit 1; }
    echo "$target: no allocator"
done

for target in "${targets[@]}"; do
    [ "$target" = "$host" ] || continue
    "${CC:-cc}" -std=c99 -Wall -Wextra -Werror -pedantic -I "$here/../../include" "$here/smoke.c" \
        "$(build "$host")" -Wl,--gc-sections,--defsym=rust_eh_personality=0 -o "$target_dir/smoke"
    # "Once upon a time" and what the model's own makers say comes next: "there was a little girl named Lily."
    ids=$("$target_dir/smoke" "$here/../../examples/assets/gleed-tales-q8_0.gguf" 12 1 414 435 261 385)
    expected="952 384 281 261 378 428 509 387 945 320 511 270"
    [ "$ids" = "$expected" ] || { echo "FAILED: generated $ids instead of $expected"; exit 1; }
    echo "$host: a C program links the library, and generates what it should"
done
