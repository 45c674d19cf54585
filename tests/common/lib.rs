//! Shared code of the integration tests: it finds data, measures errors of vectors, makes synthetic models, and has an
//! independent reference.
//!
//! Tests call this crate `common`. It is a crate of its own, so that it is compiled once for some forty tests.

pub mod elements;
pub mod encoder;
pub mod fixtures;
pub mod gguf_writer;
pub mod playback;
pub mod random;
pub mod reference;
pub mod scales;
pub mod spm;
pub mod synthetic;
pub mod templates;

use std::path::{Path, PathBuf};

use gguf_rs_lite::GgmlType;
use gleed::tensor::Dtype;

/// Returns the bytes of `path` in the reference data beside the checkout. If there is no such data, it prints a line
/// that says so and returns `None`, or fails the test if the environment variable `GLEED_REQUIRE_SHARED` is 1. If only
/// this file is missing, the test fails.
pub fn shared_file(path: &str) -> Option<Vec<u8>> {
    let found = shared().map(|folder| read(&folder.join(path)));
    if found.is_none() {
        println!("skipped: ../shared is not there ({path})");
        note_skipped(path);
    }
    found
}

/// Records a skipped fixture for `tests/zz_skipped.rs`, which runs last.
fn note_skipped(path: &str) {
    use std::io::Write;
    let list = std::fs::File::options().create(true).append(true).open(skipped_list());
    // One write, because other tests write at the same time.
    list.and_then(|mut list| list.write_all(format!("{path}\n").as_bytes())).unwrap();
}

/// Returns the path of the list of fixtures that tests of this build have skipped, one a line. It lies beside their
/// programs.
pub fn skipped_list() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("skipped-fixtures")
}

/// Returns the bytes of a fixture such as `parity/qwen3.gguf`: from `../shared/fixtures`, else from `tests/data`, else
/// `None` as [`shared_file`] does. The folders `more` and `encoders` exist only in `tests/data`.
pub fn fixture(path: &str) -> Option<Vec<u8>> {
    let committed = committed(path);
    let only_here = path.starts_with("more/") || path.starts_with("encoders/");
    if (shared().is_none() || only_here) && committed.is_file() {
        return Some(read(&committed));
    }
    shared_file(&format!("fixtures/{path}"))
}

/// Returns the path that a committed copy of a fixture has.
pub fn committed(path: &str) -> PathBuf {
    root().join("tests/data").join(path)
}

/// Returns the root folder of the repository.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn shared() -> Option<PathBuf> {
    let folder = root().join("../shared");
    let required = std::env::var("GLEED_REQUIRE_SHARED").is_ok_and(|value| value == "1");
    assert!(folder.is_dir() || !required, "GLEED_REQUIRE_SHARED is 1 and {} is not there", folder.display());
    folder.is_dir().then_some(folder)
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A number that can be compared with a reference.
pub trait Real: Copy {
    fn real(self) -> f64;
}

impl Real for f32 {
    fn real(self) -> f64 {
        f64::from(self)
    }
}

impl Real for f64 {
    fn real(self) -> f64 {
        self
    }
}

/// Returns `|actual - expected| / |expected|` in the L2 norm. If any number is NaN, the result is NaN, so that no
/// comparison holds.
pub fn rel_l2<A: Real, E: Real>(actual: &[A], expected: &[E]) -> f64 {
    assert_eq!(actual.len(), expected.len(), "rows of different lengths");
    let difference: f64 = actual.iter().zip(expected).map(|(a, e)| (a.real() - e.real()).powi(2)).sum();
    let norm: f64 = expected.iter().map(|e| e.real().powi(2)).sum();
    (difference / norm).sqrt()
}

/// Returns the index of the largest number, and of several equal ones the lowest index.
pub fn argmax<T: Real>(row: &[T]) -> u32 {
    let mut best = 0;
    for (index, value) in row.iter().enumerate() {
        if value.real() > row[best].real() {
            best = index;
        }
    }
    best as u32
}

/// Dequantizes with Gleed's own code, for the formats that the reference does not know. Other tests compare that code
/// bit for bit with ggml's.
pub fn dequantize(kind: GgmlType, data: &[u8], out: &mut [f32]) {
    let dtype = Dtype::from_ggml(kind.number()).unwrap_or_else(|| panic!("type {}", kind.number()));
    gleed::quant::dequantize(dtype, data, out).expect("whole blocks");
}

/// Memory for an engine, which starts at a multiple of 64 bytes.
pub struct Memory(Vec<CacheLine>, usize);

#[repr(C, align(64))]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct CacheLine([u8; 64]);

impl Memory {
    pub fn new(bytes: usize) -> Self {
        Self(vec![CacheLine([0xA5; 64]); bytes.div_ceil(64)], bytes)
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.0)[..self.1]
    }
}
