//! Values that are not written in JSON, in the calls of some formats.

use heapless::Vec;

use super::object::{Declared, NEXT, Pattern};
use super::value::{OBJECT, STRING};
use super::{Member, Schemas, Set};
use crate::grammar::ast::OPEN;
use crate::grammar::class::ANY;
use crate::grammar::code::{Code, Codec};
use crate::grammar::combine::Combine;
use crate::grammar::compile::Whitespace;
use crate::grammar::dfa::{self, Dfa};
use crate::grammar::dom::Kind;
use crate::grammar::json::Chars;
use crate::grammar::scratch::Result;

/// How arguments are written, and the values in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Dialect {
    #[default]
    Json,
    /// `name=value`, with literals of Python.
    Python,
    /// An object with bare names, and strings between two of these marks.
    Gemma(&'static str),
    /// `<parameter=name>\nvalue\n</parameter>`, with this text in place of the two inner line ends.
    Parameters(&'static str),
    /// `<param name="name">value</param>`.
    Quoted,
    /// `<arg_key>name</arg_key>\n<arg_value>value</arg_value>`.
    Pairs,
}

/// How the members of the object in the making are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writing {
    Quoted,
    Bare,
    /// The arguments themselves, in one of the dialects that do not write them as an object.
    Named,
    Parameters(&'static str),
    InQuotes,
    Pairs,
}

const CDATA: &str = "<![CDATA[";
const CDATA_END: &str = "]]>";
const PARAM_END: &str = "</param>";
pub(super) const PARAMETER_END: &str = "</parameter>";
pub(super) const VALUE_END: &str = "</arg_value>";

impl Schemas<'_, '_, '_, '_> {
    fn writing(&self) -> Writing {
        match (self.kept.dialect, self.kept.is_arguments) {
            (Dialect::Gemma(_), _) => Writing::Bare,
            (Dialect::Python, true) => Writing::Named,
            (Dialect::Parameters(line), true) => Writing::Parameters(line),
            (Dialect::Quoted, true) => Writing::InQuotes,
            (Dialect::Pairs, true) => Writing::Pairs,
            _ => Writing::Quoted,
        }
    }

    pub(super) fn whitespace(&self) -> Whitespace {
        if matches!(self.kept.dialect, Dialect::Gemma(_)) { Whitespace::Compact } else { self.options.whitespace }
    }

    /// Returns how null, true and false are written.
    pub(super) fn words(&self) -> [&'static [u8]; 3] {
        if self.kept.dialect == Dialect::Python { [b"None", b"True", b"False"] } else { [b"null", b"true", b"false"] }
    }

    /// Returns the mark around strings, if these are no strings of JSON.
    pub(super) fn quote(&self) -> Option<&'static str> {
        if let Dialect::Gemma(quote) = self.kept.dialect { Some(quote) } else { None }
    }

    /// Returns the tag that ends a value, and so cannot stand in it.
    pub(super) fn end_tag(&self) -> Option<&'static str> {
        match self.kept.dialect {
            Dialect::Parameters(_) => Some(PARAMETER_END),
            Dialect::Quoted => Some(PARAM_END),
            Dialect::Pairs => Some(VALUE_END),
            _ => None,
        }
    }

    /// Returns whether names are written as they are.
    pub(super) fn has_bare_names(&self) -> bool {
        self.writing() != Writing::Quoted
    }

    /// Returns whether objects have declared members only.
    pub(super) fn has_declared_members_only(&self) -> bool {
        !matches!(self.writing(), Writing::Quoted | Writing::Bare)
    }

    /// Returns the automaton of bare names.
    pub(super) fn bare_names(&mut self) -> Result<Dfa> {
        self.expression(b"[A-Za-z0-9_.$\\-\\u{80}-\\u{D7FF}\\u{E000}-\\u{10FFFF}]+", 0, true)
    }

    /// Returns the code of what stands before the name of a member, then the name.
    pub(super) fn before_name(&mut self, name: Code) -> Result<Code> {
        match self.writing() {
            Writing::Parameters(_) => self.literal("<parameter=", name),
            Writing::InQuotes => self.literal("<param name=\"", name),
            Writing::Pairs => self.sign("<arg_key>", name),
            _ => Ok(name),
        }
    }

    /// Returns the code of the first member, behind what begins the object.
    pub(super) fn first_member(&mut self, member: Code) -> Result<Code> {
        if self.has_declared_members_only() { Ok(member) } else { self.space(member) }
    }

    /// Returns the code of one more member, behind another one.
    pub(super) fn next_member(&mut self, member: Code) -> Result<Code> {
        match self.writing() {
            Writing::Parameters(_) | Writing::InQuotes | Writing::Pairs => Ok(member),
            _ => self.separated(member),
        }
    }

    /// Returns the code of what follows the name of a declared member: its value, then `then`.
    pub(super) fn declared_value(
        &mut self,
        set: &Set,
        declared: u32,
        patterns: &[Pattern],
        then: Code,
    ) -> Result<Code> {
        let values = self.declared_set(set, declared, patterns)?;
        let is_text = self.is_text(declared);
        match self.writing() {
            Writing::Quoted | Writing::Bare => {
                let rule = self.rule_of(&values)?;
                let value = self.spaced_call(rule, then)?;
                self.colon(value)
            }
            Writing::Named => {
                let value = self.tagged(&values, false, then)?;
                self.literal("=", value)
            }
            Writing::Parameters(line) => {
                let end = self.literal("</parameter>\n", then)?;
                let end = self.literal(line, end)?;
                let value = self.tagged(&values, is_text, end)?;
                let value = self.literal(line, value)?;
                self.literal(">", value)
            }
            Writing::InQuotes => {
                let end = self.literal(PARAM_END, then)?;
                let value = self.tagged(&values, is_text, end)?;
                self.literal("\">", value)
            }
            Writing::Pairs => {
                let then = self.line(then)?;
                let end = self.sign(VALUE_END, then)?;
                let value = self.tagged(&values, is_text, end)?;
                let value = self.sign("<arg_value>", value)?;
                let value = self.line(value)?;
                self.sign("</arg_key>", value)
            }
        }
    }

    /// Returns whether a value between tags is read as text: where the tool's parameters say that it is a string.
    fn is_text(&self, declared: u32) -> bool {
        let properties = self.dom.member(self.scratch, self.kept.root, "properties");
        let schema = self.dom.find(self.scratch, properties, Chars(self.text(self.name(declared))));
        let types = self.dom.member(self.scratch, schema, "type");
        self.dom.kind(self.scratch, types) == Kind::String && self.dom.bytes(self.scratch, types) == b"string"
    }

    /// Returns the code of a value, as text or as the dialect writes it.
    fn tagged(&mut self, values: &Set, is_text: bool, then: Code) -> Result<Code> {
        if !is_text {
            let rule = self.rule_of(values)?;
            return self.program.call(self.scratch, rule, then);
        }
        self.refuse_choices(values)?;
        if self.types(values)? & STRING == 0 {
            return Ok(0);
        }
        // White space around a value belongs to the tags.
        let trimmed = self.expression(
            b"([^ \\t\\n\\f\\r]([\\u{0}-\\u{D7FF}\\u{E000}-\\u{10FFFF}]*[^ \\t\\n\\f\\r])?)?",
            0,
            true,
        )?;
        if self.kept.dialect == Dialect::Quoted {
            return self.quoted_text(values, trimmed, then);
        }
        let end = self.end_tag().unwrap_or_default();
        let strings = self.raw_strings(values, trimmed, end)?;
        if strings == 0 { Ok(0) } else { self.program.text(self.scratch, strings, Codec::Raw, then) }
    }

    /// Returns the code of a text: as it is, if it has none of the characters that are marked up, or as character data.
    fn quoted_text(&mut self, values: &Set, trimmed: Dfa, then: Code) -> Result<Code> {
        let plain = self.expression(b"[^<&\\n]*", 0, true)?;
        let limit = self.options.states.saturating_mul(4);
        let plain = self.combined((plain, trimmed), Combine::Both, limit, 0)?;
        let plain = self.raw_strings(values, plain, PARAM_END)?;
        let plain = if plain == 0 { 0 } else { self.program.text(self.scratch, plain, Codec::Raw, then)? };
        let data = self.raw_strings(values, trimmed, CDATA_END)?;
        if data == 0 {
            return Ok(plain);
        }
        let end = self.literal(CDATA_END, then)?;
        let data = self.program.text(self.scratch, data, Codec::Raw, end)?;
        let data = self.literal(CDATA, data)?;
        self.program.either(self.scratch, plain, data)
    }

    /// Returns the code of strings between two marks.
    pub(super) fn marked_string(&mut self, set: &Set, quote: &'static str) -> Result<Code> {
        let any = dfa::star(self.scratch, ANY)?;
        let strings = self.raw_strings(set, any, quote)?;
        if strings == 0 {
            return Ok(0);
        }
        let end = self.program.end(self.scratch)?;
        let close = self.sign(quote, end)?;
        let text = self.program.text(self.scratch, strings, Codec::Raw, close)?;
        self.sign(quote, text)
    }

    /// Returns the strings of an automaton that a list of schemas allows and that do not have `end` in them.
    fn raw_strings(&mut self, set: &Set, strings: Dfa, end: &'static str) -> Result<Dfa> {
        let Some((min, max)) = self.sizes(set, "minLength", "maxLength")? else { return Ok(0) };
        let at = set.first().map_or(0, |member| self.dom.at(self.scratch, member.node()));
        let mut strings = self.without(strings, end)?;
        for member in set {
            strings = self.restricted(strings, *member, at, None)?;
        }
        if (min, max) != (0, OPEN) {
            let limit = self.options.states.saturating_mul(4);
            let lengths = dfa::of_lengths(self.scratch, min, (max != OPEN).then_some(max), limit, at)?;
            strings = self.both(strings, lengths, at)?;
        }
        Ok(strings)
    }

    /// Returns the strings of an automaton that do not have a text in them.
    pub(super) fn without(&mut self, strings: Dfa, text: &'static str) -> Result<Dfa> {
        // Of the characters of marks, only these mean something else in an expression.
        let escaped =
            |char: char| [matches!(char, '|' | ']').then_some(0x5C), Some(u32::from(char))].into_iter().flatten();
        let found = self.search(text.chars().flat_map(escaped), 0, false)?;
        let limit = self.options.states.saturating_mul(4);
        self.combined((strings, found), Combine::Without, limit, 0)
    }

    /// Returns the code of the arguments of a tool, in a dialect that does not write them as an object.
    pub(super) fn arguments(&mut self, set: &Set) -> Result<Code> {
        self.refuse_choices(set)?;
        if let Some(member) = set.iter().find(|member| self.is_listed(**member)) {
            let keyword = if self.constants(*member).1 { "const" } else { "enum" };
            return self.refused(keyword, self.dom.at(self.scratch, member.node()));
        }
        if self.types(set)? & OBJECT == 0 {
            return Ok(0);
        }
        self.kept.is_arguments = true;
        let code = self.bare_members(set);
        self.kept.is_arguments = false;
        code
    }

    fn bare_members(&mut self, set: &Set) -> Result<Code> {
        let declared = self.declared(set)?;
        self.check_names(&declared)?;
        let patterns = self.patterns(set)?;
        let Some(sizes) = self.sizes(set, "minProperties", "maxProperties")? else { return Ok(0) };
        let Some(count) = self.count(set, &declared, true, sizes)? else { return Ok(0) };
        let end = self.program.end(self.scratch)?;
        self.members(set, &declared, &patterns, &Vec::new(), count, end)
    }

    /// Refuses keywords that are not supported, and choices, because a value has to be written in one way.
    fn refuse_choices(&self, set: &Set) -> Result<()> {
        self.refuse(set)?;
        for (member, keyword) in set.iter().flat_map(|member| [(member, "anyOf"), (member, "oneOf")]) {
            let choice = self.value(*member, keyword);
            if choice != 0 {
                return self.refused(keyword, self.dom.name_at(self.scratch, choice));
            }
        }
        Ok(())
    }

    /// Refuses names that cannot be written.
    pub(super) fn check_names(&self, declared: &Declared) -> Result<()> {
        let writing = self.writing();
        let mut known = declared.first;
        while known != 0 {
            let name = self.name(known);
            if !self.can_be_written(writing, self.text(name)) {
                return self.refused("properties", (name.0 as usize).saturating_sub(1));
            }
            known = self.scratch.get(known, NEXT);
        }
        Ok(())
    }

    fn can_be_written(&self, writing: Writing, name: &[u8]) -> bool {
        let is_word =
            |char: u32| char >= 0x80 || char::from_u32(char).is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
        let mut chars = Chars(name);
        let is_blank = |char: u32| char <= 0x20 || char == 0x7F;
        match writing {
            Writing::Quoted => {
                self.end_tag().is_none_or(|tag| !Chars(name).any(|char| char == u32::from(b'>')) || !has(name, tag))
            }
            _ if name.is_empty() => false,
            Writing::Bare => chars.all(|char| is_word(char) || [0x24, 0x2D, 0x2E].contains(&char)),
            Writing::Named => chars.all(is_word),
            Writing::Parameters(_) | Writing::Pairs => {
                chars.all(|char| !is_blank(char) && ![0x3C, 0x3E].contains(&char))
            }
            Writing::InQuotes => chars.all(|char| !is_blank(char) && ![0x22, 0x3C, 0x3E].contains(&char)),
        }
    }
}

/// Returns whether a name has a tag in it.
fn has(name: &[u8], tag: &str) -> bool {
    let mut chars = Chars(name);
    loop {
        let mut rest = chars.clone();
        if tag.chars().all(|char| rest.next() == Some(u32::from(char))) {
            return true;
        }
        if chars.next().is_none() {
            return false;
        }
    }
}

/// The schema that any object satisfies, which stands at the end of a list.
impl Schemas<'_, '_, '_, '_> {
    pub(super) fn any_object(&self) -> Member {
        Member::new(self.kept.objects, 0)
    }
}
