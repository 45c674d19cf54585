#!/usr/bin/env bash
# Puts the files that a program needs into an empty folder, and runs the tests there. Needs Rust and LuaJIT.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
library=$("$here/../library.sh")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cp -r "$here/gleed.lua" "$here/gleed" "$root/include/gleed.h" "$folder"
cp "$library" "$folder/libgleed.so"
cp "$root/examples/assets/gleed-tales-q8_0.gguf" "$folder"
cp "$root/bindings/python/tests/native_ids.txt" "$folder"
cp "$here/tests/"*.lua "$folder"
# The example of README.md, unchanged.
sed -n '/^```lua$/,/^```$/p' "$here/README.md" | sed '1d;/^```$/,$d' >"$folder/readme.lua"
cd "$folder"
[ "$(luajit readme.lua | head -c 38)" = "Once upon a time, there was a little g" ]
for test in test_*.lua; do
    luajit "$test"
done
