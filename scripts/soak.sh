#!/usr/bin/env bash
# Random traffic on an engine for a while: tests/soak.
#
#   scripts/soak.sh SECONDS [FIRST]   from this round on (0): another number gives other traffic
set -euo pipefail
cd "$(dirname "$0")/.."

GLEED_SOAK_SECONDS=${1:?seconds} GLEED_SOAK_FIRST=${2:-0} cargo test --locked --quiet -p gleed --test soak -- --nocapture | grep '^soak: '
