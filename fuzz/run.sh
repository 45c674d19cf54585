#!/usr/bin/env bash
# The fuzz targets: builds them, replays their corpora, runs them. Needs rustup. Installs the toolchain of scripts/nightly.sh if it is missing. Fetches nothing
# else except the crates of fuzz/Cargo.lock.
#
#   fuzz/run.sh build                   one program with all targets, with the address sanitizer and overflow checks
#   fuzz/run.sh list                    the names of the targets
#   fuzz/run.sh replay [TARGET...]      every input of the corpora
#   fuzz/run.sh short SECONDS [TARGET...]  the corpora, and as many new inputs as take about SECONDS, the same ones each time
#   fuzz/run.sh fuzz SECONDS [TARGET...]   new inputs, each target for SECONDS; prints lines "TARGET: N runs, M inputs or calls",
#                                       without those of the corpus
#   fuzz/run.sh breadth SECONDS [TARGET...]   many more inputs in the same time, without the sanitizer and without guidance by coverage: builds
#                                       a program of its own, each target for SECONDS of processor time. GLEED_FUZZ_SEED (the time) decides
#                                       which inputs
#   fuzz/run.sh fixed SECONDS [TARGET...]  the same program, with as many runs as take about SECONDS, the same ones each time
#   fuzz/run.sh minimise [TARGET...]    adds new inputs that were found to the corpora, and drops inputs whose coverage others have
#   fuzz/run.sh show TARGET FILE        one input, with the calls that it makes
#
# GLEED_FUZZ_FEATURES=all builds every block format and instruction set, for long runs.
set -euo pipefail
cd "$(dirname "$0")"

out=${CARGO_TARGET_DIR:-$PWD/../target}/fuzz
program=$out/x86_64-unknown-linux-gnu/release/all
# New inputs that runs find. They are apart from the corpora, because there can be many.
found=$out/found
# No target needs more than a fraction of this memory, even if an input asks for more. A run of 60 s is a hang, even on a busy machine.
limits=(-timeout=60 -rss_limit_mb=2048 -malloc_limit_mb=512)
# Short stack traces and a small quarantine of freed memory: larger ones take longer than the tests themselves.
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

# run TARGET ARGUMENTS...: runs the program with a target. Its output is shown if it fails.
run() {
    local target=$1 log=$out/log-$1 len=4096
    shift
    # An input of this target contains a whole model file.
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

# The length is a number of runs and not of seconds, so that the result for a change does not depend on how busy its machine is. In targets with threads,
# libFuzzer may find other inputs new, so there not all inputs are the same.
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

# Prints about how many runs of a target take a second of processor time in the program with libFuzzer.
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

# new KNOWN ALL: prints what `run` printed for all inputs, less what it printed for the known inputs.
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

# without_libfuzzer COMMAND TARGET SEED AMOUNT CORPUS...: new inputs made from corpora. src/breadth.rs explains the arguments.
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

# Makes as many runs as take about the given seconds.
fixed() {
    local seconds=$1 target pace
    shift
    build_breadth
    for target in "$@"; do
        pace=$(runs_a_second "$target")
        without_libfuzzer runs "$target" 1 $((seconds * pace)) "corpus/$target"
    done
}

# Prints about how many runs of a target take a second of processor time in the program without libFuzzer.
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
        # Inputs with such a name are regressions or seeds, and stay.
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
