//! Zero-copy reader for [GGUF](https://github.com/ggml-org/ggml/blob/master/docs/gguf.md) files, versions 2 and 3.
//!
//! [`Gguf::parse`] takes the whole file as a byte slice (read, mapped or in flash) and checks it once: header, every
//! key and value, every tensor's type, shape and position. Everything that it returns later borrows from this slice. It
//! copies and allocates nothing, contains no `unsafe`, and no input makes it panic: a bad file is a [`GgufError`] with
//! the cause and its position.
//!
//! ```
//! use gguf_rs_lite::{GgmlType, Gguf, GgufError};
//!
//! fn describe(file: &[u8]) -> Result<(), GgufError> {
//!     let gguf = Gguf::parse(file)?;
//!     if let Some(name) = gguf.get("general.architecture").and_then(|value| value.as_str()) {
//!         println!("architecture {name}");
//!     }
//!     for tensor in gguf.tensors() {
//!         println!("{} {:?} {}, {} bytes", tensor.name(), tensor.dims(), tensor.ggml_type(), tensor.data().len());
//!     }
//!     Ok(())
//! }
//!
//! // The smallest file that is worth reading: one key, and one tensor of two numbers.
//! let mut file = b"GGUF\x03\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0".to_vec(); // version, tensors, keys
//! file.extend(b"\x06\0\0\0\0\0\0\0answer\x04\0\0\0\x2a\0\0\0"); // key, type U32, value
//! file.extend(b"\x01\0\0\0\0\0\0\0w\x01\0\0\0\x02\0\0\0\0\0\0\0"); // name, one dimension of 2
//! file.extend(b"\0\0\0\0\0\0\0\0\0\0\0\0"); // type F32, offset in the data
//! file.resize(file.len().next_multiple_of(32), 0);
//! file.extend(1f32.to_le_bytes());
//! file.extend(2f32.to_le_bytes());
//!
//! describe(&file)?;
//! let gguf = Gguf::parse(&file)?;
//! assert_eq!(gguf.get("answer").and_then(|value| value.as_u64()), Some(42));
//! let tensor = gguf.tensor("w").unwrap();
//! assert_eq!((tensor.ggml_type(), tensor.dims(), tensor.data().len()), (GgmlType::F32, &[2][..], 8));
//!
//! // Errors carry the numbers.
//! assert_eq!(Gguf::parse(b""), Err(GgufError::Empty));
//! assert_eq!(Gguf::parse(b"PK\x03\x04"), Err(GgufError::Magic { found: *b"PK\x03\x04" }));
//! let cut = Gguf::parse(&file[..file.len() - 1]).unwrap_err();
//! assert_eq!(cut.to_string(), "tensor \"w\" ends at byte 104, but the file has only 103 bytes");
//! # Ok::<(), GgufError>(())
//! ```
//!
//! # Limits
//!
//! Only little-endian files are read. Arrays nest at most [`MAX_ARRAY_DEPTH`] deep, and tensors have at most
//! [`MAX_DIMS`] dimensions. Tensors must lie in the file in the order of their descriptions, as ggml itself requires.
//! The parts of a split model are refused with [`GgufError::Split`]. If a key or a tensor's name occurs twice, the
//! lookups find the first one, and the iterators return both.
//!
//! # Time and memory
//!
//! `parse` takes time proportional to the bytes before the tensor data, whatever counts the file states. A [`Gguf`] is
//! a few machine words and a table of the eight longest arrays of strings, with which lookups skip vocabularies at
//! once. Lookups by name are linear scans: look names up once, not for each use.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable)
)]

mod cursor;
mod error;
mod file;
mod meta;
mod tensor;
mod types;
mod value;

pub use error::{Counted, GgufError, Name};
pub use file::Gguf;
pub use meta::Metadata;
pub use tensor::{MAX_DIMS, TensorInfo, Tensors};
pub use types::{GgmlType, ValueType};
pub use value::{Array, Elements, MAX_ARRAY_DEPTH, Strings, Value};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
