#!/usr/bin/env bash
# A long run of everything that tries to break the library. It appends lines to the record at the end of docs/reliability.md, and updates
# the table of sums at the beginning of that page.
#
#   scripts/campaign.sh HOURS   fractions such as 0.5 are allowed; builds do not count
#
# The fuzz targets, with libFuzzer and without, get half of the time, and the soak gets a quarter. Kernels, loom and Miri have no limit and
# take about the rest. Lines of the record have the commit and the processor. No run repeats an earlier one: the time of day chooses inputs,
# rounds, kernel cases and Miri's seeds.
set -euo pipefail
cd "$(dirname "$0")/.."

hours=${1:?hours}
record=docs/reliability.md
date=$(date -u +%F)
commit=$(git rev-parse --short HEAD)
processor=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
failed=0
now=$(date +%s)

# note WHAT HOW_OFTEN COMMAND FOUND: adds a line to the record.
note() {
    printf '| %s | %s | %s | `%s`, commit %s, %s | %s |\n' "$date" "$1" "$2" "$3" "$commit" "$processor" "$4" | tee -a "$record"
}

# try WHAT COUNT COMMAND...: runs a command, and notes the count that the function COUNT extracts from its output.
try() {
    local what=$1 count=$2 said
    shift 2
    if said=$("$@" 2>&1); then
        note "$what" "$("$count" <<<"$said")" "$*" "nothing"
    else
        tail -n 40 <<<"$said"
        note "$what" "until it failed" "$*" "$(tail -n 1 <<<"$said" | tr '|`' '  ' | sed "s|$PWD/||g")"
        failed=1
    fi
}

of_hours() {
    awk -v hours="$hours" -v factor="$1" -v least="$2" 'BEGIN { n = int(hours * factor); print n < least ? least : n }'
}

runs() { tail -n 1 | sed 's/^[^:]*: //'; }
outputs() { awk -F ': ' '/ outputs / { sum += $3 } END { printf "%.0f outputs\n", sum }'; }
orders() { awk '/ orders/ { sum += $2 } END { printf "%.0f orders\n", sum }'; }
rounds() { sed -n 's/^soak: //p' | tr '|' ' '; }
seeds_run() { [ "$seeds" = 1 ] && echo "1 seed" || echo "$seeds seeds"; }

fuzz/run.sh build
mapfile -t targets < <(fuzz/run.sh list)
seconds=$(of_hours $((900 / ${#targets[@]})) 1)
for target in "${targets[@]}"; do
    try "target \`$target\` without libFuzzer" runs fuzz/run.sh breadth "$seconds" "$target"
    try "fuzz target \`$target\`" runs fuzz/run.sh fuzz "$seconds" "$target"
done
try "soak" rounds scripts/soak.sh "$(of_hours 900 2)" "$now"
try "kernels against the scalar ones, strange models" outputs scripts/attack.sh "$(of_hours 1000000 1000)" "$now"
try "loom: pool, tiles, loop over tiles" orders scripts/loom.sh "$([ "$(of_hours 10 0)" -lt 5 ] && echo 2 || echo 3)"
seeds=$(of_hours 8 1)
try "Miri: reader, arena, cache, engine on two threads" seeds_run scripts/miri.sh "$seeds" "$((now % 1000000))"
scripts/totals.sh
exit $failed
