#!/usr/bin/env bash
# Runs random traffic on an engine for some time: tests/soak.
#
#   scripts/soak.sh SECONDS [FIRST]   begins with round FIRST (0); another number gives other traffic
set -euo pipefail
cd "$(dirname "$0")/.."

GLEED_SOAK_SECONDS=${1:?seconds} GLEED_SOAK_FIRST=${2:-0} cargo test --locked --quiet -p gleed --test soak -- --nocapture | grep '^soak: '
