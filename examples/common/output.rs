//! Files that a program writes: never over one that it reads, and under another name until they are whole.

use std::error::Error;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::{Result, interrupt};

/// Where a file will be written. Nothing has changed there yet.
pub struct Output {
    /// As the user named it.
    name: PathBuf,
    place: Place,
}

enum Place {
    /// A pipe, a terminal or the like, or what standard output is: written as it comes.
    Stream(File),
    /// A file, with links followed. It changes when all is written.
    File(PathBuf),
}

impl Output {
    /// Refuses a place that cannot have the file, or is one of those that are `read`: files, and folders with files.
    pub fn at(path: &Path, read: &[impl AsRef<Path>]) -> Result<Self> {
        let found = match path.metadata() {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => return Self::beside(path),
            // Devices of Windows have no metadata; for everything else this says what is wrong.
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
        // It is replaced, and not written to. But a file that is protected stays.
        opened.map_err(|error| named(path, error))?;
        Self::beside(path)
    }

    /// The same where only a regular file will do. A pipe is not opened: that would wait for a reader.
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

    /// Makes a file beside `path` and removes it: what cannot be written is said before the work begins.
    fn beside(path: &Path) -> Result<Self> {
        let target = followed(path).map_err(|error| named(path, error))?;
        Temporary::create(&target).map_err(|error| named(path, error))?;
        Ok(Self { name: path.to_owned(), place: Place::File(target) })
    }

    /// Begins to write.
    pub fn begin(self) -> Result<Unfinished> {
        match self.place {
            Place::Stream(file) => {
                // It may be where standard output goes: what was printed before comes before this.
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

/// A file that is not whole yet. Where it is dropped, nothing has changed.
pub struct Unfinished {
    name: PathBuf,
    file: File,
    /// What has the bytes, and what they are for; nothing where they went to a stream.
    temporary: Option<(Temporary, PathBuf)>,
}

impl Unfinished {
    /// The file, with the name that it has until it is whole.
    pub fn file(&self) -> (&File, &Path) {
        (&self.file, self.temporary.as_ref().map_or(&self.name, |(temporary, _)| &temporary.0))
    }

    /// Puts the file's name before an error.
    pub fn error(&self, error: io::Error) -> Box<dyn Error> {
        named(&self.name, error)
    }

    /// Gives it its name.
    pub fn finish(self) -> Result<()> {
        let Some((temporary, target)) = self.temporary else { return Ok(()) };
        // Whoever could read the old file can read the new one.
        if let Ok(old) = target.metadata() {
            let _ = self.file.set_permissions(old.permissions());
        }
        // A name whose bytes are not on the disk yet would be that of an empty file after a power cut.
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

/// The files that are not whole.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// From now on Ctrl-C removes the files that are not whole, and ends the program.
pub fn end_on_interrupt() -> Result<()> {
    interrupt::catch(|| {
        // Nobody makes another one meanwhile.
        let unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
        unfinished.iter().for_each(|path| _ = fs::remove_file(path));
        std::process::exit(130);
    })
}

/// A file that is removed where it is dropped. Once it has another name, nothing has this one.
struct Temporary(PathBuf);

impl Temporary {
    /// A new file beside `target`: no other program has it, and it was not there before.
    fn create(target: &Path) -> io::Result<(Self, File)> {
        let mut unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
        // A program that was killed may have left a file behind, and this one its number.
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

/// With the file that it is about. That a reader went away stays what it is, see [`super::exit`].
fn named(path: &Path, error: io::Error) -> Box<dyn Error> {
    match error.kind() {
        ErrorKind::BrokenPipe => error.into(),
        _ => format!("{}: {error}", path.display()).into(),
    }
}

/// What a link leads to, also where that does not exist yet.
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

/// What two names of one file have in common, links included.
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

/// Whether this is the regular file of that identity. A terminal may well be read and written.
fn is(path: &Path, wanted: &Identity) -> bool {
    let found = path.metadata().ok().filter(Metadata::is_file);
    found.and_then(|found| identity(path, &found).ok()).is_some_and(|other| other == *wanted)
}

/// Standard output or standard error, if that is where it leads: what they have already got stays, and comes first.
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

/// Whether it takes what is written and keeps none of it.
#[cfg(unix)]
fn is_stream(found: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    found.file_type().is_fifo() || found.file_type().is_char_device()
}

#[cfg(not(unix))]
fn is_stream(_: &Metadata) -> bool {
    true
}

/// A file itself; the files in a folder, and in the folders in it.
fn files(path: &Path) -> Vec<PathBuf> {
    let inside = |path: &Path| -> Vec<PathBuf> {
        fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    inside(path).into_iter().flat_map(|path| if path.is_dir() { inside(&path) } else { vec![path] }).collect()
}
