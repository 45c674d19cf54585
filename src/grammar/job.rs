//! An automaton in the making, in as many pieces as one likes.

use super::combine::Combining;
use super::dfa::Dfa;
use super::lengths::Notes;
use super::nfa::Search;
use super::number::Multiples;
use super::reach::Trim;
use super::scratch::{Result, Scratch};

/// What makes an automaton. The first three are trimmed then.
pub(super) enum Job {
    Search(Search),
    Combine(Combining),
    Multiples(Multiples),
    Trim(Trim),
    /// One that is there, as it was changed.
    Made(Dfa),
    /// Not an automaton: whether counters can say how long its texts are.
    Notes(Notes),
}

impl Job {
    /// Goes on. Returns the automaton when it is made, 0 if it accepts nothing.
    pub(super) fn go_on(&mut self, scratch: &mut Scratch<'_>) -> Result<Option<Dfa>> {
        let made = match self {
            Self::Search(search) => search.go_on(scratch)?,
            Self::Combine(combining) => combining.go_on(scratch)?,
            Self::Multiples(multiples) => multiples.go_on(scratch)?,
            Self::Made(made) => return Ok(Some(*made)),
            Self::Trim(trim) => return Ok(trim.go_on(scratch)),
            Self::Notes(notes) => return Ok(notes.go_on(scratch).map(u32::from)),
        };
        let Some(first) = made else { return Ok(None) };
        let mut trim = Trim::new(scratch, first);
        let trimmed = trim.go_on(scratch);
        *self = Self::Trim(trim);
        Ok(trimmed)
    }

    /// Makes it at once, also beyond the end of a unit: for expressions of ours, which are small.
    pub(super) fn run(mut self, scratch: &mut Scratch<'_>) -> Result<Dfa> {
        loop {
            if let Some(made) = self.go_on(scratch)? {
                return Ok(made);
            }
            scratch.begin_unit();
        }
    }
}
