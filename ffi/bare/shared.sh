#!/usr/bin/env bash
# Links the static library without std into a shared one for ELF systems: every function of include/gleed.h is exported, and nothing
# else. It needs no other library. What compilers call without being asked (memcpy) comes from the program's C library, whichever
# that is. More arguments go to the linker.
#
# usage: ffi/bare/shared.sh LIBRARY.a OUT.so [ARGUMENT...]
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
library=$1 out=$2
shift 2
lld=$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin/rust-lld
keep=()
for name in $(grep -oE '\bgleed_[a-z0-9_]+\(' "$here/../../include/gleed.h" | tr -d '(' | sort -u); do keep+=("--undefined=$name"); done
exports=$(mktemp)
trap 'rm -f "$exports"' EXIT
echo "{ global: gleed_*; local: *; };" >"$exports"
"$lld" -flavor gnu -shared --gc-sections --strip-all --version-script="$exports" "${keep[@]}" "$@" "$library" -o "$out" 2>/dev/null
