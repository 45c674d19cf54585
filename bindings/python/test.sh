#!/usr/bin/env bash
# Installs the package into a new virtual environment, as a user does, and runs its tests there. Needs Rust, Python with venv, and the
# packages that pip fetches.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-$here/target}")
export CARGO_TARGET_DIR
cd "$here"

venv=$CARGO_TARGET_DIR/venv
python3 -m venv --clear "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check ".[test,plot]"
"$venv/bin/mypy" --cache-dir "$CARGO_TARGET_DIR/mypy"
# The package must be typed for its users, too.
for example in story crowd; do
  "$venv/bin/mypy" --strict --cache-dir "$CARGO_TARGET_DIR/mypy-examples" "examples/$example.py"
done
"$venv/bin/pytest" -q -p no:cacheprovider
