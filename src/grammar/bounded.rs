//! Patterns that repeat one character up to a bound: their characters are counted, so no automaton has a state for each
//! round.

use super::ast::{Ast, Expr, OPEN, expr, link, set_repeats};
use super::scratch::Scratch;

/// The most rounds that stay states of an automaton.
const STATES: u32 = 8;
/// The most groups around a character.
const GROUPS: usize = 8;

/// Takes the bound out of a pattern of single characters of which only the last has a number of rounds that is not
/// fixed, such as `^[a-z][a-z0-9]{0,62}$`. Returns the fewest and the most characters of its texts. With a number of
/// characters within these, the pattern without the bound has the same texts. `None`: it is another pattern, and
/// nothing changes.
pub(super) fn take_bound(scratch: &mut Scratch<'_>, pattern: Ast) -> Option<(u32, u32)> {
    let Expr::Sequence(first) = expr(scratch, pattern) else { return None };
    if expr(scratch, first) != Expr::Begin {
        return None;
    }
    let (mut fixed, mut part) = (0_u32, link(scratch, first));
    loop {
        let next = link(scratch, part);
        let (inner, min, max) = match expr(scratch, part) {
            Expr::Class(_) => (part, 1, 1),
            Expr::Repeat(inner, min, max) => (inner, min, max),
            _ => return None,
        };
        if part == 0 || !is_character(scratch, inner) {
            return None;
        }
        if expr(scratch, next) == Expr::End && link(scratch, next) == 0 {
            let is_bounded = max > STATES && max != OPEN;
            let bounds = is_bounded.then_some((fixed.checked_add(min)?, fixed.checked_add(max)?))?;
            set_repeats(scratch, part, 0, OPEN);
            return Some(bounds);
        }
        if min != max {
            return None;
        }
        fixed = fixed.checked_add(max)?;
        part = next;
    }
}

/// Returns whether each text of an expression is one character.
fn is_character(scratch: &Scratch<'_>, ast: Ast) -> bool {
    let mut inner = ast;
    for _ in 0..GROUPS {
        inner = match expr(scratch, inner) {
            Expr::Class(_) => return true,
            Expr::Sequence(only) if only != 0 && link(scratch, only) == 0 => only,
            Expr::Repeat(inner, 1, 1) => inner,
            _ => return false,
        };
    }
    false
}
