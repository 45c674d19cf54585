//! The kinds of tokens.

/// The kind of a token. The numbers are those of the file.
///
/// [The guide shows tokens and text](crate::guide#generate).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum TokenKind {
    /// Any other number.
    Undefined = 0,
    /// Ordinary text.
    Normal = 1,
    /// Stands for text that the vocabulary cannot spell.
    Unknown = 2,
    /// Steers the model; text becomes it only on request.
    Control = 3,
    /// Matched in every text, before anything else.
    UserDefined = 4,
    /// Not in use.
    Unused = 5,
    /// A single byte, `<0xXX>`.
    Byte = 6,
}

impl TokenKind {
    pub(super) fn from_number(number: i64) -> Self {
        match number {
            1 => Self::Normal,
            2 => Self::Unknown,
            3 => Self::Control,
            4 => Self::UserDefined,
            5 => Self::Unused,
            6 => Self::Byte,
            _ => Self::Undefined,
        }
    }

    /// Returns whether ordinary text consists of tokens of this kind.
    pub(super) fn is_text(self) -> bool {
        !matches!(self, Self::Unknown | Self::Control | Self::Byte)
    }

    /// Returns whether the text itself is searched for tokens of this kind.
    pub(super) fn is_special(self) -> bool {
        matches!(self, Self::Unknown | Self::Control | Self::UserDefined)
    }
}
