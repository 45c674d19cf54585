//! Conversations in a template of the host.

use super::desk::{Kept, LEFT_OUT, Tokens};
use super::reply::Source;
use super::script::{Entry, Template};
use super::write::{Open, Text};
use super::{ConversationError, Keep};
use crate::turns::{Piece, Role};

/// Writes a conversation with a template. The model continues a message of the assistant that is the last entry.
pub(super) fn write(
    template: &dyn Template,
    keep: &Keep<'_>,
    text: &Text<'_, '_>,
    source: Source<'_, '_>,
    kept: &mut [Kept],
    tokens: &mut Tokens<'_>,
) -> Result<Open, ConversationError> {
    kept.iter_mut().for_each(|kept| kept.placed = LEFT_OUT);
    let goes_on = text.entries.last().filter(|entry| entry.role() == Some(Role::Assistant));
    let count = text.entries.len().saturating_sub(goes_on.iter().count());
    let summary = text.summary(keep)?;
    // Entries that are left out change the numbers of the entries behind them.
    let moved = text.left_out.len().saturating_sub(summary.iter().count());
    template.write(&mut text.shown(count, summary), &mut |piece, number| {
        let index =
            number.map(|number| if number < text.left_out.start { number } else { number.saturating_add(moved) });
        match index.and_then(|index| kept.iter_mut().find(|kept| kept.entry as usize == index)) {
            Some(reply) if index < Some(count) => put_reply(reply, source, tokens),
            _ => tokens.put_whole(piece),
        }
    })?;
    tokens.encode()?;
    let mut open = Open { start: tokens.len(), think: None };
    match (goes_on, kept.last_mut().filter(|kept| kept.entry as usize == count)) {
        (Some(_), Some(reply)) => {
            open.think = reply.reply.told();
            put_reply(reply, source, tokens)?;
        }
        (Some(Entry::Message(message)), None) => {
            tokens.put(Piece::Text(message.text))?;
            tokens.encode()?;
        }
        _ => {}
    }
    Ok(open)
}

fn put_reply(reply: &mut Kept, source: Source<'_, '_>, tokens: &mut Tokens<'_>) -> Result<(), ConversationError> {
    tokens.encode()?;
    reply.placed = tokens.len() as u32;
    tokens.extend(reply.reply.tokens(source))
}
