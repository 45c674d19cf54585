//! What is wrong with a call.

use core::fmt;

use super::json::{Fault, FaultKind};

/// What is wrong with a call, and where. The text stays as it is.
///
/// [Example](crate::tools#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallError<'t> {
    /// What is wrong.
    pub kind: CallErrorKind<'t>,
    /// Byte offset of the error in the text.
    pub at: usize,
}

/// What is wrong with a call.
///
/// [Example](crate::tools#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallErrorKind<'t> {
    /// The text ends inside the call.
    Incomplete,
    /// What stands here belongs to no call of the format.
    Invalid,
    /// More than 64 lists and objects are inside each other.
    TooDeep,
    /// An argument has no name.
    Positional,
    /// No tool has this name.
    UnknownTool(&'t str),
    /// The arguments are no JSON object.
    NoObject,
    /// An argument is missing that the tool requires.
    Missing(&'t str),
    /// The tool knows no argument of this name.
    UnknownArgument(&'t str),
    /// A value is of another type than the tool's parameters say.
    Type,
    /// A value is none of those that the tool's parameters list.
    Value,
}

impl<'t> CallError<'t> {
    pub(crate) fn new(kind: CallErrorKind<'t>, at: usize) -> Self {
        Self { kind, at }
    }
}

impl From<Fault> for CallError<'_> {
    fn from(fault: Fault) -> Self {
        let kind = match fault.kind {
            FaultKind::Incomplete => CallErrorKind::Incomplete,
            FaultKind::Invalid => CallErrorKind::Invalid,
            FaultKind::TooDeep => CallErrorKind::TooDeep,
            FaultKind::Positional => CallErrorKind::Positional,
        };
        Self { kind, at: fault.at }
    }
}

impl fmt::Display for CallError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            CallErrorKind::Incomplete => f.write_str("the text ends inside a call")?,
            CallErrorKind::Invalid => f.write_str("this is no call")?,
            CallErrorKind::TooDeep => f.write_str("the arguments are nested more than 64 deep")?,
            CallErrorKind::Positional => f.write_str("an argument has no name")?,
            CallErrorKind::UnknownTool(name) => write!(f, "no tool has the name {name}")?,
            CallErrorKind::NoObject => f.write_str("the arguments are no JSON object")?,
            CallErrorKind::Missing(name) => write!(f, "the argument {name} is missing")?,
            CallErrorKind::UnknownArgument(name) => write!(f, "the tool has no argument {name}")?,
            CallErrorKind::Type => f.write_str("a value is of another type than the tool's parameters say")?,
            CallErrorKind::Value => f.write_str("a value is none of those that the tool's parameters list")?,
        }
        write!(f, ", at byte {}", self.at)
    }
}

impl core::error::Error for CallError<'_> {}
