//! The tokens of a reply, until it ends.

use gleed::Engine;

use super::Branch;
use common::calling::Calling;
use common::reply::Reply;
use common::run::{self, Steps, TOGETHER};
use common::{Result, interrupt};

/// Writes a reply after the tokens that the model has read.
pub(super) struct Writing<'w, 'm, 'a, E> {
    pub(super) engine: &'w mut Engine<'m, 'a>,
    pub(super) steps: &'w Steps<'w>,
    pub(super) branch: &'w mut Branch,
    pub(super) scratch: &'w mut [u64],
    /// Whether a token ends a reply.
    pub(super) ends: E,
    /// Largest number of tokens.
    pub(super) most: usize,
    /// Whether a GPU chooses several tokens at a time.
    pub(super) together: bool,
}

impl<E: Fn(u32) -> bool> Writing<'_, '_, '_, E> {
    /// Returns the note for the end of the reply, and the number of its tokens.
    pub(super) fn write(
        &mut self,
        reply: &mut Reply<'_, '_, '_, '_>,
        mut calling: Option<&mut Calling<'_>>,
    ) -> Result<(&'static str, usize)> {
        let (sequence, mut tokens) = (self.branch.talk.seq(), 0);
        // The last token of several that a GPU chose. The sequence does not have it yet.
        let mut chosen = None;
        loop {
            let token = match chosen.take() {
                Some(token) => token,
                None => self.choose(calling.as_deref_mut())?,
            };
            if (self.ends)(token) {
                return Ok(("", tokens));
            } else if tokens == self.most {
                return Ok((" [cut after -n tokens]", tokens));
            } else if self.engine.can_extend(sequence, 1).is_err() {
                return Ok((" [the context is full]", tokens));
            }
            reply.push(token)?;
            let has_room = tokens + TOGETHER < self.most && self.engine.can_extend(sequence, TOGETHER + 1).is_ok();
            if self.together && has_room {
                if let Some([told @ .., last]) = self.choose_together(token)? {
                    told.into_iter().try_for_each(|token| reply.push(token))?;
                    (tokens, chosen) = (tokens + TOGETHER, Some(last));
                    if interrupt::take() {
                        return Ok((" [stopped]", tokens));
                    }
                    continue;
                }
                self.together = false;
            }
            if !run::advance(self.engine, self.steps, sequence, &[token])? {
                return Ok((" [stopped]", tokens));
            }
            self.branch.sampler.accept(token);
            tokens += 1;
        }
    }

    /// Returns the next token.
    fn choose(&mut self, calling: Option<&mut Calling<'_>>) -> Result<u32> {
        let logits = self.engine.logits(self.branch.talk.seq()).unwrap_or_default();
        let choice = match calling {
            Some(calling) => calling.choose(&mut self.branch.sampler, logits, self.scratch)?,
            None => self.branch.sampler.sample(logits, self.scratch)?,
        };
        Ok(choice.token)
    }

    /// Lets a GPU choose the tokens after `token`. The sampler has no penalties, so the tokens that it has accepted do
    /// not matter. Returns these tokens. The sequence then has `token` and all of them but the last. Returns `None` if
    /// one of them ends the reply. Then everything is as before, because it is simpler to choose the tokens one by one
    /// than to find the sampler's state at that token.
    fn choose_together(&mut self, token: u32) -> Result<Option<[u32; TOGETHER]>> {
        let (sequence, mut sampler) = (self.branch.talk.seq(), self.branch.sampler.clone());
        let (before, mut ids) = (self.engine.seq_len(sequence)?, [0; TOGETHER]);
        self.engine.decode_sampled(sequence, token, (&mut sampler, self.scratch), &mut ids)?;
        if ids.into_iter().any(&self.ends) {
            self.engine.rewind(sequence, before)?;
            return Ok(None);
        }
        self.branch.sampler = sampler;
        Ok(Some(ids))
    }
}
