#!/usr/bin/env bash
# The inner loops of the kernels for AArch64 as llvm-mca models them, where there is no such machine to measure on.
#
#   benches/mca.sh [PROCESSOR...]     llvm-mca's names of processors
#
# Needs the Rust target aarch64-unknown-linux-musl, c++filt, and llvm-mca 17 or later: LLVM_MCA names the program. A line
# per loop and processor: instructions; cycles of an iteration, which the model finds for the whole loop; cycles per
# block of 32 weights and row of activations; what the dot instructions alone take, and what the loads alone take. Memory is
# the first-level cache, and branches are foreseen.
set -euo pipefail
cd "$(dirname "$0")/.."

mca=${LLVM_MCA:-llvm-mca}
target=aarch64-unknown-linux-musl
out=${CARGO_TARGET_DIR:-target}/mca
[ $# -gt 0 ] || set -- neoverse-n1 neoverse-v1 neoverse-n2 neoverse-v2 cortex-a76 cortex-a55 cortex-a510 cortex-x1 cortex-x3 apple-m1

# Not for a later link with optimization, which would vectorize and unroll only then.
CARGO_PROFILE_RELEASE_LTO=off CARGO_TARGET_DIR=$out cargo rustc --release --lib --target "$target" -- \
    --emit asm -C codegen-units=1 -C symbol-mangling-version=v0
assembly=$(ls -t "$out/$target"/release/deps/gleed-*.s | head -n 1)
rm -rf "$out/loops"
mkdir -p "$out/loops"

# Loops without a loop inside: NAME-NUMBER.s. Those with dot instructions, and in `blocks` those that unpack, too.
c++filt <"$assembly" | awk -v out="$out/loops" '
    function title(name) {
        if (name !~ /kernels::aarch64::/) return ""
        if (match(name, /sweep_(32|256)::<.*>/)) {
            level = name ~ /I8mm/ ? "i8mm" : "dotprod"
            parameters = substr(name, RSTART, RLENGTH)
            gsub(/sweep_|::|: usize|: bool|[<>]/, " ", parameters)
            gsub(/,/, "", parameters)
            count = split(parameters, p, " ")
            rows = p[count - 1]
            if (rows != 4) return ""
            return level "-" (p[1] == 32 ? "blocks of 32" : p[2] == 8 ? "sub-blocks of 32" : "sub-blocks of 16") \
                (p[count] == "true" ? " with minima" : "") ", 4 rows"
        }
        if (name ~ /dotprod_row::blocks::/ && match(name, /quant::(q8_0|q4_0|q4_k|q6_k)::Block/))
            return "dotprod-" substr(name, RSTART + 7, 4) ", 1 row"
        return ""
    }
    function loops(i, j, k, inner, dots, stores, file) {
        for (i = 1; i <= ends; i++) {
            inner = 1
            for (j = 1; j <= ends; j++)
                if (j != i && from[j] >= from[i] && to[j] <= to[i]) inner = 0
            if (!inner) continue
            dots = stores = 0
            for (k = from[i]; k <= to[i]; k++) {
                dots += line[k] ~ /^\t(sdot|smmla)/
                stores += line[k] ~ /^\tstu?[rp]\tq/
            }
            if (!dots && !(name ~ /1 row/ && stores)) continue
            file = out "/" name (dots ? "" : ", unpack") "-" ++number ".s"
            for (k = from[i]; k <= to[i]; k++) print line[k] > file
            close(file)
        }
    }
    /^<?[a-z_].*:$/ { name = title($0); count_lines = ends = 0; delete at; next }
    /^\.Lfunc_end/ { if (name != "") loops(); name = "" }
    name == "" { next }
    /^\.LBB[0-9_]+:/ { label = $1; sub(/:.*/, "", label); at[label] = count_lines + 1; next }
    /^\t[a-z]/ {
        line[++count_lines] = $0
        if ($1 ~ /^(b|b\..*|cbn?z|tbn?z)$/ && $NF in at) { from[++ends] = at[$NF]; to[ends] = count_lines }
    }'

# field NAME PROCESSOR < ASSEMBLY: what llvm-mca says of a loop.
field() {
    "$mca" -mtriple=aarch64 -mcpu="$2" -mattr=+dotprod,+i8mm -iterations=200 2>/dev/null | sed -n "s/^$1: *//p"
}

printf '%-44s %-12s %5s %7s %9s %6s %6s\n' loop processor instr cycles per_block dots loads
for file in "$out/loops"/*.s; do
    title=$(basename "$file" .s)
    dots=$(grep -cE '^\s(sdot|smmla)' "$file" || true)
    # Products of bytes: those of a block of 32 weights and a row of activations are 32.
    blocks=$(awk '/^\tsdot/ { macs += 16 } /^\tsmmla/ { macs += 32 } END { print macs / 32 }' "$file")
    for cpu in "$@"; do
        cycles=$(field "Total Cycles" "$cpu" <"$file")
        of_dots=-
        [ "$dots" -eq 0 ] || of_dots=$(grep -E '^\s(sdot|smmla)' "$file" | field "Block RThroughput" "$cpu")
        of_loads=$(grep -E '^\s(ld[rpu1])' "$file" | field "Block RThroughput" "$cpu")
        awk -v title="${title%-*}" -v cpu="$cpu" -v n="$(wc -l <"$file")" -v c="$cycles" -v b="$blocks" -v d="$of_dots" \
            -v l="$of_loads" 'BEGIN { per_block = b ? sprintf("%.2f", c / 200 / b) : "-"
                printf "%-44s %-12s %5d %7.1f %9s %6s %6s\n", title, cpu, n, c / 200, per_block, d, l }'
    done
done
