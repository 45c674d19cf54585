//! Punctuation, and the white space around it.

use super::Schemas;
use crate::grammar::code::{self, Code, Codec, Rule};
use crate::grammar::compile::Whitespace;
use crate::grammar::dfa;
use crate::grammar::scratch::Result;

impl Schemas<'_, '_, '_, '_> {
    /// Returns the code of white space between lexemes.
    pub(super) fn space(&mut self, then: Code) -> Result<Code> {
        let expression: &[u8] = match self.whitespace() {
            Whitespace::Compact | Whitespace::Spaced => return Ok(then),
            Whitespace::Bounded => b"( |\\n[ \\t]{0,40})?",
            Whitespace::Any => b"[ \\t\\r\\n]*",
        };
        if self.kept.shared.space == 0 {
            self.kept.shared.space = self.expression(expression, 0, true)?;
        }
        self.program.text(self.scratch, self.kept.shared.space, Codec::Raw, then)
    }

    /// Returns the code of white space, then a rule. White space and the rule together are a rule of their own, so the
    /// rule is called once and not again behind each blank.
    pub(super) fn spaced_call(&mut self, rule: Rule, then: Code) -> Result<Code> {
        if matches!(self.whitespace(), Whitespace::Compact | Whitespace::Spaced) {
            return self.program.call(self.scratch, rule, then);
        }
        let mut spaced = code::spaced(self.scratch, rule);
        if spaced == 0 {
            let end = self.program.end(self.scratch)?;
            let call = self.program.call(self.scratch, rule, end)?;
            let start = self.space(call)?;
            spaced = code::rule(self.scratch, code::rule_at(self.scratch, rule))?;
            code::set_start(self.scratch, spaced, start);
            code::set_spaced(self.scratch, rule, spaced);
        }
        self.program.call(self.scratch, spaced, then)
    }

    /// Returns the code of a punctuation mark.
    pub(super) fn mark(&mut self, mark: u8, then: Code) -> Result<Code> {
        let index = b"{}[],:".iter().position(|other| *other == mark).unwrap_or(0);
        if self.kept.shared.marks.get(index) == Some(&0) {
            let spaced = self.whitespace() == Whitespace::Spaced && matches!(mark, b',' | b':');
            let text = [u32::from(mark), 0x20];
            let dfa = dfa::literal(self.scratch, text.into_iter().take(1 + usize::from(spaced)))?;
            self.kept.shared.marks.get_mut(index).into_iter().for_each(|place| *place = dfa);
        }
        let dfa = self.kept.shared.marks.get(index).copied().unwrap_or(0);
        self.program.text(self.scratch, dfa, Codec::Raw, then)
    }

    /// Returns the code of a mark that ends a value, after white space.
    pub(super) fn closing(&mut self, mark: u8) -> Result<Code> {
        let end = self.program.end(self.scratch)?;
        let close = self.mark(mark, end)?;
        self.space(close)
    }
}
