//! A conversation as tokens: the texts of its format, and replies as they were sampled.

use core::ops::Range;

use super::desk::{Kept, LEFT_OUT, Tokens};
use super::reply::Source;
use super::script::{Entry, Script, Writer};
use super::{ConversationError, Keep, template};
use crate::turns::{Message, Piece, Role};

/// The entries of a conversation, and the range of those that are left out.
pub(super) struct Text<'e, 't> {
    pub(super) entries: &'e [Entry<'t>],
    pub(super) left_out: Range<usize>,
}

impl<'t> Text<'_, 't> {
    /// Returns the first `count` entries without those that are left out. A summary may stand in their place.
    pub(super) fn shown<'s>(&'s self, count: usize, summary: Option<Message<'s>>) -> impl Iterator<Item = Entry<'s>>
    where
        't: 's,
    {
        self.entries.iter().take(count).enumerate().filter_map(move |(index, entry)| {
            if index == self.left_out.start && !self.left_out.is_empty() {
                return summary.map(Entry::Message);
            }
            (!self.left_out.contains(&index)).then_some(*entry)
        })
    }

    /// Returns the message that stands in the place of entries that are left out, if there is one.
    pub(super) fn summary<'k>(&self, keep: &Keep<'k>) -> Result<Option<Message<'k>>, ConversationError> {
        let left_out = self.entries.get(self.left_out.clone()).unwrap_or_default();
        keep.summary.filter(|_| !left_out.is_empty()).map_or(Ok(None), |summary| summary(left_out))
    }
}

/// The index of the token with which the next reply begins, and whether the model was told to think.
pub(super) struct Open {
    pub(super) start: usize,
    pub(super) think: Option<bool>,
}

/// An empty message of the assistant: it closes a reply that is open, and adds nothing.
const END_OF_REPLY: Entry<'static> = Entry::Message(Message { role: Role::Assistant, text: "" });

/// Writes a conversation up to the point where the model goes on. If the conversation ends with a message of the
/// assistant, the model goes on in that message.
pub(super) fn write(
    script: &Script<'_>,
    keep: &Keep<'_>,
    text: &Text<'_, '_>,
    source: Source<'_, '_>,
    kept: &mut [Kept],
    tokens: &mut Tokens<'_>,
) -> Result<Open, ConversationError> {
    if let Some(template) = script.template {
        return template::write(template, keep, text, source, kept, tokens);
    }
    if script.bos {
        tokens.put(Piece::Bos)?;
    }
    let mut writer = script.writer();
    let mut kept = kept.iter_mut().peekable();
    let mut is_open = false;
    for (index, entry) in text.entries.iter().enumerate() {
        let reply = kept.next_if(|kept| kept.entry as usize == index);
        if text.left_out.contains(&index) {
            reply.into_iter().for_each(|kept| kept.placed = LEFT_OUT);
            if index == text.left_out.start
                && let Some(message) = text.summary(keep)?
            {
                writer.add(index, &Entry::Message(message), &mut |piece| tokens.put(piece))?;
            }
            continue;
        }
        let is_last = index + 1 == text.entries.len();
        let is_reply = entry.role() == Some(Role::Assistant);
        if is_reply && is_open {
            writer.add(index, &END_OF_REPLY, &mut |piece| tokens.put(piece))?;
        }
        is_open = reply.is_some();
        begin(script, tokens)?;
        match (entry, reply) {
            (_, Some(kept)) => {
                let open = open(&mut writer, kept.reply.told(), tokens)?;
                kept.placed = open.start as u32;
                tokens.extend(kept.reply.tokens(source))?;
                if is_last {
                    return Ok(open);
                }
            }
            (Entry::Message(message), None) if is_last && is_reply => {
                let open = open(&mut writer, script.think, tokens)?;
                tokens.put(Piece::Text(message.text))?;
                tokens.encode()?;
                return Ok(open);
            }
            _ => writer.add(index, entry, &mut |piece| tokens.put(piece))?,
        }
    }
    begin(script, tokens)?;
    open(&mut writer, script.think, tokens)
}

/// Opens the model's turn.
fn open(writer: &mut Writer<'_>, think: Option<bool>, tokens: &mut Tokens<'_>) -> Result<Open, ConversationError> {
    writer.reply(think, &mut |piece| tokens.put(piece))?;
    tokens.encode()?;
    Ok(Open { start: tokens.len(), think })
}

/// Begins an entry. Without a format each text is encoded by itself.
fn begin(script: &Script<'_>, tokens: &mut Tokens<'_>) -> Result<(), ConversationError> {
    if script.format.is_none() { tokens.encode() } else { tokens.begin_entry() }
}
