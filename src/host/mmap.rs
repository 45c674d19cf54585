//! Files as bytes, without reading them.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// A file that is mapped into memory, read-only. An empty file has no bytes.
///
/// The system reads a page when it is first used, and may drop it again. So the file must not change while it is
/// mapped. If the file shrinks or its disk is removed, a page can no longer be read, and a signal ends the process. If
/// the file is written to, the mapped bytes change. The library cannot turn this into an error. To replace a model
/// file, rename a new file over it, which does not change the mapped one, or use [`MappedFile::copy`].
///
/// ```
/// use gleed::{Model, host::MappedFile};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let file = MappedFile::open("examples/assets/gleed-tales-q8_0.gguf")?;
/// let model = Model::open(file.bytes())?;
/// # assert_eq!(model.config().architecture, "llama");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct MappedFile {
    map: memmap2::Mmap,
}

impl MappedFile {
    /// Maps the whole file at `path`.
    ///
    /// # Errors
    /// The error of the system, if the file does not exist, may not be read, or cannot be mapped. The path of a folder
    /// or a pipe is an error, too.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let file = open(path.as_ref())?;
        // SAFETY: the map is private to this value and read-only. That nobody changes the file
        // meanwhile is what the host is told to guarantee, in the documentation of this type.
        let map = unsafe { memmap2::Mmap::map(&file) }?;
        Ok(Self { map })
    }

    /// Reads the file at `path` into memory, which takes as much memory as the file is long. Later changes of the file
    /// have no effect.
    ///
    /// # Errors
    /// The error of the system, or [`io::ErrorKind::UnexpectedEof`] if the file shrank meanwhile.
    pub fn copy(path: impl AsRef<Path>) -> io::Result<Self> {
        let mut file = open(path.as_ref())?;
        let len = usize::try_from(file.metadata()?.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let mut map = memmap2::MmapMut::map_anon(len)?;
        file.read_exact(&mut map)?;
        Ok(Self { map: map.make_read_only()? })
    }

    /// Returns the bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Asks the system to read and map the whole file now, which takes less time than page by page. This is a hint: if
    /// the system does not know it, or cannot follow it, pages are still read when they are first used.
    ///
    /// The call maps the file in pieces, because other threads get no memory from the system while it maps one.
    pub fn populate(&self) {
        const PIECE: usize = 8 << 20;
        for start in (0..self.map.len()).step_by(PIECE) {
            let len = PIECE.min(self.map.len() - start);
            #[cfg(target_os = "linux")]
            let _ = self.map.advise_range(memmap2::Advice::PopulateRead, start, len);
            #[cfg(all(unix, not(target_os = "linux")))]
            let _ = self.map.advise_range(memmap2::Advice::WillNeed, start, len);
            #[cfg(not(unix))]
            let _ = len;
        }
    }
}

/// Opens a file with a known length. A pipe has none, and opening it can wait for ever.
fn open(path: &Path) -> io::Result<File> {
    let kind = std::fs::metadata(path)?.file_type();
    if kind.is_file() {
        File::open(path)
    } else if kind.is_dir() {
        Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder, not a file"))
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_the_file() {
        let this = concat!(env!("CARGO_MANIFEST_DIR"), "/src/host/mmap.rs");
        let map = MappedFile::open(this).unwrap();
        assert_eq!(map.bytes(), std::fs::read(this).unwrap());
        map.populate();
        assert_eq!(map.bytes(), std::fs::read(this).unwrap());
    }

    #[test]
    fn an_empty_file_has_no_bytes_and_a_missing_one_is_an_error() {
        let path = std::env::temp_dir().join(format!("gleed-empty-{}", std::process::id()));
        File::create(&path).unwrap();
        let map = MappedFile::open(&path).unwrap();
        map.populate();
        assert!(map.bytes().is_empty());
        assert!(MappedFile::copy(&path).unwrap().bytes().is_empty());
        std::fs::remove_file(&path).unwrap();
        assert_eq!(MappedFile::open(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(MappedFile::copy(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_copy_outlives_its_file() {
        let path = std::env::temp_dir().join(format!("gleed-copy-{}", std::process::id()));
        std::fs::write(&path, [7; 10_000]).unwrap();
        let copy = MappedFile::copy(&path).unwrap();
        // This would end the process if the file was mapped.
        File::create(&path).unwrap();
        assert_eq!(copy.bytes(), [7; 10_000]);
        std::fs::remove_file(&path).unwrap();
    }
}
