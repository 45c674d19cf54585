#!/usr/bin/env bash
# Makes the packages of the C library: one archive for each system, the NuGet and the Unity package, and their checksums. docs/packages.md
# describes them. With --check everything is built again from a copy in another folder, and the bytes must be the same.
#
# usage: scripts/package.sh [--check] [OUT [SYSTEM...]]         into target/packages, for all systems
#
# FAMILIES=gleed/arch-llama,gleed/quant-q8_0 builds with these families only. Needs rustup, CMake, Python 3 and GNU tar; for Windows
# x86_64-w64-mingw32-gcc.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
all="x86_64-linux aarch64-linux x86_64-windows aarch64-android wasm32 thumbv7em thumbv8m riscv32"
check=
[ "${1:-}" != --check ] || { check=yes; shift; }
out=$(realpath -m "${1:-$root/target/packages}")
systems=("${@:2}")
# shellcheck disable=SC2206
[ ${#systems[@]} -gt 0 ] || systems=($all)

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}/packages
# Variables from outside that could change the bytes.
export CARGO_INCREMENTAL=0 CARGO_PROFILE_RELEASE_DEBUG=false RUSTFLAGS="" LC_ALL=C TZ=UTC
export RUSTC_WRAPPER=$root/scripts/package/rustc.sh GLEED_ROOT=$root
unset CARGO_BUILD_TARGET CARGO_ENCODED_RUSTFLAGS
manifest=$root/ffi/bare/Cargo.toml
sysroot=$(rustc --print sysroot)
binaries=$sysroot/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml" | head -n 1)
abi=$(sed -n 's/^#define GLEED_ABI_VERSION //p' "$root/include/gleed.h" | grep -oE '^[0-9]+')
features=()
[ -z "${FAMILIES:-}" ] || features=(--no-default-features --features "grammar,$FAMILIES")

# target_of SYSTEM: prints the target. No C library is linked, so one build for Linux fits all C libraries.
target_of() {
    case $1 in
        x86_64-linux) echo x86_64-unknown-linux-gnu ;;
        aarch64-linux) echo aarch64-unknown-linux-musl ;;
        x86_64-windows) echo x86_64-pc-windows-gnu ;;
        aarch64-android) echo aarch64-linux-android ;;
        wasm32) echo wasm32-unknown-unknown ;;
        thumbv7em) echo thumbv7em-none-eabihf ;;
        thumbv8m) echo thumbv8m.main-none-eabihf ;;
        riscv32) echo riscv32imac-unknown-none-elf ;;
        *) echo "unknown system $1: $all" >&2; return 1 ;;
    esac
}

# static_library TARGET PREFIX
static_library() {
    local flags=
    # Without this, functions for atomics would ask the C library whether the processor is newer.
    case $1 in aarch64-unknown-linux-*) flags="-C target-feature=-outline-atomics" ;; esac
    RUSTFLAGS=$flags cargo build --locked --quiet --release --manifest-path "$manifest" --target "$1" "${features[@]}"
    without_debug "$CARGO_TARGET_DIR/$1/release/libgleed.a" "$2/lib/libgleed.a"
}

# without_debug LIBRARY OUT: drops debug information, which no linker needs and which names paths of Rust's own libraries. The name of the
# one object of this repository contains a number that cargo makes from the folder.
without_debug() {
    LD_LIBRARY_PATH=$sysroot/lib "$binaries/rust-objcopy" --strip-debug "$1" "$2"
    sed -i -E 's/gleed-[0-9a-f]{16}\.gleed\./gleed-0000000000000000.gleed./' "$2"
}

# shared_elf PREFIX [LINKER ARGUMENT...]
shared_elf() {
    local prefix=$1 file=libgleed.so.$abi foreign
    shift
    "$root/ffi/bare/shared.sh" "$prefix/lib/libgleed.a" "$prefix/lib/$file" -soname "$file" --eh-frame-hdr -z now "$@"
    foreign=$(nm -D --undefined-only "$prefix/lib/$file" | awk '{ print $2 }' | grep -vxE 'memcpy|memmove|memset|memcmp|bcmp|strlen' || true)
    [ -z "$foreign" ] || { echo "$file needs functions that not every C library has:" $foreign; return 1; }
}

# Android looks for functions only in the libraries that a library names, so this one names the system's C library. A library of that
# name with only these functions suffices to link.
shared_android() {
    local libc=$CARGO_TARGET_DIR/android-libc.so nothing=$CARGO_TARGET_DIR/nothing.a name given=()
    # The linker needs a file as input.
    printf '!<arch>\n' >"$nothing"
    for name in memcpy memmove memset memcmp bcmp strlen; do given+=("--defsym=$name=0"); done
    "$binaries/rust-lld" -flavor gnu -m aarch64linux -shared -soname libc.so "${given[@]}" "$nothing" -o "$libc"
    # Pages of Android may have 16 KB. An application packs only files whose names end in .so.
    shared_elf "$1" -z max-page-size=16384 -soname libgleed.so "$libc"
    mv "$1/lib/libgleed.so.$abi" "$1/lib/libgleed.so"
}

# Makes a DLL, its import library, and a definition file for linkers that make an import library themselves.
shared_windows() {
    local prefix=$1
    mkdir -p "$prefix/bin"
    { echo EXPORTS; grep -oE '\bgleed_[a-z0-9_]+\(' "$root/include/gleed.h" | tr -d '(' | sort -u; } >"$prefix/lib/gleed.def"
    (cd "$prefix" && x86_64-w64-mingw32-gcc -shared -nostdlib -s -Wl,--entry=0,--gc-sections,--no-insert-timestamp,--dynamicbase,--nxcompat,--high-entropy-va \
        -Wl,--out-implib=lib/libgleed.dll.a lib/gleed.def lib/libgleed.a -lgcc -lmsvcrt -o bin/gleed.dll)
}

# Makes modules for JavaScript and for other hosts, with all functions, and the library for programs in C.
web_modules() {
    local prefix=$1 flags
    mkdir -p "$prefix/share/gleed"
    for flags in "-C target-feature=+simd128" ""; do
        RUSTFLAGS=$flags WASM_OPT= "$root/examples/wasm/build.sh" "$prefix/share/gleed/gleed${flags:+-simd128}.wasm" "${features[@]}"
    done
    chmod 644 "$prefix"/share/gleed/*.wasm
    without_debug "$CARGO_TARGET_DIR/wasm/wasm32-unknown-unknown/release/libgleed.a" "$prefix/lib/libgleed.a"
}

# found_by SYSTEM PREFIX SHARED IMPORT: writes the files for CMake and pkg-config.
found_by() {
    local folder pointer=8
    case $1 in wasm32 | thumb* | riscv32) pointer=4 ;; esac
    folder=$(mktemp -d)
    (cd "$folder" && cmake -DCMAKE_INSTALL_PREFIX=/gleed -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_INSTALL_INCLUDEDIR=include \
        -DCMAKE_SIZEOF_VOID_P=$pointer "-Dgleed_version=$version" -Dgleed_static_file=libgleed.a "-Dgleed_shared_file=$3" \
        "-Dgleed_import_file=$4" -P "$root/ffi/cmake/files.cmake")
    mkdir -p "$2/lib/pkgconfig" "$2/lib/cmake/gleed"
    mv "$folder/gleed.pc" "$2/lib/pkgconfig"
    mv "$folder"/gleed-config*.cmake "$2/lib/cmake/gleed"
    rmdir "$folder"
}

# package SYSTEM FOLDER: builds the package of a system and packs it.
package() {
    local system=$1 target name prefix shared= import=
    target=$(target_of "$system")
    name=gleed-$version-$system
    prefix=$2/$name
    mkdir -p "$prefix"/{include,lib,share/doc/gleed}
    cp "$root"/include/gleed.h "$root"/include/gleed.hpp "$prefix/include"
    cp "$root/docs/packages.md" "$root/examples/c/minimal.c" "$prefix/share/doc/gleed"
    "$root/scripts/package/contents.py" "$prefix/share/doc/gleed" "$target" "${features[@]}"
    [ "$system" = wasm32 ] || static_library "$target" "$prefix"
    case $system in
        *-linux)
            shared=libgleed.so.$abi
            shared_elf "$prefix"
            ln -s "$shared" "$prefix/lib/libgleed.so"
            ;;
        *-android) shared=libgleed.so && shared_android "$prefix" ;;
        *-windows) shared=../bin/gleed.dll import=libgleed.dll.a && shared_windows "$prefix" ;;
        wasm32) web_modules "$prefix" ;;
    esac
    found_by "$system" "$prefix" "$shared" "$import"
    find "$prefix" -type f -exec chmod 644 {} +
    tar -C "$2" --sort=name --format=ustar --mtime='1980-01-01 00:00:00Z' --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w \
        -cf - "$name" | gzip -9n >"$out/$name.tar.gz"
    echo "$name.tar.gz: $(stat -c %s "$out/$name.tar.gz") bytes"
}

# Makes the packages with the libraries for .NET and Unity.
for_csharp() {
    local libraries=() pair
    for pair in x86_64-linux:linux-x64:lib/libgleed.so.$abi aarch64-linux:linux-arm64:lib/libgleed.so.$abi \
        x86_64-windows:win-x64:bin/gleed.dll aarch64-android:android-arm64:lib/libgleed.so; do
        IFS=: read -r system rid file <<<"$pair"
        [ ! -d "$1/gleed-$version-$system" ] || libraries+=("$rid=$1/gleed-$version-$system/$file")
    done
    [ ${#libraries[@]} -eq 0 ] || "$root/bindings/csharp/pack.py" "$out" "${libraries[@]}"
}

main() {
    local folder system other
    folder=$(mktemp -d)
    # shellcheck disable=SC2064
    trap "rm -rf '$folder'" EXIT
    rm -rf "$out"
    mkdir -p "$out"
    for system in "${systems[@]}"; do (cd "$root" && rustup --quiet target add "$(target_of "$system")"); done
    for system in "${systems[@]}"; do package "$system" "$folder/built"; done
    for_csharp "$folder/built"
    (cd "$out" && sha256sum -- * >"$folder/sums" && mv "$folder/sums" SHA256SUMS)
    [ -n "$check" ] || return 0
    other="$folder/another folder, with another length"
    mkdir "$other"
    (cd "$root" && git ls-files -z --cached --others --exclude-standard -- . ':!fuzz' ':!tests/data' |
        while IFS= read -rd '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done | tar -cf - --null -T -) | tar -C "$other" -xf -
    CARGO_TARGET_DIR=$folder/target GLEED_ROOT='' RUSTC_WRAPPER='' "$other/scripts/package.sh" "$folder/again" "${systems[@]}" >/dev/null
    diff -r "$out" "$folder/again" || { echo "FAILED: another folder gives other bytes"; return 1; }
    echo "the same bytes from two folders: ${systems[*]}"
}

main
