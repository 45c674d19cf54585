//! A list of tools: the rule of the arguments of each.

use heapless::Vec;

use super::dialect::Dialect;
use super::envelope::Callable;
use super::{Schemas, Set, check};
use crate::grammar::calls::{Calls, ToolChoice};
use crate::grammar::code::{Program, Rule, rule, set_start};
use crate::grammar::compile::Options;
use crate::grammar::dom::Node;
use crate::grammar::error::{ErrorKind, GrammarError};
use crate::grammar::json::syntax;
use crate::grammar::scratch::{Result, Scratch};
use crate::tools::{CallFormat, Tools, ToolsError};

/// Compiles a list of tools and returns the rule of replies that may call them.
pub(in crate::grammar) fn compile_calls(
    scratch: &mut Scratch<'_>,
    program: &mut Program,
    calls: Calls<'_>,
    options: &Options<'_>,
) -> Result<Rule> {
    match core::str::from_utf8(calls.tools) {
        Ok(list) => Tools::new(list).map(|_| ()).or_else(refused)?,
        Err(error) => return syntax("not UTF-8", error.valid_up_to()),
    }
    let mut schemas = Schemas::new(scratch, program, calls.tools, options)?;
    schemas.marks = calls.marks;
    schemas.dialect = dialect(calls.format);
    let tools = schemas.callable(calls.choice)?;
    let start = schemas.reply(&calls, tools)?;
    let (pairs, errors) = (schemas.pairs, schemas.errors);
    let root = rule(scratch, 0)?;
    set_start(scratch, root, start);
    check(scratch, program, root, tools, (pairs, &errors))
}

/// Returns why a list is refused.
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
        CallFormat::Qwen3_5 => Dialect::Parameters,
        CallFormat::Glm4_5 => Dialect::Pairs,
        _ => Dialect::Json,
    }
}

impl Schemas<'_, '_, '_, '_> {
    /// Returns the tools that may be called.
    fn callable(&mut self, choice: ToolChoice<'_>) -> Result<Callable> {
        let root = self.root;
        let list = self.scratch.zeroed(self.dom.count(self.scratch, root).saturating_mul(3) as usize)?;
        let (mut count, mut element) = (0_u32, self.dom.child(self.scratch, root));
        while element != 0 {
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
                let rule = self.arguments_of(function)?;
                for (field, word) in (0..).zip([from, to, rule]) {
                    self.scratch.set(list, count.saturating_mul(3).saturating_add(field), word);
                }
                count = count.saturating_add(1);
            }
            element = self.dom.next(self.scratch, element);
        }
        match (count, choice) {
            (0, ToolChoice::Named(_)) => Err(GrammarError { kind: ErrorKind::Value("tool_choice"), at: 0 }),
            (0, _) => Err(GrammarError { kind: ErrorKind::Empty, at: 0 }),
            _ => Ok(Callable { list, count }),
        }
    }

    /// Returns the rule of the arguments of a function.
    fn arguments_of(&mut self, function: Node) -> Result<Rule> {
        let parameters = self.dom.member(self.scratch, function, "parameters");
        let is_object = matches!(self.dialect, Dialect::Json | Dialect::Gemma(_));
        // References are within the parameters.
        self.root = parameters;
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
        self.work()?;
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
