//! What the examples share: the model file, flags, and how errors reach the user.
//!
//! Every example says `mod common;` and uses a part of it, hence the `dead_code` below.
#![allow(dead_code)]

pub(crate) mod args;
pub(crate) mod blocks;
pub(crate) mod gguf;
pub(crate) mod interrupt;
pub(crate) mod random;
pub(crate) mod run;
pub(crate) mod score;
pub(crate) mod text;
pub(crate) mod turns;

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use gleed::host::MappedFile;

/// The model that the examples carry: `examples/assets/README.md`.
const DEMO_MODEL: &[u8] = include_bytes!("../assets/gleed-tales-q8_0.gguf");

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Ends a program: with one line on standard error and code 1 where it failed. A reader that went away, as in
/// `generate ... | head`, is no failure.
pub(crate) fn exit(result: Result<ExitCode>) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(error) => match error.downcast_ref::<io::Error>() {
            Some(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            _ => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        },
    }
}

/// The bytes of a model.
pub(crate) enum ModelFile {
    Mapped { path: PathBuf, file: MappedFile },
    Demo,
}

impl ModelFile {
    /// Maps the file at `path`; without one it is the demo model.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else { return Ok(Self::Demo) };
        match MappedFile::open(path) {
            Ok(file) => Ok(Self::Mapped { path: path.to_path_buf(), file }),
            Err(error) => Err(format!("{}: {error}", path.display()).into()),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Mapped { file, .. } => file.bytes(),
            Self::Demo => DEMO_MODEL,
        }
    }

    pub(crate) fn is_demo(&self) -> bool {
        matches!(self, Self::Demo)
    }

    /// What the user knows it by.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Mapped { path, .. } => path.display().to_string(),
            Self::Demo => "the demo model".into(),
        }
    }

    /// Puts the file's name before an error.
    pub(crate) fn error(&self, error: impl Error) -> Box<dyn Error> {
        format!("{}: {error}", self.name()).into()
    }
}
