//! Numbers.

use super::{Member, Schemas, Set};
use crate::grammar::code::{Code, Codec};
use crate::grammar::decimal::Decimal;
use crate::grammar::dfa::{Dfa, Trie};
use crate::grammar::dom::{Kind, Node};
use crate::grammar::number::{self, Bound, Form};
use crate::grammar::reach;
use crate::grammar::scratch::Result;

/// Keywords of bounds: whether numbers lie above, and whether the bound is not among them.
const BOUNDS: &[(&str, bool, bool)] = &[
    ("minimum", true, false),
    ("exclusiveMinimum", true, true),
    ("maximum", false, false),
    ("exclusiveMaximum", false, true),
];

impl Schemas<'_, '_, '_, '_> {
    /// Returns the code of the numbers of a list of schemas, or 0.
    pub(super) fn number(&mut self, set: &Set, integer: bool) -> Result<Code> {
        let at = set.first().map_or(0, |member| self.dom.at(self.scratch, member.node()));
        let has = |keyword| set.iter().any(|member| self.value(*member, keyword) != 0);
        let bounded = BOUNDS.iter().any(|(keyword, ..)| has(keyword));
        let form = match (integer, bounded, has("multipleOf")) {
            (true, _, true) => Form::IntegerOneZero,
            (true, ..) => Form::Integer,
            (false, true, _) | (false, _, true) => Form::DecimalOneZero,
            (false, false, false) => Form::Number,
        };
        let mut numbers = self.form(form, at)?;
        for member in set {
            numbers = self.numbers_of(numbers, *member, at)?;
        }
        let end = self.program.end(self.scratch)?;
        if numbers == 0 { Ok(0) } else { self.program.text(self.scratch, numbers, Codec::Raw, end) }
    }

    fn form(&mut self, form: Form, at: usize) -> Result<Dfa> {
        let shared = match form {
            Form::Integer => self.shared.integer,
            Form::Number => self.shared.number,
            _ => 0,
        };
        if shared != 0 {
            return Ok(shared);
        }
        let dfa = number::form(self.scratch, form, self.options.states, at)?;
        match form {
            Form::Integer => self.shared.integer = dfa,
            Form::Number => self.shared.number = dfa,
            _ => {}
        }
        Ok(dfa)
    }

    /// Returns the numbers that a schema allows of those given.
    fn numbers_of(&mut self, numbers: Dfa, member: Member, at: usize) -> Result<Dfa> {
        let (mut numbers, limit) = (numbers, self.options.states);
        for (keyword, lower, exclusive) in BOUNDS {
            let value = self.value(member, keyword);
            if value != 0 {
                let bound = Bound { value: self.decimal(value, keyword)?, lower: *lower, exclusive: *exclusive };
                let range = number::bounded(self.scratch, &bound, limit, at)?;
                numbers = self.both(numbers, range, at)?;
            }
        }
        let multiple = self.value(member, "multipleOf");
        if multiple != 0 {
            let of = self.decimal(multiple, "multipleOf")?;
            let at = self.dom.at(self.scratch, multiple);
            let multiples = number::multiples(self.scratch, &of, limit, at)?;
            numbers = self.both(numbers, multiples, at)?;
        }
        if self.constants(member).0 != 0 && !member.has(Member::ENUM) {
            let constants = self.constant_numbers(member)?;
            numbers = self.both(numbers, constants, at)?;
        }
        Ok(numbers)
    }

    fn constant_numbers(&mut self, member: Member) -> Result<Dfa> {
        let mut trie = Trie::new(self.scratch)?;
        let (mut constant, only) = self.constants(member);
        while constant != 0 {
            if self.dom.kind(self.scratch, constant) == Kind::Number {
                let decimal = self.decimal(constant, if only { "const" } else { "enum" })?;
                trie.add(self.scratch, decimal.chars(), 0)?;
            }
            constant = self.next_constant(constant, only);
        }
        Ok(reach::trimmed(self.scratch, trie.dfa()))
    }

    fn decimal(&self, node: Node, keyword: &'static str) -> Result<Decimal> {
        let number = match self.dom.kind(self.scratch, node) {
            Kind::Number => Decimal::read(self.dom.bytes(self.scratch, node)),
            // As in draft 4.
            Kind::True | Kind::False => return self.refused(keyword, self.dom.name_at(self.scratch, node)),
            _ => None,
        };
        number.map_or_else(|| self.wrong(keyword, node), Ok)
    }
}
