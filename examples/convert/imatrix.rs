//! llama.cpp's importance matrices: for each matrix of a model, the importance of each of its columns.
//!
//! `llama-imatrix` runs a model on a text. It writes the sums of the squares of the activations that each column is
//! multiplied with, and their counts, as a GGUF file or in an older form of its own. The importance of a column is the
//! mean.

use std::collections::BTreeMap;

use gguf_rs_lite::{GgmlType, Gguf, TensorInfo};

use crate::output::Tensor;
use common::Result;
use common::gguf::{Header, Value};

/// The importance of the columns of a model's matrices.
#[derive(Debug)]
pub(crate) struct Imatrix {
    /// One number per column, by name of the matrix. Stacked experts follow each other.
    entries: BTreeMap<String, Vec<f32>>,
    /// Names of the texts that it was made from.
    datasets: Vec<String>,
    chunks: u32,
}

impl Imatrix {
    /// Reads a file of either form.
    pub(crate) fn read(file: &[u8]) -> Result<Self> {
        let imatrix = if file.starts_with(b"GGUF") { of_gguf(file)? } else { of_dat(file)? };
        for (name, importance) in &imatrix.entries {
            let usable = |value: &f32| value.is_finite() && *value >= 0.0;
            if let Some(at) = importance.iter().position(|value| !usable(value)) {
                return Err(format!("{name}: the value {} of column {at} is no importance", importance[at]).into());
            }
        }
        Ok(imatrix)
    }

    /// Returns the importance of the columns of a matrix, if there is an entry, of one expert after the other if there
    /// are several.
    pub(crate) fn of(&self, tensor: &Tensor<'_>) -> Result<Option<&[f32]>> {
        let Some(importance) = self.entries.get(&tensor.name) else { return Ok(None) };
        let (cols, experts) = (tensor.contents.cols(), tensor.experts());
        if importance.len() == cols * experts {
            return Ok(Some(importance));
        }
        let wanted = if experts == 1 { format!("{cols} columns") } else { format!("{experts} times {cols} columns") };
        let values = importance.len();
        Err(format!("{}: the importance matrix has {values} values for it, but it has {wanted}", tensor.name).into())
    }

    /// Checks that the entries fit the model and that at least one belongs to it.
    pub(crate) fn check(&self, tensors: &[Tensor<'_>]) -> Result<()> {
        for tensor in tensors {
            self.of(tensor)?;
        }
        if tensors.iter().any(|tensor| self.entries.contains_key(&tensor.name)) {
            return Ok(());
        }
        let first = self.entries.keys().next().map_or("", |name| name);
        Err(format!("none of its {} entries is a matrix of the model; the first is {first}", self.entries.len()).into())
    }

    /// Describes the importance matrix in the metadata, under the keys of llama.cpp.
    pub(crate) fn describe(&self, file: &str, header: &mut Header) {
        header.set("quantize.imatrix.file", Value::Text(file.into()));
        if let Some(dataset) = self.datasets.first() {
            header.set("quantize.imatrix.dataset", Value::Text(dataset.clone()));
        }
        header.set("quantize.imatrix.entries_count", Value::U32(self.entries.len() as u32));
        header.set("quantize.imatrix.chunks_count", Value::U32(self.chunks));
    }
}

/// Reads the GGUF form. For each matrix it has a tensor of sums and one of counts, with a row per expert.
fn of_gguf(file: &[u8]) -> Result<Imatrix> {
    let gguf = Gguf::parse(file)?;
    let mut entries = BTreeMap::new();
    for sums in gguf.tensors() {
        let Some(name) = sums.name().strip_suffix(".in_sum2") else { continue };
        let counts = gguf.tensor(&format!("{name}.counts"));
        let counts = counts.ok_or_else(|| format!("{name}: it has sums, but no counts"))?;
        let (sums, counts) = (numbers(&sums)?, numbers(&counts)?);
        if counts.is_empty() || sums.is_empty() || !sums.len().is_multiple_of(counts.len()) {
            return Err(format!("{name}: it has {} sums, but {} counts", sums.len(), counts.len()).into());
        }
        let rows = sums.chunks(sums.len() / counts.len()).zip(&counts);
        // An expert that got no token has a count of 0. Its columns are equally important.
        let mean = |sum: &f32, count: f32| if count == 0.0 { 1.0 } else { sum / count };
        entries.insert(name.to_owned(), rows.flat_map(|(row, &c)| row.iter().map(move |sum| mean(sum, c))).collect());
    }
    if entries.is_empty() {
        return Err("it is no importance matrix: no tensor's name ends in .in_sum2".into());
    }
    let datasets = gguf.get("imatrix.datasets").and_then(|value| value.as_array());
    let datasets = datasets.and_then(|array| array.strings()).into_iter().flatten();
    let datasets = datasets.map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    let chunks = gguf.get("imatrix.chunk_count").and_then(|value| value.as_u64()).unwrap_or(0);
    Ok(Imatrix { entries, datasets, chunks: chunks.try_into()? })
}

fn numbers(info: &TensorInfo<'_>) -> Result<Vec<f32>> {
    if info.ggml_type() != GgmlType::F32 {
        return Err(format!("{}: its type is {}, not F32", info.name(), info.ggml_type()).into());
    }
    Ok(floats(info.data()))
}

/// Reads the older form. For each matrix it has a name, a number of calls, and sums. The fields after them may be
/// missing.
fn of_dat(file: &[u8]) -> Result<Imatrix> {
    let mut rest = Rest(file);
    let count = rest.size().filter(|&count| count > 0);
    let count = count.ok_or("it is no importance matrix: it does not begin with a number of entries")?;
    let mut entries = BTreeMap::new();
    for index in 0..count {
        let at = file.len() - rest.0.len();
        let entry = rest.entry();
        let short = || format!("entry {index} of {count}, at byte {at}, is damaged, or the file is cut off");
        let (name, importance) = entry.ok_or_else(short)?;
        entries.insert(name, importance);
    }
    let chunks = rest.size().unwrap_or(0) as u32;
    let datasets = rest.text().into_iter().filter(|name| !name.is_empty()).collect();
    Ok(Imatrix { entries, datasets, chunks })
}

/// The rest of a file that has not been read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn entry(&mut self) -> Option<(String, Vec<f32>)> {
        let name = self.text().filter(|name| !name.is_empty())?;
        let calls = self.size()?;
        let len = self.size().filter(|&len| len > 0)?;
        let mut importance = floats(self.take(len.checked_mul(4)?)?);
        if calls > 0 {
            importance.iter_mut().for_each(|sum| *sum /= calls as f32);
        }
        Some((name, importance))
    }

    fn text(&mut self) -> Option<String> {
        let len = self.size()?;
        String::from_utf8(self.take(len)?.to_vec()).ok()
    }

    /// Reads a number that is not negative.
    fn size(&mut self) -> Option<usize> {
        let bytes = self.take(4)?.try_into().ok()?;
        i32::from_le_bytes(bytes).try_into().ok()
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, after) = self.0.split_at_checked(len)?;
        self.0 = after;
        Some(taken)
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}
