//! gleed-bindgen IN.wasm FOLDER: makes a module for browsers, and its JavaScript.

use std::env::args;

use wasm_bindgen_cli_support::Bindgen;

fn main() -> anyhow::Result<()> {
    let [_, from, to] = &args().collect::<Vec<_>>()[..] else { anyhow::bail!("gleed-bindgen IN.wasm FOLDER") };
    Bindgen::new().input_path(from).web(true)?.typescript(false).generate(to)
}
