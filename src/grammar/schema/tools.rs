//! A list of tools: the rule of the arguments of each.

use heapless::Vec;

use super::dialect::Dialect;
use super::envelope::Callable;
use super::{Kept, Schemas, Set};
use crate::grammar::calls::{Calls, ToolChoice};
use crate::grammar::check::alive;
use crate::grammar::code::{Program, Rule, rule, rule_at, set_start, start};
use crate::grammar::compile::Options;
use crate::grammar::dom::{Dom, Node};
use crate::grammar::error::{ErrorKind, GrammarError};
use crate::grammar::json::syntax;
use crate::grammar::scratch::{Result, Scratch};
use crate::tools::{CallFormat, Tools, ToolsError};

/// Checks that a text is a list of tools.
pub(in crate::grammar) fn check_list(tools: &[u8]) -> Result<()> {
    match core::str::from_utf8(tools) {
        Ok(list) => Tools::new(list).map(|_| ()).or_else(refused),
        Err(error) => syntax("not UTF-8", error.valid_up_to()),
    }
}

impl Kept {
    /// Begins with the tools of a list.
    pub(in crate::grammar) fn begin_tools(&mut self, scratch: &mut Scratch<'_>, calls: Calls<'_>) -> Result<()> {
        let dom = Dom { text: calls.tools };
        self.dialect = dialect(calls.format);
        self.element = dom.child(scratch, self.root);
        self.tools.list = scratch.zeroed(dom.count(scratch, self.root).saturating_mul(3) as usize)?;
        Ok(())
    }

    /// Goes on with the rules of arguments. Returns the rule of replies when all is made.
    pub(in crate::grammar) fn go_on_tools(
        &mut self,
        scratch: &mut Scratch<'_>,
        program: &mut Program,
        calls: Calls<'_>,
        options: &Options<'_>,
    ) -> Result<Option<Rule>> {
        let dom = Dom { text: calls.tools };
        let mut schemas = Schemas { scratch, program, dom, options, marks: calls.marks, kept: self };
        loop {
            if schemas.kept.first != 0 && !schemas.work()? {
                return Ok(None);
            }
            if schemas.kept.element == 0 {
                break;
            }
            if schemas.scratch.is_spent() || !schemas.next_tool(calls.choice)? {
                return Ok(None);
            }
        }
        let tools = match (schemas.kept.tools, calls.choice) {
            (Callable { count: 0, .. }, ToolChoice::Named(_)) => {
                return Err(GrammarError { kind: ErrorKind::Value("tool_choice"), at: 0 });
            }
            (Callable { count: 0, .. }, _) => return Err(GrammarError { kind: ErrorKind::Empty, at: 0 }),
            (tools, _) => tools,
        };
        let start = schemas.at_once(|schemas| schemas.reply(&calls, tools))?;
        let root = rule(schemas.scratch, 0)?;
        set_start(schemas.scratch, root, start);
        Ok(Some(root))
    }

    /// Refuses a tool that cannot be called, and so would be left out.
    pub(in crate::grammar) fn check_tools(&self, scratch: &Scratch<'_>) -> Result<()> {
        for number in 0..self.tools.count {
            let arguments = scratch.get(self.tools.list, number.wrapping_mul(3).wrapping_add(2));
            if !alive(scratch, start(scratch, arguments)) {
                return Err(GrammarError { kind: ErrorKind::Empty, at: rule_at(scratch, arguments) });
            }
        }
        Ok(())
    }
}

/// Returns the error with which a list is refused.
fn refused(error: ToolsError) -> Result<()> {
    match error {
        ToolsError::NotJson { at } => syntax("not JSON", at),
        ToolsError::TooDeep { at } => syntax("nested too deeply", at),
        ToolsError::NoList => syntax("expected a list of tools", 0),
        ToolsError::NoTool { at } => syntax("expected a tool with a name and an object of parameters", at),
        ToolsError::Twice { at } => syntax("a name that is there already", at),
    }
}

/// Returns how a format writes arguments.
fn dialect(format: CallFormat) -> Dialect {
    match format {
        CallFormat::Lfm2 => Dialect::Python,
        CallFormat::Gemma4 => Dialect::Gemma("<|\"|>"),
        CallFormat::FunctionGemma => Dialect::Gemma("<escape>"),
        CallFormat::Qwen3_5 => Dialect::Parameters("\n"),
        CallFormat::SeedOss => Dialect::Parameters(""),
        CallFormat::MiniCpm5 => Dialect::Quoted,
        CallFormat::Glm4_5 => Dialect::Pairs,
        _ => Dialect::Json,
    }
}

impl Schemas<'_, '_, '_, '_> {
    /// Goes on with the next tool. Returns whether it has its rule, or is not to be called.
    fn next_tool(&mut self, choice: ToolChoice<'_>) -> Result<bool> {
        if !self.kept.made.go_on(self.scratch)? {
            return Ok(false);
        }
        let element = self.kept.element;
        let function = match self.dom.member(self.scratch, element, "function") {
            0 => element,
            function => function,
        };
        let name = self.dom.member(self.scratch, function, "name");
        let is_chosen = match choice {
            ToolChoice::Named(chosen) => self.dom.bytes(self.scratch, name) == chosen.as_bytes(),
            _ => true,
        };
        if is_chosen {
            let (from, to) = self.dom.range(self.scratch, name);
            let rule = match self.arguments_of(function) {
                Err(GrammarError { kind: ErrorKind::Unfinished, .. }) => return Ok(false),
                other => other?,
            };
            let Callable { list, count } = self.kept.tools;
            for (field, word) in (0..).zip([from, to, rule]) {
                self.scratch.set(list, count.saturating_mul(3).saturating_add(field), word);
            }
            self.kept.tools.count = count.saturating_add(1);
        }
        self.end_rule();
        self.kept.element = self.dom.next(self.scratch, element);
        Ok(true)
    }

    /// Returns the rule of the arguments of a function.
    fn arguments_of(&mut self, function: Node) -> Result<Rule> {
        let parameters = self.dom.member(self.scratch, function, "parameters");
        let is_object = matches!(self.kept.dialect, Dialect::Json | Dialect::Gemma(_));
        // References stay within the parameters.
        self.kept.root = parameters;
        if parameters == 0 {
            return self.no_arguments(self.dom.at(self.scratch, function), is_object);
        }
        let mut set = Set::new();
        self.expand(&mut set, parameters, &mut Vec::new())?;
        self.include(&mut set, self.any_object())?;
        let rule = if is_object {
            self.rule_of(&set)?
        } else {
            let rule = rule(self.scratch, self.dom.at(self.scratch, parameters))?;
            let code = self.arguments(&set)?;
            set_start(self.scratch, rule, code);
            rule
        };
        Ok(rule)
    }

    fn no_arguments(&mut self, at: usize, is_object: bool) -> Result<Rule> {
        let rule = rule(self.scratch, at)?;
        let code = if is_object {
            let close = self.closing(b'}')?;
            self.mark(b'{', close)?
        } else {
            self.program.end(self.scratch)?
        };
        set_start(self.scratch, rule, code);
        Ok(rule)
    }
}
