//! Real files, where they are at hand: what the reader shows must equal what an independent walk counts.

use std::fs;
use std::path::{Path, PathBuf};

use gguf_rs_lite::{Gguf, ValueType};

fn shared() -> Option<PathBuf> {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared")).to_path_buf();
    if path.is_dir() {
        return Some(path);
    }
    assert!(std::env::var("GLEED_REQUIRE_SHARED").as_deref() != Ok("1"), "../shared is required, but is not there");
    println!("skipped: ../shared is not there");
    None
}

fn gguf_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.extension() {
            _ if path.is_dir() => gguf_files(&path, found),
            Some(extension) if extension == "gguf" => found.push(path),
            _ => {}
        }
    }
}

#[test]
fn all_files_parse_and_everything_is_found() {
    let Some(shared) = shared() else { return };
    let mut paths = Vec::new();
    gguf_files(&shared, &mut paths);
    assert!(paths.len() >= 40, "{}", paths.len());
    for path in paths {
        let bytes = fs::read(&path).unwrap();
        let gguf = Gguf::parse(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        check(&gguf, &bytes);
    }
}

fn check(gguf: &Gguf, bytes: &[u8]) {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    assert_eq!(gguf.tensor_count() as u64, word(8));
    assert_eq!(gguf.tensors().count() as u64, word(8));
    assert_eq!(gguf.metadata().count() as u64, word(16));
    assert_eq!(gguf.version(), 3);
    assert_eq!(gguf.alignment(), 32);

    for (key, value) in gguf.metadata() {
        assert_eq!(gguf.get(key), Some(value), "{key}");
        let Some(array) = value.as_array() else { continue };
        assert_eq!(array.iter().count(), array.len(), "{key}");
        if let Some(size) = array.element_type().size() {
            assert_eq!(array.bytes().len(), array.len() * size, "{key}");
        } else {
            assert_eq!(array.element_type(), ValueType::String);
            let bytes = array.strings().unwrap().map(|string| 8 + string.len()).sum::<usize>();
            assert_eq!(array.bytes().len(), bytes, "{key}");
        }
    }
    assert!(gguf.get("general.architecture").unwrap().as_str().is_some());
    assert_eq!(gguf.get("no.such.key"), None);

    let mut end = gguf.metadata_bytes().len();
    for tensor in gguf.tensors() {
        assert_eq!(tensor.offset(), end.next_multiple_of(32), "{}", tensor.name());
        assert_eq!(gguf.tensor(tensor.name()).unwrap().offset(), tensor.offset());
        let elements = tensor.dims().iter().product::<u64>() as usize;
        let ggml_type = tensor.ggml_type();
        assert_eq!(tensor.data().len(), elements / ggml_type.block_len() * ggml_type.block_bytes());
        end = tensor.offset() + tensor.data().len();
    }
    assert_eq!(end.next_multiple_of(if gguf.tensor_count() > 0 { 32 } else { 1 }), bytes.len());
    assert!(gguf.tensor("no.such.tensor").is_none());
}
