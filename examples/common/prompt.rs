//! The sources of a prompt.

use std::io::{IsTerminal, Read, stdin};
use std::path::{Path, PathBuf};

use clap::Args;

use super::Result;
use super::args::parse_ids;

/// At most one of these; without any the text is standard input's, where that is no terminal.
#[derive(Args)]
#[group(multiple = false)]
pub struct Prompt {
    /// Text to continue; `-` reads it from standard input, and so does no text where that is no terminal
    #[arg(value_name = "TEXT")]
    text: Option<String>,

    /// Text to continue, given as an option
    #[arg(long = "prompt", value_name = "TEXT", allow_hyphen_values = true)]
    flag: Option<String>,

    /// File with the text to continue; a line break at its end is left out
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Token ids to continue, separated by commas or white space; no BOS is added
    #[arg(long, value_name = "1,2,3", value_parser = parse_ids)]
    ids: Option<std::vec::Vec<u32>>,
}

/// The prompt to continue.
pub enum Begin {
    Text(String),
    Ids(Vec<u32>),
}

impl Prompt {
    /// Returns the file that the prompt is read from, if there is one.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Reads the prompt. Returns `None` if no flag gives one and standard input is a terminal.
    pub fn read(&self) -> Result<Option<Begin>> {
        let begin = match self {
            Self { ids: Some(ids), .. } => Begin::Ids(ids.clone()),
            Self { flag: Some(text), .. } => Begin::Text(text.clone()),
            Self { file: Some(file), .. } => Begin::Text(read_file(file)?),
            Self { text: Some(text), .. } if text != "-" => Begin::Text(text.clone()),
            Self { text: None, .. } if stdin().is_terminal() => return Ok(None),
            _ => Begin::Text(read_input()?),
        };
        Ok(Some(begin))
    }
}

fn read_file(path: &Path) -> Result<String> {
    let named = |error: Box<dyn std::error::Error>| format!("{}: {error}", path.display());
    let bytes = std::fs::read(path).map_err(|error| named(error.into()))?;
    Ok(text(bytes).map_err(named)?)
}

fn read_input() -> Result<String> {
    let mut bytes = Vec::new();
    stdin().lock().read_to_end(&mut bytes)?;
    Ok(text(bytes).map_err(|error| format!("standard input: {error}"))?)
}

/// Returns the text without the line break that programs and editors put at its end.
fn text(bytes: Vec<u8>) -> Result<String> {
    let mut text =
        String::from_utf8(bytes).map_err(|error| format!("byte {} is no UTF-8", error.utf8_error().valid_up_to()))?;
    if text.ends_with('\n') {
        text.pop();
        text.truncate(text.strip_suffix('\r').map_or(text.len(), str::len));
    }
    Ok(text)
}
