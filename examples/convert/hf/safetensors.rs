//! Reads the safetensors format: the length of a JSON header, the header, and the bytes of the tensors.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gleed::host::MappedFile;
use gleed::tensor::Dtype;
use serde_json::Value;

use common::Result;

/// A tensor in a file.
#[derive(Clone, Debug)]
pub(crate) struct Stored<'a> {
    /// Name of the type, "BF16" for example.
    dtype: String,
    /// Sizes of the dimensions. The last one is the length of a row.
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Stored<'a> {
    /// Returns a tensor of f32.
    pub(crate) fn f32(shape: Vec<usize>, bytes: &'a [u8]) -> Self {
        Self { dtype: "F32".to_owned(), shape, bytes }
    }

    /// Returns the matrices of a tensor with three dimensions.
    pub(crate) fn parts(&self) -> Result<Vec<Self>> {
        let [count, ref shape @ ..] = self.shape[..] else { return Err("it has no dimension".into()) };
        if count == 0 || !self.bytes.len().is_multiple_of(count) || self.bytes.is_empty() {
            return Err(format!("its shape is {:?}, but it has {} bytes", self.shape, self.bytes.len()).into());
        }
        let part = |bytes: &'a [u8]| Self { dtype: self.dtype.clone(), shape: shape.to_vec(), bytes };
        Ok(self.bytes.chunks(self.bytes.len() / count).map(part).collect())
    }

    /// Splits a matrix into `count` matrices that lie one below the other.
    pub(crate) fn stacked(&self, count: usize) -> Result<Vec<Self>> {
        match self.shape[..] {
            [rows, cols] if count > 0 && rows.is_multiple_of(count) => {
                Self { shape: vec![count, rows / count, cols], ..self.clone() }.parts()
            }
            _ => Err(format!("its shape is {:?}, not that of {count} matrices", self.shape).into()),
        }
    }

    /// Returns whether all elements are 0.
    pub(crate) fn is_zero(&self) -> Result<bool> {
        // The sign is the highest bit of the last byte.
        let width = if self.dtype()? == Dtype::F32 { 4 } else { 2 };
        Ok(self.bytes.chunks(width).all(|element| {
            element.iter().rev().enumerate().all(|(at, &byte)| if at == 0 { byte & 0x7f == 0 } else { byte == 0 })
        }))
    }

    /// Returns the only element.
    pub(crate) fn number(&self) -> Result<f32> {
        match (self.dtype()?, self.bytes) {
            (Dtype::F32, &[a, b, c, d]) => Ok(f32::from_le_bytes([a, b, c, d])),
            (Dtype::BF16, &[low, high]) => Ok(f32::from_le_bytes([0, 0, low, high])),
            (Dtype::F16, &[low, high]) => Ok(half::f16::from_le_bytes([low, high]).to_f32()),
            _ => Err(format!("its shape is {:?}, it must have one element", self.shape).into()),
        }
    }

    /// Returns the type, if its elements can be read.
    pub(crate) fn dtype(&self) -> Result<Dtype> {
        match &*self.dtype {
            "F32" => Ok(Dtype::F32),
            "F16" => Ok(Dtype::F16),
            "BF16" => Ok(Dtype::BF16),
            other => Err(format!("elements of type {other} are not supported, only F32, F16 and BF16").into()),
        }
    }
}

/// Opens the files with the tensors of a folder.
pub(crate) fn files(folder: &Path) -> Result<Vec<(PathBuf, MappedFile)>> {
    let index = folder.join("model.safetensors.index.json");
    let names = if index.is_file() { indexed(&index)? } else { vec!["model.safetensors".to_owned()] };
    let open = |name: &String| {
        let path = folder.join(name);
        match MappedFile::open(&path) {
            Ok(file) => Ok((path, file)),
            Err(error) => Err(format!("{}: {error}", path.display()).into()),
        }
    };
    names.iter().map(open).collect()
}

/// Returns the names of the files in an index.
fn indexed(index: &Path) -> Result<Vec<String>> {
    let json = super::read_json(index)?;
    let map = json["weight_map"].as_object().ok_or_else(|| format!("{}: it has no weight_map", index.display()))?;
    let mut names: Vec<_> = map.values().filter_map(|name| name.as_str().map(str::to_owned)).collect();
    names.sort();
    names.dedup();
    match names.iter().find(|name| Path::new(name).components().count() != 1) {
        Some(name) => Err(format!("{}: {name:?} is no name of a file in the folder", index.display()).into()),
        None => Ok(names),
    }
}

/// Adds the tensors of a file to `tensors`.
pub(crate) fn read<'a>(file: &'a [u8], tensors: &mut BTreeMap<String, Stored<'a>>) -> Result<()> {
    let (len, rest) = file.split_first_chunk::<8>().ok_or("the file is no safetensors file: it is too short")?;
    let header = usize::try_from(u64::from_le_bytes(*len)).ok().and_then(|len| rest.split_at_checked(len));
    let (header, data) = header.ok_or("the file is no safetensors file, or cut off")?;
    let json: Value = serde_json::from_slice(header).map_err(|error| format!("the header is no JSON: {error}"))?;
    let json = json.as_object().ok_or("the header is no JSON object")?;
    for (name, info) in json.iter().filter(|(name, _)| *name != "__metadata__") {
        let stored = stored(info, data).ok_or_else(|| format!("{name}: its place or shape is wrong"))?;
        if tensors.insert(name.clone(), stored).is_some() {
            return Err(format!("{name} is there twice").into());
        }
    }
    Ok(())
}

fn stored<'a>(info: &Value, data: &'a [u8]) -> Option<Stored<'a>> {
    let sizes = |value: &Value| -> Option<Vec<usize>> {
        value.as_array()?.iter().map(|size| usize::try_from(size.as_u64()?).ok()).collect()
    };
    let &[begin, end] = &sizes(&info["data_offsets"])?[..] else { return None };
    Some(Stored {
        dtype: info["dtype"].as_str()?.to_owned(),
        shape: sizes(&info["shape"])?,
        bytes: data.get(begin..end)?,
    })
}
