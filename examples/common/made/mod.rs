//! Models with random weights, in the shape, the types and the size of real ones.

mod describe;
mod mix;
mod shape;
mod shapes;
mod vocabulary;
mod weights;

use std::io::Write;

use gleed::tensor::Dtype;

use super::Result;
use super::gguf::{self, Header};
use super::random::Random;
pub use mix::FileType;
pub use shape::Shape;
use shape::TensorShape;
use weights::Contents;

/// A model that can be written.
pub struct Made {
    /// Bytes of the file before the first tensor.
    header: Vec<u8>,
    tensors: Vec<(Dtype, TensorShape)>,
    bytes: u64,
    seed: u64,
}

impl Made {
    pub fn new(shape: Shape, file_type: FileType, seed: u64) -> Self {
        let mut header = Header::default();
        shape.describe(&mut header, file_type.number);
        let tensors: Vec<_> =
            shape.tensors().into_iter().map(|tensor| (file_type.dtype(&shape, &tensor), tensor)).collect();
        for (dtype, tensor) in &tensors {
            header.tensor(&tensor.name, &tensor.dims, *dtype);
        }
        let (header, bytes) = header.finish();
        Self { header, tensors, bytes, seed }
    }

    /// Returns the size of the file in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes the file. Calls `wrote` with the name of a tensor and the number of its bytes, each time that some are
    /// written.
    pub fn write(&self, file: &mut impl Write, mut wrote: impl FnMut(&str, usize)) -> Result<()> {
        file.write_all(&self.header)?;
        wrote("", self.header.len());
        for (index, (dtype, tensor)) in self.tensors.iter().enumerate() {
            let mut random = Random::new(self.seed ^ (index as u64) << 32);
            write_tensor(file, tensor, *dtype, &mut random, &mut wrote)?;
        }
        Ok(())
    }
}

/// Writes a tensor and the padding after it.
fn write_tensor(
    file: &mut impl Write,
    tensor: &TensorShape,
    dtype: Dtype,
    random: &mut Random,
    wrote: &mut impl FnMut(&str, usize),
) -> Result<()> {
    const CHUNK: usize = 1 << 20;
    let contents = Contents::new(tensor, dtype, random);
    let row = dtype.row_bytes(tensor.cols()).ok_or("a row is no whole number of blocks")?;
    let rows = (CHUNK / row).max(1);
    let mut chunk = vec![0; row * rows];
    for first in (0..tensor.rows()).step_by(rows) {
        let bytes = &mut chunk[..row * rows.min(tensor.rows() - first)];
        contents.fill(bytes, random);
        file.write_all(bytes)?;
        wrote(&tensor.name, bytes.len());
    }
    Ok(file.write_all(&vec![0; gguf::padding(row * tensor.rows())])?)
}
