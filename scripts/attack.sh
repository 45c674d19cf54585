#!/usr/bin/env bash
# Every kernel of every level of this machine against the scalar one: tests/attack.
#
#   scripts/attack.sh CASES [SEED]   so many outputs of each kernel, level and format, other ones for each seed (0); prints a line for each
set -euo pipefail
cd "$(dirname "$0")/.."

GLEED_CASES=${1:?cases} GLEED_SEED=${2:-0} cargo test --locked --quiet -p gleed --test attack -- --nocapture | grep '^attack: '
