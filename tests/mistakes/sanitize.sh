#!/usr/bin/env bash
# The mistakes, and the other C programs, with a library that is compiled with a sanitizer like they are.
#
# address: the C and C++ programs that `cargo test -p gleed-ffi` runs, with AddressSanitizer on both sides (and UBSan in C).
#     A control program, which tells the library that a file were longer than it is, must be caught in the library's code.
# thread: ThreadSanitizer. The crowd with the job system of its host, and `const` calls on four threads. The control program reads
#     logits while another thread decodes. Needs clang, and takes the toolchain of scripts/nightly.sh: std is compiled, too.
#
# usage: tests/mistakes/sanitize.sh [address|thread]
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
target_dir=${CARGO_TARGET_DIR:-$root/target}/sanitized
host=$(rustc -vV | sed -n 's/^host: //p')
model=$root/examples/assets/gleed-tales-q8_0.gguf
library=$target_dir/$host/debug/examples/libgleed_hosted.a
libraries=(-lpthread -ldl -lm)
# What the programs need of the library: everything takes four times as long to compile.
package=(-p gleed-ffi --no-default-features
    --features std,grammar,gleed/arch-llama,gleed/arch-qwen35,gleed/quant-q8_0,gleed/quant-float,gleed/level-all)
export CARGO_PROFILE_DEV_DEBUG=line-tables-only
# The programs leave their memory to the system.
export ASAN_OPTIONS=detect_leaks=0
cd "$root"

# caught REPORT PLACE COMMAND...: the command must fail with this report of a sanitizer, at a place of the library. It has a few
# tries, because ThreadSanitizer does not notice every race every time.
caught() {
    local log=$target_dir/control.log try
    for try in 1 2 3 4 5 6 7 8; do
        if ! "${@:3}" >"$log" 2>&1 && grep -q "$1" "$log" && grep -q "#[0-9]* .*$2" "$log"; then
            echo "control, try $try: $(grep -m 1 "$1" "$log")"
            return
        fi
    done
    cat "$log"
    echo "FAILED: the control program was not caught"
    return 1
}

address() {
    # Sanitizers are an option of unstable compilers, and of stable ones that are told so.
    export RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address
    cargo build --quiet --locked --target "$host" --target-dir "$target_dir" "${package[@]}" --example gleed_hosted
    cat >"$target_dir/control.c" <<'END'
#include <stdlib.h>
#include <string.h>
#include "support.h"
int main(int argc, char **argv)
{
    size_t len, told;
    const uint8_t *file = read_file(argc > 1 ? argv[1] : "", &told);
    uint8_t *part = malloc(len = 1000);
    memcpy(part, file, len);
    open_model(part, told);
    return 0;
}
END
    "${CC:-cc}" -g -fsanitize=address -I include -I tests/mistakes "$target_dir/control.c" "$library" "${libraries[@]}" \
        -o "$target_dir/control"
    caught "AddressSanitizer: heap-buffer-overflow" gguf-rs-lite/src "$target_dir/control" "$model"
    # Those without a sanitizer of their own cannot be linked with this library.
    cargo test --quiet --locked --target "$host" --target-dir "$target_dir" "${package[@]}" --no-fail-fast \
        --test c_programs --test host_programs -- --skip stack --skip plugin --skip python --skip exports
}

thread() {
    local toolchain runtime
    toolchain=$(scripts/nightly.sh rust-src)
    library=$target_dir/thread/$host/debug/examples/libgleed_hosted.a
    runtime=$(rustc "+$toolchain" --print sysroot)/lib/rustlib/$host/lib/librustc-nightly_rt.tsan.a
    export RUSTFLAGS=-Zsanitizer=thread
    # Without a long history it finds races, but cannot say where they are, and then says nothing.
    export TSAN_OPTIONS=history_size=7:halt_on_error=1
    # compile SOURCE NAME FLAG...: with the sanitizer that rustc has, which is later than the system's.
    compile() {
        clang "${@:3}" "$1" -g -O1 -fsanitize=thread -fno-sanitize-link-runtime -I include -I tests/mistakes \
            "$library" -Wl,--whole-archive "$runtime" -Wl,--no-whole-archive "${libraries[@]}" -lrt -lstdc++ \
            -o "$target_dir/thread/$2"
    }
    cargo "+$toolchain" build --quiet --locked -Zbuild-std --target "$host" --target-dir "$target_dir/thread" "${package[@]}" \
        --example gleed_hosted
    cat >"$target_dir/control.c" <<'END'
#define _DEFAULT_SOURCE
#include <pthread.h>
#include "support.h"
static gleed_engine *engine;
static gleed_seq seq;
static const float *logits;
static int done;
static void *look(void *sum)
{
    const float *shown = logits;
    while (!__atomic_load_n(&done, __ATOMIC_RELAXED))
        *(float *)sum += shown[0];
    return NULL;
}
int main(int argc, char **argv)
{
    size_t len;
    const uint8_t *file = read_file(argc > 1 ? argv[1] : "", &len);
    const gleed_model *model = open_model(file, len);
    pthread_t thread;
    float sum = 0;
    int i;
    engine = start_engine(model, NULL);
    DO(gleed_seq_open(engine, &seq, &error));
    DO(gleed_decode_step(engine, seq, 1, &logits, &len, &error));
    CHECK(pthread_create(&thread, NULL, look, &sum) == 0);
    for (i = 0; i < 200; i++)
        DO(gleed_decode_step(engine, seq, 1, &logits, &len, &error));
    __atomic_store_n(&done, 1, __ATOMIC_RELAXED);
    CHECK(pthread_join(thread, NULL) == 0);
    return 0;
}
END
    compile "$target_dir/control.c" control
    caught "ThreadSanitizer: data race" "$root/src/" "$target_dir/thread/control" "$model"
    compile ffi/tests/c/arguments.c threads
    "$target_dir/thread/threads" "$model"
    compile examples/cpp/npc_crowd.cpp crowd -std=c++17
    "$target_dir/thread/crowd" "$model" --workers 3 --tokens 12
}

case ${1:-address} in
address | thread) "${1:-address}" ;;
*) sed -n 's/^# usage/usage/p' "$0"; exit 2 ;;
esac
