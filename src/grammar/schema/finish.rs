//! The checks of all rules that were made.

use crate::grammar::check::alive;
use crate::grammar::code::{FOUND, Rule, start};
use crate::grammar::error::{ErrorKind, GrammarError};
use crate::grammar::scratch::{Result, Scratch};

/// Checks the rules that were made: pairs of branches, and errors of rules that are reached.
pub(super) fn check(scratch: &Scratch<'_>, pairs: u32, errors: &[(Rule, GrammarError)]) -> Result<()> {
    check_pairs(scratch, pairs)?;
    errors.iter().find(|(rule, _)| scratch.get(*rule, FOUND) != 0).map_or(Ok(()), |(_, error)| Err(*error))
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
