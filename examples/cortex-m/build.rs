//! Chooses the memory map of the board and the model.

use std::env;
use std::fs;
use std::path::PathBuf;

/// The Cortex-M4F of the MPS2 board: 4 MB that stand for flash, 4 MB of RAM.
const MPS2_AN386: &str = "MEMORY { FLASH : ORIGIN = 0x00000000, LENGTH = 4M RAM : ORIGIN = 0x20000000, LENGTH = 4M }\n";

fn main() {
    let variable = |name: &str| PathBuf::from(env::var_os(name).unwrap_or_default());
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=GLEED_STORY_MODEL");

    let given = variable("GLEED_STORY_MODEL");
    let model = variable("CARGO_MANIFEST_DIR").join(if given.as_os_str().is_empty() {
        PathBuf::from("../assets/gleed-tales-q8_0.gguf")
    } else {
        given
    });
    println!("cargo::rustc-env=GLEED_STORY_MODEL={}", model.display());

    let target = env::var("TARGET").unwrap_or_default();
    if target.starts_with("thumb") {
        let out = variable("OUT_DIR");
        fs::write(out.join("memory.x"), MPS2_AN386).expect("a file in OUT_DIR");
        println!("cargo::rustc-link-search={}", out.display());
        println!("cargo::rustc-link-arg-bins=-Tlink.x");
    } else if target.starts_with("riscv32") {
        println!("cargo::rerun-if-changed=riscv32.ld");
        println!("cargo::rustc-link-arg-bins=-T{}", variable("CARGO_MANIFEST_DIR").join("riscv32.ld").display());
    }
}
