//! Finds the line of the source at which an internal error was detected.

use std::path::{Path, PathBuf};

use gleed::error::Site;

use common::Result;

/// Returns the file and line for a site's number, in the sources that this program was built from.
pub(crate) fn find(number: u32) -> Result<String> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut found = Vec::new();
    for file in files(&root.join("src"))? {
        let path = file.strip_prefix(root)?;
        let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        for (line, _) in text.lines().enumerate().filter(|(_, line)| line.contains("site!()")) {
            let line = line as u32 + 1;
            if Site::new(&module(path), line).number() == number {
                found.push(format!("{}:{line}", path.display()));
            }
        }
    }
    match found.is_empty() {
        true => Err(format!("no place of version {} has the number {number}", env!("CARGO_PKG_VERSION")).into()),
        false => Ok(found.join("\n")),
    }
}

/// Returns every Rust file below a folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(self::files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(files)
}

/// Returns the module of a file in `src`: `gleed::ops::store` for `src/ops/store.rs`.
fn module(path: &Path) -> String {
    let parts = path.with_extension("");
    let parts = parts.iter().skip(1).map(|part| part.to_string_lossy().into_owned());
    let parts = parts.filter(|part| part != "mod" && part != "lib");
    std::iter::once("gleed".to_owned()).chain(parts).collect::<Vec<_>>().join("::")
}
