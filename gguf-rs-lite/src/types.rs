//! The numbers of tensor element types and of metadata value types in GGUF.

use core::fmt;

/// Makes the element types from one table of everything that is known about them.
macro_rules! ggml_types {
    ($($name:ident = $number:literal, $len:literal in $bytes:literal;)*) => {
        /// The element types of ggml, with its names, numbers and block sizes.
        ///
        /// Elements are stored in blocks of [`block_len`](Self::block_len) elements, which take
        /// [`block_bytes`](Self::block_bytes) bytes. Plain numbers are blocks of one element.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(non_camel_case_types, missing_docs)] // the names are those of the GGUF specification
        #[non_exhaustive]
        #[repr(u32)]
        pub enum GgmlType {
            $($name = $number,)*
        }

        impl GgmlType {
            /// All element types, by number.
            pub const ALL: &'static [GgmlType] = &[$(GgmlType::$name),*];

            /// Returns the type with this number. `None` if there is none, or none any more.
            pub const fn from_number(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(GgmlType::$name),)*
                    _ => None,
                }
            }

            /// Returns the type's name in the GGUF specification, "Q4_K" for example.
            pub const fn name(self) -> &'static str {
                match self {
                    $(GgmlType::$name => stringify!($name),)*
                }
            }

            /// Returns the number of elements per block, and of bytes per block.
            const fn block(self) -> (usize, usize) {
                match self {
                    $(GgmlType::$name => ($len, $bytes),)*
                }
            }
        }
    };
}

// The gaps (4, 5, 31 to 33, 36 to 38) are types that ggml has withdrawn.
ggml_types! {
    F32 = 0, 1 in 4;
    F16 = 1, 1 in 2;
    Q4_0 = 2, 32 in 18;
    Q4_1 = 3, 32 in 20;
    Q5_0 = 6, 32 in 22;
    Q5_1 = 7, 32 in 24;
    Q8_0 = 8, 32 in 34;
    Q8_1 = 9, 32 in 36;
    Q2_K = 10, 256 in 84;
    Q3_K = 11, 256 in 110;
    Q4_K = 12, 256 in 144;
    Q5_K = 13, 256 in 176;
    Q6_K = 14, 256 in 210;
    Q8_K = 15, 256 in 292;
    IQ2_XXS = 16, 256 in 66;
    IQ2_XS = 17, 256 in 74;
    IQ3_XXS = 18, 256 in 98;
    IQ1_S = 19, 256 in 50;
    IQ4_NL = 20, 32 in 18;
    IQ3_S = 21, 256 in 110;
    IQ2_S = 22, 256 in 82;
    IQ4_XS = 23, 256 in 136;
    I8 = 24, 1 in 1;
    I16 = 25, 1 in 2;
    I32 = 26, 1 in 4;
    I64 = 27, 1 in 8;
    F64 = 28, 1 in 8;
    IQ1_M = 29, 256 in 56;
    BF16 = 30, 1 in 2;
    TQ1_0 = 34, 256 in 54;
    TQ2_0 = 35, 256 in 66;
    MXFP4 = 39, 32 in 17;
    NVFP4 = 40, 64 in 36;
    Q1_0 = 41, 128 in 18;
    Q2_0 = 42, 64 in 18;
}

impl GgmlType {
    /// Returns the type's number in a GGUF file.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// Returns the number of elements per block: 1 for plain numbers, otherwise 32, 64, 128 or 256.
    pub const fn block_len(self) -> usize {
        self.block().0
    }

    /// Returns the number of bytes per block.
    pub const fn block_bytes(self) -> usize {
        self.block().1
    }
}

impl fmt::Display for GgmlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The types of metadata values. The set is closed in GGUF versions 2 and 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum ValueType {
    /// 8-bit unsigned integer
    U8 = 0,
    /// 8-bit signed integer
    I8 = 1,
    /// 16-bit unsigned integer
    U16 = 2,
    /// 16-bit signed integer
    I16 = 3,
    /// 32-bit unsigned integer
    U32 = 4,
    /// 32-bit signed integer
    I32 = 5,
    /// 32-bit IEEE 754 number
    F32 = 6,
    /// One byte, 0 or 1
    Bool = 7,
    /// Bytes after their count, usually UTF-8
    String = 8,
    /// Values of one type after this type and their count
    Array = 9,
    /// 64-bit unsigned integer
    U64 = 10,
    /// 64-bit signed integer
    I64 = 11,
    /// 64-bit IEEE 754 number
    F64 = 12,
}

impl ValueType {
    /// All value types, by number.
    pub const ALL: [ValueType; 13] = [
        ValueType::U8,
        ValueType::I8,
        ValueType::U16,
        ValueType::I16,
        ValueType::U32,
        ValueType::I32,
        ValueType::F32,
        ValueType::Bool,
        ValueType::String,
        ValueType::Array,
        ValueType::U64,
        ValueType::I64,
        ValueType::F64,
    ];

    /// Returns the type with this number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|value_type| value_type.number() == number)
    }

    /// Returns the type's number in a GGUF file.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// Returns the type's name, "U32" for example.
    pub const fn name(self) -> &'static str {
        match self {
            ValueType::U8 => "U8",
            ValueType::I8 => "I8",
            ValueType::U16 => "U16",
            ValueType::I16 => "I16",
            ValueType::U32 => "U32",
            ValueType::I32 => "I32",
            ValueType::F32 => "F32",
            ValueType::Bool => "Bool",
            ValueType::String => "String",
            ValueType::Array => "Array",
            ValueType::U64 => "U64",
            ValueType::I64 => "I64",
            ValueType::F64 => "F64",
        }
    }

    /// Returns the number of bytes of a value, or `None` for strings and arrays, whose size varies.
    pub const fn size(self) -> Option<usize> {
        match self {
            ValueType::U8 | ValueType::I8 | ValueType::Bool => Some(1),
            ValueType::U16 | ValueType::I16 => Some(2),
            ValueType::U32 | ValueType::I32 | ValueType::F32 => Some(4),
            ValueType::U64 | ValueType::I64 | ValueType::F64 => Some(8),
            ValueType::String | ValueType::Array => None,
        }
    }

    /// Returns the fewest bytes of a value: an empty string still has its count, and an empty array its type and count.
    pub(crate) const fn least_bytes(self) -> u64 {
        match self {
            ValueType::U8 | ValueType::I8 | ValueType::Bool => 1,
            ValueType::U16 | ValueType::I16 => 2,
            ValueType::U32 | ValueType::I32 | ValueType::F32 => 4,
            ValueType::U64 | ValueType::I64 | ValueType::F64 | ValueType::String => 8,
            ValueType::Array => 12,
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip() {
        for &ggml_type in GgmlType::ALL {
            assert_eq!(GgmlType::from_number(ggml_type.number()), Some(ggml_type));
        }
        for gone in [4, 5, 31, 32, 33, 36, 37, 38, 43, u32::MAX] {
            assert_eq!(GgmlType::from_number(gone), None);
        }
        for value_type in ValueType::ALL {
            assert_eq!(ValueType::from_number(value_type.number()), Some(value_type));
            assert_eq!(value_type.size().unwrap_or(value_type.least_bytes() as usize) as u64, value_type.least_bytes());
        }
        assert_eq!(ValueType::from_number(13), None);
    }

    #[test]
    fn bits_per_element_are_the_published_ones() {
        let bits = |ggml_type: GgmlType| ggml_type.block_bytes() as f64 * 8.0 / ggml_type.block_len() as f64;
        assert_eq!(bits(GgmlType::Q4_0), 4.5);
        assert_eq!(bits(GgmlType::Q8_0), 8.5);
        assert_eq!(bits(GgmlType::Q6_K), 6.5625);
        assert_eq!(bits(GgmlType::IQ2_XXS), 2.0625);
        assert_eq!(bits(GgmlType::IQ1_S), 1.5625);
        assert_eq!(bits(GgmlType::TQ1_0), 1.6875);
        assert_eq!(bits(GgmlType::MXFP4), 4.25);
    }
}
