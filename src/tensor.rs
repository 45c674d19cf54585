//! Element types and checked views of weight matrices over borrowed bytes.

use core::fmt;

/// The element types that Gleed computes with. Numbers and block layouts are ggml's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(non_camel_case_types, missing_docs)] // the names are those of the GGUF specification
#[non_exhaustive]
pub enum Dtype {
    F32,
    F16,
    BF16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2_K,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
    IQ4_NL,
    IQ4_XS,
}

impl Dtype {
    /// All element types, in the order of the enum.
    pub const ALL: [Dtype; 15] = [
        Dtype::F32,
        Dtype::F16,
        Dtype::BF16,
        Dtype::Q4_0,
        Dtype::Q4_1,
        Dtype::Q5_0,
        Dtype::Q5_1,
        Dtype::Q8_0,
        Dtype::Q2_K,
        Dtype::Q3_K,
        Dtype::Q4_K,
        Dtype::Q5_K,
        Dtype::Q6_K,
        Dtype::IQ4_NL,
        Dtype::IQ4_XS,
    ];

    /// Returns the type with this number in a GGUF file, or `None` if Gleed does not support it.
    pub fn from_ggml(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.layout().1 == number)
    }

    /// Returns whether this build computes with matrices of the type: the features `quant-*`.
    pub const fn is_built(self) -> bool {
        match self {
            Dtype::F32 | Dtype::F16 | Dtype::BF16 => cfg!(feature = "quant-float"),
            Dtype::Q4_0 => cfg!(feature = "quant-q4_0"),
            Dtype::Q4_1 => cfg!(feature = "quant-q4_1"),
            Dtype::Q5_0 => cfg!(feature = "quant-q5_0"),
            Dtype::Q5_1 => cfg!(feature = "quant-q5_1"),
            Dtype::Q8_0 => cfg!(feature = "quant-q8_0"),
            Dtype::Q2_K => cfg!(feature = "quant-q2_k"),
            Dtype::Q3_K => cfg!(feature = "quant-q3_k"),
            Dtype::Q4_K => cfg!(feature = "quant-q4_k"),
            Dtype::Q5_K => cfg!(feature = "quant-q5_k"),
            Dtype::Q6_K => cfg!(feature = "quant-q6_k"),
            Dtype::IQ4_NL => cfg!(feature = "quant-iq4_nl"),
            Dtype::IQ4_XS => cfg!(feature = "quant-iq4_xs"),
        }
    }

    /// Returns the type's name in the GGUF specification, "Q4_K" for example.
    pub const fn name(self) -> &'static str {
        self.layout().0
    }

    /// Returns the type's number in a GGUF file.
    pub const fn ggml_number(self) -> u32 {
        self.layout().1
    }

    /// Returns the number of elements per block: 1, 32 or 256.
    pub const fn block_len(self) -> usize {
        self.layout().2
    }

    /// Returns the number of bytes per block.
    pub const fn block_bytes(self) -> usize {
        self.layout().3
    }

    /// Returns the bytes of a row of `cols` elements, or `None` if `cols` is not a multiple of the block or too large.
    pub const fn row_bytes(self, cols: usize) -> Option<usize> {
        let (_, _, len, bytes) = self.layout();
        match cols.checked_rem(len) {
            Some(0) => (cols / len).checked_mul(bytes),
            _ => None,
        }
    }

    /// Name, number in a GGUF file, elements per block, bytes per block.
    const fn layout(self) -> (&'static str, u32, usize, usize) {
        match self {
            Dtype::F32 => ("F32", 0, 1, 4),
            Dtype::F16 => ("F16", 1, 1, 2),
            Dtype::BF16 => ("BF16", 30, 1, 2),
            Dtype::Q4_0 => ("Q4_0", 2, 32, 18),
            Dtype::Q4_1 => ("Q4_1", 3, 32, 20),
            Dtype::Q5_0 => ("Q5_0", 6, 32, 22),
            Dtype::Q5_1 => ("Q5_1", 7, 32, 24),
            Dtype::Q8_0 => ("Q8_0", 8, 32, 34),
            Dtype::Q2_K => ("Q2_K", 10, 256, 84),
            Dtype::Q3_K => ("Q3_K", 11, 256, 110),
            Dtype::Q4_K => ("Q4_K", 12, 256, 144),
            Dtype::Q5_K => ("Q5_K", 13, 256, 176),
            Dtype::Q6_K => ("Q6_K", 14, 256, 210),
            Dtype::IQ4_NL => ("IQ4_NL", 20, 32, 18),
            Dtype::IQ4_XS => ("IQ4_XS", 23, 256, 136),
        }
    }
}

/// A `match` on an element type without the code of types that are not in this build: these get the last value.
macro_rules! by_dtype {
    ($dtype:expr, { $($($name:ident)|+ => $value:expr,)+ _ => $other:expr $(,)? }) => {
        match $dtype {
            $($($crate::tensor::Dtype::$name)|+ if const { $($crate::tensor::Dtype::$name.is_built())||+ } => $value,)+
            _ => $other,
        }
    };
}

pub(crate) use by_dtype;

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A matrix `[rows, cols]` of one element type in borrowed bytes, rows one after the other.
///
/// The bytes need no alignment. [`TensorView::new`] checks their number once.
#[derive(Clone, Copy)]
pub struct TensorView<'a> {
    dtype: Dtype,
    rows: usize,
    cols: usize,
    row_bytes: usize,
    bytes: &'a [u8],
}

impl<'a> TensorView<'a> {
    /// Returns a view of `bytes`, or `None` if they are not exactly `rows` rows of `cols` elements.
    pub fn new(dtype: Dtype, rows: usize, cols: usize, bytes: &'a [u8]) -> Option<Self> {
        let row_bytes = dtype.row_bytes(cols)?;
        (rows.checked_mul(row_bytes)? == bytes.len()).then_some(Self { dtype, rows, cols, row_bytes, bytes })
    }

    /// Returns the element type.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Returns the number of rows (outputs of a linear layer).
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns (inputs of a linear layer).
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Returns the bytes of all rows.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the `count` rows from `first` on, or `None` if there are fewer.
    pub fn slice_rows(&self, first: usize, count: usize) -> Option<Self> {
        let start = first.checked_mul(self.row_bytes)?;
        let bytes = self.bytes.get(start..start.checked_add(count.checked_mul(self.row_bytes)?)?)?;
        Some(Self { rows: count, bytes, ..*self })
    }

    /// Returns the bytes of row `row`, or `None` past the last one.
    #[inline]
    pub fn row(&self, row: usize) -> Option<&'a [u8]> {
        if row >= self.rows {
            return None;
        }
        let start = row.checked_mul(self.row_bytes)?;
        self.bytes.get(start..start.checked_add(self.row_bytes)?)
    }
}

impl fmt::Debug for TensorView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TensorView({} [{}, {}])", self.dtype.name(), self.rows, self.cols)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_bytes_want_whole_blocks() {
        assert_eq!(Dtype::Q4_K.row_bytes(512), Some(288));
        assert_eq!(Dtype::Q4_K.row_bytes(288), None);
        assert_eq!(Dtype::Q8_0.row_bytes(48), None);
        assert_eq!(Dtype::F32.row_bytes(usize::MAX), None);
        assert_eq!(Dtype::from_ggml(14), Some(Dtype::Q6_K));
        assert_eq!(Dtype::from_ggml(4), None);
    }

    #[test]
    fn a_view_checks_its_size() {
        let bytes = [0u8; 68];
        let view = TensorView::new(Dtype::Q8_0, 2, 32, &bytes).unwrap();
        assert_eq!(view.row(1).unwrap().len(), 34);
        assert!(view.row(2).is_none());
        assert!(TensorView::new(Dtype::Q8_0, 3, 32, &bytes).is_none());
        assert!(TensorView::new(Dtype::Q8_0, usize::MAX, 32, &bytes).is_none());
    }
}
