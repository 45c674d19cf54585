//! A text while the model writes it.

use std::string::String;
use std::vec;

use super::{Session, SessionError};
use crate::token::{DecodeOptions, Detokenizer, TokenError};
use crate::tools::{Part, Reader};
use crate::turns::{Role, Thinking, TurnFormat};

/// Why a text has ended.
///
/// [Example](crate::session#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The model ended it.
    Model,
    /// It has as many tokens as [`SessionOptions::tokens`](super::SessionOptions::tokens).
    Tokens,
    /// The context is full.
    Context,
}

/// The pieces of a text, in order. Each is computed when it is asked for, and is one character or longer. Together they are
/// the text.
///
/// [Example](crate::session#example).
#[derive(Debug)]
pub struct Pieces<'s> {
    session: &'s mut Session,
    /// The model's turn format, where this is an answer.
    format: Option<&'static TurnFormat>,
    detokenizer: Detokenizer,
    /// Takes thoughts out of the text.
    reader: Option<Reader>,
    /// What the model has written, and thoughts in it.
    text: String,
    /// Was chosen, and the model has not read it yet.
    token: Option<u32>,
    /// Tokens that may follow.
    left: usize,
    is_answer: bool,
    is_over: bool,
}

impl<'s> Pieces<'s> {
    pub(super) fn of_text(session: &'s mut Session) -> Self {
        Self::new(session, None, false)
    }

    pub(super) fn of_answer(session: &'s mut Session) -> Self {
        let tokenizer = session.tokenizer.get();
        let format = session.engine.with(|engine| TurnFormat::of(engine.model().gguf(), tokenizer));
        Self::new(session, format, true)
    }

    fn new(session: &'s mut Session, format: Option<&'static TurnFormat>, is_answer: bool) -> Self {
        let think = session.options.think;
        let reader = format.and_then(Thinking::of);
        let reader = reader.map(|thinking| Reader::new(None, Some(thinking.marks()), thinking.opens_thought(think)));
        // A reader finds thoughts by the names of control tokens.
        let options = DecodeOptions { render_special: reader.is_some(), starts_text: false };
        session.end = None;
        Self {
            format,
            detokenizer: Detokenizer::new(session.tokenizer.get(), options),
            reader,
            text: String::new(),
            token: None,
            left: session.options.tokens.max(1),
            is_answer,
            is_over: false,
            session,
        }
    }

    /// Chooses a token and returns what can be shown then, which may be nothing yet.
    fn step(&mut self) -> Result<String, SessionError> {
        if let Some(end) = self.find_end()? {
            (self.is_over, self.session.end) = (true, Some(end));
            let rest = self.detokenizer.finish();
            self.text.push_str(rest);
            return Ok(self.show(rest.len(), true));
        }
        let Some(token) = self.token else { return Ok(String::new()) };
        self.left -= 1;
        self.session.sampler.accept(token);
        let tokenizer = self.session.tokenizer.get();
        let mut buffer = vec![0; tokenizer.max_push()];
        // A model may have more tokens than its vocabulary. Those have no text.
        let new = match self.detokenizer.push(tokenizer, token, &mut buffer) {
            Err(TokenError::UnknownId { .. }) => "",
            other => other?,
        };
        self.text.push_str(new);
        let len = new.len();
        Ok(self.show(len, false))
    }

    /// Feeds the last token and chooses the next one. Returns why there is none.
    fn find_end(&mut self) -> Result<Option<End>, SessionError> {
        if self.left == 0 {
            return Ok(Some(End::Tokens));
        }
        let (session, token) = (&mut *self.session, self.token.take());
        let (seq, sampler, masses) = (session.seq, &mut session.sampler, &mut session.masses);
        let next = session.engine.with(|engine| {
            if engine.can_extend(seq, 1).is_err() {
                return Ok(None);
            }
            let logits = match token {
                Some(token) => engine.decode_step(seq, token)?,
                None => engine.logits(seq).unwrap_or_default(),
            };
            Ok::<_, SessionError>(Some(sampler.sample(logits, masses)?.token))
        })?;
        let Some(next) = next else { return Ok(Some(End::Context)) };
        let tokenizer = session.tokenizer.get();
        if tokenizer.is_end(next) || self.format.is_some_and(|format| format.is_stop(tokenizer, next)) {
            return Ok(Some(End::Model));
        }
        self.token = Some(next);
        Ok(None)
    }

    /// What is shown of the text, whose last `new` bytes are new.
    fn show(&mut self, new: usize, is_whole: bool) -> String {
        let Some(reader) = &mut self.reader else {
            return self.text.get(self.text.len() - new..).unwrap_or_default().into();
        };
        let mut shown = String::new();
        while let Some(part) = reader.next(&self.text, is_whole, None) {
            if let Ok(Part::Text(text)) = part {
                shown.push_str(text);
            }
        }
        shown
    }
}

impl Iterator for Pieces<'_> {
    type Item = Result<String, SessionError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.is_over {
            match self.step() {
                Ok(piece) if piece.is_empty() => {}
                Ok(piece) => return Some(Ok(piece)),
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

impl Drop for Pieces<'_> {
    /// Lets the model read the last token, so that the text in the messages is the one that it knows.
    fn drop(&mut self) {
        let (session, token) = (&mut *self.session, self.token.take());
        if let Some(token) = token {
            // If it does not fit, the message is read again.
            let seq = session.seq;
            session.engine.with(|engine| engine.decode_step(seq, token).map(|_logits| ()).unwrap_or_default());
        }
        if self.is_answer {
            session.messages.push((Role::Assistant, core::mem::take(&mut self.text)));
        }
    }
}
