//! What the examples share: the model file, flags, and how errors reach the user.

pub mod args;
pub mod blocks;
pub mod calculator;
pub mod calling;
pub mod compile;
pub mod constraint;
pub mod device;
pub mod embed;
pub mod figures;
pub mod gguf;
pub mod guesses;
pub mod interrupt;
pub mod limit;
pub mod machine;
pub mod made;
pub mod output;
pub mod plot;
pub mod prompt;
pub mod random;
pub mod raw_member;
pub mod reply;
pub mod run;
pub mod score;
pub mod setting;
pub mod story;
pub mod text;
pub mod tool_args;
pub mod toolbox;
pub mod trace;
pub mod turns;
mod version;

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use gleed::host::MappedFile;
use gleed::{EngineError, Model};
use output::Output;
pub use version::{arguments, version};

/// The demo model, which is part of the examples: see `examples/assets/README.md`.
const DEMO_MODEL: &[u8] = include_bytes!("../assets/gleed-tales-q8_0.gguf");

/// Path of the demo model's file.
pub const DEMO_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/gleed-tales-q8_0.gguf");

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Returns the exit code of a program. Prints an error in one line on standard error, with code 1. A closed pipe, as in
/// `generate ... | head`, is not an error.
pub fn exit(result: Result<ExitCode>) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(error) => match error.downcast_ref::<io::Error>() {
            Some(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            _ => {
                eprintln!("error: {}", limit::explain(error.as_ref()));
                ExitCode::FAILURE
            }
        },
    }
}

/// Returns the exit code of a program that has only one successful end.
pub fn end(result: Result<()>) -> ExitCode {
    exit(result.map(|()| ExitCode::SUCCESS))
}

/// The bytes of a model.
pub enum ModelFile {
    /// One mapped file, or all parts of a split one.
    Mapped {
        path: PathBuf,
        parts: &'static [&'static [u8]],
    },
    Demo,
}

impl ModelFile {
    /// Maps the file at `path`. If it is the first part of a split file, `NAME-00001-of-00003.gguf`, maps the other
    /// parts, too. Without a path this is the demo model.
    pub fn open(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else { return Ok(Self::Demo) };
        let map = |path: PathBuf| -> Result<&'static [u8]> {
            let file = MappedFile::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            // It stays mapped as long as the program runs.
            Ok(Box::leak(Box::new(file)).bytes())
        };
        let parts = part_paths(path).into_iter().map(map).collect::<Result<Vec<_>>>()?;
        Ok(Self::Mapped { path: path.to_path_buf(), parts: parts.leak() })
    }

    /// Opens the model.
    pub fn model(&self) -> Result<Model<'_>> {
        let model = match self {
            Self::Mapped { parts: [file], .. } => Model::open(file),
            Self::Mapped { parts, .. } => Model::open_split(parts),
            Self::Demo => Model::open(DEMO_MODEL),
        };
        model.map_err(|error| self.error(error))
    }

    /// Opens the model. Refuses one without logits, which cannot continue a text.
    pub fn generative(&self) -> Result<Model<'_>> {
        let model = self.model()?;
        if model.has_logits() { Ok(model) } else { Err(self.error(EngineError::NoLogits)) }
    }

    /// Returns the bytes of the file, or of its first part.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Mapped { parts, .. } => parts[0],
            Self::Demo => DEMO_MODEL,
        }
    }

    /// Returns a file that the program will write. Refuses the files of this model and the files in `read`.
    pub fn output(&self, path: Option<&Path>, read: &[PathBuf]) -> Result<Option<Output>> {
        path.map(|path| Output::at(path, &[&self.paths(), read].concat())).transpose()
    }

    /// Writes a file. Refuses the same files as `output`.
    pub fn write(&self, path: &Path, read: &[PathBuf], bytes: &[u8]) -> Result<()> {
        Output::at(path, &[&self.paths(), read].concat())?.write(bytes)
    }

    /// Returns the paths of the model's files.
    pub fn paths(&self) -> Vec<PathBuf> {
        match self {
            Self::Mapped { path, .. } => part_paths(path),
            Self::Demo => Vec::new(),
        }
    }

    pub fn is_demo(&self) -> bool {
        matches!(self, Self::Demo)
    }

    /// Returns the name of the model for messages: its path.
    pub fn name(&self) -> String {
        match self {
            Self::Mapped { path, .. } => path.display().to_string(),
            Self::Demo => "the demo model".into(),
        }
    }

    /// Returns the name of the model's file without folders.
    pub fn short_name(&self) -> String {
        match self {
            Self::Mapped { path, .. } => path.file_name().unwrap_or(path.as_os_str()).display().to_string(),
            Self::Demo => "Gleed Tales".into(),
        }
    }

    /// Returns an error with the model's name in front.
    pub fn error(&self, error: impl Error) -> Box<dyn Error> {
        format!("{}: {error}", self.name()).into()
    }
}

/// Returns the paths of all parts, given the path of the first. Returns only this path if its name is not that of a
/// first part.
fn part_paths(first: &Path) -> Vec<PathBuf> {
    let name = first.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let numbered = name.strip_suffix(".gguf").and_then(|name| name.rsplit_once("-of-"));
    let count = numbered.and_then(|(stem, count)| Some((stem.strip_suffix("-00001")?, count.parse::<usize>().ok()?)));
    match count {
        Some((stem, count)) if (1..=999).contains(&count) => {
            (1..=count).map(|part| first.with_file_name(format!("{stem}-{part:05}-of-{count:05}.gguf"))).collect()
        }
        _ => vec![first.to_path_buf()],
    }
}
