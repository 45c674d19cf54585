#!/usr/bin/env bash
# Every kernel of every level of this machine against the scalar one: tests/attack.
#
#   scripts/attack.sh CASES   so many outputs of each kernel, level and format; prints a line for each
set -euo pipefail
cd "$(dirname "$0")/.."

GLEED_CASES=${1:?cases} cargo test --locked --quiet -p gleed --test attack -- --nocapture | grep '^attack: '
