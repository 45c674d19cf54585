//! Objects: which members there are, and their values.

use heapless::Vec;

use super::array::less;
use super::{Member, Schemas, Set};
use crate::grammar::ast::OPEN;
use crate::grammar::code::{Code, Codec, Rule};
use crate::grammar::combine::Combine;
use crate::grammar::dfa::{Dfa, Trie};
use crate::grammar::dom::{Kind, Node, slots};
use crate::grammar::json::Chars;
use crate::grammar::scratch::{Result, mix};

// The fields of a declared member: where its name begins and ends in the text, the hash of the name, whether the member
// is required, the next member.
const FROM: u32 = 0;
const TO: u32 = 1;
const HASH: u32 = 2;
pub(super) const REQUIRED: u32 = 3;
pub(super) const NEXT: u32 = 4;

/// The most patterns of names that an object may have.
const PATTERNS: usize = 8;

/// A pattern of names: the automaton of the names, the index in the list of schemas of the schema that has the pattern,
/// and the schema of the values.
#[derive(Clone, Copy)]
pub(super) struct Pattern {
    pub(super) names: Dfa,
    pub(super) owner: usize,
    pub(super) schema: Node,
}

/// Declared members, in order.
#[derive(Clone, Copy, Default)]
pub(super) struct Declared {
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) count: u32,
    pub(super) required: u32,
    /// The table that finds the members by their names.
    table: u32,
    /// Number of slots of the table.
    slots: u32,
}

/// Members that are not declared, of one kind of names: the automaton of the names, how they are written, and the rule
/// of the values.
#[derive(Clone, Copy)]
pub(super) struct Other {
    pub(super) names: Dfa,
    pub(super) codec: Codec,
    pub(super) rule: Rule,
}

pub(super) type Others = Vec<Other, 32>;

/// How many members are written besides the required ones.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    /// The least and the greatest number of undeclared members.
    Others(u32, u32),
    /// At least one member, of any kind.
    Some,
    /// At most one member. If `false`, exactly one.
    AtMostOne(bool),
}

impl Schemas<'_, '_, '_, '_> {
    /// Returns the code of the objects of a list of schemas, or 0.
    pub(super) fn object(&mut self, set: &Set) -> Result<Code> {
        let declared = self.declared(set)?;
        self.check_names(&declared)?;
        let patterns = self.patterns(set)?;
        let others = self.others(set, &declared, &patterns)?;
        let Some((min, max)) = self.sizes(set, "minProperties", "maxProperties")? else { return Ok(0) };
        let Some(count) = self.count(set, &declared, others.is_empty(), (min, max))? else { return Ok(0) };
        let close = self.closing(b'}')?;
        let code = self.members(set, &declared, &patterns, &others, count, close)?;
        if code == 0 { Ok(0) } else { self.mark(b'{', code) }
    }

    /// Returns the declared members, or the members that a value of the list itself has.
    pub(super) fn declared(&mut self, set: &Set) -> Result<Declared> {
        let names = set.iter().fold(0_u32, |sum, member| {
            let object = if member.has(Member::VALUE) { member.node() } else { self.value(*member, "properties") };
            let names = [object, self.value(*member, "required")];
            names.into_iter().fold(sum, |sum, node| sum.saturating_add(self.dom.count(self.scratch, node)))
        });
        let slots = slots(names.max(1));
        let mut declared = Declared { table: self.scratch.zeroed(slots as usize)?, slots, ..Declared::default() };
        for member in set {
            let object = if member.has(Member::VALUE) { member.node() } else { self.value(*member, "properties") };
            if object != 0 && self.dom.kind(self.scratch, object) != Kind::Object {
                return self.wrong("properties", object);
            }
            let mut child = self.dom.child(self.scratch, object);
            while child != 0 {
                let name = self.dom.name_range(self.scratch, child);
                self.declare(&mut declared, name, member.has(Member::VALUE))?;
                child = self.dom.next(self.scratch, child);
            }
        }
        for member in set {
            let required = self.value(*member, "required");
            if required == 0 {
                continue;
            }
            let mut name = self.list(required, "required")?;
            while name != 0 {
                if self.dom.kind(self.scratch, name) != Kind::String {
                    return self.wrong("required", name);
                }
                let range = self.dom.range(self.scratch, name);
                self.declare(&mut declared, range, true)?;
                name = self.dom.next(self.scratch, name);
            }
        }
        Ok(declared)
    }

    fn declare(&mut self, declared: &mut Declared, name: (u32, u32), required: bool) -> Result<()> {
        let hash = self.chars(name).fold(0, mix);
        let last = declared.slots.wrapping_sub(1);
        let mut slot = hash & last;
        while let known @ 1.. = self.scratch.get(declared.table, slot) {
            let same = self.scratch.get(known, HASH) == hash;
            if same && self.chars(self.name(known)).eq(self.chars(name)) {
                let newly = required && self.scratch.get(known, REQUIRED) == 0;
                declared.required += u32::from(newly);
                self.scratch.set(known, REQUIRED, u32::from(required) | self.scratch.get(known, REQUIRED));
                return Ok(());
            }
            slot = slot.wrapping_add(1) & last;
        }
        let new = self.scratch.record([name.0, name.1, hash, u32::from(required), 0])?;
        self.scratch.set(declared.table, slot, new);
        match declared.last {
            0 => declared.first = new,
            last => self.scratch.set(last, NEXT, new),
        }
        declared.last = new;
        declared.count += 1;
        declared.required += u32::from(required);
        Ok(())
    }

    pub(super) fn name(&self, declared: u32) -> (u32, u32) {
        (self.scratch.get(declared, FROM), self.scratch.get(declared, TO))
    }

    pub(super) fn text(&self, (from, to): (u32, u32)) -> &[u8] {
        self.dom.text.get(from as usize..to as usize).unwrap_or(&[])
    }

    fn chars(&self, range: (u32, u32)) -> Chars<'_> {
        Chars(self.text(range))
    }

    pub(super) fn patterns(&mut self, set: &Set) -> Result<Vec<Pattern, PATTERNS>> {
        let mut patterns = Vec::new();
        for (owner, member) in set.iter().enumerate() {
            let object = self.value(*member, "patternProperties");
            if object != 0 && self.dom.kind(self.scratch, object) != Kind::Object {
                return self.wrong("patternProperties", object);
            }
            let mut schema = self.dom.child(self.scratch, object);
            while schema != 0 {
                let at = self.dom.name_at(self.scratch, schema);
                let names = self.search(self.dom.name(self.scratch, schema), at, false)?;
                let pattern = Pattern { names, owner, schema };
                if patterns.push(pattern).is_err() {
                    return self.refused("patternProperties", at);
                }
                schema = self.dom.next(self.scratch, schema);
            }
        }
        Ok(patterns)
    }

    /// Returns the rule of the values of a member. Bit `i` of `found` says whether the name follows pattern `i`.
    fn member_rule(&mut self, set: &Set, name: Option<(u32, u32)>, patterns: &[Pattern], found: u32) -> Result<Rule> {
        let result = self.member_set(set, name, patterns, found)?;
        self.rule_of(&result)
    }

    /// Returns the list of schemas of the values of a member, with the arguments of [`Schemas::member_rule`].
    fn member_set(&mut self, set: &Set, name: Option<(u32, u32)>, patterns: &[Pattern], found: u32) -> Result<Set> {
        let mut result = Set::new();
        for (owner, member) in set.iter().enumerate() {
            if member.has(Member::VALUE) {
                let value = name.map_or(0, |name| self.dom.find(self.scratch, member.node(), self.chars(name)));
                let value =
                    if value == 0 { Member::new(self.kept.never, 0) } else { Member::new(value, Member::VALUE) };
                self.include(&mut result, value)?;
                continue;
            }
            let properties = self.value(*member, "properties");
            let schema = match (name, properties) {
                (Some(name), 1..) => self.dom.find(self.scratch, properties, self.chars(name)),
                _ => 0,
            };
            let mut is_known = schema != 0;
            if is_known {
                self.expand(&mut result, schema, &mut Vec::new())?;
            }
            for (index, pattern) in patterns.iter().enumerate() {
                if pattern.owner == owner && found >> index & 1 != 0 {
                    is_known = true;
                    self.expand(&mut result, pattern.schema, &mut Vec::new())?;
                }
            }
            let additional = self.value(*member, "additionalProperties");
            if !is_known && additional != 0 {
                self.expand(&mut result, additional, &mut Vec::new())?;
            }
        }
        Ok(result)
    }

    /// Returns the list of schemas of the values of a declared member.
    pub(super) fn declared_set(&mut self, set: &Set, declared: u32, patterns: &[Pattern]) -> Result<Set> {
        let name = self.name(declared);
        let found =
            |(index, pattern): (usize, &Pattern)| u32::from(self.accepts(pattern.names, self.text(name))) << index;
        let found = patterns.iter().enumerate().map(found).sum();
        self.member_set(set, Some(name), patterns, found)
    }

    /// Returns the kinds of members that are not declared.
    pub(super) fn others(&mut self, set: &Set, declared: &Declared, patterns: &[Pattern]) -> Result<Others> {
        let mut others = Others::new();
        if self.has_declared_members_only() {
            return Ok(others);
        }
        let declares = set.iter().any(|member| self.value(*member, "properties") != 0);
        let is_said = set.iter().any(|member| self.value(*member, "additionalProperties") != 0);
        let closed = self.options.closed && declares && !is_said;
        // Where declared members take names, no name can be spelled in another way.
        let codec = match (declared.count, patterns.is_empty()) {
            _ if self.has_bare_names() => Codec::Raw,
            (1.., _) => Codec::Short,
            (_, restricted) => self.codec(!restricted),
        };
        let mut names = if codec == Codec::Raw { self.bare_names()? } else { self.all_strings(codec)? };
        let at = set.first().map_or(0, |member| self.dom.at(self.scratch, member.node()));
        if declared.count > 0 {
            let mut taken = Trie::new(self.scratch)?;
            let mut known = declared.first;
            while known != 0 {
                let (from, to) = self.name(known);
                let text = self.dom.text.get(from as usize..to as usize).unwrap_or(&[]);
                taken.add(self.scratch, Chars(text), 0)?;
                known = self.scratch.get(known, NEXT);
            }
            let limit = self.limit();
            names = self.combined((names, taken.dfa()), Combine::Without, limit, at)?;
        }
        if set.iter().any(|member| member.has(Member::VALUE)) {
            return Ok(others);
        }
        // The names in parts. All names of a part follow the same patterns.
        let mut parts: Vec<(Dfa, u32), 32> = Vec::new();
        let _first = parts.push((names, 0));
        for (index, pattern) in patterns.iter().enumerate() {
            for part in 0..parts.len() {
                let Some(&(names, found)) = parts.get(part) else { continue };
                let limit = self.limit();
                let with = self.combined((names, pattern.names), Combine::Both, limit, at)?;
                let without = self.combined((names, pattern.names), Combine::Without, limit, at)?;
                parts.get_mut(part).into_iter().for_each(|part| *part = (without, found));
                if with != 0 && parts.push((with, found | 1 << index)).is_err() {
                    return self.refused("patternProperties", at);
                }
            }
        }
        for (names, found) in parts {
            if names == 0 || (closed && found == 0) || self.is_excluded(set, patterns, found) {
                continue;
            }
            let names = if codec == Codec::Raw { names } else { self.quoted(names)? };
            let rule = self.member_rule(set, None, patterns, found)?;
            if others.push(Other { names, codec, rule }).is_err() {
                return self.refused("patternProperties", at);
            }
        }
        Ok(others)
    }

    /// Returns whether a schema has no room for names that follow these patterns and are not declared.
    fn is_excluded(&self, set: &Set, patterns: &[Pattern], found: u32) -> bool {
        set.iter().enumerate().any(|(owner, member)| {
            let mut followed = patterns.iter().enumerate().filter(|(index, _)| found >> index & 1 != 0);
            let additional = self.value(*member, "additionalProperties");
            let closed = additional != 0 && self.dom.kind(self.scratch, additional) == Kind::False;
            closed && !followed.any(|(_, pattern)| pattern.owner == owner)
        })
    }

    fn limit(&self) -> u32 {
        self.options.states.saturating_mul(4).max(self.dom.text.len() as u32)
    }

    /// Returns what `minProperties` and `maxProperties` ask for, or `None` if there is no such object.
    pub(super) fn count(
        &self,
        set: &Set,
        declared: &Declared,
        closed: bool,
        (min, max): (u32, u32),
    ) -> Result<Option<Count>> {
        let Declared { count, required, .. } = *declared;
        if max < required || (closed && min > count) {
            return Ok(None);
        }
        // Undeclared members may all have the same name, and a matcher does not notice. So no more than one of them can
        // be asked for.
        if min.saturating_sub(count) > 1 {
            return self.refuse_size(set, "minProperties");
        }
        if required == count {
            return Ok(Some(Count::Others(min.saturating_sub(count), less(max, count))));
        }
        let unbounded = max == OPEN || (closed && max >= count);
        if unbounded && min <= required {
            return Ok(Some(Count::Others(0, OPEN)));
        }
        if unbounded && min == 1 {
            return Ok(Some(Count::Some));
        }
        if closed && max == 1 && min <= 1 {
            return Ok(Some(Count::AtMostOne(min == 0)));
        }
        self.refuse_size(set, if unbounded { "minProperties" } else { "maxProperties" })
    }

    fn refuse_size<T>(&self, set: &Set, keyword: &'static str) -> Result<T> {
        let place = set.iter().map(|member| self.value(*member, keyword)).find(|value| *value != 0).unwrap_or(0);
        self.refused(keyword, self.dom.name_at(self.scratch, place))
    }
}
