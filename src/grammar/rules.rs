//! Reads the rules of a grammar in the notation of llama.cpp, and makes their code.

use super::ast::Choice;
use super::code::{Program, Rule, set_start};
use super::gbnf::{BODY, BUCKETS, DEFINED, NEXT, Parser, RULE, USED};
use super::json::syntax;
use super::lower::Lowering;
use super::scratch::{Result, Scratch};

/// The compilation of a text, in as many pieces as one likes.
pub(super) struct Reading<'t> {
    text: &'t [u8],
    at: usize,
    table: u32,
    first: u32,
    last: u32,
    /// Record of the name of the rule that is being read, or whose code is being made. 0 if there is none.
    name: u32,
    choice: Choice,
    lowering: Lowering,
    /// The rule `root`, or 0 while rules are being read.
    root: Rule,
}

impl<'t> Reading<'t> {
    pub(super) fn new(scratch: &mut Scratch<'_>, text: &'t [u8]) -> Result<Self> {
        if let Err(error) = core::str::from_utf8(text) {
            return syntax("not UTF-8", error.valid_up_to());
        }
        let table = scratch.zeroed(BUCKETS as usize)?;
        let (choice, lowering) = (Choice::default(), Lowering::new(0, 0));
        Ok(Self { text, at: 0, table, first: 0, last: 0, name: 0, choice, lowering, root: 0 })
    }

    /// Goes on. Returns the rule `root` when all rules have their code.
    pub(super) fn go_on(&mut self, scratch: &mut Scratch<'_>, program: &mut Program) -> Result<Option<Rule>> {
        while self.root == 0 {
            let Self { text, at, table, first, last, .. } = *self;
            let mut parser = Parser { scratch, text, at, table, first, last };
            let is_read = parser.rules(&mut self.name, &mut self.choice)?;
            (self.at, self.first, self.last) = (parser.at, parser.first, parser.last);
            if !is_read {
                return Ok(None);
            }
            self.root = parser.root()?;
            self.name = self.first;
            self.lower(scratch, program)?;
        }
        while self.name != 0 {
            let Some(code) = self.lowering.go_on(scratch, program)? else { return Ok(None) };
            set_start(scratch, scratch.get(self.name, RULE), code);
            self.name = scratch.get(self.name, NEXT);
            self.lower(scratch, program)?;
        }
        Ok(Some(self.root))
    }

    /// Begins the code of the present rule.
    fn lower(&mut self, scratch: &mut Scratch<'_>, program: &mut Program) -> Result<()> {
        if self.name != 0 && scratch.get(self.name, DEFINED) == 0 {
            return syntax("undefined rule", scratch.get(self.name, USED) as usize);
        }
        self.lowering = Lowering::new(scratch.get(self.name, BODY), program.end(scratch)?);
        Ok(())
    }
}
