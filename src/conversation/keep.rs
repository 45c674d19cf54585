//! Which turns stay when the context is full.

use core::fmt;
use core::ops::Range;

use super::{ConversationError, Entry};
use crate::turns::Message;

/// Writes a message that stands for entries, or none. An error is that of the call: nothing changes.
///
/// [Example](crate::conversation#example).
pub type Summary<'p> = dyn Fn(&[Entry<'_>]) -> Result<Option<Message<'p>>, ConversationError> + 'p;

/// What becomes of a conversation that does not fit the context. Turns are left out whole: a turn is a message of the
/// user and all that follows it up to the next one. Entries before the first message of the user always stay.
///
/// [Example](crate::conversation#example).
#[derive(Clone, Copy)]
pub struct Keep<'p> {
    /// Tokens that stay free for the reply; at least 1.
    pub room: usize,
    /// Turns at the beginning that stay.
    pub first: usize,
    /// Turns at the end that stay; at least 1.
    pub last: usize,
    /// Turns are left out until the conversation has at most so many tokens, or no more may be left out; 0 stands for
    /// half of the context. So it happens seldom: what comes after them is read again each time.
    pub target: usize,
    /// Is told the entries that are left out, whenever the conversation is written, and may return a message to be
    /// written in their place. For the same entries it should return the same message, or else that is read again.
    pub summary: Option<&'p Summary<'p>>,
}

impl Keep<'_> {
    /// Leaves nothing out: a conversation that is too long is refused.
    pub const ALL: Self = Self { room: 1, first: 0, last: usize::MAX, target: 0, summary: None };
}

impl fmt::Debug for Keep<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { room, first, last, target, summary } = self;
        write!(f, "Keep {{ room: {room}, first: {first}, last: {last}, target: {target}, ")?;
        write!(f, "summary: {} }}", if summary.is_some() { "some" } else { "none" })
    }
}

/// The turns of a conversation that may be left out.
#[derive(Clone, Copy)]
pub(super) struct Turns<'e, 't> {
    entries: &'e [Entry<'t>],
    first: usize,
    /// How many may be left out.
    most: usize,
}

impl<'e, 't> Turns<'e, 't> {
    pub(super) fn new(entries: &'e [Entry<'t>], keep: &Keep<'_>) -> Self {
        let count = entries.iter().filter(|entry| entry.begins_turn()).count();
        let stay = keep.first.saturating_add(keep.last.max(1));
        Self { entries, first: keep.first, most: count.saturating_sub(stay) }
    }

    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// The entries of the first `count` turns that may be left out.
    pub(super) fn left_out(&self, count: usize) -> Range<usize> {
        if count == 0 {
            return 0..0;
        }
        let start = |turn: usize| {
            let mut begins = (0..self.entries.len()).filter(|&at| self.entries.get(at).is_some_and(Entry::begins_turn));
            begins.nth(turn).unwrap_or(self.entries.len())
        };
        start(self.first)..start(self.first.saturating_add(count))
    }
}

/// Finds how many turns are left out: as many as before, or none where all of it fits again; or else the fewest that
/// leave `target` tokens. `written(count, most)` writes the conversation without `count` turns, in at most `most`
/// tokens.
pub(super) fn shorten<T>(
    written: &mut dyn FnMut(usize, usize) -> Result<T, ConversationError>,
    before: usize,
    most: usize,
    (context, target): (usize, usize),
) -> Result<(usize, T), ConversationError> {
    let target = if target == 0 { context / 2 } else { target.min(context) };
    let before = before.min(most);
    if before > 0
        && let Ok(all) = written(0, target)
    {
        return Ok((0, all));
    }
    let refused = match written(before, context) {
        Ok(some) => return Ok((before, some)),
        Err(refused) if before < most && is_too_long(&refused) => refused,
        Err(refused) => return Err(refused),
    };
    // The fewest that suffice lie in `low..=high`.
    let (mut low, mut high) = (before + 1, most);
    while low < high {
        let middle = low.midpoint(high);
        match written(middle, target) {
            Ok(_) => high = middle,
            Err(error) if is_too_long(&error) => low = middle + 1,
            Err(error) => return Err(error),
        }
    }
    written(high, context).map(|some| (high, some)).map_err(|error| if is_too_long(&error) { refused } else { error })
}

/// Whether a shorter conversation would not be refused.
fn is_too_long(error: &ConversationError) -> bool {
    matches!(error, ConversationError::ContextFull { .. } | ConversationError::Text(_))
}
