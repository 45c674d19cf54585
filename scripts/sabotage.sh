#!/usr/bin/env bash
# Puts faults into a copy of the tree, one at a time, and runs the check that must find each. This shows that the checks can fail.
#
#   scripts/sabotage.sh [NAME...]    puts in these faults, or all
#   scripts/sabotage.sh -t NAME...   puts in these together, which builds less, but a check may then fail because of another fault
#   scripts/sabotage.sh -n NAME...   puts in none and runs their checks, which must pass
#   scripts/sabotage.sh list         lists their names, the files that they change, and their checks
#
# The copy is in target/sabotage. It contains what is committed and has its own build results, so the first builds take minutes. The script
# prints a line for each fault. The status is 1 if a check passes, if a fault changes nothing, or if it does not build.
set -euo pipefail
cd "$(dirname "$0")/.."

out=$PWD/target/sabotage tree=$PWD/target/sabotage/tree log=$PWD/target/sabotage/log
# Settings for quick builds. The speed of the programs does not matter here.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$out/build} CARGO_PROFILE_DEV_DEBUG=0

# fault NAME FILE[,FILE] CHANGE CHECK [WHAT]: CHANGE is in Perl, CHECK is the check that must fail then (a function below).
all() {
    # Faults that an earlier campaign found: each undoes a mend.
    fault count ffi/src/ptr.rs,src/engine/prefill.rs \
        's/takes\(self\.len\)\?;/let _ = takes;/; s/self\.can_prefill\(seq, tokens\.len\(\)\)\?;\n *self\.check_tokens/self.check_tokens/' \
        in_c a_count_is_refused_before_anything_is_read
    fault whole-snapshot src/engine/snapshot.rs 's/base\.filter\(\|_\| header\.base\(\) > 0\)/base/' test_of regressions a_whole_snapshot
    fault moved ffi/src/object.rs 's/if address != object\.addr\(\)/if address == 0/' in_c objects_are_refused
    fault reentrant ffi/src/object.rs 's/if !how\.begin\(calls\)/if !how.begin(calls) && address == 0/' in_c objects_are_refused
    fault nesting src/host/template/mod.rs 's/nesting::check\(.*?\)\?;//' template
    fault source src/host/template/mod.rs 's/source\.len\(\) > MAX_SOURCE/source.len() > MAX_SOURCE * 1000/' template
    fault instructions src/host/template/mod.rs 's/Some\(MAX_INSTRUCTIONS\)/Some(MAX_INSTRUCTIONS * 1000)/' template
    fault one-text src/host/template/guard.rs 's/text_len\(&value\), MAX_TEXT/text_len(&value), MAX_TEXT * 2/' bound
    fault repeated-text src/host/template/amplify.rs 's/saturating_mul\(count\), MAX_TEXT/saturating_mul(count), MAX_TEXT * 2/' bound
    fault output src/host/template/guard.rs 's/used\.written, MAX_TEXT/used.written, MAX_TEXT * 2/' bound
    fault gone-through src/host/template/guard.rs 's/used\.read, MAX_READ/used.read, MAX_READ * 2/' bound
    fault made-texts src/host/template/guard.rs 's/match number <= bound/match number <= bound.saturating_mul(1 << 40)/' template
    fault gone-window src/cache/snapshot/read.rs 's/self\.check_whole\(seq, header\.base\(\)\)\?;//' test_of regressions a_delta_on_a_base
    fault other-adapter src/engine/adapters.rs 's/!adapter\.fits\(&self\.model\)/!adapter.fits(&self.model) && self.is_busy()/' \
        test_of regressions an_adapter_of_another_model
    fault old-scale src/ops/adapters.rs 's/ == Some\(&seq\.to_bits\(\)\)/.is_some()/' test_of regressions a_sequence_opened_in_the_cache
    fault embedding src/engine/batch.rs 's/self\.check_hidden\(\)\?;/let _ = self.check_hidden();/' test_of regressions a_state_that_is_not_finite
    fault mean src/ops/pool.rs 's/is_finite\(sum \+ x \* self\.factor\)/is_finite(*x) || is_finite(*sum)/' \
        test_of regressions the_mean_of_finite
    fault vocabulary examples/convert/hf/config.rs 's/"vocab_size"\], MAX_VOCAB/"vocab_size"], MAX_VOCAB << 30/' \
        example convert sizes_that_no_model_has
    fault high-water src/cache/snapshot/read.rs 's/group\.allocator\.lower_high_water\(mark\);/let _ = (group, mark);/' \
        test_of regressions a_failed_restore
    fault forked src/host/fork.rs 's/super::FORKS\.fetch_add\(1, Ordering::Relaxed\);/super::FORKS.fetch_add(0, Ordering::Relaxed);/' test_of forked
    fault handle src/cache/kv_cache.rs 's/sequence\.generation % 0xffff \+ 1/(sequence.generation + 1) \& 0xffff/' in_c objects_are_refused
    fault error-size ffi/src/error.rs 's/< size_of::<gleed_error>\(\)/< 4/' c_library error
    fault detection src/kernels/level.rs 's/let interpreted = cfg!\(miri\)/let interpreted = cfg!(miri) \&\& cfg!(test)/' interpreted level
    fault aligned include/gleed.h 's/(#define GLEED_ALIGNED\(bytes\)) _Alignas\(bytes\)/$1/' c_header

    # Relaxed orderings, and counters that do not count.
    fault published src/host/pool.rs 's/(store\(\(slots as u32\) << 10 \| 1, Ordering::)SeqCst/$1Relaxed/' threads
    fault counted-out src/host/pool.rs 's/(fetch_sub\(JOINED, Ordering::)SeqCst/$1Relaxed/' threads
    fault counter src/mem/tile.rs "s/$add/$read/" threads
    fault tile-twice src/mem/tile.rs "s/$add/self.next.fetch_add(1, Ordering::Relaxed) \\& !1;/" interpreted arena
    fault claims src/mem/tile.rs 's/word\.fetch_or\(bit, Ordering::Relaxed\) & bit == 0/{ let was = word.load(Ordering::Relaxed); word.store(was | bit, Ordering::Relaxed); was \& bit == 0 }/' threads

    # A checksum that is not compared, a bound that is removed, a slot that is shifted.
    fault checksum src/cache/snapshot/header.rs,src/cache/snapshot/read.rs 's/if stored != computed/if stored != computed \&\& stored == 0/g; s/match stored == computed/match stored == computed || stored != 0/' \
        inputs snapshot
    fault token-bound src/engine/step.rs 's/token as usize >= vocab\)/token as usize > vocab)/' inputs engine
    fault slot src/cache/table.rs "$shifted" inputs engine
    fault slot-in-tables src/cache/table.rs "$shifted" core table
    fault slot-in-calls src/cache/table.rs "$shifted" test_of equality random_calls
    fault slot-in-soak src/cache/table.rs "$shifted" soak
    fault lost-work src/par.rs \
        's/DONE if remaining\(\) > 0/DONE if remaining() > 1 << 60/; s/DONE => Ok\(remaining\(\)\)/DONE => Ok(0)/' test_of faults executors_that_lose
    fault sizes src/mem/arena.rs 's/return Err\(MemoryError::TooLarge\)/self.used = end/' core arena
    fault product src/kernels/x86_64/avx2/blocks_256.rs 's/_mm_set1_epi8\(32\)/_mm_set1_epi8(31)/' attack products
}

# Changes that several faults make, or that do not fit on a line.
add='self\.next\.fetch_add\(1, Ordering::Relaxed\);'
read='self.next.load(Ordering::Relaxed); self.next.store(index + 1, Ordering::Relaxed);'
shifted='s/position % BLOCK_TOKENS\)\)/(position + usize::from(position > 20)) % BLOCK_TOKENS))/'

# The checks. Each is first called with `build`, which must not fail, and then with `run`.
in_tree() { (cd "$tree" && timeout 900 "$@"); }

# cargo_test STAGE CARGO_ARGUMENTS... -- TEST_ARGUMENTS...
cargo_test() {
    local stage=$1 how=()
    shift
    while [ "$1" != -- ]; do how+=("$1") && shift; done
    [ "$stage" = run ] || set -- --no-run
    in_tree cargo test --locked --quiet --config profile.dev.package.gleed.opt-level=0 "${how[@]}" "$@"
}

examples() { in_tree cargo build --locked --quiet --config profile.dev.package.gleed.opt-level=0 "$@"; }

# Builds without instruction sets, because their kernels take most of a build.
plain=(--no-default-features --features "std,grammar,gleed/device,gleed/arch-all,gleed/quant-all,gleed/kv-all")
few=(-p gleed --no-default-features --features "std,grammar,device,arch-llama,quant-q8_0,jinja")
plain_core=(-p gleed --no-default-features --features "std,grammar,device,arch-all,quant-all,kv-all")

# The C programs link the library that an example makes.
in_c() {
    [ "$1" = run ] || examples -p gleed-ffi "${plain[@]}" --examples || return
    cargo_test "$1" -p gleed-ffi "${plain[@]}" --test c_programs -- "$2"
}
c_library() { cargo_test "$1" -p gleed-ffi "${plain[@]}" --lib -- "$2"; }
c_header() { cargo_test "$1" -p gleed-ffi "${plain[@]}" --test abi -- the_header_compiles; }
# The test runs a program that an example makes.
example() {
    [ "$1" = run ] || examples -p gleed-examples --example "$2" || return
    cargo_test "$1" "${plain_core[@]}" --test "$2" -- "${@:3}"
}
test_of() { cargo_test "$1" "${plain_core[@]}" --test "$2" -- "${@:3}"; }
core() { cargo_test "$1" "${plain_core[@]}" --lib -- "$2"; }
template() { cargo_test "$1" "${few[@]}" --test hostile_templates -- hostile; }
bound() { cargo_test "$1" "${few[@]}" --test hostile_templates -- each_bound; }
soak() { GLEED_SOAK_SECONDS=20 cargo_test "$1" "${plain_core[@]}" --test soak --; }
attack() { GLEED_CASES=2000 cargo_test "$1" -p gleed --test attack -- "$2"; }

threads() {
    case $1 in
    build) RUSTFLAGS="--cfg loom" in_tree cargo build --locked --quiet --manifest-path tests/loom/Cargo.toml --target-dir "$CARGO_TARGET_DIR/loom" ;;
    run) in_tree "$CARGO_TARGET_DIR/loom/debug/gleed-loom" 2 ;;
    esac
}

interpreted() {
    local toolchain how
    toolchain=$(scripts/nightly.sh miri rust-src) || return
    how=(cargo "+$toolchain" miri test --locked --quiet --manifest-path tests/miri/Cargo.toml --target-dir "$CARGO_TARGET_DIR/miri" --test "$2")
    [ "$1" = run ] || how+=(--no-run)
    in_tree "${how[@]}"
}

# Tries new inputs without libFuzzer and the sanitizer, from the corpus of a target.
inputs() {
    case $1 in
    build) in_tree cargo build --locked --quiet --manifest-path fuzz/Cargo.toml --no-default-features --bin breadth --target-dir "$CARGO_TARGET_DIR/fuzz" ;;
    run) in_tree "$CARGO_TARGET_DIR/fuzz/debug/breadth" runs "$2" 1 300 "$out/input" "fuzz/corpus/$2" ;;
    esac
}

# fault NAME FILE[,FILE] CHANGE CHECK [WHAT...]
fault() {
    local name=$1 files=${2//,/ } change=$3
    shift 3
    if [ "$pass" = list ]; then
        echo "$name: $files: $*"
        return
    fi
    [ "$wanted" = all ] || [[ " $wanted " = *" $name "* ]] || return 0
    [[ $pass = check || $pass = none ]] || put "$name" "$change" "$files"
    [ "$pass" = put ] || check "$name" "$@"
    # shellcheck disable=SC2086
    [ "$pass" != each ] || restore $files
}

# put NAME CHANGE FILES
put() {
    local file
    for file in $3; do
        cp "$tree/$file" "$out/before"
        perl -0pi -e "$2" "$tree/$file"
        ! cmp -s "$tree/$file" "$out/before" || { echo "$1 changes nothing in $file" && failed=1; }
    done
}

restore() {
    local file
    for file in "$@"; do git show "HEAD:$file" >"$tree/$file"; done
}

# check NAME CHECK [WHAT...]
check() {
    local name=$1 said seen
    shift
    if ! "$1" build "${@:2}" >"$log-$name" 2>&1; then
        said="does not build, see $log-$name" failed=1
    elif "$1" run "${@:2}" >"$log-$name" 2>&1; then
        said="passes"
        [ "$pass" = none ] || failed=1
    else
        seen=$(grep -aE -A 2 'panicked at|Undefined Behavior|SIG[A-Z]+|^[a-z_.]+:[0-9]+:|unsupported operation' "$log-$name" | sed -n 1,2p | tr '\n' ' ')
        said="fails: ${seen:0:160}"
        [ "$pass" != none ] || failed=1
    fi
    echo "$name ($*) $said"
}

pass=each failed=0
case ${1:-} in
list) pass=list ;;
-t) pass=put && shift ;;
-n) pass=none && shift ;;
esac
wanted=${*:-all}
if [ $pass != list ]; then
    mkdir -p "$out"
    rm -rf "$tree"
    mkdir "$tree"
    # Renew the times of the files, because the last build had a fault.
    git archive HEAD | tar -x -m -C "$tree"
fi
all
[ $pass != put ] || pass=check all
exit $failed
