//! Element types of weights, made from the table of formats.

use core::fmt;

use super::Dtype;

/// The number and block layout of a type in a file.
pub(super) struct Layout {
    pub(super) name: &'static str,
    /// Number of the type in a GGUF file.
    pub(super) number: u32,
    /// Number of elements per block.
    pub(super) len: usize,
    /// Number of bytes per block.
    pub(super) bytes: usize,
}

/// Makes the enum of element types, and the properties of each type, from the rows of a table.
macro_rules! formats {
    ($($(#[$when:meta])* $name:ident = $number:literal, $len:literal in $bytes:literal, $built:meta,
        $kind:ident($block:ty $(, $subs:literal)?);)+) => {
        /// The element types that Gleed computes with. Numbers and block layouts are ggml's.
        ///
        /// [Example](crate::quant#example).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(non_camel_case_types, missing_docs)] // the names are those of the GGUF specification
        #[non_exhaustive]
        pub enum Dtype {
            $($(#[$when])* $name,)+
        }

        impl Dtype {
            /// All element types, in the order of the enum.
            pub const ALL: [Self; [$($(#[$when])* Self::$name,)+].len()] = [$($(#[$when])* Self::$name,)+];

            /// Returns whether this build computes with matrices of the type, as the features `quant-*` say.
            pub const fn is_built(self) -> bool {
                match self {
                    $($(#[$when])* Self::$name => cfg!($built),)+
                }
            }

            const fn layout(self) -> dtype::Layout {
                let (name, number, len, bytes) = match self {
                    $($(#[$when])* Self::$name => (stringify!($name), $number, $len, $bytes),)+
                };
                dtype::Layout { name, number, len, bytes }
            }
        }

        impl Format {
            /// Returns the row of a type in the table.
            const fn of(dtype: Dtype) -> Self {
                match dtype {
                    // The code of types that are not in this build is left out.
                    $($(#[$when])* Dtype::$name if const { Dtype::$name.is_built() } => Self::$kind::<$block $(, $subs)?>(),)+
                    _ => Self::NONE,
                }
            }
        }

        $($(#[$when])* const _: () = assert!(size_of::<$block>() == $bytes);)+
    };
}

/// A `match` on an element type that leaves out the code of types that are not in this build. They get the last value.
#[allow(unused_macros)] // Machines without levels besides plain Rust have no tables of kernels.
macro_rules! by_dtype {
    ($dtype:expr, { $($($name:ident)|+ => $value:expr,)+ _ => $other:expr $(,)? }) => {
        match $dtype {
            $($($crate::quant::Dtype::$name)|+ if const { $($crate::quant::Dtype::$name.is_built())||+ } => $value,)+
            _ => $other,
        }
    };
}

pub(crate) use by_dtype;
pub(super) use formats;

impl Dtype {
    /// Returns the type with this number in a GGUF file, or `None` if Gleed does not support it.
    pub fn from_ggml(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.ggml_number() == number)
    }

    /// Returns the type's name in the GGUF specification, "Q4_K" for example.
    pub const fn name(self) -> &'static str {
        self.layout().name
    }

    /// Returns the type's number in a GGUF file.
    pub const fn ggml_number(self) -> u32 {
        self.layout().number
    }

    /// Returns the number of elements per block: 1, 32, 64, 128 or 256.
    pub const fn block_len(self) -> usize {
        self.layout().len
    }

    /// Returns the number of bytes per block.
    pub const fn block_bytes(self) -> usize {
        self.layout().bytes
    }

    /// Returns the number of bytes of a row of `cols` elements, or `None` if `cols` is not a multiple of the block or
    /// too large.
    pub const fn row_bytes(self, cols: usize) -> Option<usize> {
        let Layout { len, bytes, .. } = self.layout();
        match cols.checked_rem(len) {
            Some(0) => (cols / len).checked_mul(bytes),
            _ => None,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
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
}
