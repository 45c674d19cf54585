#!/usr/bin/env bash
# A long run of everything that tries to break the library. It appends what it did to the table at the end of docs/reliability.md.
#
#   scripts/campaign.sh HOURS   fractions are allowed: 0.5
set -euo pipefail
cd "$(dirname "$0")/.."

hours=${1:?hours}
record=docs/reliability.md
date=$(date -u +%F)

# note WHAT HOW_OFTEN COMMAND FOUND: a line of the record.
note() {
    printf '| %s | %s | %s | `%s` | %s |\n' "$date" "$1" "$2" "$3" "$4" | tee -a "$record"
}

fuzz/run.sh build
mapfile -t targets < <(fuzz/run.sh list)
# Four of five parts of the time; loom and Miri take the rest.
seconds=$(awk -v hours="$hours" -v targets="${#targets[@]}" 'BEGIN { print int(hours * 3600 * 0.8 / targets) }')
failed=0
for target in "${targets[@]}"; do
    if said=$(fuzz/run.sh fuzz "$seconds" "$target"); then
        note "fuzz target \`$target\`" "${said#*: }" "fuzz/run.sh fuzz $seconds $target" "nothing"
    else
        echo "$said"
        note "fuzz target \`$target\`" "until it failed" "fuzz/run.sh fuzz $seconds $target" "$(tail -n 1 <<<"$said" | sed 's/.*-\(crash\|oom\|timeout\)/\1/')"
        failed=1
    fi
done
if said=$(scripts/loom.sh 3); then
    orders=$(awk '{ sum += $2 } END { print sum }' <<<"$said")
    note "loom: pool, tiles, loop over tiles" "$orders orders" "scripts/loom.sh 3" "nothing"
else
    echo "$said"
    note "loom: pool, tiles, loop over tiles" "until it failed" "scripts/loom.sh 3" "see above"
    failed=1
fi
seeds=$(awk -v hours="$hours" 'BEGIN { print int(4 + 8 * hours) }')
if scripts/miri.sh "$seeds"; then
    note "Miri: reader, arena, cache, engine on two threads" "$seeds seeds" "scripts/miri.sh $seeds" "nothing"
else
    note "Miri: reader, arena, cache, engine on two threads" "until it failed" "scripts/miri.sh $seeds" "see above"
    failed=1
fi
exit $failed
