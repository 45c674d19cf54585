//! A text while the model writes it.

use std::string::String;
use std::vec;
#[cfg(feature = "grammar")]
use std::vec::Vec;

#[cfg(feature = "grammar")]
use super::form::Form;
use super::{Session, SessionError};
use crate::token::{DecodeOptions, Detokenizer, StopStrings, TokenError};
use crate::tools::{Part, Reader};
use crate::turns::{Role, Thinking, TurnFormat};

/// Why a text has ended.
///
/// [Example](crate::session#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// The model ended the text.
    Model,
    /// The text has as many tokens as [`SessionOptions::tokens`](super::SessionOptions::tokens).
    Tokens,
    /// The context is full.
    Context,
    /// The text came to one of the strings of [`Pieces::until`].
    Stop,
    /// The text follows its grammar, and nothing may follow it.
    Complete,
    /// [`Canceller::cancel`](super::Canceller::cancel) was called.
    Cancelled,
}

/// The pieces of a text, in order. Each is computed when it is asked for, and is one character or longer. Together they
/// are the text.
///
/// [Example](crate::session#example).
#[derive(Debug)]
pub struct Pieces<'s> {
    session: &'s mut Session,
    /// The model's turn format, if this is an answer.
    format: Option<&'static TurnFormat>,
    detokenizer: Detokenizer,
    /// Takes thoughts out of the text.
    reader: Option<Reader>,
    /// Text that the model has written, with its thoughts.
    text: String,
    /// Token that was chosen and that the model has not read yet.
    token: Option<u32>,
    /// Number of tokens that may follow.
    left: usize,
    /// Strings that end the text.
    stops: Option<StopStrings<'s>>,
    /// Text that was shown, kept only if strings can end the text.
    shown: String,
    #[cfg(feature = "grammar")]
    form: Option<Form>,
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
            stops: None,
            shown: String::new(),
            #[cfg(feature = "grammar")]
            form: None,
            is_answer,
            is_over: false,
            session,
        }
    }

    /// Returns the pieces of a text that ends before the first of these strings, even if the string lies across pieces.
    ///
    /// # Errors
    /// [`SessionError::Stop`] if a string is empty or too long, or if there are too many. The text is empty then.
    pub fn until(mut self, strings: &[&'s str]) -> Result<Self, SessionError> {
        self.stops = Some(StopStrings::new(strings)?);
        Ok(self)
    }

    #[cfg(feature = "grammar")]
    pub(super) fn session(&mut self) -> &mut Session {
        self.session
    }

    /// Returns the tokens that end a text.
    #[cfg(feature = "grammar")]
    pub(super) fn end_tokens(&self) -> Vec<u32> {
        let tokenizer = self.session.tokenizer.get();
        let count = u32::try_from(tokenizer.vocab().len()).unwrap_or(u32::MAX);
        (0..count).filter(|&id| self.is_end(id)).collect()
    }

    /// Makes the text follow a grammar. The text has no thoughts then, as these are not part of a grammar.
    #[cfg(feature = "grammar")]
    pub(super) fn set_form(&mut self, form: Form) {
        (self.form, self.reader) = (Some(form), None);
        let options = DecodeOptions { render_special: false, starts_text: false };
        self.detokenizer = Detokenizer::new(self.session.tokenizer.get(), options);
    }

    fn is_end(&self, token: u32) -> bool {
        let tokenizer = self.session.tokenizer.get();
        tokenizer.is_end(token) || self.format.is_some_and(|format| format.is_stop(tokenizer, token))
    }

    /// Chooses a token and returns the text that can then be shown, which may be empty.
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
        // A model may have more ids than its vocabulary. These have no text.
        let new = match self.detokenizer.push(tokenizer, token, &mut buffer) {
            Err(TokenError::UnknownId { .. }) => "",
            other => other?,
        };
        self.text.push_str(new);
        let len = new.len();
        Ok(self.show(len, false))
    }

    /// Feeds the last token and chooses the next one. Returns why the text ends, or `None` if it goes on.
    fn find_end(&mut self) -> Result<Option<End>, SessionError> {
        #[cfg(feature = "grammar")]
        if self.form.as_mut().is_some_and(Form::is_complete) {
            return Ok(Some(End::Complete));
        }
        if self.left == 0 {
            return Ok(Some(End::Tokens));
        }
        if self.session.canceller.is_cancelled() {
            return Ok(Some(End::Cancelled));
        }
        let (seq, token) = (self.session.seq, self.token.take());
        let limits = *self.session.engine.plan().limits();
        let room = self.session.engine.with(|engine| {
            if engine.can_extend(seq, 1).is_err() {
                return Ok(0);
            }
            if let Some(token) = token {
                engine.decode_step(seq, token)?;
            }
            let left = limits.context.saturating_sub(engine.seq_len(seq)?);
            Ok::<_, SessionError>(if limits.window.is_all() { left.saturating_add(1) } else { usize::MAX })
        })?;
        if room == 0 {
            return Ok(Some(End::Context));
        }
        let next = self.choose(room)?;
        if self.is_end(next) {
            return Ok(Some(End::Model));
        }
        self.token = Some(next);
        Ok(None)
    }

    /// Chooses the next token. `room` is the largest number of tokens that the context has room for.
    #[cfg_attr(not(feature = "grammar"), expect(unused_variables))]
    fn choose(&mut self, room: usize) -> Result<u32, SessionError> {
        #[cfg(feature = "grammar")]
        if let Some(form) = &mut self.form {
            return form.choose(self.session, self.left.min(room));
        }
        let Session { engine, seq, sampler, masses, .. } = &mut *self.session;
        Ok(engine.with(|engine| sampler.sample(engine.logits(*seq).unwrap_or_default(), masses))?.token)
    }

    /// Returns what is shown of the text, whose last `new` bytes are new. A stop string ends the text.
    fn show(&mut self, new: usize, is_whole: bool) -> String {
        let said = self.read(new, is_whole);
        let Some(stops) = &mut self.stops else { return said };
        let found = stops.push(&said);
        let mut shown = String::from(found.held) + found.text;
        if found.stop.is_some() {
            (self.is_over, self.session.end) = (true, Some(End::Stop));
            // The message ends there, too. The model does not read the last token that it wrote.
            self.token = None;
            self.text = core::mem::take(&mut self.shown) + &shown;
            return shown;
        } else if is_whole {
            shown.push_str(stops.finish());
        }
        self.shown.push_str(&shown);
        shown
    }

    /// Returns the last `new` bytes of the text, without thoughts.
    fn read(&mut self, new: usize, is_whole: bool) -> String {
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
            // If the token does not fit, the message is read again later.
            let seq = session.seq;
            session.engine.with(|engine| engine.decode_step(seq, token).map(|_logits| ()).unwrap_or_default());
        }
        if self.is_answer {
            session.messages.push((Role::Assistant, core::mem::take(&mut self.text)));
        }
    }
}
