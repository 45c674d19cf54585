#!/usr/bin/env bash
# Builds the C programs of this folder for a Cortex-M4F, without a C library except baseline.c, and runs them in the emulator.
# Needs arm-none-eabi-gcc and qemu-system-arm, and for baseline.c newlib.
#
# usage: examples/bare-c/run.sh [MODEL.gguf]
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
model=$(realpath "${1:-$root/examples/assets/gleed-tales-q8_0.gguf}")
target=thumbv7em-none-eabihf
target_dir=${CARGO_TARGET_DIR:-$root/target}/bare-c
cpu=(-mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16 -mfp16-format=ieee)
options=("${cpu[@]}" -std=gnu99 -Wall -Wextra -Werror -ffunction-sections -fdata-sections "-DMODEL=\"$model\""
    -I "$root/include" -T "$here/board.ld" -Wl,--gc-sections,-z,noexecstack)

run() {
    qemu-system-arm -M mps2-an386 -nographic -icount shift=0 -semihosting-config enable=on,target=native -kernel "$1"
}

# library OPT_LEVEL: builds the library with one instruction set, one architecture and one type of matrices, and prints its
# path.
library() {
    CARGO_PROFILE_RELEASE_OPT_LEVEL=$1 cargo build --locked --quiet --release --target $target --no-default-features \
        --features gleed/arch-llama,gleed/quant-q8_0 --manifest-path "$root/ffi/bare/Cargo.toml" \
        --target-dir "$target_dir/$1"
    echo "$target_dir/$1/$target/release/libgleed.a"
}

for level in s 3; do
    arm-none-eabi-gcc -Os "${options[@]}" -nostdlib "$here/board.c" "$here/story.c" "$(library $level)" \
        -o "$target_dir/story-$level.elf"
    printf 'opt-level %s: ' $level
    run "$target_dir/story-$level.elf"
done
arm-none-eabi-gcc -O2 "${options[@]}" -nostartfiles "$here/board.c" "$here/baseline.c" -lm -o "$target_dir/baseline.elf"
printf 'gcc -O2: '
run "$target_dir/baseline.elf"
