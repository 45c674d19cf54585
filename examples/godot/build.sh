#!/usr/bin/env bash
# Makes a Godot project with the extension: examples/godot/build.sh FOLDER. Needs Rust and a C compiler. Godot's header comes with a package of
# crates.io. FAMILIES says which models the library runs. CFLAGS is for the compiler.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
folder=${1:?usage: examples/godot/build.sh FOLDER}
# The newest functions that the extension asks for came with Godot 4.2.
godot=4.2

package=$(cargo metadata --locked --format-version 1 --manifest-path "$here/header/Cargo.toml" |
    grep -o '"manifest_path":"[^"]*/gdextension-api-[^"]*"' | cut -d'"' -f4)
header=$(dirname "$package")/versions/$godot/res
[ -f "$header/gdextension_interface.h" ] || { echo "$header has no gdextension_interface.h"; exit 1; }
library=$(FAMILIES=${FAMILIES:-gleed/full} "$root/bindings/library.sh" staticlib)

mkdir -p "$folder/bin"
# shellcheck disable=SC2086
cc -std=c99 -O2 -Wall -Wextra -fPIC -fvisibility=hidden -shared ${CFLAGS:-} -I "$root/include" -isystem "$header" \
    "$here/extension.c" "$here/story.c" "$library" -Wl,--exclude-libs,ALL -lpthread -ldl -lm -o "$folder/bin/libgleed_story.so"
cp "$here"/project/* "$folder"
cp "$root/examples/assets/gleed-tales-q8_0.gguf" "$folder"
# The host of the test is compiled against the same header.
echo "$header" >"$folder/bin/header"
echo "the project is in $folder" >&2
