#!/usr/bin/env bash
# rustc as cargo calls it (RUSTC_WRAPPER), so that a build has the same bytes in every folder: no path of this machine gets into what
# is built, and the crates of the repository get the same names for their symbols. Cargo makes these from the folder where a crate
# lies, unless it lies in the workspace, which they do not for ffi/bare. GLEED_ROOT is the repository.
set -euo pipefail
arguments=()
for argument in "$@"; do
    case $argument in
        metadata=*) [[ ${CARGO_MANIFEST_DIR:-} != "$GLEED_ROOT"* ]] || argument=metadata=$CARGO_PKG_NAME-$CARGO_PKG_VERSION ;;
    esac
    arguments+=("$argument")
done
exec "${arguments[@]}" --remap-path-prefix="$GLEED_ROOT=gleed" --remap-path-prefix="${CARGO_HOME:-$HOME/.cargo}=cargo"
