//! Where the file is written: under another name until it is whole, and never over a file that is read.

use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use common::{Result, interrupt};

/// Refuses a place that cannot have the file, or is one of those that are `read`: files, and folders with files.
pub(crate) fn check(out: &Path, read: &[&Path]) -> Result<()> {
    let Ok(found) = out.metadata() else { return Ok(()) };
    if found.is_dir() {
        return Err(format!("{}: it is a folder, and the file to write needs a name", out.display()).into());
    }
    let wanted = identity(out, &found)?;
    for path in read.iter().flat_map(|path| files(path)) {
        if path.metadata().and_then(|found| identity(&path, &found)).is_ok_and(|other| other == wanted) {
            return Err(format!("{}: it would be written over {}, which is read", out.display(), path.display()).into());
        }
    }
    Ok(())
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

/// A file itself; the files in a folder, and in the folders in it.
fn files(path: &Path) -> Vec<PathBuf> {
    let inside = |path: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    inside(path).into_iter().flat_map(|path| if path.is_dir() { inside(&path) } else { vec![path] }).collect()
}

/// A file that is not whole yet. It is removed where it is dropped, and on Ctrl-C, which ends the program.
pub(crate) struct Unfinished {
    path: PathBuf,
}

impl Unfinished {
    /// A new file beside `out`: no other program has it, and it was not there before.
    pub(crate) fn create(out: &Path) -> Result<(Self, File)> {
        let mut path = out.as_os_str().to_owned();
        path.push(format!(".{}.tmp", std::process::id()));
        let path = PathBuf::from(path);
        let removed = path.clone();
        interrupt::catch(move || {
            let _ = std::fs::remove_file(&removed);
            std::process::exit(130);
        })?;
        let file = File::create_new(&path)?;
        Ok((Self { path }, file))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it its name.
    pub(crate) fn finish(self, out: &Path) -> io::Result<()> {
        std::fs::rename(&self.path, out)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Where it has its name, nothing has this one.
        let _ = std::fs::remove_file(&self.path);
    }
}
