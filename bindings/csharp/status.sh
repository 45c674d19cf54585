#!/usr/bin/env bash
# Prints Runtime/Status.cs: the numbers of errors in gleed.h.
set -euo pipefail
cd "$(dirname "$0")/../.."
cat <<'HEAD'
// Made by status.sh from include/gleed.h, which describes each of them.
namespace Gleed
{
    /// <summary>What a call returned: above 0 an ordinary outcome, below 0 an error.</summary>
    public enum Status
    {
HEAD
sed -n 's/^    GLEED_\(OK\|YIELDED\|FULL\|STOPPED\|READY\|E_[A-Z0-9_]*\) = \(-\{0,1\}[0-9]*\).*/        \1 = \2,/p' include/gleed.h
printf '    }\n}\n'
