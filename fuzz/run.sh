#!/usr/bin/env bash
# The fuzz targets: builds them, replays their corpora, runs them. Needs rustup; installs the toolchain of scripts/nightly.sh where it is missing.
# Fetches nothing else but the crates of fuzz/Cargo.lock.
#
#   fuzz/run.sh build                   one program with all targets, with the address sanitizer and overflow checks
#   fuzz/run.sh list                    the names of the targets
#   fuzz/run.sh replay [TARGET...]      every input of the corpora
#   fuzz/run.sh short SECONDS [TARGET...]  the corpora, and as many new inputs as take about so long, the same ones each time
#   fuzz/run.sh fuzz SECONDS [TARGET...]   new inputs, each target for so long; prints lines "TARGET: N runs, M inputs or calls",
#                                       without those of the corpus
#   fuzz/run.sh breadth SECONDS [TARGET...]   many more inputs in the same time, which nothing leads, without the sanitizer: builds a program of
#                                       its own, each target for so much processor time. GLEED_FUZZ_SEED decides which inputs (the time)
#   fuzz/run.sh fixed SECONDS [TARGET...]  the same program, with as many runs as take about so long: the same ones each time
#   fuzz/run.sh minimise [TARGET...]    takes what new inputs have found into the corpora, and drops what others cover
#   fuzz/run.sh show TARGET FILE        one input, with what it calls
#
# GLEED_FUZZ_FEATURES=all builds every block format and instruction set, for long runs.
set -euo pipefail
cd "$(dirname "$0")"

out=${CARGO_TARGET_DIR:-$PWD/../target}/fuzz
program=$out/x86_64-unknown-linux-gnu/release/all
# What runs find, apart from the corpora: that of a target may be large.
found=$out/found
# No target needs more than a fraction of this; what an input asks for must not decide about memory. A run of 60 s is a hang, on a busy machine too.
limits=(-timeout=60 -rss_limit_mb=2048 -malloc_limit_mb=512)
# Short stacks and little memory that waits to be used again: both take longer than what is tested.
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:malloc_context_size=2:quarantine_size_mb=8:thread_local_quarantine_size_kb=64

build() {
    local toolchain coverage=(-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table)
    toolchain=$(../scripts/nightly.sh)
    RUSTFLAGS="-Zsanitizer=address ${coverage[*]} --cfg fuzzing" cargo "+$toolchain" build --locked --release \
        --bin all \
        --target x86_64-unknown-linux-gnu --target-dir "$out" --features "${GLEED_FUZZ_FEATURES:-}"
}

list() {
    sed -n 's/^    ("\([a-z]*\)", [a-z]*::[a-z]*),$/\1/p' src/targets/mod.rs
}

# run TARGET ARGUMENTS...: the program with a target. What it prints is shown where it fails.
run() {
    local target=$1 log=$out/log-$1 len=4096
    shift
    # A file with a model in it.
    [ "$target" != gguf ] || len=16384
    mkdir -p "$found/$target" "corpus/$target"
    GLEED_FUZZ_TARGET=$target "$program" "${limits[@]}" -max_len=$len -print_final_stats=1 \
        -artifact_prefix="$found/$target-" "$@" >"$log" 2>&1 || {
        tail -n 60 "$log"
        echo "$target failed; the input is $found/$target-*"
        return 1
    }
    local runs tried
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    # Some targets try many inputs, or make many calls, in a run.
    tried=$(sed -n 's/^gleed: \([0-9]*\) inputs tried$/, \1 inputs or calls/p' "$log")
    echo "$target: $runs runs$tried"
}

replay() {
    local target
    for target in "$@"; do run "$target" -runs=0 "corpus/$target"; done
}

# A number of runs, not of seconds: what a change is told must not depend on how busy its machine is. Where there are threads, what libFuzzer
# takes for new may differ, so not all inputs are the same there.
short() {
    local seconds=$1 target new
    shift
    for target in "$@"; do
        new=$out/short-$target
        rm -rf "$new"
        mkdir -p "$new"
        # libFuzzer counts the inputs of the corpus as runs.
        run "$target" -seed=1 -reload=0 -runs=$(($(find "corpus/$target" -type f | wc -l) + seconds * $(depth_a_second "$target"))) \
            "$new" "corpus/$target"
        rm -rf "$new"
    done
}

# How many runs of a target took about a second of processor time in the program with libFuzzer.
depth_a_second() {
    case $1 in
    gguf) echo 600 ;;
    convert) echo 350 ;;
    calls | safetensors) echo 200 ;;
    adapter | template) echo 150 ;;
    model) echo 90 ;;
    turns) echo 80 ;;
    grammar | schema) echo 60 ;;
    tokenizer) echo 40 ;;
    snapshot) echo 30 ;;
    engine) echo 12 ;;
    *)
        echo "no pace is known of $1" >&2
        return 1
        ;;
    esac
}

fuzz() {
    local seconds=$1 target known all
    shift
    for target in "$@"; do
        known=$(run "$target" -runs=0 "$found/$target" "corpus/$target") || { echo "$known" && return 1; }
        all=$(run "$target" -max_total_time="$seconds" "$found/$target" "corpus/$target") || { echo "$all" && return 1; }
        new "$known" "$all"
    done
}

# new KNOWN ALL: what run has said of all inputs, less what it has said of those that were known.
new() {
    local known all
    read -ra known <<<"$(tr -dc '0-9 ' <<<"${1#*: }")"
    read -ra all <<<"$(tr -dc '0-9 ' <<<"${2#*: }")"
    echo "${2%%:*}: $((all[0] - known[0])) runs${all[1]:+, $((all[1] - known[1])) inputs or calls}"
}

build_breadth() {
    cargo build --locked --quiet --release --no-default-features --bin breadth --target-dir "$out/breadth" \
        --features "${GLEED_FUZZ_FEATURES:-}"
}

# without_libfuzzer COMMAND TARGET SEED AMOUNT CORPUS...: new inputs made of corpora; src/breadth.rs says what the arguments are.
without_libfuzzer() {
    local command=$1 target=$2 seed=$3 amount=$4 log=$out/log-$2 input=$found/$2-breadth
    shift 4
    mkdir -p "$found/$target"
    "$out/breadth/release/breadth" "$command" "$target" "$seed" "$amount" "$input" "$@" >"$log" 2>&1 || {
        tail -n 60 "$log"
        echo "$target failed; the input is $input"
        return 1
    }
    echo "$target: $(grep ' runs' "$log"), seed $seed"
}

breadth() {
    local seconds=$1 seed=${GLEED_FUZZ_SEED:-$(date +%s)} target
    shift
    build_breadth
    for target in "$@"; do without_libfuzzer try "$target" "$seed" "$seconds" "corpus/$target" "$found/$target"; done
}

# As many runs as take about so long.
fixed() {
    local seconds=$1 target pace
    shift
    build_breadth
    for target in "$@"; do
        pace=$(runs_a_second "$target")
        without_libfuzzer runs "$target" 1 $((seconds * pace)) "corpus/$target"
    done
}

# How many runs of a target took about a second of processor time.
runs_a_second() {
    case $1 in
    gguf) echo 28000 ;;
    calls) echo 11000 ;;
    adapter) echo 4100 ;;
    template) echo 4700 ;;
    model) echo 2900 ;;
    safetensors) echo 1600 ;;
    convert) echo 1900 ;;
    schema) echo 700 ;;
    grammar) echo 440 ;;
    engine) echo 380 ;;
    snapshot) echo 375 ;;
    turns) echo 280 ;;
    tokenizer) echo 80 ;;
    *)
        echo "no pace is known of $1" >&2
        return 1
        ;;
    esac
}

minimise() {
    local target small
    for target in "$@"; do
        small=$out/small-$target
        rm -rf "$small"
        mkdir -p "$small"
        # What has such a name is a regression or a seed, and stays.
        find "corpus/$target" -type f -name '*-*' -exec cp -t "$small" {} +
        run "$target" -merge=1 "$small" "corpus/$target" "$found/$target"
        rm -rf "corpus/$target"
        mv "$small" "corpus/$target"
    done
}

command=${1:?build, list, replay, short, fuzz, breadth, fixed, minimise or show}
shift
amount=
case $command in
short | fuzz | breadth | fixed) amount=${1:?seconds or runs} && shift ;;
esac
# shellcheck disable=SC2046
case $command in
replay | short | fuzz | breadth | fixed | minimise) [ $# -gt 0 ] || set -- $(list) ;;
esac
case $command in
build | list) "$command" ;;
replay | minimise) "$command" "$@" ;;
short | fuzz | breadth | fixed) "$command" "$amount" "$@" ;;
show) GLEED_FUZZ_SHOW=1 GLEED_FUZZ_TARGET=$1 "$program" "${limits[@]}" "$2" ;;
*)
    echo "no command $command" >&2
    exit 2
    ;;
esac
