//! Makes the prompt of a request.

use std::ops::Range;

use common::{Result, text};
use gleed::conversation::Script;
use gleed::token::Tokenizer;
use gleed::tools::Tools;
use gleed::turns::{Answer, Message, Piece, Role, ToolCall, ToolFormat, ToolResult, ToolTurns, TurnFormat, Turns};

use crate::ask::{Begin, Called, Chat, Turn};

/// Writes prompts for a model.
#[derive(Clone, Copy)]
pub(crate) struct Writer<'t> {
    pub(crate) tokenizer: &'t Tokenizer<'t, 't>,
    pub(crate) script: &'t Script<'t>,
    /// How the model's turn format offers tools; `None` if that is not known.
    pub(crate) tools: Option<&'static ToolFormat>,
}

impl Writer<'_> {
    /// Returns the tokens of a prompt. `think` tells the model whether to think, if it is set.
    pub(crate) fn tokens(&self, begin: &Begin, think: Option<bool>) -> Result<Vec<u32>> {
        let tokens = match begin {
            Begin::Text(text) if text.is_empty() => Vec::new(),
            Begin::Text(text) => text::encode_prompt(self.tokenizer, text)?,
            Begin::Ids(ids) => ids.clone(),
            Begin::Chat(chat) => {
                let mut written = Written { tokenizer: self.tokenizer, text: String::new(), plain: Vec::new() };
                if self.script.bos {
                    written.put(Piece::Bos);
                }
                self.write(chat, think, &mut written)?;
                text::encode_framed(self.tokenizer, &written.text, &written.plain)?
            }
        };
        if tokens.is_empty() { Err("the prompt is empty".into()) } else { Ok(tokens) }
    }

    fn write(&self, chat: &Chat, think: Option<bool>, written: &mut Written<'_>) -> Result<()> {
        let has_calls = chat.turns.iter().any(|turn| !matches!(turn, Turn::Said(..)));
        match (self.script.format, self.tools) {
            (Some(format), Some(tools)) if has_calls || chat.tools.is_some() => {
                let list = chat.tools.as_ref().map_or(Ok(Tools::NONE), |offered| Tools::new(&offered.list));
                let list = list.map_err(|error| format!("tools: {error}"))?;
                write_with_tools(&chat.turns, ToolTurns::new(format, tools, list), think, written)
            }
            _ if has_calls || chat.tools.is_some() => Err("this model's turn format offers no tools".into()),
            (format, _) => {
                write_plain(&chat.turns, format, think, written);
                Ok(())
            }
        }
    }
}

/// The text of a conversation, and the ranges in it that are texts of messages.
struct Written<'t> {
    tokenizer: &'t Tokenizer<'t, 't>,
    text: String,
    plain: Vec<Range<usize>>,
}

impl Written<'_> {
    fn put(&mut self, piece: Piece<'_>) {
        let vocab = self.tokenizer.vocab();
        let name = |id: Option<u32>| {
            id.and_then(|id| self.tokenizer.text(id)).map(String::from_utf8_lossy).unwrap_or_default()
        };
        let start = self.text.len();
        match piece {
            Piece::Bos => self.text.push_str(&name(vocab.bos())),
            Piece::Eos => self.text.push_str(&name(vocab.eos())),
            Piece::Frame(text) => self.text.push_str(text),
            Piece::Text(text) => {
                self.text.push_str(text);
                if !text.is_empty() {
                    self.plain.push(start..self.text.len());
                }
            }
        }
    }
}

fn write_plain(turns: &[Turn], format: Option<&'static TurnFormat>, think: Option<bool>, written: &mut Written<'_>) {
    let messages = turns.iter().filter_map(|turn| match turn {
        Turn::Said(role, text) => Some(Message { role: *role, text }),
        _ => None,
    });
    let Some(format) = format else { return messages.for_each(|message| written.put(Piece::Text(message.text))) };
    let mut turns = Turns::new(format);
    messages.for_each(|message| turns.add(message).for_each(|piece| written.put(piece)));
    match gleed::turns::Thinking::of(format).zip(think) {
        Some((thinking, think)) => turns.reply_thinking(thinking, think).for_each(|piece| written.put(piece)),
        None => turns.reply().for_each(|piece| written.put(piece)),
    }
}

fn write_with_tools(
    turns: &[Turn],
    mut writer: ToolTurns<'_>,
    think: Option<bool>,
    written: &mut Written<'_>,
) -> Result<()> {
    let mut put = |piece: Piece<'_>| {
        written.put(piece);
        Ok::<_, Box<dyn std::error::Error>>(())
    };
    let mut called: Vec<&Called> = Vec::new();
    for (index, turn) in turns.iter().enumerate() {
        match turn {
            Turn::Said(Role::Assistant, text) => writer.answer(Answer { text, ..Answer::default() }, &mut put)?,
            Turn::Said(role, text) => writer.add(Message { role: *role, text }, &mut put)?,
            Turn::Called { text, calls } => {
                called.extend(calls);
                let calls =
                    calls.iter().map(|Called { id, name, arguments }| ToolCall { name, id: Some(id), arguments });
                let calls: Vec<ToolCall<'_>> = calls.collect();
                writer.answer(Answer { text, calls: &calls, ..Answer::default() }, &mut put)?;
            }
            Turn::Result { id, text } => {
                let call = called.iter().find(|call| call.id == *id);
                let name = &call.ok_or_else(|| format!("messages[{index}].tool_call_id is of no call before it"))?.name;
                writer.result(ToolResult { name, id: Some(id), text }, &mut put)?;
            }
        }
    }
    writer.reply(think, &mut put)
}
