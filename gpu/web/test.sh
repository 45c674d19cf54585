#!/usr/bin/env bash
# Runs the page in headless Chromium, whose WebGPU computes on the CPU, and compares its hash with that of the native GPU and of the CPU, which
# gpu_selftest prints. Needs what build.sh needs, node, chromium, and a driver for Vulkan. NATIVE is gpu_selftest where it is built already.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Quick to build: how fast it is does not matter here.
export CARGO_PROFILE_DEV_DEBUG=${CARGO_PROFILE_DEV_DEBUG:-0} CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
CARGO_PROFILE_RELEASE_OPT_LEVEL=1 "$here/build.sh" "$work/site"
native=${NATIVE:-cargo run --quiet --manifest-path $root/Cargo.toml -p gleed-gpu --example gpu_selftest}
# shellcheck disable=SC2086
hash=$($native | awk '$1 == "hash" { gsub(/,/, "", $2); print $2 }')
[ -n "$hash" ] || { echo "there is no native hash"; exit 1; }
SITE=$work/site HASH=$hash PROFILE=$work/profile CHROMIUM=${CHROMIUM:-chromium} node "$here/check.mjs"
