//! `anyOf` and `oneOf`.

use heapless::Vec;

use super::{Member, Schemas, Set};
use crate::grammar::code::Code;
use crate::grammar::dom::{Kind, Node};
use crate::grammar::error::{ErrorKind, GrammarError};
use crate::grammar::scratch::Result;

impl Schemas<'_, '_, '_, '_> {
    /// Returns the code of the branches of an `anyOf`, of which a value satisfies one or more.
    pub(super) fn any_of(&mut self, set: &Set, member: Member, any_of: Node) -> Result<Code> {
        let branch = self.list(any_of, "anyOf")?;
        self.branches(set, member, Member::ANY_OF, branch)
    }

    /// Returns the code of the branches of a `oneOf`, of which no value may satisfy two.
    pub(super) fn one_of(&mut self, set: &Set, member: Member, one_of: Node) -> Result<Code> {
        let first = self.list(one_of, "oneOf")?;
        let code = self.branches(set, member, Member::ONE_OF, first)?;
        if self.options.one_of_as_any_of {
            return Ok(code);
        }
        let at = self.dom.name_at(self.scratch, one_of);
        let (owner, probe) = (self.kept.rule, self.kept.probe);
        self.kept.probe = true;
        // The pair of branches at which the last unit of work ended.
        let (mut one, mut other) = self.kept.pair;
        if one == 0 {
            (one, other) = (first, self.dom.next(self.scratch, first));
        }
        while one != 0 {
            let with_one = self.chosen(set, member, Member::ONE_OF, Member::new(one, 0))?;
            while other != 0 {
                if self.scratch.is_spent() {
                    self.kept.pair = (one, other);
                    return Err(GrammarError { kind: ErrorKind::Unfinished, at: 0 });
                }
                self.scratch.spend(4);
                let mut both = with_one.clone();
                self.expand(&mut both, other, &mut Vec::new())?;
                // The same schema twice is one member of the list, which does not make it disjoint with itself.
                if self.types(&both)? != 0 {
                    let both = self.rule_of(&both)?;
                    self.kept.pairs = self.scratch.record([both, owner, at as u32, self.kept.pairs])?;
                }
                other = self.dom.next(self.scratch, other);
            }
            one = self.dom.next(self.scratch, one);
            other = self.dom.next(self.scratch, one);
        }
        self.kept.probe = probe;
        Ok(code)
    }

    fn branches(&mut self, set: &Set, member: Member, flag: u32, first: Node) -> Result<Code> {
        let (mut code, mut branch) = (0, first);
        while branch != 0 {
            let chosen = self.chosen(set, member, flag, Member::new(branch, 0))?;
            let rule = self.rule_of(&chosen)?;
            let end = self.program.end(self.scratch)?;
            let call = self.program.call(self.scratch, rule, end)?;
            code = self.program.either(self.scratch, code, call)?;
            branch = self.dom.next(self.scratch, branch);
        }
        Ok(code)
    }

    /// Returns the list of schemas `set` with the choice of the schema `of` made: `branch` is in it. The branch stands
    /// before the schema if the choice stands before `properties` in the schema, because the order of names comes from
    /// the order of the list.
    pub(super) fn chosen(&mut self, set: &Set, of: Member, flag: u32, branch: Member) -> Result<Set> {
        let mut result = Set::new();
        for member in set {
            if *member != of {
                self.include(&mut result, *member)?;
                continue;
            }
            let first = self.is_choice_first(*member);
            if first {
                self.choose(&mut result, branch)?;
            }
            let decided = Member(member.0 | flag);
            if self.is_active(decided) {
                self.include(&mut result, decided)?;
            }
            if !first {
                self.choose(&mut result, branch)?;
            }
        }
        Ok(result)
    }

    fn choose(&mut self, set: &mut Set, branch: Member) -> Result<()> {
        if branch.has(Member::VALUE) {
            return self.include(set, branch);
        }
        self.expand(set, branch.node(), &mut Vec::new())
    }

    /// Returns whether `anyOf` or `oneOf` stands before `properties`.
    fn is_choice_first(&self, member: Member) -> bool {
        let mut child = self.dom.child(self.scratch, member.node());
        while child != 0 {
            match self.keyword(child) {
                Some("anyOf" | "oneOf") => return true,
                Some("properties") => return false,
                _ => {}
            }
            child = self.dom.next(self.scratch, child);
        }
        false
    }

    /// Returns whether a schema still has a keyword that is not decided.
    fn is_active(&self, member: Member) -> bool {
        if member.has(Member::VALUE) || self.dom.kind(self.scratch, member.node()) == Kind::False {
            return true;
        }
        let mut child = self.dom.child(self.scratch, member.node());
        while child != 0 {
            let decided = match self.keyword(child) {
                None | Some("$ref" | "allOf") => true,
                Some("anyOf") => member.has(Member::ANY_OF),
                Some("oneOf") => member.has(Member::ONE_OF),
                Some("enum" | "const") => member.has(Member::ENUM),
                Some(_) => false,
            };
            if !decided {
                return true;
            }
            child = self.dom.next(self.scratch, child);
        }
        false
    }
}
