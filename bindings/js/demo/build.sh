#!/usr/bin/env bash
# Puts the page into a folder that any server of static files can serve: bindings/js/demo/site, or the folder that is named. Makes the
# package first if it does not exist.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
site=${1:-$here/site}
[ -f "$here/../dist/gleed-simd.wasm" ] || "$here/../build.sh"
mkdir -p "$site/dist"
cp "$here"/*.html "$here"/*.css "$here"/*.mjs "$here/native.json" "$site"
cp "$here"/../dist/* "$site/dist"
cp "$here/../../../examples/assets/gleed-tales-q8_0.gguf" "$site"
echo "the page is in $site"
