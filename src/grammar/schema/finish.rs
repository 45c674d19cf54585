//! What has to hold for all rules that were made.

use super::envelope::Callable;
use crate::grammar::check::{self, alive};
use crate::grammar::code::{FOUND, Program, Rule, rule_at, start};
use crate::grammar::error::{ErrorKind, GrammarError};
use crate::grammar::scratch::{Result, Scratch};

/// Checks all that was made, of which a rule is the root. Returns it.
pub(super) fn check(
    scratch: &mut Scratch<'_>,
    program: &Program,
    rule: Rule,
    tools: Callable,
    (pairs, errors): (u32, &[(Rule, GrammarError)]),
) -> Result<Rule> {
    check::mark(scratch, program);
    // A tool that cannot be called would be left out.
    for number in 0..tools.count {
        let arguments = scratch.get(tools.list, number.wrapping_mul(3).wrapping_add(2));
        if !alive(scratch, start(scratch, arguments)) {
            return Err(GrammarError { kind: ErrorKind::Empty, at: rule_at(scratch, arguments) });
        }
    }
    check::check(scratch, rule).map_err(|error| match error.kind {
        // The only way in which a value begins with itself.
        ErrorKind::LeftRecursion => GrammarError { kind: ErrorKind::Unsupported("$ref"), ..error },
        _ => error,
    })?;
    check_pairs(scratch, pairs)?;
    errors.iter().find(|(rule, _)| scratch.get(*rule, FOUND) != 0).map_or(Ok(rule), |(_, error)| Err(*error))
}

/// Refuses a `oneOf` with branches that have a text in common.
fn check_pairs(scratch: &Scratch<'_>, pairs: u32) -> Result<()> {
    let mut pair = pairs;
    while pair != 0 {
        let (both, owner) = (scratch.get(pair, 0), scratch.get(pair, 1));
        if scratch.get(owner, FOUND) != 0 && alive(scratch, start(scratch, both)) {
            let at = scratch.get(pair, 2) as usize;
            return Err(GrammarError { kind: ErrorKind::Unsupported("oneOf"), at });
        }
        pair = scratch.get(pair, 3);
    }
    Ok(())
}
