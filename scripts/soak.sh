#!/usr/bin/env bash
# Random traffic on an engine for a while: tests/soak.
#
#   scripts/soak.sh SECONDS
set -euo pipefail
cd "$(dirname "$0")/.."

GLEED_SOAK_SECONDS=${1:?seconds} cargo test --locked --quiet -p gleed --test soak -- --nocapture | grep '^soak: '
