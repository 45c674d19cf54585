//! Compiles the plugin's story: `examples/plugin/plugin.c`.

use std::env;

fn main() {
    let files = ["../plugin/plugin.c", "../plugin/plugin.h", "../../include/gleed.h"];
    cc::Build::new()
        .file(files[0])
        .include("../../include")
        .std("c99")
        .warnings(true)
        .extra_warnings(true)
        .compile("story");
    for file in files {
        println!("cargo::rerun-if-changed={file}");
    }
    // A host may itself have the functions of gleed.h, in another version. The plugin uses its own functions.
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    }
}
