//! The code of an object: declared members in their order, then other members in any order.
//!
//! Declared names up to the next required one are one automaton. Which of them may still come is one number: the number
//! of the first name that is allowed. So a hundred optional members are a hundred instructions, instead of one for each
//! pair of them.

use super::array::less;
use super::object::{Count, Declared, NEXT, Others, Pattern, REQUIRED};
use super::{Schemas, Set};
use crate::grammar::ast::OPEN;
use crate::grammar::check::TABLE_WORDS;
use crate::grammar::code::{Code, NAME};
use crate::grammar::dfa::{Dfa, Trie};
use crate::grammar::json::Chars;
use crate::grammar::scratch::Result;

impl Schemas<'_, '_, '_, '_> {
    /// Returns the code of the members and of the end of the object.
    pub(super) fn members(
        &mut self,
        set: &Set,
        declared: &Declared,
        patterns: &[Pattern],
        others: &Others,
        count: Count,
        close: Code,
    ) -> Result<Code> {
        let single = matches!(count, Count::AtMostOne(_));
        let (min, max) = if let Count::Others(min, max) = count { (min, max) } else { (0, OPEN) };
        // The code behind all declared members, then the code of an undeclared member before which there is no other
        // member.
        let mut behind = self.more(others, (min, max), close)?;
        let extra = if max == 0 { 0 } else { self.first_other(others, (min.saturating_sub(1), less(max, 1)), close)? };
        let list = self.scratch.zeroed(declared.count as usize)?;
        let mut known = declared.first;
        for index in 0..declared.count {
            self.scratch.set(list, index, known);
            known = self.scratch.get(known, NEXT);
        }
        let mut next = 0;
        let mut segment = Segment::default();
        let mut may_end = true;
        for index in (0..declared.count).rev() {
            let known = self.scratch.get(list, index);
            let required = self.scratch.get(known, REQUIRED) != 0;
            if required || segment.table == 0 {
                segment = self.segment(list, index)?;
            }
            let then = if single { close } else { behind };
            let entry = self.declared_value(set, known, patterns, then)?;
            // If there is at most one member, it can only be the required one.
            let entry = if single && !required && declared.required > 0 { 0 } else { entry };
            self.scratch.set(segment.table, index.wrapping_sub(segment.first).wrapping_add(1), entry);
            may_end &= !required;
            let local = index.wrapping_sub(segment.first);
            next = self.program.push(self.scratch, NAME, segment.names, segment.table, local, 0)?;
            next = self.before_name(next)?;
            if index > 0 {
                let mut more = next;
                if may_end {
                    more = self.program.either(self.scratch, more, extra)?;
                }
                let more = self.next_member(more)?;
                behind = if may_end { self.program.either(self.scratch, more, close)? } else { more };
            }
        }
        if may_end {
            next = self.program.either(self.scratch, next, extra)?;
        }
        let begin = if next == 0 { 0 } else { self.first_member(next)? };
        let empty = match count {
            Count::Others(min, _) => min == 0,
            Count::Some => false,
            Count::AtMostOne(empty) => empty,
        };
        if may_end && empty { self.program.either(self.scratch, begin, close) } else { Ok(begin) }
    }

    /// Returns the names from the one behind the required member before `last` up to `last`, and a table for them.
    fn segment(&mut self, list: u32, last: u32) -> Result<Segment> {
        let mut first = last;
        while first > 0 && self.scratch.get(self.scratch.get(list, first - 1), REQUIRED) == 0 {
            first -= 1;
        }
        let mut trie = Trie::new(self.scratch)?;
        for index in first..=last {
            let (from, to) = self.name(self.scratch.get(list, index));
            let text = self.dom.text.get(from as usize..to as usize).unwrap_or(&[]);
            if self.has_bare_names() {
                trie.add(self.scratch, Chars(text), index - first)?;
            } else {
                trie.add(self.scratch, Self::spelled(text), index - first)?;
            }
        }
        let count = last - first + 1;
        let table = self.scratch.zeroed(count as usize + TABLE_WORDS)?;
        self.scratch.set(table, 0, count);
        Ok(Segment { first, names: trie.dfa(), table })
    }

    /// Returns the code of a colon with white space before it, then `value`.
    pub(super) fn colon(&mut self, value: Code) -> Result<Code> {
        let colon = self.mark(b':', value)?;
        self.space(colon)
    }

    /// Returns the code of one undeclared member, or 0 if there can be none.
    fn other(&mut self, others: &Others, then: Code) -> Result<Code> {
        let mut code = 0;
        for other in others {
            let value = self.spaced_call(other.rule, then)?;
            let colon = self.colon(value)?;
            let name = self.program.text(self.scratch, other.names, other.codec, colon)?;
            code = self.program.either(self.scratch, code, name)?;
        }
        Ok(code)
    }

    /// Returns the code of undeclared members behind other members, and of the end.
    fn more(&mut self, others: &Others, (min, max): (u32, u32), close: Code) -> Result<Code> {
        if max == 0 || others.is_empty() {
            return Ok(if min == 0 { close } else { 0 });
        }
        let (code, end) = self.program.open_loop(self.scratch, (min, max), close)?;
        let other = self.other(others, end)?;
        let body = self.separated(other)?;
        self.program.close_loop(self.scratch, code, body);
        Ok(code)
    }

    /// Returns the code of undeclared members where a member may begin.
    fn first_other(&mut self, others: &Others, bounds: (u32, u32), close: Code) -> Result<Code> {
        if others.is_empty() {
            return Ok(0);
        }
        let more = self.more(others, bounds, close)?;
        self.other(others, more)
    }
}

/// Declared names that can follow each other without one that is required between them.
#[derive(Clone, Copy, Default)]
struct Segment {
    first: u32,
    names: Dfa,
    table: u32,
}
