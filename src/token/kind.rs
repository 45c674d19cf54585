//! The kinds of tokens.

/// The kind of a token. The numbers are the ones that files have.
///
/// [The guide shows tokens and text](crate::guide#generate).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum TokenKind {
    /// A token whose number in the file is not one of the numbers below.
    Undefined = 0,
    /// Ordinary text.
    Normal = 1,
    /// A token for text that the vocabulary cannot spell.
    Unknown = 2,
    /// A token that steers the model. Text becomes this token only on request.
    Control = 3,
    /// A token that is found in every text, before all other tokens.
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

    /// Returns whether tokens of this kind may be parts of ordinary text.
    pub(super) fn is_text(self) -> bool {
        !matches!(self, Self::Unknown | Self::Control | Self::Byte)
    }

    /// Returns whether a text is searched for tokens of this kind before it is cut into words.
    pub(super) fn is_special(self) -> bool {
        matches!(self, Self::Unknown | Self::Control | Self::UserDefined)
    }
}
