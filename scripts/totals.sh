#!/usr/bin/env bash
# Sums the record at the end of docs/reliability.md, and writes the sums into the table at the beginning of the page, between the two marks.
#
#   scripts/totals.sh           writes the sums
#   scripts/totals.sh --check   fails if the table differs from the record
#
# A line of the record counts unless it says "not counted". For a target the number before "inputs" or "calls" counts, or the number before
# "runs" if there is none.
set -euo pipefail
cd "$(dirname "$0")/.."

record=docs/reliability.md
new=$(mktemp)
trap 'rm -f "$new"' EXIT

awk '
    # Returns the number before a word: "26,902,005 inputs".
    function before(text, word,    found) {
        if (!match(text, "[0-9][0-9,]* " word)) return 0
        found = substr(text, RSTART, RLENGTH)
        gsub(/[^0-9]/, "", found)
        return found + 0
    }
    function grouped(number,    text, out) {
        text = sprintf("%.0f", number)
        while (length(text) > 3) { out = "," substr(text, length(text) - 2) out; text = substr(text, 1, length(text) - 3) }
        return text out
    }
    function row(what, wanted, reached) {
        printf "| %s | %s | %s |\n", what, wanted == 0 ? "" : grouped(wanted), grouped(reached)
    }
    NR == FNR {
        if (!/^\| 20/ || /not counted/) next
        split($0, cells, " [|] ")
        what = cells[2]; often = cells[3]
        if (what ~ /target `|breadth of `/) {
            match(what, /`[a-z]+`/)
            name = substr(what, RSTART + 1, RLENGTH - 2)
            number = before(often, "(inputs|calls)")
            tried[name] += number ? number : before(often, "runs")
        }
        if (what ~ /^kernels/) outputs += before(often, "outputs")
        if (what ~ /^loom/) orders += before(often, "orders")
        if (what ~ /^soak/) seconds += before(often, "s[:,]")
        next
    }
    /^<!-- totals end -->$/ { inside = 0 }
    !inside
    /^<!-- totals -->$/ {
        inside = 1
        print "| what | wanted | reached |\n|---|---:|---:|"
        count = split("gguf snapshot tokenizer turns adapter", parsers)
        for (i = 1; i <= count; i++) row("inputs of `" parsers[i] "`", 1e7, tried[parsers[i]])
        row("models that were changed and run, `model`", 1e6, tried["model"])
        row("calls of an engine beside an oracle, `engine`", 1e6, tried["engine"])
        row("C calls, `calls`", 1e6, tried["calls"])
        count = split("grammar schema template safetensors convert", others)
        for (i = 1; i <= count; i++) row("inputs of `" others[i] "`", 0, tried[others[i]])
        row("outputs of kernels, compared with the scalar kernel", 1e9, outputs)
        row("seconds of soak", 7200, seconds)
        row("orders of threads, loom", 0, orders)
    }
' "$record" "$record" >"$new"

if [ "${1:-}" = --check ]; then
    diff "$record" "$new" || { echo "$record: the table at the beginning is not what the record says: scripts/totals.sh" >&2; exit 1; }
else
    cat "$new" >"$record"
fi
