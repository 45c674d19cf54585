//! The tokens of a reply, until it ends.

use gleed::Engine;

use super::Branch;
use common::calling::Calling;
use common::reply::Reply;
use common::run::{self, Steps, TOGETHER};
use common::{Result, interrupt};

/// Writes a reply behind what the model has read.
pub(super) struct Writing<'w, 'm, 'a, E> {
    pub(super) engine: &'w mut Engine<'m, 'a>,
    pub(super) steps: &'w Steps<'w>,
    pub(super) branch: &'w mut Branch,
    pub(super) scratch: &'w mut [u64],
    /// Whether a token ends a reply.
    pub(super) ends: E,
    /// The most tokens.
    pub(super) most: usize,
    /// A GPU chooses several at a time.
    pub(super) together: bool,
}

impl<E: Fn(u32) -> bool> Writing<'_, '_, '_, E> {
    /// Returns what is to be said at the end of the reply, and its number of tokens.
    pub(super) fn write(
        &mut self,
        reply: &mut Reply<'_, '_, '_, '_>,
        mut calling: Option<&mut Calling<'_>>,
    ) -> Result<(&'static str, usize)> {
        let (sequence, mut tokens) = (self.branch.talk.seq(), 0);
        // A token that a GPU chose behind others, and that the sequence does not have.
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

    /// The next token.
    fn choose(&mut self, calling: Option<&mut Calling<'_>>) -> Result<u32> {
        let logits = self.engine.logits(self.branch.talk.seq()).unwrap_or_default();
        let choice = match calling {
            Some(calling) => calling.choose(&mut self.branch.sampler, logits, self.scratch)?,
            None => self.branch.sampler.sample(logits, self.scratch)?,
        };
        Ok(choice.token)
    }

    /// Lets a GPU choose the tokens behind `token`, by a sampler without penalties, for which it does not matter which
    /// tokens it has accepted. Returns them: the sequence then has `token` and all of them but the last. `None` where
    /// one of them ends the reply: then all is as before, as choosing them one by one is simpler than going back to the
    /// sampler's state at that one.
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
