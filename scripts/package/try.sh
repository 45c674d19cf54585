#!/usr/bin/env bash
# Tries packages as their users would. Each is unpacked in an empty folder. One program is built with pkg-config and one with CMake, each
# against the shared and the static library, and their output is checked. Programs that cannot run here are linked only, and the script
# says so.
#
# usage: scripts/package/try.sh ARCHIVE...        gleed-0.1.0-x86_64-linux.tar.gz and others of scripts/package.sh
#
# Needs cc, pkg-config and CMake; musl-gcc, aarch64-linux-gnu-gcc with qemu-aarch64, x86_64-w64-mingw32-gcc with wine, and node for the
# others.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
model=$root/examples/assets/gleed-tales-q8_0.gguf
lld=$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin/rust-lld
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# tells COMMAND...: checks that the smallest example prints the expected text of the model.
tells() {
    local text
    text=$("$@" "$model" "Once upon a time" 5 | tr -d '\r')
    [ "$text" = "Once upon a time, there was a little" ] || { echo "$* says '$text'"; return 1; }
}

# by_pkg_config PREFIX COMPILER KIND RUN...: KIND is shared or static, RUN runs a program.
by_pkg_config() {
    local prefix=$1 compiler=$2 kind=$3 flags out=$folder/minimal.exe
    shift 3
    flags=$(PKG_CONFIG_LIBDIR=$prefix/lib/pkgconfig pkg-config --cflags --libs gleed)
    # If both are there, linkers take the shared library.
    [ "$kind" = shared ] || flags=${flags/-lgleed/-l:libgleed.a}
    # shellcheck disable=SC2086
    "$compiler" -std=c99 -O2 "$prefix/share/doc/gleed/minimal.c" $flags -o "$out"
    tells "$@" "$out"
    echo "  $compiler with pkg-config, $kind: $(du -b "$out" | cut -f1) bytes, the story"
}

# by_cmake PREFIX KIND CMAKE_ARGUMENT...
by_cmake() {
    local prefix=$1 kind=$2 out=$folder/cmake-$2 shared=OFF
    shift 2
    [ "$kind" = static ] || shared=ON
    rm -rf "$out"
    cmake -S "$root/examples/cmake" -B "$out" "-DCMAKE_PREFIX_PATH=$prefix" -DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=BOTH -DBUILD_SHARED_LIBS=$shared "$@" >"$out.log" 2>&1 &&
        grep -q "Gleed is installed: $prefix" "$out.log" && cmake --build "$out" >>"$out.log" 2>&1 &&
        ctest --test-dir "$out" >>"$out.log" 2>&1 || { cat "$out.log"; return 1; }
    echo "  CMake, $kind: the same tokens"
}

# links PREFIX COMPILER [ARGUMENT...]: only links, for systems whose programs cannot run here.
links() {
    "$2" -std=c99 "$1/share/doc/gleed/minimal.c" -I "$1/include" "${@:3}" -o "$folder/linked"
    echo "  $2: linked, not run: nothing here runs it"
}

# links_alone PREFIX: links every function and nothing else, for machines without a system. A call of the panic handler would fail to link.
links_alone() {
    local keep=() name
    for name in $(grep -oE '\bgleed_[a-z0-9_]+\(' "$1/include/gleed.h" | tr -d '(' | sort -u); do keep+=("--undefined=$name"); done
    for name in memcpy memmove memset memcmp bcmp strlen; do keep+=("--defsym=$name=0"); done
    "$lld" -flavor gnu --gc-sections --entry=gleed_version "${keep[@]}" "$1/lib/libgleed.a" -o "$folder/image" 2>"$folder/image.log" ||
        { grep -v warning: "$folder/image.log"; return 1; }
    echo "  all functions linked, without a C library: $(stat -c %s "$folder/image") bytes with symbols"
}

try() {
    local archive=$1 system prefix kind emulator
    system=$(basename "$archive" .tar.gz)
    prefix=$folder/$system
    system=${system#gleed-*.*.*-}
    tar -xzf "$archive" -C "$folder"
    echo "${prefix##*/}"
    python3 -m json.tool "$prefix/share/doc/gleed/sbom.cdx.json" >/dev/null
    case $system in
        x86_64-linux)
            for kind in shared static; do
                by_pkg_config "$prefix" cc $kind env LD_LIBRARY_PATH="$prefix/lib"
                by_cmake "$prefix" $kind
                ! command -v musl-gcc >/dev/null || by_pkg_config "$prefix" musl-gcc $kind env LD_LIBRARY_PATH="$prefix/lib"
            done
            ;;
        aarch64-linux)
            emulator="qemu-aarch64 -cpu max -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=$prefix/lib"
            for kind in shared static; do
                # shellcheck disable=SC2086
                by_pkg_config "$prefix" aarch64-linux-gnu-gcc $kind $emulator
                by_cmake "$prefix" $kind -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
                    -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc "-DCMAKE_CROSSCOMPILING_EMULATOR=${emulator// /;}"
            done
            ;;
        x86_64-windows)
            # Debian's package wine64 installs it outside of the PATH.
            emulator=$(command -v wine64 /usr/lib/wine/wine64 | head -n 1 || true)
            if [ -n "$emulator" ]; then
                export WINEPREFIX=$folder/wine WINEDEBUG=-all WINEPATH=$prefix/bin
                for kind in shared static; do
                    by_pkg_config "$prefix" x86_64-w64-mingw32-gcc $kind $emulator
                    by_cmake "$prefix" $kind -DCMAKE_SYSTEM_NAME=Windows -DCMAKE_C_COMPILER=x86_64-w64-mingw32-gcc \
                        -DCMAKE_CROSSCOMPILING_EMULATOR=$emulator
                done
                # Processes that wine leaves running still write to the folder.
                "$(dirname "$emulator")/wineserver" -k || true
            else
                links "$prefix" x86_64-w64-mingw32-gcc -L "$prefix/lib" -lgleed
                links "$prefix" x86_64-w64-mingw32-gcc "$prefix/lib/libgleed.a"
            fi
            ;;
        aarch64-android)
            # The static library needs nothing from Android, so it also runs with another C library.
            "$lld" -flavor gnu -m aarch64linux --unresolved-symbols=ignore-all -e 0 "$prefix/lib/libgleed.so" -o "$folder/linked"
            readelf -d "$prefix/lib/libgleed.so" | grep -E 'NEEDED|SONAME' | sed 's/.*(/  (/'
            by_pkg_config "$prefix" aarch64-linux-gnu-gcc static qemu-aarch64 -cpu max -L /usr/aarch64-linux-gnu
            echo "  the shared library was linked, not run: nothing here runs Android"
            ;;
        wasm32)
            for kind in "$prefix"/share/gleed/*.wasm; do
                node "$root/examples/wasm/run.mjs" "$kind" "$model" | tail -n 1
                echo "  ${kind##*/}: $(stat -c %s "$kind") bytes, in node"
            done
            ;;
        *) links_alone "$prefix" ;;
    esac
}

[ $# -gt 0 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2; }
for archive in "$@"; do try "$archive"; done
