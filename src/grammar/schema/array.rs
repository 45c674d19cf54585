//! Arrays.

use heapless::Vec;

use super::{Member, Schemas, Set};
use crate::grammar::ast::OPEN;
use crate::grammar::code::{Code, Rule};
use crate::grammar::dom::{Kind, Node};
use crate::grammar::scratch::Result;

impl Schemas<'_, '_, '_, '_> {
    /// Returns the code of the arrays of a list of schemas, or 0.
    pub(super) fn array(&mut self, set: &Set) -> Result<Code> {
        let Some((mut min, mut max)) = self.sizes(set, "minItems", "maxItems")? else { return Ok(0) };
        let mut prefix = 0;
        for member in set {
            let (count, all) = self.prefix(*member)?;
            prefix = prefix.max(count);
            if all {
                (min, max) = (min.max(count), max.min(count));
            }
        }
        if min > max {
            return Ok(0);
        }
        let prefix = prefix.min(max);
        let close = self.closing(b']')?;
        // From the back to the front: the code of what may stand behind the elements so far.
        let mut behind = if max == prefix {
            close
        } else {
            let rule = self.element(set, prefix)?;
            let bounds = (min.saturating_sub(prefix.max(1)), less(max, prefix.max(1)));
            self.repeated(bounds, close, rule)?
        };
        for index in (0..prefix).rev() {
            let rule = self.element(set, index)?;
            let call = self.spaced_call(rule, behind)?;
            if index == 0 {
                return self.opened(call, if min == 0 { close } else { 0 });
            }
            let more = self.comma(call)?;
            behind = if index >= min { self.program.either(self.scratch, more, close)? } else { more };
        }
        if max == 0 {
            return self.opened(0, close);
        }
        let rule = self.element(set, 0)?;
        let call = self.spaced_call(rule, behind)?;
        self.opened(call, if min == 0 { close } else { 0 })
    }

    /// Returns the code of `[`, then `element` or `close`. Each of these has white space before it, or is 0 for none.
    fn opened(&mut self, element: Code, close: Code) -> Result<Code> {
        let code = self.program.either(self.scratch, element, close)?;
        self.mark(b'[', code)
    }

    /// Returns the code of a comma with white space around it, then `then`.
    pub(super) fn separated(&mut self, then: Code) -> Result<Code> {
        let then = self.space(then)?;
        self.comma(then)
    }

    /// Returns the code of a comma with white space before it, then `then`.
    fn comma(&mut self, then: Code) -> Result<Code> {
        let comma = self.mark(b',', then)?;
        self.space(comma)
    }

    fn repeated(&mut self, bounds: (u32, u32), close: Code, rule: Rule) -> Result<Code> {
        // The code of the loop's body needs its end first.
        if bounds.1 == 0 {
            return Ok(close);
        }
        let (code, end) = self.program.open_loop(self.scratch, bounds, close)?;
        let call = self.spaced_call(rule, end)?;
        let body = self.comma(call)?;
        self.program.close_loop(self.scratch, code, body);
        Ok(code)
    }

    /// Returns how many elements a schema describes one by one, and whether there are no others.
    fn prefix(&self, member: Member) -> Result<(u32, bool)> {
        if member.has(Member::VALUE) {
            return Ok((self.dom.count(self.scratch, member.node()), true));
        }
        let list = self.prefix_list(member)?;
        Ok((if list == 0 { 0 } else { self.dom.count(self.scratch, list) }, false))
    }

    /// Returns the list of schemas of the first elements, or 0.
    fn prefix_list(&self, member: Member) -> Result<Node> {
        let (prefix, items) = (self.value(member, "prefixItems"), self.value(member, "items"));
        if prefix != 0 {
            self.list(prefix, "prefixItems")?;
            return Ok(prefix);
        }
        // A list of `items`, as in draft 7.
        Ok(if items != 0 && self.dom.kind(self.scratch, items) == Kind::Array { items } else { 0 })
    }

    /// Returns the rule of the element at `index`.
    fn element(&mut self, set: &Set, index: u32) -> Result<Rule> {
        let mut result = Set::new();
        for member in set {
            let list = if member.has(Member::VALUE) { member.node() } else { self.prefix_list(*member)? };
            let mut item = self.dom.child(self.scratch, list);
            for _ in 0..index {
                item = self.dom.next(self.scratch, item);
            }
            if member.has(Member::VALUE) {
                self.include(&mut result, Member::new(item, Member::VALUE))?;
                continue;
            }
            let items = self.value(*member, "items");
            let rest = if items != 0 && items == list { self.value(*member, "additionalItems") } else { items };
            let schema = if list != 0 && item != 0 { item } else { rest };
            if schema != 0 {
                self.expand(&mut result, schema, &mut Vec::new())?;
            }
        }
        self.rule_of(&result)
    }
}

/// An upper bound less a number that has been counted.
pub(super) fn less(max: u32, counted: u32) -> u32 {
    if max == OPEN { OPEN } else { max.saturating_sub(counted) }
}
