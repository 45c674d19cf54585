//! Converts GGUF to GGUF: matrices may get other types, everything else stays.

use gguf_rs_lite::{Gguf, TensorInfo};
use gleed::tensor::Dtype;

use crate::output::{Contents, Matrix, Output, Tensor};
use common::Result;

/// Returns all tensors, and all metadata except the keys that say how the file is quantized. If matrices get
/// `other_types`, the keys of the importance matrix of the old file are left out, too.
pub(crate) fn read(file: &[u8], other_types: bool) -> Result<Output<'_>> {
    const OWN: [&str; 3] = ["general.file_type", "general.quantization_version", "general.alignment"];
    let gguf = Gguf::parse(file)?;
    let mut output = Output::default();
    let own = |key: &str| OWN.contains(&key) || other_types && key.starts_with("quantize.imatrix.");
    for (key, value) in gguf.metadata().filter(|(key, _)| !own(key)) {
        output.header.copy(key, value);
    }
    output.file_type = gguf.get(OWN[0]).and_then(|value| value.as_u64()).and_then(|number| u32::try_from(number).ok());
    output.tensors = gguf.tensors().map(|info| tensor(&info)).collect::<Result<_>>()?;
    Ok(output)
}

fn tensor<'a>(info: &TensorInfo<'a>) -> Result<Tensor<'a>> {
    let name = info.name().to_owned();
    let number = info.ggml_type().number();
    let dtype =
        Dtype::from_ggml(number).ok_or_else(|| format!("{name}: the type {} is not known", info.ggml_type()))?;
    let dims: Vec<usize> = info.dims().iter().map(|&dim| dim as usize).collect();
    let cols = dims.first().copied().unwrap_or(1);
    let rows = dims.iter().skip(1).product();
    let contents =
        Contents::same(Matrix { dtype, rows, cols, transposed: false, bytes: info.data().into(), scales: None });
    contents.check().map_err(|error| format!("{name}: {error}"))?;
    Ok(Tensor { name, dims, contents })
}
