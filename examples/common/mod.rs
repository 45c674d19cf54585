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

/// The model that the examples carry: `examples/assets/README.md`.
const DEMO_MODEL: &[u8] = include_bytes!("../assets/gleed-tales-q8_0.gguf");

/// The same as a file.
pub const DEMO_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/gleed-tales-q8_0.gguf");

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Ends a program: with one line on standard error and code 1 where it failed. A reader that went away, as in
/// `generate ... | head`, is no failure.
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

/// The same of a program that has only one good end.
pub fn end(result: Result<()>) -> ExitCode {
    exit(result.map(|()| ExitCode::SUCCESS))
}

/// The bytes of a model.
pub enum ModelFile {
    /// One file, or all parts of a split one.
    Mapped {
        path: PathBuf,
        parts: &'static [&'static [u8]],
    },
    Demo,
}

impl ModelFile {
    /// Maps the file at `path`, and those that follow it where it is the first of several, `NAME-00001-of-00003.gguf`;
    /// without a path it is the demo model.
    pub fn open(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else { return Ok(Self::Demo) };
        let map = |path: PathBuf| -> Result<&'static [u8]> {
            let file = MappedFile::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            // For as long as the program runs.
            Ok(Box::leak(Box::new(file)).bytes())
        };
        let parts = part_paths(path).into_iter().map(map).collect::<Result<Vec<_>>>()?;
        Ok(Self::Mapped { path: path.to_path_buf(), parts: parts.leak() })
    }

    /// The model.
    pub fn model(&self) -> Result<Model<'_>> {
        let model = match self {
            Self::Mapped { parts: [file], .. } => Model::open(file),
            Self::Mapped { parts, .. } => Model::open_split(parts),
            Self::Demo => Model::open(DEMO_MODEL),
        };
        model.map_err(|error| self.error(error))
    }

    /// The same where tokens are to follow a text.
    pub fn generative(&self) -> Result<Model<'_>> {
        let model = self.model()?;
        if model.has_logits() { Ok(model) } else { Err(self.error(EngineError::NoLogits)) }
    }

    /// The file, or the first part.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Mapped { parts, .. } => parts[0],
            Self::Demo => DEMO_MODEL,
        }
    }

    /// A file that the program is to write: not over this model, nor over the files that are `read` beside it.
    pub fn output(&self, path: Option<&Path>, read: &[PathBuf]) -> Result<Option<Output>> {
        path.map(|path| Output::at(path, &[&self.paths(), read].concat())).transpose()
    }

    /// Writes such a file.
    pub fn write(&self, path: &Path, read: &[PathBuf], bytes: &[u8]) -> Result<()> {
        Output::at(path, &[&self.paths(), read].concat())?.write(bytes)
    }

    /// The files that the model is in.
    pub fn paths(&self) -> Vec<PathBuf> {
        match self {
            Self::Mapped { path, .. } => part_paths(path),
            Self::Demo => Vec::new(),
        }
    }

    pub fn is_demo(&self) -> bool {
        matches!(self, Self::Demo)
    }

    /// What the user knows it by.
    pub fn name(&self) -> String {
        match self {
            Self::Mapped { path, .. } => path.display().to_string(),
            Self::Demo => "the demo model".into(),
        }
    }

    /// The same without folders.
    pub fn short_name(&self) -> String {
        match self {
            Self::Mapped { path, .. } => path.file_name().unwrap_or(path.as_os_str()).display().to_string(),
            Self::Demo => "Gleed Tales".into(),
        }
    }

    /// Puts the file's name before an error.
    pub fn error(&self, error: impl Error) -> Box<dyn Error> {
        format!("{}: {error}", self.name()).into()
    }
}

/// The paths of all parts, given that of the first; only that one if it is not named like a part.
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
