//! `anyOf` and `oneOf`.

use super::{Member, Schemas, Set};
use crate::grammar::code::Code;
use crate::grammar::dom::Node;
use crate::grammar::scratch::Result;

impl Schemas<'_, '_, '_, '_> {
    /// Returns the code of one branch or the other.
    pub(super) fn any_of(&mut self, set: &Set, member: Member, any_of: Node) -> Result<Code> {
        let branch = self.list(any_of, "anyOf")?;
        self.branches(set, member, Member::ANY_OF, branch)
    }

    /// Likewise, where no value may satisfy two branches.
    pub(super) fn one_of(&mut self, set: &Set, member: Member, one_of: Node) -> Result<Code> {
        let first = self.list(one_of, "oneOf")?;
        let code = self.branches(set, member, Member::ONE_OF, first)?;
        if self.options.one_of_as_any_of {
            return Ok(code);
        }
        let at = self.dom.name_at(self.scratch, one_of);
        let (owner, probe) = (self.rule, self.probe);
        self.probe = true;
        let mut one = first;
        while one != 0 {
            let with_one = self.chosen(set, member, Member::ONE_OF, Member::new(one, 0))?;
            let mut other = self.dom.next(self.scratch, one);
            while other != 0 {
                let mut both = with_one.clone();
                self.expand(&mut both, other, &mut heapless::Vec::new())?;
                // The same schema twice is one member of the list, which does not make it disjoint with itself.
                if self.types(&both)? != 0 {
                    let both = self.rule_of(&both)?;
                    self.pairs = self.scratch.record([both, owner, at as u32, self.pairs])?;
                }
                other = self.dom.next(self.scratch, other);
            }
            one = self.dom.next(self.scratch, one);
        }
        self.probe = probe;
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
}
