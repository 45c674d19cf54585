//! A conversation with its messages.

use gleed::conversation::{ConversationLimits, Desk, DeskLimits, Entry, Keep};
use gleed::host::{AlignedBytes, OwnedConversation};
use gleed::sample::{Sampler, SamplerParams};
use gleed::turns::Role;
use gleed::{Engine, Plan, SeqId};

use super::say;
use common::Result;
use common::turns::{Said, Style};

/// Largest number of replies whose tokens are kept.
const REPLIES: usize = 256;
/// Largest number of tokens of a conversation with --window, which goes on beyond the context.
const LONGEST: usize = 1 << 16;

pub(super) struct Branch {
    pub(super) talk: OwnedConversation,
    pub(super) messages: Vec<Said>,
    pub(super) sampler: Sampler,
    /// Indices of the messages that are left out.
    left_out: std::ops::Range<usize>,
    /// Number of tokens of the last reply, and tokens per second.
    pub(super) speed: Option<(usize, f64)>,
}

/// Returns the sizes of conversations.
pub(super) fn limits(engine: &Engine<'_, '_>, plan: &Plan) -> ConversationLimits {
    let desk = DeskLimits { context: longest(plan), text: 0, word: 0, replies: REPLIES };
    ConversationLimits::of(engine.cache().geometry(), &desk)
}

fn longest(plan: &Plan) -> usize {
    let limits = plan.limits();
    if limits.window.is_all() { limits.context } else { limits.context.max(LONGEST) }
}

impl Branch {
    pub(super) fn new(
        sequence: SeqId,
        limits: &ConversationLimits,
        params: SamplerParams,
        system: Option<&str>,
    ) -> Result<Self> {
        let talk = OwnedConversation::new(sequence, limits)?;
        let messages = system.into_iter().map(|text| Said::Message(Role::System, text.to_owned())).collect();
        Ok(Self { talk, messages, sampler: Sampler::new(params)?, left_out: 0..0, speed: None })
    }

    pub(super) fn load(
        engine: &mut Engine<'_, '_>,
        bytes: &[u8],
        limits: &ConversationLimits,
        params: SamplerParams,
    ) -> Result<Self> {
        let (talk, saved) = OwnedConversation::load(engine, bytes, limits)?;
        let messages = saved.entries().map(Said::of).collect();
        let mut branch = Self { talk, messages, sampler: Sampler::new(params)?, left_out: 0..0, speed: None };
        branch.hear(engine, params)?;
        Ok(branch)
    }

    pub(super) fn fork(&self, engine: &mut Engine<'_, '_>) -> Result<Self> {
        let talk = self.talk.fork(engine)?;
        let (messages, sampler) = (self.messages.clone(), self.sampler.clone());
        Ok(Self { talk, messages, sampler, left_out: self.left_out.clone(), speed: None })
    }

    /// Brings the sequence up to date with the messages. Returns the tokens that the model has not read yet.
    pub(super) fn update(
        &mut self,
        engine: &mut Engine<'_, '_>,
        plan: &Plan,
        style: &Style<'_>,
        keep: &Keep<'_>,
        params: SamplerParams,
    ) -> Result<Vec<u32>> {
        let entries: Vec<Entry<'_>> = self.messages.iter().map(Said::entry).collect();
        let said: usize = self.messages.iter().map(|said| 2 * said.text().len() + 256).sum();
        let text = said + style.bytes();
        let limits = DeskLimits { context: longest(plan), text, word: text, replies: REPLIES };
        let tokenizer = style.script.tokenizer;
        let mut memory = AlignedBytes::new(Desk::plan(tokenizer, &limits)?);
        let mut desk = Desk::new(tokenizer, &limits, memory.bytes())?;
        let before = engine.seq_len(self.talk.seq())?;
        let new = self.talk.with(|talk| talk.update(engine, &style.script, keep, &entries, &mut desk));
        let new = new.map_err(|error| style.explain(error))?;
        if new.left_out != self.left_out {
            self.left_out = new.left_out.clone();
            match self.left_out.len() {
                0 => say("[nothing is left out any more]")?,
                count => say(&format!("[the context is full: {count} messages are left out]"))?,
            }
        }
        let (tokens, is_rewound) = (new.tokens.to_vec(), new.position < before);
        if is_rewound {
            self.hear(engine, params)?;
        }
        Ok(tokens)
    }

    /// Gives all tokens of the sequence to the sampler.
    fn hear(&mut self, engine: &Engine<'_, '_>, params: SamplerParams) -> Result<()> {
        let state = self.sampler.state();
        self.sampler = Sampler::new(params)?;
        self.sampler.set_state(state);
        let tokens = (0..engine.seq_len(self.talk.seq())?).filter_map(|at| engine.cache().token(self.talk.seq(), at));
        tokens.for_each(|token| self.sampler.accept(token));
        Ok(())
    }
}
