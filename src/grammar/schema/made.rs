//! The automata of the rule in the making.
//!
//! The code of the rule is made again after each automaton that took longer than a unit. It then asks for the same
//! automata in the same order, so they are known by their number.

use super::Schemas;
use crate::grammar::dfa::{self, Dfa};
use crate::grammar::error::{ErrorKind, GrammarError};
use crate::grammar::job::Job;
use crate::grammar::scratch::{Result, Scratch};

/// Automata that are made, as a list of records, and the one in the making.
#[derive(Default)]
pub(super) struct Made {
    first: u32,
    last: u32,
    /// Record of the next automaton that is asked for, or 0 if it is not made yet.
    next: u32,
    /// The automaton in the making.
    job: Option<Job>,
    /// Whether automata are made at once.
    at_once: bool,
}

impl Made {
    /// Goes on with the automaton in the making. Returns whether the code can be made from its beginning.
    pub(super) fn go_on(&mut self, scratch: &mut Scratch<'_>) -> Result<bool> {
        if let Some(job) = &mut self.job {
            let Some(made) = job.go_on(scratch)? else { return Ok(false) };
            self.job = None;
            self.note(scratch, made)?;
        }
        self.next = self.first;
        Ok(true)
    }

    fn note(&mut self, scratch: &mut Scratch<'_>, made: Dfa) -> Result<()> {
        let record = scratch.record([made, 0])?;
        match self.last {
            0 => self.first = record,
            last => scratch.set(last, 1, record),
        }
        self.last = record;
        Ok(())
    }
}

impl<'s> Schemas<'_, 's, '_, '_> {
    /// Returns the next automaton of the rule. If it is not made yet, `begin` begins to make it.
    pub(super) fn automaton(&mut self, begin: impl FnOnce(&mut Scratch<'s>) -> Result<Job>) -> Result<Dfa> {
        if self.kept.made.at_once {
            return begin(self.scratch)?.run(self.scratch);
        }
        let known = self.kept.made.next;
        if known != 0 {
            self.kept.made.next = self.scratch.get(known, 1);
            return Ok(self.scratch.get(known, 0));
        }
        let mut job = begin(self.scratch)?;
        match job.go_on(self.scratch)? {
            Some(made) => self.kept.made.note(self.scratch, made).map(|()| made),
            None => {
                self.kept.made.job = Some(job);
                Err(GrammarError { kind: ErrorKind::Unfinished, at: 0 })
            }
        }
    }

    /// Returns an automaton with quotes around it. This changes the automaton, so it is done once.
    pub(super) fn quoted(&mut self, inner: Dfa) -> Result<Dfa> {
        self.automaton(|scratch| dfa::quoted(scratch, inner).map(Job::Made))
    }

    /// Calls a function whose automata are made at once: they are small, or other rules use them, too.
    pub(super) fn at_once<T>(&mut self, make: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let before = core::mem::replace(&mut self.kept.made.at_once, true);
        let made = make(self);
        self.kept.made.at_once = before;
        made
    }
}
