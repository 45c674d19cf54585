#!/usr/bin/env bash
# Wraps rustc for cargo (RUSTC_WRAPPER), so that a build has the same bytes in every folder. No path of this machine gets into the output,
# and the symbols of the repository's crates get the same names. Cargo derives these from the folder of a crate, unless the crate lies in
# the workspace. For ffi/bare the crates do not. GLEED_ROOT is the repository.
set -euo pipefail
arguments=()
for argument in "$@"; do
    case $argument in
        metadata=*) [[ ${CARGO_MANIFEST_DIR:-} != "$GLEED_ROOT"* ]] || argument=metadata=$CARGO_PKG_NAME-$CARGO_PKG_VERSION ;;
    esac
    arguments+=("$argument")
done
exec "${arguments[@]}" --remap-path-prefix="$GLEED_ROOT=gleed" --remap-path-prefix="${CARGO_HOME:-$HOME/.cargo}=cargo"
