#!/usr/bin/env bash
# Builds the extension, and runs it in a host that has Godot's functions (tests/host.c): once as it is shipped, and once with AddressSanitizer, which
# finds memory that is not freed. Needs Rust, gcc or clang, glibc.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
export FAMILIES=gleed/arch-llama,gleed/quant-q8_0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
model=$folder/plain/gleed-tales-q8_0.gguf

diff "$here/project/main.gd" <(sed -n '/^```gdscript$/,/^```$/p' "$here/README.md" | sed '1d;$d')

for kind in plain address; do
    CFLAGS=
    [ $kind = plain ] || CFLAGS="-g -fsanitize=address,undefined"
    export CFLAGS
    "$here/build.sh" "$folder/$kind"
    # shellcheck disable=SC2086
    cc -std=gnu99 -O1 -Wall -Wextra $CFLAGS -isystem "$(cat "$folder/$kind/bin/header")" "$here/tests/host.c" -ldl -o "$folder/$kind/host"
done
[ "$(nm -D --defined-only "$folder/plain/bin/libgleed_story.so" | awk '{ print $3 }' | xargs)" = gleed_story_init ] || { echo "other symbols are exported"; exit 1; }

# The native story: the most probable tokens, as many as in bindings/python/tests/native_ids.txt.
cc -std=c99 -O2 -I "$root/include" "$root/examples/c/minimal.c" "$("$root/bindings/library.sh" staticlib)" -lpthread -ldl -lm -o "$folder/minimal"
"$folder/minimal" "$model" "Once upon a time" "$(wc -w <"$root/bindings/python/tests/native_ids.txt")" >"$folder/native.txt"
"$folder/plain/host" "$folder/plain/bin/libgleed_story.so" "$model" "$folder/native.txt" | tail -n +2 | head -n 2
"$folder/address/host" "$folder/address/bin/libgleed_story.so" "$model" "$folder/native.txt" >/dev/null
echo "GDExtension: the native story, errors, two at a time, no memory is lost"
