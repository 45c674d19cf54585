//! Element types: which one a tensor gets.

use gleed::tensor::Dtype;

use crate::output::Tensor;

/// The types with their names on the command line, and `general.file_type` of a file of each.
const TYPES: [(Dtype, u32); 15] = [
    (Dtype::F32, 0),
    (Dtype::F16, 1),
    (Dtype::BF16, 32),
    (Dtype::Q8_0, 7),
    (Dtype::Q4_0, 2),
    (Dtype::Q4_1, 3),
    (Dtype::Q5_0, 8),
    (Dtype::Q5_1, 9),
    (Dtype::Q2_K, 10),
    (Dtype::Q3_K, 12),
    (Dtype::Q4_K, 15),
    (Dtype::Q5_K, 17),
    (Dtype::Q6_K, 18),
    (Dtype::IQ4_NL, 25),
    (Dtype::IQ4_XS, 30),
];

/// The type of this name.
pub(crate) fn from_name(name: &str) -> Result<Dtype, String> {
    let found = TYPES.into_iter().find(|(dtype, _)| dtype.name().eq_ignore_ascii_case(name));
    let names = || TYPES.map(|(dtype, _)| dtype.name().to_ascii_lowercase()).join(", ");
    found.map(|(dtype, _)| dtype).ok_or_else(|| format!("the types are {}", names()))
}

/// `general.file_type` of a file whose matrices are of this type.
pub(crate) fn file_type(dtype: Dtype) -> u32 {
    TYPES.into_iter().find(|(known, _)| *known == dtype).map_or(0, |(_, number)| number)
}

/// The type of a tensor in a file of type `wanted`; without one matrices keep theirs.
pub(crate) fn of(tensor: &Tensor<'_>, wanted: Option<Dtype>) -> Dtype {
    if !tensor.is_matrix() {
        return Dtype::F32;
    }
    match wanted {
        Some(wanted) => possible(wanted, tensor.contents.cols()),
        None => tensor.contents.dtype().unwrap_or(Dtype::F32),
    }
}

/// The type itself where rows are whole blocks of it, else what `llama-quantize` takes then.
fn possible(dtype: Dtype, cols: usize) -> Dtype {
    let narrower = match dtype {
        Dtype::Q2_K | Dtype::Q3_K => Dtype::Q4_0,
        Dtype::Q4_K => Dtype::Q5_0,
        Dtype::Q5_K => Dtype::Q5_1,
        Dtype::Q6_K => Dtype::Q8_0,
        Dtype::IQ4_XS => Dtype::IQ4_NL,
        other => other,
    };
    let fits = |dtype: &Dtype| dtype.row_bytes(cols).is_some();
    [dtype, narrower].into_iter().find(fits).unwrap_or(Dtype::F16)
}
