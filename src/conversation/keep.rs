//! Which turns stay when the context is full.

use core::fmt;
use core::ops::Range;

use super::{ConversationError, Entry};
use crate::turns::Message;

/// Callback that writes a message in place of entries, or returns `None`. Its error is that of the call, and nothing
/// changes.
///
/// [Example](crate::conversation#example).
pub type Summary<'p> = dyn Fn(&[Entry<'_>]) -> Result<Option<Message<'p>>, ConversationError> + 'p;

/// What becomes of a conversation that does not fit the context. Turns are left out whole: a turn is a message of the
/// user and all that follows it up to the user's next message. Entries before the user's first message always stay.
///
/// [Example](crate::conversation#example).
#[derive(Clone, Copy)]
pub struct Keep<'p> {
    /// Number of tokens that stay free for the reply; at least 1.
    pub room: usize,
    /// Number of turns at the beginning that stay.
    pub first: usize,
    /// Number of turns at the end that stay; at least 1.
    pub last: usize,
    /// Number of tokens to which a conversation is shortened, if enough turns may be left out. 0 stands for half of the
    /// context. So shortening happens seldom: each time, everything behind the turns that are left out is read again.
    pub target: usize,
    /// Callback that gets the entries that are left out, whenever the conversation is written. It may return a message
    /// to be written in their place. For the same entries it should return the same message, as another one is read
    /// again.
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
    /// Number of turns that may be left out.
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

    /// Returns the entries of the first `count` turns that may be left out.
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

/// Returns how many turns are left out, and the result of `written` without these: none if the whole conversation fits
/// `target` tokens again, or else as many as before if that fits the context, or else the fewest that leave at most
/// `target` tokens. `written(count, most)` writes the conversation without `count` turns, in at most `most` tokens.
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
    // The smallest number that suffices lies in `low..=high`.
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

/// Returns whether a shorter conversation might not be refused.
fn is_too_long(error: &ConversationError) -> bool {
    matches!(error, ConversationError::ContextFull { .. } | ConversationError::Text(_))
}
