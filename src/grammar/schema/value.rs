//! Values of all types: which types there are, constants, and one alternative for each type.

use super::{Member, Schemas, Set};
use crate::grammar::code::{Code, Codec};
use crate::grammar::dfa;
use crate::grammar::dom::{Kind, Node};
use crate::grammar::scratch::Result;

// Types, as a set of bits.
const NULL: u32 = 1;
const TRUE: u32 = 2;
const FALSE: u32 = 4;
pub(super) const STRING: u32 = 8;
pub(super) const INTEGER: u32 = 16;
/// Numbers that are no integers.
const FRACTION: u32 = 32;
const ARRAY: u32 = 64;
pub(super) const OBJECT: u32 = 128;
const ALL: u32 = 255;

impl Schemas<'_, '_, '_, '_> {
    /// Returns the code of the values of a list of schemas without choices.
    pub(super) fn values(&mut self, set: &Set) -> Result<Code> {
        let types = self.types(set)?;
        let mut code = 0;
        for (bit, word) in [NULL, TRUE, FALSE].into_iter().zip(self.words()) {
            if types & bit != 0 {
                let dfa = dfa::literal(self.scratch, word.iter().map(|byte| u32::from(*byte)))?;
                let end = self.program.end(self.scratch)?;
                let text = self.program.text(self.scratch, dfa, Codec::Raw, end)?;
                code = self.program.either(self.scratch, code, text)?;
            }
        }
        if types & STRING != 0 {
            let string = self.string(set)?;
            code = self.program.either(self.scratch, code, string)?;
        }
        if types & INTEGER != 0 {
            let number = self.number(set, types & FRACTION == 0)?;
            code = self.program.either(self.scratch, code, number)?;
        }
        if types & (ARRAY | OBJECT) == 0 {
            return Ok(code);
        }
        let containers = match set.iter().find(|member| self.is_listed(**member)).copied() {
            Some(member) => self.listed(set, member, types)?,
            None => {
                let array = if types & ARRAY != 0 { self.array(set)? } else { 0 };
                let object = if types & OBJECT != 0 { self.object(set)? } else { 0 };
                self.program.either(self.scratch, array, object)?
            }
        };
        self.program.either(self.scratch, code, containers)
    }

    /// Returns whether a schema lists its values.
    pub(super) fn is_listed(&self, member: Member) -> bool {
        !member.has(Member::ENUM) && !member.has(Member::VALUE) && self.constants(member).0 != 0
    }

    /// Returns the first value that a schema lists, if it lists values, and whether there is only that one.
    pub(super) fn constants(&self, member: Member) -> (Node, bool) {
        if member.has(Member::VALUE) {
            return (member.node(), true);
        }
        match self.value(member, "const") {
            0 => (self.dom.child(self.scratch, self.value(member, "enum")), false),
            constant => (constant, true),
        }
    }

    /// Returns the value behind one that a schema lists, or 0.
    pub(super) fn next_constant(&self, constant: Node, only: bool) -> Node {
        if only { 0 } else { self.dom.next(self.scratch, constant) }
    }

    /// Returns the code of the arrays and objects that a schema lists.
    fn listed(&mut self, set: &Set, member: Member, types: u32) -> Result<Code> {
        let (mut constant, only) = self.constants(member);
        let mut code = 0;
        while constant != 0 {
            if kind_bits(self.dom.kind(self.scratch, constant)) & types & (ARRAY | OBJECT) != 0 {
                let chosen = self.chosen(set, member, Member::ENUM, Member::new(constant, Member::VALUE))?;
                let rule = self.rule_of(&chosen)?;
                let end = self.program.end(self.scratch)?;
                let call = self.program.call(self.scratch, rule, end)?;
                code = self.program.either(self.scratch, code, call)?;
            }
            constant = self.next_constant(constant, only);
        }
        Ok(code)
    }

    /// Returns the types of the values of a list of schemas.
    pub(super) fn types(&self, set: &Set) -> Result<u32> {
        let mut types = ALL;
        for member in set {
            if self.dom.kind(self.scratch, member.node()) == Kind::False && !member.has(Member::VALUE) {
                return Ok(0);
            }
            if member.node() == self.kept.objects {
                types &= OBJECT;
            }
            types &= self.named_types(*member)?;
            if member.has(Member::ENUM) {
                continue;
            }
            let (mut constant, only) = self.constants(*member);
            let mut listed = if constant == 0 { ALL } else { 0 };
            while constant != 0 {
                listed |= kind_bits(self.dom.kind(self.scratch, constant));
                constant = self.next_constant(constant, only);
            }
            types &= listed;
            let list = self.value(*member, "enum");
            if list != 0 && (self.list(list, "enum")? == 0) {
                return self.wrong("enum", list);
            }
            types &= if list != 0 && self.value(*member, "const") != 0 { self.agreeing(*member, list) } else { ALL };
        }
        Ok(types)
    }

    /// Returns the types that a schema with `const` and `enum` leaves: none if its constant is not in its list,
    /// otherwise all.
    fn agreeing(&self, member: Member, list: Node) -> u32 {
        let constant = self.value(member, "const");
        let mut other = self.dom.child(self.scratch, list);
        while other != 0 {
            if self.dom.bytes(self.scratch, other) == self.dom.bytes(self.scratch, constant) {
                return ALL;
            }
            other = self.dom.next(self.scratch, other);
        }
        0
    }

    fn named_types(&self, member: Member) -> Result<u32> {
        let value = self.value(member, "type");
        match (value, self.dom.kind(self.scratch, value)) {
            (0, _) => Ok(ALL),
            (_, Kind::Array) => {
                let (mut types, mut name) = (0, self.dom.child(self.scratch, value));
                while name != 0 {
                    types |= self.type_named(name)?;
                    name = self.dom.next(self.scratch, name);
                }
                Ok(types)
            }
            _ => self.type_named(value),
        }
    }

    fn type_named(&self, name: Node) -> Result<u32> {
        if self.dom.kind(self.scratch, name) != Kind::String {
            return self.wrong("type", name);
        }
        Ok(match self.dom.bytes(self.scratch, name) {
            b"null" => NULL,
            b"boolean" => TRUE | FALSE,
            b"string" => STRING,
            b"integer" => INTEGER,
            b"number" => INTEGER | FRACTION,
            b"array" => ARRAY,
            b"object" => OBJECT,
            _ => return self.wrong("type", name),
        })
    }
}

fn kind_bits(kind: Kind) -> u32 {
    match kind {
        Kind::Null => NULL,
        Kind::False => FALSE,
        Kind::True => TRUE,
        Kind::Number => INTEGER | FRACTION,
        Kind::String => STRING,
        Kind::Array => ARRAY,
        Kind::Object => OBJECT,
    }
}
