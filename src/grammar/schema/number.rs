//! Numbers.

use super::{Member, Schemas, Set};
use crate::grammar::ast::Ast;
use crate::grammar::code::{Code, Codec};
use crate::grammar::combine::Combine;
use crate::grammar::decimal::Decimal;
use crate::grammar::dfa::{Dfa, Trie};
use crate::grammar::dom::{Kind, Node};
use crate::grammar::job::Job;
use crate::grammar::nfa::Search;
use crate::grammar::number::{self, Bound, Form, Multiples};
use crate::grammar::reach::Trim;
use crate::grammar::scratch::{Result, Scratch};

/// Keywords of bounds. For each: whether the numbers lie above the bound, and whether the bound is excluded.
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
            Form::Integer => self.kept.shared.integer,
            Form::Number => self.kept.shared.number,
            _ => 0,
        };
        if shared != 0 {
            return Ok(shared);
        }
        let dfa = self.at_once(|schemas| schemas.new_form(form, at))?;
        match form {
            Form::Integer => self.kept.shared.integer = dfa,
            Form::Number => self.kept.shared.number = dfa,
            _ => {}
        }
        Ok(dfa)
    }

    fn new_form(&mut self, form: Form, at: usize) -> Result<Dfa> {
        let decimals = self.numbers(at, |scratch| number::form(scratch, form))?;
        if form != Form::IntegerOneZero {
            return Ok(decimals);
        }
        let integers = self.numbers(at, |scratch| number::form(scratch, Form::Integer))?;
        self.combined((decimals, integers), Combine::Both, self.options.states, at)
    }

    /// Returns the automaton of an expression of numbers.
    fn numbers(&mut self, at: usize, make: impl FnOnce(&mut Scratch<'_>) -> Result<Ast>) -> Result<Dfa> {
        let limit = self.options.states;
        self.automaton(|scratch| {
            let ast = make(scratch)?;
            Search::new(scratch, ast, true, limit, at).map(Job::Search)
        })
    }

    /// Returns the given numbers that a schema allows.
    fn numbers_of(&mut self, numbers: Dfa, member: Member, at: usize) -> Result<Dfa> {
        let (mut numbers, limit) = (numbers, self.options.states);
        for (keyword, lower, exclusive) in BOUNDS {
            let value = self.value(member, keyword);
            if value != 0 {
                let bound = Bound { value: self.decimal(value, keyword)?, lower: *lower, exclusive: *exclusive };
                let range = self.numbers(at, |scratch| number::bounded(scratch, &bound))?;
                numbers = self.both(numbers, range, at)?;
            }
        }
        let multiple = self.value(member, "multipleOf");
        if multiple != 0 {
            let of = self.decimal(multiple, "multipleOf")?;
            let at = self.dom.at(self.scratch, multiple);
            let multiples = self.automaton(|scratch| Multiples::new(scratch, &of, limit, at).map(Job::Multiples))?;
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
        self.automaton(|scratch| Ok(Job::Trim(Trim::new(scratch, trie.dfa()))))
    }

    fn decimal(&self, node: Node, keyword: &'static str) -> Result<Decimal> {
        let number = match self.dom.kind(self.scratch, node) {
            Kind::Number => Decimal::read(self.dom.bytes(self.scratch, node)),
            // Booleans are exclusive bounds as in draft 4, which are refused.
            Kind::True | Kind::False => return self.refused(keyword, self.dom.name_at(self.scratch, node)),
            _ => None,
        };
        number.map_or_else(|| self.wrong(keyword, node), Ok)
    }
}
