//! Writes the file.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Display;
use std::io::{BufWriter, IntoInnerError, Write};
use std::path::Path;

use gleed::Model;
use gleed::host::MappedFile;
use gleed::tensor::Dtype;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::imatrix::Imatrix;
use crate::output::{Output, Tensor};
use crate::quantize::{needs_importance, quantize};
use crate::types::{self, FileType};
use common::Result;
use common::gguf;
use common::output::{Output as Place, Unfinished};

/// Number of elements that a thread has in memory at a time.
const CHUNK: usize = 1 << 18;

/// How a file is written.
pub(crate) struct How<'h> {
    /// Path of the model that is converted, for errors.
    pub(crate) input: &'h Path,
    /// Type of the matrices; `None` if they keep their types.
    pub(crate) file_type: Option<FileType>,
    /// Importance matrix, and the path of its file.
    pub(crate) imatrix: Option<(&'h Path, Imatrix)>,
    pub(crate) threads: usize,
}

impl How<'_> {
    fn imatrix(&self) -> Option<&Imatrix> {
        self.imatrix.as_ref().map(|(_, imatrix)| imatrix)
    }
}

/// Returns a function that puts a file's name before an error.
fn of<E: Display>(path: &Path) -> impl Fn(E) -> Box<dyn Error> {
    move |error| format!("{}: {error}", path.display()).into()
}

/// Writes `output` to its place. Returns the number of bytes of the file.
pub(crate) fn write(output: Output<'_>, how: &How<'_>, place: Place) -> Result<u64> {
    let Output { mut header, tensors, .. } = output;
    let model = types::Model::of(&tensors);
    let with_type = |tensor| (types::of(&tensor, how.file_type, model), tensor);
    let tensors: Vec<_> = tensors.into_iter().map(with_type).collect();
    tell_exceptions(&tensors, how.file_type, model);
    check_importance(&tensors, how)?;
    for (dtype, tensor) in &tensors {
        header.tensor(&tensor.name, &tensor.dims, *dtype);
    }
    let (header, total) = header.finish();

    let mut file = place.begin()?;
    file.write_all(&header).map_err(|error| file.error(error))?;
    let (begun, path) = file.file();
    // The file gets its full length for the check. The zeros take no disk space yet.
    begun.set_len(total).map_err(|error| file.error(error))?;
    check(path).map_err(of(how.input))?;
    let mut file = BufWriter::with_capacity(1 << 20, file);
    let bar = bar(total - header.len() as u64);
    for (dtype, tensor) in &tensors {
        bar.set_message(tensor.name.clone());
        write_tensor(&mut file, tensor, *dtype, how, &bar)?;
    }
    bar.finish_and_clear();
    file.flush().map_err(|error| file.get_ref().error(error))?;
    file.into_inner().map_err(IntoInnerError::into_error)?.finish()?;
    Ok(total)
}

/// Prints which matrices get another type than the wanted one.
fn tell_exceptions(tensors: &[(Dtype, Tensor<'_>)], file_type: Option<FileType>, model: types::Model) {
    let Some(file_type) = file_type else { return };
    let mut counts = BTreeMap::new();
    for (dtype, tensor) in tensors.iter().filter(|(_, tensor)| tensor.is_matrix()) {
        let wanted = file_type.wanted(&tensor.name, model);
        if wanted != *dtype {
            *counts.entry((tensor.contents.cols(), wanted, *dtype)).or_insert(0) += 1;
        }
    }
    for ((cols, wanted, dtype), count) in counts {
        eprintln!("{count} matrices are {dtype}: rows of {cols} are no whole number of blocks of {wanted}");
    }
}

/// Refuses a matrix without an entry in the importance matrix, if its type needs one. Prints the names of other
/// matrices without an entry.
fn check_importance(tensors: &[(Dtype, Tensor<'_>)], how: &How<'_>) -> Result<()> {
    let imatrix = how.imatrix();
    let mut without = Vec::new();
    for (dtype, tensor) in tensors.iter().filter(|(dtype, tensor)| changes(tensor, *dtype)) {
        if imatrix.map_or(Ok(None), |imatrix| imatrix.of(tensor))?.is_some() {
            continue;
        }
        if needs_importance(*dtype) {
            let (path, missing) = match &how.imatrix {
                Some((path, _)) => (*path, "which has no entry for it"),
                None => (how.input, "which --imatrix gives"),
            };
            return Err(of(path)(format!("{}: {dtype} needs an importance matrix, {missing}", tensor.name)));
        }
        without.push(tensor.name.as_str());
    }
    if imatrix.is_some() && !without.is_empty() {
        eprintln!("{} matrices are not in the importance matrix: {}", without.len(), without.join(", "));
    }
    Ok(())
}

/// Returns whether the blocks of a tensor are quantized anew.
fn changes(tensor: &Tensor<'_>, dtype: Dtype) -> bool {
    dtype.block_len() > 1 && !tensor.contents.is_same(dtype)
}

/// Opens the file with Gleed, which checks metadata and shapes, before the long work begins.
fn check(path: &Path) -> Result<()> {
    let file = MappedFile::open(path)?;
    Model::open(file.bytes()).map_err(|error| format!("the model would not be usable: {error}"))?;
    Ok(())
}

/// Writes a tensor and the padding after it.
fn write_tensor(
    file: &mut BufWriter<Unfinished>,
    tensor: &Tensor<'_>,
    dtype: Dtype,
    how: &How<'_>,
    bar: &ProgressBar,
) -> Result<()> {
    let wrong = |error: &str| of(how.input)(format!("{}: {error}", tensor.name));
    let contents = &tensor.contents;
    let (rows, cols) = (contents.rows(), contents.cols());
    let row_bytes = dtype.row_bytes(cols).ok_or_else(|| wrong("a row is no whole number of blocks"))?;
    let chunk = (CHUNK / cols.max(1)).max(1);
    let threads = how.threads;
    let importance = how.imatrix().map_or(Ok(None), |imatrix| imatrix.of(tensor))?;
    let mut bytes = vec![0; row_bytes * (chunk * threads).min(rows)];
    for first in (0..rows).step_by(chunk * threads) {
        let bytes = &mut bytes[..row_bytes * (chunk * threads).min(rows - first)];
        let results: Vec<_> = std::thread::scope(|scope| {
            let firsts = (first..).step_by(chunk);
            let parts = bytes.chunks_mut(row_bytes * chunk).zip(firsts);
            let fill = move |(part, first)| scope.spawn(move || fill(tensor, dtype, importance, first, part));
            let workers: Vec<_> = parts.map(fill).collect();
            workers.into_iter().map(|worker| worker.join().unwrap_or(Err("a thread panicked".into()))).collect()
        });
        results.into_iter().collect::<std::result::Result<(), String>>().map_err(|error| wrong(&error))?;
        file.write_all(bytes).map_err(|error| file.get_ref().error(error))?;
        bar.inc(bytes.len() as u64);
    }
    file.write_all(&vec![0; gguf::padding(row_bytes * rows)]).map_err(|error| file.get_ref().error(error))
}

/// Makes the rows from `first` on, as many as fit `out`.
fn fill(
    tensor: &Tensor<'_>,
    dtype: Dtype,
    importance: Option<&[f32]>,
    first: usize,
    out: &mut [u8],
) -> std::result::Result<(), String> {
    let contents = &tensor.contents;
    let cols = contents.cols();
    let row_bytes = dtype.row_bytes(cols).unwrap_or(0).max(1);
    let per_expert = (contents.rows() / tensor.experts().max(1)).max(1);
    let mut x = vec![0.0; cols];
    for (row, out) in (first..).zip(out.chunks_mut(row_bytes)) {
        if contents.is_same(dtype) {
            contents.copy_row(row, out).ok_or("a row is not there")?;
        } else {
            contents.row(row, &mut x).ok_or("this build does not know its type")?;
            let importance = importance.and_then(|all| all.chunks(cols).nth(row / per_expert));
            quantize(dtype, &x, importance, out)?;
        }
    }
    Ok(())
}

fn bar(total: u64) -> ProgressBar {
    let template = "{bar:32} {bytes}/{total_bytes}, {binary_bytes_per_sec}, {eta} left, {msg}";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr()).with_style(style)
}
