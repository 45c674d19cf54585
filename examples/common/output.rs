//! Files that a program writes. It never overwrites a file that it reads, and a file has a temporary name until it is
//! whole.

use std::error::Error;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::{Result, interrupt};

/// A place to which a file will be written. Nothing has changed there yet.
pub struct Output {
    /// Path as the user gave it.
    name: PathBuf,
    place: Place,
}

enum Place {
    /// A pipe, a terminal or the like, or the file that standard output or standard error writes to. Bytes are written
    /// at once.
    Stream(File),
    /// Path of a regular file, with links followed. The file is replaced when all bytes are written.
    File(PathBuf),
}

impl Output {
    /// Checks a path to write to. Refuses it if no file can be written there, or if it is one of the files in `read`,
    /// which may also name folders.
    pub fn at(path: &Path, read: &[impl AsRef<Path>]) -> Result<Self> {
        let found = match path.metadata() {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => return Self::beside(path),
            // Devices of Windows have no metadata. For other paths, creating the file gives the error.
            Err(_) => return Self::stream(path, File::create(path)),
        };
        if found.is_dir() {
            return Err(format!("{}: it is a folder, and the file to write needs a name", path.display()).into());
        }
        let wanted = identity(path, &found).map_err(|error| named(path, error))?;
        if let Some(other) = read.iter().flat_map(|path| files(path.as_ref())).find(|other| is(other, &wanted)) {
            let (path, other) = (path.display(), other.display());
            return Err(format!("{path}: it would be written over {other}, which is read").into());
        }
        if let Some(stream) = standard_stream(&wanted) {
            return Self::stream(path, Ok(stream));
        } else if !found.is_file() && !is_stream(&found) {
            return Err(format!("{}: it is neither a file nor a pipe", path.display()).into());
        }
        let opened = File::options().write(true).open(path);
        if !found.is_file() {
            return Self::stream(path, opened);
        }
        // The file is replaced, not written to. Opening it refuses a file that is protected against writing.
        opened.map_err(|error| named(path, error))?;
        Self::beside(path)
    }

    /// Checks a path to write to, as [`Self::at`] does, but accepts only a regular file. A pipe is not opened, because
    /// that would wait for a reader.
    pub fn file(path: &Path, read: &[impl AsRef<Path>]) -> Result<Self> {
        let is_stream = path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir());
        let output = if is_stream { None } else { Some(Self::at(path, read)?) };
        match output.filter(|output| matches!(output.place, Place::File(_))) {
            Some(output) => Ok(output),
            None => Err(format!("{}: it is no regular file", path.display()).into()),
        }
    }

    fn stream(path: &Path, file: io::Result<File>) -> Result<Self> {
        let file = file.map_err(|error| named(path, error))?;
        Ok(Self { name: path.to_owned(), place: Place::Stream(file) })
    }

    /// Creates a file beside `path` and removes it, so that a place that cannot be written to is refused before the
    /// work begins.
    fn beside(path: &Path) -> Result<Self> {
        let target = followed(path).map_err(|error| named(path, error))?;
        Temporary::create(&target).map_err(|error| named(path, error))?;
        Ok(Self { name: path.to_owned(), place: Place::File(target) })
    }

    /// Opens the file for writing.
    pub fn begin(self) -> Result<Unfinished> {
        match self.place {
            Place::Stream(file) => {
                // The stream may be standard output: flush, so that earlier output comes first.
                io::stdout().flush()?;
                Ok(Unfinished { name: self.name, file, temporary: None })
            }
            Place::File(target) => {
                let (temporary, file) = Temporary::create(&target).map_err(|error| named(&self.name, error))?;
                Ok(Unfinished { name: self.name, file, temporary: Some((temporary, target)) })
            }
        }
    }

    /// Writes the whole file.
    pub fn write(self, bytes: &[u8]) -> Result<()> {
        let mut file = self.begin()?;
        file.write_all(bytes).map_err(|error| file.error(error))?;
        file.finish()
    }
}

/// A file that is not whole yet. If it is dropped, the place stays as it was, unless it is a stream.
pub struct Unfinished {
    name: PathBuf,
    file: File,
    /// Temporary file with the bytes, and the path that it will get; `None` for a stream.
    temporary: Option<(Temporary, PathBuf)>,
}

impl Unfinished {
    /// Returns the file, and the name that it has until it is whole.
    pub fn file(&self) -> (&File, &Path) {
        (&self.file, self.temporary.as_ref().map_or(&self.name, |(temporary, _)| &temporary.0))
    }

    /// Returns an error with the file's name in front.
    pub fn error(&self, error: io::Error) -> Box<dyn Error> {
        named(&self.name, error)
    }

    /// Gives the file its final name.
    pub fn finish(self) -> Result<()> {
        let Some((temporary, target)) = self.temporary else { return Ok(()) };
        // The new file gets the permissions of the old one.
        if let Ok(old) = target.metadata() {
            let _ = self.file.set_permissions(old.permissions());
        }
        // The bytes must be on the disk before the name is, otherwise a power cut could leave an empty file.
        let synced = self.file.sync_all();
        drop(self.file);
        synced.and_then(|()| fs::rename(&temporary.0, &target)).map_err(|error| named(&self.name, error))
    }
}

impl Write for Unfinished {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Paths of the temporary files that exist.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Makes Ctrl-C remove the unfinished files and end the program.
pub fn end_on_interrupt() -> Result<()> {
    interrupt::catch(|| {
        // The lock is held until the exit, so no new temporary file appears.
        let unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
        unfinished.iter().for_each(|path| _ = fs::remove_file(path));
        std::process::exit(130);
    })
}

/// A temporary file, which is removed when the value is dropped. After the file is renamed there is nothing left to
/// remove.
struct Temporary(PathBuf);

impl Temporary {
    /// Creates a new file beside `target`. It did not exist before, so no other program uses it.
    fn create(target: &Path) -> io::Result<(Self, File)> {
        let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
        // A program that was killed may have left its file, and this process may have the same process id.
        for attempt in 0..100 {
            let mut path = target.as_os_str().to_owned();
            path.push(format!(".{}-{attempt}.tmp", std::process::id()));
            match File::create_new(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => {
                    let file = made?;
                    unfinished.push(path.clone().into());
                    return Ok((Self(path.into()), file));
                }
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Returns an error with the name of its file in front. A closed pipe keeps its kind, because [`super::exit`] looks for
/// it.
fn named(path: &Path, error: io::Error) -> Box<dyn Error> {
    match error.kind() {
        ErrorKind::BrokenPipe => error.into(),
        _ => format!("{}: {error}", path.display()).into(),
    }
}

/// Follows links and returns their target, which need not exist yet.
fn followed(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..40 {
        if !path.is_symlink() {
            return Ok(path);
        }
        let to = fs::read_link(&path)?;
        path = path.parent().unwrap_or(Path::new("")).join(to);
    }
    Err(io::Error::other("too many links"))
}

/// Returns the identity of a file, which is the same for all of its names and links.
#[cfg(unix)]
fn identity(_: &Path, found: &Metadata) -> io::Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Ok((found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn identity(path: &Path, _: &Metadata) -> io::Result<PathBuf> {
    path.canonicalize()
}

#[cfg(unix)]
type Identity = (u64, u64);
#[cfg(not(unix))]
type Identity = PathBuf;

/// Returns whether a path is the regular file of this identity. Terminals do not count: they may be read and written.
fn is(path: &Path, wanted: &Identity) -> bool {
    let found = path.metadata().ok().filter(Metadata::is_file);
    found.and_then(|found| identity(path, &found).ok()).is_some_and(|other| other == *wanted)
}

/// Returns standard output or standard error if it has this identity, so that its earlier output stays and comes first.
#[cfg(unix)]
fn standard_stream(wanted: &Identity) -> Option<File> {
    use std::os::fd::AsFd;
    let streams = [io::stdout().as_fd().try_clone_to_owned(), io::stderr().as_fd().try_clone_to_owned()];
    let is =
        |file: &File| file.metadata().and_then(|found| identity(Path::new(""), &found)).is_ok_and(|id| id == *wanted);
    streams.into_iter().flatten().map(File::from).find(is)
}

#[cfg(not(unix))]
fn standard_stream(_: &Identity) -> Option<File> {
    None
}

/// Returns whether this is a stream: it takes bytes and keeps none.
#[cfg(unix)]
fn is_stream(found: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    found.file_type().is_fifo() || found.file_type().is_char_device()
}

#[cfg(not(unix))]
fn is_stream(_: &Metadata) -> bool {
    true
}

/// Returns the file itself, or the files of a folder and of the folders directly in it.
fn files(path: &Path) -> Vec<PathBuf> {
    let inside = |path: &Path| -> Vec<PathBuf> {
        fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    inside(path).into_iter().flat_map(|path| if path.is_dir() { inside(&path) } else { vec![path] }).collect()
}
