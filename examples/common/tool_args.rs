//! Flags about tools and thoughts.

use std::path::Path;

use clap::Args;
use gleed::token::Tokenizer;

use super::calling::CallRules;
use super::turns::Style;
use super::{Result, toolbox};

/// Whether a model thinks and which tools it may call.
#[derive(Args)]
pub struct ToolArgs {
    /// Tools that the model may call: a file with a list of functions in JSON, or `builtin`, a calculator and dice. The
    /// result of a tool that this program does not have is the next line of input
    #[arg(long, value_name = "FILE|builtin")]
    tools: Option<String>,

    /// Whether a reply has to call a tool: auto, required, none (no tool is offered), or the name of a tool. What
    /// follows the result of a call is free to call or not
    #[arg(long, value_name = "CHOICE", default_value = "auto", requires = "tools")]
    tool_choice: String,

    /// Let the model write its calls as it likes, also such that cannot be carried out
    #[arg(long)]
    free_calls: bool,

    /// Whether the model is to think before it answers, where its turn format knows that
    #[arg(long, value_name = "on|off|auto", default_value = "auto", value_parser = ["on", "off", "auto"])]
    think: String,
}

impl ToolArgs {
    /// Returns whether there is a list of tools, even if none of them is offered.
    pub fn is_some(&self) -> bool {
        self.tools.is_some()
    }

    /// Returns the file of the list, if it is one.
    pub fn path(&self) -> Option<&Path> {
        self.tools.as_ref().filter(|tools| *tools != "builtin").map(Path::new)
    }

    /// Returns whether a flag other than the list of tools needs a turn format.
    pub fn wants_more(&self) -> bool {
        self.free_calls || self.think != "auto"
    }

    pub fn apply(&self, style: &mut Style<'_>) -> Result<()> {
        if let Some(tools) = self.tools.as_ref().filter(|_| self.tool_choice != "none") {
            style.offer(toolbox::list(tools)?)?;
        }
        if self.think == "auto" { Ok(()) } else { style.think(self.think == "on") }
    }

    /// Returns the rules for replies with calls, or `None` if calls are free.
    pub fn rules<'t>(&self, tokenizer: &'t Tokenizer<'t, 't>, style: &Style<'_>) -> Result<Option<CallRules<'t>>> {
        if self.free_calls {
            return Ok(None);
        }
        CallRules::new(tokenizer, style, &self.tool_choice)
    }
}
