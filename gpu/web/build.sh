#!/usr/bin/env bash
# Makes the page: the crate as WebAssembly with SIMD, its JavaScript, and the demo model. Needs Rust with the target wasm32-unknown-unknown.
#
# usage: gpu/web/build.sh FOLDER [MODEL.gguf]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out=$1
model=${2:-$root/examples/assets/gleed-tales-q8_0.gguf}
target_dir=${CARGO_TARGET_DIR:-$root/target}
target=wasm32-unknown-unknown

cargo build --quiet --locked --manifest-path "$here/bindgen/Cargo.toml" --target-dir "$target_dir/bindgen"
RUSTFLAGS="-C target-feature=+simd128" cargo build --locked --release --target $target -p gleed-gpu-web --target-dir "$target_dir/web" \
    --manifest-path "$root/Cargo.toml"
mkdir -p "$out"
"$target_dir/bindgen/debug/gleed-bindgen" "$target_dir/web/$target/release/gleed_gpu_web.wasm" "$out"
cp "$here/index.html" "$here/page.mjs" "$out"
cp "$model" "$out/model.gguf"
chmod 644 "$out"/*
echo "gleed_gpu_web_bg.wasm: $(stat -c %s "$out/gleed_gpu_web_bg.wasm") bytes, $(gzip -9 -c "$out/gleed_gpu_web_bg.wasm" | wc -c) compressed"
