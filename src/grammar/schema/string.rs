//! Strings.

use super::dialect::Dialect;
use super::keyword::FORMATS;
use super::{Member, Schemas, Set};
use crate::grammar::ast::OPEN;
use crate::grammar::bounded::take_bound;
use crate::grammar::class::{ANY, ESCAPABLE};
use crate::grammar::code::{Code, Codec};
use crate::grammar::combine::{Combine, Combining};
use crate::grammar::compile::Escapes;
use crate::grammar::dfa::{self, Dfa, Trie};
use crate::grammar::dom::{Kind, Node};
use crate::grammar::error::{ErrorKind, GrammarError};
use crate::grammar::job::Job;
use crate::grammar::json::Chars;
use crate::grammar::lengths::{ENDLESS, Notes};
use crate::grammar::nfa::Search;
use crate::grammar::reach::Trim;
use crate::grammar::regex::Parser;
use crate::grammar::scratch::Result;

/// The most bytes of a pattern in which a bound is looked for. Such a pattern is read several times.
const BOUNDED: usize = 256;

impl Schemas<'_, '_, '_, '_> {
    /// Returns the code of the strings of a list of schemas, or 0.
    pub(super) fn string(&mut self, set: &Set) -> Result<Code> {
        if let Some(quote) = self.quote() {
            return self.marked_string(set, quote);
        }
        let Some(mut sizes) = self.sizes(set, "minLength", "maxLength")? else { return Ok(0) };
        let is_free = !set.iter().any(|member| self.restricts(*member));
        let codec = self.codec(!is_free);
        let at = set.first().map_or(0, |member| self.dom.at(self.scratch, member.node()));
        let end = self.program.end(self.scratch)?;
        let strings =
            if is_free { self.free_string(codec)? } else { self.restricted_string(set, codec, at, &mut sizes)? };
        if strings == 0 || sizes.0 > sizes.1 {
            return Ok(0);
        }
        if sizes == (0, OPEN) {
            return self.program.text(self.scratch, strings, codec, end);
        }
        self.counted_string((strings, codec), sizes, at, end)
    }

    /// Returns the automaton of the strings of a list of schemas, with their quotes, or 0. It may narrow `sizes`. Then
    /// only strings whose number of characters is within `sizes` satisfy the schemas.
    fn restricted_string(&mut self, set: &Set, codec: Codec, at: usize, sizes: &mut (u32, u32)) -> Result<Dfa> {
        let mut strings = self.all_strings(codec)?;
        let has_constants = set.iter().any(|member| self.constants(*member).0 != 0);
        let mut sizes = Some(sizes).filter(|_| !has_constants);
        for member in set {
            strings = self.restricted(strings, *member, at, sizes.as_deref_mut())?;
        }
        self.quoted(strings)
    }

    /// Returns the code of the strings of an automaton that have `min` to `max` characters.
    fn counted_string(
        &mut self,
        (strings, codec): (Dfa, Codec),
        (min, max): (u32, u32),
        at: usize,
        end: Code,
    ) -> Result<Code> {
        if self.automaton(|scratch| Ok(Job::Notes(Notes::new(scratch, strings))))? != 0 {
            let (fewest, most) =
                (dfa::highest(self.scratch, strings) & 0xFFFF, dfa::highest(self.scratch, strings) >> 16);
            let is_met = fewest <= max && (most == ENDLESS || most >= min);
            let code = self.program.counted_text(self.scratch, (strings, codec), (min, max), end)?;
            return Ok(if is_met { code } else { 0 });
        }
        // Not every number of characters between the bounds of a state is possible. Then the characters are counted by
        // states.
        let limit = self.options.states.saturating_mul(4);
        let lengths = dfa::lengths(self.scratch, min, (max != OPEN).then_some(max), limit, at)?;
        let strings = self.both(strings, lengths, at)?;
        if strings == 0 { Ok(0) } else { self.program.text(self.scratch, strings, codec, end) }
    }

    /// Returns the least and the greatest of sizes such as `minLength`, or `None` if there is no size between them.
    pub(super) fn sizes(&self, set: &Set, least: &'static str, most: &'static str) -> Result<Option<(u32, u32)>> {
        let (mut min, mut max) = (0, OPEN);
        for member in set {
            let (low, high) = (self.value(*member, least), self.value(*member, most));
            if low != 0 {
                min = min.max(self.dom.size(self.scratch, low, least)?);
            }
            if high != 0 {
                max = max.min(self.dom.size(self.scratch, high, most)?);
            }
        }
        Ok((min <= max).then_some((min, max)))
    }

    /// Returns how strings are written.
    pub(super) fn codec(&self, restricted: bool) -> Codec {
        match self.options.escapes {
            _ if self.kept.dialect != Dialect::Json => Codec::Short,
            Escapes::Short => Codec::Short,
            Escapes::All if restricted => Codec::Control,
            Escapes::All => Codec::All,
        }
    }

    /// Returns the automaton of all strings that can be written, without quotes.
    pub(super) fn all_strings(&mut self, codec: Codec) -> Result<Dfa> {
        let all = dfa::star(self.scratch, if codec == Codec::Short { ESCAPABLE } else { ANY })?;
        self.end_tag().map_or(Ok(all), |tag| self.without(all, tag))
    }

    pub(super) fn restricts(&self, member: Member) -> bool {
        let known = |value: Node| value != 0 && self.format(value).is_some();
        self.constants(member).0 != 0 && !member.has(Member::ENUM)
            || self.value(member, "pattern") != 0
            || known(self.value(member, "format"))
            || self.value(member, "format") != 0 && !self.options.ignore.contains(&"format")
    }

    /// Returns the automaton of any string, with its quotes.
    fn free_string(&mut self, codec: Codec) -> Result<Dfa> {
        if self.kept.shared.string == 0 {
            let strings = self.at_once(|schemas| schemas.all_strings(codec))?;
            self.kept.shared.string = dfa::quoted(self.scratch, strings)?;
        }
        Ok(self.kept.shared.string)
    }

    /// Returns the given strings that a schema allows. If `sizes` is given, the bounds of a pattern may narrow it
    /// instead.
    pub(super) fn restricted(
        &mut self,
        strings: Dfa,
        member: Member,
        at: usize,
        sizes: Option<&mut (u32, u32)>,
    ) -> Result<Dfa> {
        let mut strings = strings;
        if self.constants(member).0 != 0 && !member.has(Member::ENUM) {
            let constants = self.constant_strings(member)?;
            strings = self.both(strings, constants, at)?;
        }
        let pattern = self.value(member, "pattern");
        if pattern != 0 {
            let found = self.pattern(pattern, sizes)?;
            strings = self.both(strings, found, at)?;
        }
        let format = self.value(member, "format");
        if format != 0 {
            match self.format(format) {
                Some(expression) => {
                    let chars = expression.iter().map(|byte| u32::from(*byte));
                    let found = self.search(chars, self.dom.at(self.scratch, format), true)?;
                    strings = self.both(strings, found, at)?;
                }
                None if self.options.ignore.contains(&"format") => {}
                None => return self.refused("format", self.dom.name_at(self.scratch, format)),
            }
        }
        Ok(strings)
    }

    fn format(&self, format: Node) -> Option<&'static [u8]> {
        let name = self.dom.chars(self.scratch, format);
        let (_, expression) = FORMATS.iter().find(|(known, _)| name.clone().eq(known.bytes().map(u32::from)))?;
        Some(expression.as_bytes())
    }

    /// Returns the strings in which a pattern is found. If `sizes` is given, the function may narrow it. Then only
    /// strings whose number of characters is within `sizes` have the pattern.
    fn pattern(&mut self, pattern: Node, sizes: Option<&mut (u32, u32)>) -> Result<Dfa> {
        if self.dom.kind(self.scratch, pattern) != Kind::String {
            return self.wrong("pattern", pattern);
        }
        let (at, chars) = (self.dom.at(self.scratch, pattern), self.dom.chars(self.scratch, pattern));
        let text = self.text(self.dom.range(self.scratch, pattern));
        let may_have_bound = text.ends_with(b"}$") && text.len() <= BOUNDED;
        let Some(sizes) = sizes.filter(|_| may_have_bound) else { return self.search(chars, at, false) };
        // The pattern is read each time that the code of the rule is made, because its bound is not kept.
        let ast = Parser::new(self.scratch, chars, at, false).parse()?;
        if let Some((min, max)) = take_bound(self.scratch, ast) {
            *sizes = (sizes.0.max(min), sizes.1.min(max));
        }
        let limit = self.options.states;
        self.automaton(|scratch| Search::new(scratch, ast, false, limit, at).map(Job::Search))
    }

    /// Returns the automaton of a built-in expression, which is small.
    pub(super) fn expression(&mut self, text: &'static [u8], at: usize, whole: bool) -> Result<Dfa> {
        self.at_once(|schemas| schemas.search(text.iter().map(|byte| u32::from(*byte)), at, whole))
    }

    pub(super) fn search(&mut self, chars: impl Iterator<Item = u32> + Clone, at: usize, whole: bool) -> Result<Dfa> {
        let limit = self.options.states;
        self.automaton(|scratch| {
            let ast = Parser::new(scratch, chars, at, false).parse()?;
            Search::new(scratch, ast, whole, limit, at).map(Job::Search)
        })
    }

    fn constant_strings(&mut self, member: Member) -> Result<Dfa> {
        let mut trie = Trie::new(self.scratch)?;
        let (mut constant, only) = self.constants(member);
        while constant != 0 {
            if self.dom.kind(self.scratch, constant) == Kind::String {
                let chars = self.dom.chars(self.scratch, constant);
                let is_short = |char: u32| ESCAPABLE.iter().any(|(low, high)| (*low..=*high).contains(&char));
                if self.codec(true) == Codec::Short && self.quote().is_none() && !chars.clone().all(is_short) {
                    let kind = ErrorKind::Value(if only { "const" } else { "enum" });
                    return Err(GrammarError { kind, at: self.dom.at(self.scratch, constant) });
                }
                trie.add(self.scratch, chars, 0)?;
            }
            constant = self.next_constant(constant, only);
        }
        self.automaton(|scratch| Ok(Job::Trim(Trim::new(scratch, trie.dfa()))))
    }

    /// Returns the automaton of the texts that two automata both accept.
    pub(super) fn both(&mut self, one: Dfa, other: Dfa, at: usize) -> Result<Dfa> {
        // A trie has a state for each character of the schema. The limit is not about these.
        let limit = self.options.states.saturating_mul(4).max(self.dom.text.len() as u32);
        if other == 0 { Ok(0) } else { self.combined((one, other), Combine::Both, limit, at) }
    }

    /// Returns a combination of two automata.
    pub(super) fn combined(&mut self, automata: (Dfa, Dfa), how: Combine, limit: u32, at: usize) -> Result<Dfa> {
        self.automaton(|scratch| Combining::new(scratch, automata, how, limit, at).map(Job::Combine))
    }

    /// Returns the characters with which a name is written, with its quotes. `text` is the name as it stands in the
    /// schema.
    pub(super) fn spelled(text: &[u8]) -> impl Iterator<Item = u32> + '_ {
        let chars = Chars(text);
        let inner = chars.flat_map(|char| {
            let (escape, rest): (&[u8], _) = match char {
                0x22 => (b"\\\"", None),
                0x5C => (b"\\\\", None),
                8 => (b"\\b", None),
                9 => (b"\\t", None),
                10 => (b"\\n", None),
                12 => (b"\\f", None),
                13 => (b"\\r", None),
                0..0x10 => (b"\\u000", char::from_digit(char, 16)),
                0x10..0x20 => (b"\\u001", char::from_digit(char - 0x10, 16)),
                _ => (b"", char::from_u32(char)),
            };
            escape.iter().map(|byte| u32::from(*byte)).chain(rest.map(u32::from))
        });
        [0x22].into_iter().chain(inner).chain([0x22])
    }

    /// Returns whether a text is accepted.
    pub(super) fn accepts(&self, dfa: Dfa, text: &[u8]) -> bool {
        let mut state = dfa;
        for char in Chars(text) {
            let mut edge = dfa::edges(self.scratch, state);
            loop {
                let Some(found) = dfa::edge(self.scratch, edge) else { return false };
                if (found.low..=found.high).contains(&char) {
                    state = found.target;
                    break;
                }
                edge = found.next;
            }
        }
        state != 0 && dfa::accept(self.scratch, state) != 0
    }
}
