//! The tools that a model may call.

use core::fmt;

use super::check;
use super::error::CallError;
use super::json::{self, FaultKind};

/// A list of tools in JSON, as chat templates take them: an array of functions, each with a `name`, a `description` and
/// the JSON Schema of its `parameters`, bare or as the `function` of `{"type": "function", "function": ...}`.
///
/// [Example](crate::tools#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tools<'t> {
    json: &'t str,
}

/// A tool of a list.
///
/// [Example](crate::tools#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tool<'t> {
    element: &'t str,
    function: &'t str,
    name: &'t str,
}

impl<'t> Tools<'t> {
    /// No tools.
    pub const NONE: Self = Self { json: "[]" };

    /// Reads a list.
    ///
    /// # Errors
    /// The text is no list of tools.
    pub fn new(json: &'t str) -> Result<Self, ToolsError> {
        let end = json::value_end(json, 0).map_err(|fault| match fault.kind {
            FaultKind::TooDeep => ToolsError::TooDeep { at: fault.at },
            _ => ToolsError::NotJson { at: fault.at },
        })?;
        let end = json::skip_space(json, end);
        if end != json.len() {
            return Err(ToolsError::NotJson { at: end });
        }
        if !json.trim_ascii_start().starts_with('[') {
            return Err(ToolsError::NoList);
        }
        let (list, mut names) = (Self { json }, Names { bits: [0; 64] });
        for (index, (element, at)) in json::elements(json).enumerate() {
            let tool = Tool::new(element).ok_or(ToolsError::NoTool { at })?;
            if names.may_have(tool.name) && list.iter().take(index).any(|earlier| earlier.name == tool.name) {
                return Err(ToolsError::Twice { at });
            }
        }
        Ok(list)
    }

    /// Returns the tools in their order.
    pub fn iter(&self) -> impl Iterator<Item = Tool<'t>> + Clone + use<'t> {
        json::elements(self.json).filter_map(|(element, _)| Tool::new(element))
    }

    /// Returns where each element of the list begins.
    #[cfg(feature = "grammar")]
    pub(crate) fn starts(&self) -> impl Iterator<Item = usize> + use<'t> {
        json::elements(self.json).map(|(_, at)| at)
    }

    /// Returns the tool with this name.
    pub fn find(&self, name: &str) -> Option<Tool<'t>> {
        self.iter().find(|tool| tool.name == name)
    }

    /// Returns whether the list has no tools.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Returns the list as it was given.
    pub fn json(&self) -> &'t str {
        self.json
    }
}

/// Which names there may have been before: each name sets one of 4,096 bits, so that few names are looked up in the
/// list.
struct Names {
    bits: [u64; 64],
}

impl Names {
    /// Returns whether the name may have been there before, and notes it.
    fn may_have(&mut self, name: &str) -> bool {
        // FNV-1a.
        let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        let bit = 1 << (hash & 63);
        let word = usize::try_from(hash >> 26).ok().and_then(|index| self.bits.get_mut(index));
        word.is_none_or(|word| core::mem::replace(word, *word | bit) & bit != 0)
    }
}

impl<'t> Tool<'t> {
    fn new(element: &'t str) -> Option<Self> {
        let function = json::member(element, "function").unwrap_or(element);
        let name = json::member(function, "name").and_then(json::string)?;
        // Names of these characters can stand between the marks of all formats.
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        let tool = Self { element, function, name };
        let has_schema = tool.parameters().is_none_or(|parameters| parameters.starts_with('{'));
        (!name.is_empty() && name.bytes().all(is_good) && has_schema).then_some(tool)
    }

    /// Returns the name: letters, digits, `_`, `-` and `.`.
    pub fn name(&self) -> &'t str {
        self.name
    }

    /// Returns the JSON Schema of the arguments, if it has one.
    pub fn parameters(&self) -> Option<&'t str> {
        json::member(self.function, "parameters")
    }

    /// Returns the function with its `name`, `description` and `parameters`, in JSON.
    pub fn function(&self) -> &'t str {
        self.function
    }

    /// Returns whether the function stands in an object of its own with a `type`.
    pub fn is_wrapped(&self) -> bool {
        self.function.len() != self.element.len()
    }

    /// Returns the element of the list, in JSON.
    pub fn json(&self) -> &'t str {
        self.element
    }

    /// Checks arguments, a JSON object, against the tool's parameters. These keywords are checked at any depth: `type`,
    /// `enum`, `const`, `properties`, `required`, `additionalProperties` where it is `false`, and `items`. Others are
    /// not.
    ///
    /// # Errors
    /// The text is no object, or does not match. Offsets are in `arguments`.
    pub fn check(&self, arguments: &'t str) -> Result<(), CallError<'t>> {
        check::object(arguments)?;
        self.parameters().map_or(Ok(()), |schema| check::value(schema, arguments))
    }
}

/// Why a text is no list of tools.
///
/// [Example](crate::tools#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolsError {
    /// The text is not JSON.
    NotJson {
        /// Byte offset at which it is not.
        at: usize,
    },
    /// More than 64 arrays and objects are inside each other.
    TooDeep {
        /// Byte offset at which one more begins.
        at: usize,
    },
    /// The text is no array.
    NoList,
    /// An element is no function with a name of letters, digits, `_`, `-` and `.`, whose `parameters` are an object.
    NoTool {
        /// Byte offset at which the element begins.
        at: usize,
    },
    /// Two tools have the same name.
    Twice {
        /// Byte offset at which the second one begins.
        at: usize,
    },
}

impl fmt::Display for ToolsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NotJson { at } => write!(f, "the list of tools is not JSON at byte {at}"),
            Self::TooDeep { at } => write!(f, "the list of tools is nested more than 64 deep at byte {at}"),
            Self::NoList => f.write_str("the list of tools is no JSON array"),
            Self::NoTool { at } => {
                write!(f, "at byte {at} of the list of tools is no function with a name and an object of parameters")
            }
            Self::Twice { at } => write!(f, "the tool at byte {at} of the list has the name of another one"),
        }
    }
}

impl core::error::Error for ToolsError {}
