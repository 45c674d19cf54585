//! The readers of the example `convert`, from its files, without its command line. They read folders, safetensors,
//! llama2.c models, GGUF files and importance matrices.
#![allow(dead_code, unused_imports)]

// The modules of the example name their shared modules `common`.
extern crate self as common;

#[path = "../../../examples/common/gguf.rs"]
pub mod gguf;
#[path = "../../../examples/convert/hf/mod.rs"]
mod hf;
#[path = "../../../examples/convert/imatrix.rs"]
mod imatrix;
#[path = "../../../examples/convert/llama2c.rs"]
mod llama2c;
#[path = "../../../examples/convert/output.rs"]
mod output;
#[path = "../../../examples/convert/requantize.rs"]
mod requantize;
#[path = "../../../examples/convert/vocab/mod.rs"]
mod vocab;

use std::path::Path;

use output::Output;

pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Most elements that are read of a file. A repeated row costs a file nothing, so files can ask for more.
const MOST: usize = 1 << 20;

/// Reads a Hugging Face folder. Returns the bytes before the weights.
pub fn folder(path: &Path) -> std::result::Result<usize, String> {
    (|| read(hf::Folder::open(path)?.output()?))().map_err(|error| error.to_string())
}

/// Reads a llama2.c model with its vocabulary. Without a vocabulary, it reads only the model's sizes.
pub fn llama2c(file: &[u8], tokenizer: Option<&[u8]>) -> std::result::Result<usize, String> {
    let read_all = || {
        let model = llama2c::Model::read(file)?;
        let Some(tokenizer) = tokenizer else { return Ok(0) };
        let vocab = model.vocab(tokenizer)?;
        read(model.output(vocab)?)
    };
    read_all().map_err(|error: Box<dyn std::error::Error>| error.to_string())
}

/// Reads a GGUF file, to write its matrices as another type.
pub fn gguf_file(file: &[u8]) -> std::result::Result<usize, String> {
    requantize::read(file, true).and_then(read).map_err(|error| error.to_string())
}

/// Reads an importance matrix.
pub fn importance(file: &[u8]) -> std::result::Result<(), String> {
    imatrix::Imatrix::read(file).map(drop).map_err(|error| error.to_string())
}

/// Reads every row of every tensor, and the metadata.
fn read(output: Output<'_>) -> Result<usize> {
    let mut left = MOST;
    for tensor in &output.tensors {
        tensor.contents.check()?;
        let cols = tensor.contents.cols();
        for row in 0..tensor.contents.rows() {
            match left.checked_sub(cols.max(1)) {
                Some(rest) => left = rest,
                None => break,
            }
            if tensor.contents.row(row, &mut vec![0.0; cols]).is_none() {
                return Err(format!("{}: row {row} cannot be read", tensor.name).into());
            }
        }
    }
    Ok(output.header.finish().0.len())
}
