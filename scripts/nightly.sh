#!/usr/bin/env bash
# Prints the name of the nightly toolchain for the fuzz targets, Miri and ThreadSanitizer. Installs it and the components if they are
# missing. Needs rustup.
#
#   scripts/nightly.sh [COMPONENT...]
set -euo pipefail

# A fixed day's compiler, so that the result of a check depends on the change alone. The compilers near 2026-05-19 compile some comparisons
# wrongly: docs/reliability.md.
name=nightly-2026-10-29

installed() { grep -q "^$1" <<<"$2"; }
installed "$name" "$(rustup toolchain list)" || rustup toolchain install "$name" --profile minimal --no-self-update >&2
components=$(rustup component list --installed --toolchain "$name")
for component in "$@"; do
    installed "$component" "$components" || rustup component add --toolchain "$name" "$component" >&2
done
echo "$name"
