//! An automaton in the making, in as many pieces as one likes.

use super::combine::Combining;
use super::dfa::Dfa;
use super::lengths::Notes;
use super::nfa::Search;
use super::number::Multiples;
use super::reach::Trim;
use super::scratch::{Result, Scratch};

/// The work that makes an automaton. The automata of the first three variants are trimmed afterwards.
pub(super) enum Job {
    Search(Search),
    Combine(Combining),
    Multiples(Multiples),
    Trim(Trim),
    /// An automaton that is already made.
    Made(Dfa),
    /// Makes no automaton: notes the lengths of the texts of one. The result is 1 if counters can stand for them, else
    /// 0.
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

    /// Makes the automaton at once, also beyond the end of a unit. It is for built-in expressions, which are small.
    pub(super) fn run(mut self, scratch: &mut Scratch<'_>) -> Result<Dfa> {
        loop {
            if let Some(made) = self.go_on(scratch)? {
                return Ok(made);
            }
            scratch.begin_unit();
        }
    }
}
