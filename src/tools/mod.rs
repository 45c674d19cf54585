//! Reads calls of tools in the text that a model writes.
//!
//! [`Tools`] is the list of tools that a program offers. [`CallFormat`] is the format in which a family of models calls
//! them. [`Reader`] takes what a model writes apart: text, thoughts and calls, while it is written or afterwards. None
//! of these changes what a model writes. The turns that offer tools and report their results are in [`crate::turns`].
//!
//! # Example
//!
//! A reply of Qwen 3 with a thought and a call.
//!
//! ```
//! use gleed::tools::{CallErrorKind, CallFormat, Part, Reader, ThoughtMarks, Tools};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tools = Tools::new(
//!     r#"[{"name": "roll", "description": "Rolls dice", "parameters": {
//!         "type": "object", "properties": {"sides": {"type": "integer"}}, "required": ["sides"]}}]"#,
//! )?;
//! let reply = "<think>\nA die has six sides.\n</think>\n\nLet me roll.\n\
//!     <tool_call>\n{\"name\": \"roll\", \"arguments\": {\"sides\": 6}}\n</tool_call>";
//!
//! let mut reader = Reader::new(Some(CallFormat::Hermes), Some(ThoughtMarks::THINK), false);
//! let mut parts = std::iter::from_fn(|| reader.next(reply, true, Some(&tools)));
//! assert_eq!(parts.next(), Some(Ok(Part::Thought("\nA die has six sides.\n"))));
//! assert_eq!(parts.next(), Some(Ok(Part::Text("Let me roll.\n"))));
//! let Some(Ok(Part::Call(call))) = parts.next() else { return Err("no call".into()) };
//! assert_eq!((call.name, call.arguments.as_json()), ("roll", Some("{\"sides\": 6}")));
//!
//! // Whether the arguments are those of the tool is a question of its own.
//! let tool = tools.find(call.name).ok_or("no such tool")?;
//! assert_eq!(tool.check("{\"sides\": 6}"), Ok(()));
//! assert_eq!(tool.check("{}").map_err(|error| error.kind), Err(CallErrorKind::Missing("sides")));
//! # Ok(())
//! # }
//! ```

mod arguments;
mod call;
mod check;
mod error;
mod format;
pub(crate) mod json;
mod list;
mod literal;
mod reader;
pub(crate) mod scan;
mod string;

pub use arguments::Arguments;
pub use error::{CallError, CallErrorKind};
pub use format::{CallFormat, ThoughtMarks};
pub use list::{Tool, Tools, ToolsError};
pub use reader::{Call, Part, Reader};
