//! The commands: lines that begin with `/`.

use std::fmt::Display;
use std::fs;
use std::io::StdinLock;
use std::path::Path;

use gleed::cache::BLOCK_TOKENS;
use gleed::conversation::Entry;
use gleed::turns::Role;

use super::branch::Branch;
use super::{Chat, say};
use common::Result;
use common::turns::Said;

impl Chat<'_> {
    /// Shows the messages. Messages of the user have numbers.
    pub(super) fn list(&mut self) -> Result<()> {
        let mut number = 0;
        for said in &self.branches[self.current].messages {
            let who = match said {
                Said::Message(Role::User, _) => {
                    number += 1;
                    format!("{number}")
                }
                Said::Message(role, _) => role.name().to_owned(),
                Said::Result((name, _, _)) => name.clone(),
            };
            say(&format!("{who}: {}", said.text()))?;
        }
        Ok(())
    }

    pub(super) fn edit(&mut self, argument: &str, input: &mut StdinLock<'_>) -> Result<()> {
        let (number, text) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
        let messages = &self.branches[self.current].messages;
        let of_user: Vec<usize> = (0..messages.len()).filter(|&at| messages[at].is_of_user()).collect();
        if number.is_empty() {
            return Err("the number of a message is missing: /edit N TEXT".into());
        }
        let chosen = number.parse::<usize>().ok().and_then(|number| of_user.get(number.checked_sub(1)?));
        let &at = chosen.ok_or_else(|| format!("{number} is none of your messages 1 to {}", of_user.len()))?;
        if text.trim().is_empty() {
            return Err("the new text is missing".into());
        }
        let mut messages = messages[..at].to_vec();
        messages.push(Said::Message(Role::User, text.trim().to_owned()));
        self.respond(messages, input)
    }

    pub(super) fn regenerate(&mut self, input: &mut StdinLock<'_>) -> Result<()> {
        let messages = &self.branches[self.current].messages;
        let last = messages.iter().rposition(Said::is_of_user).ok_or("there is no message to be answered")?;
        let messages = messages[..=last].to_vec();
        self.respond(messages, input)
    }

    pub(super) fn reset(&mut self) -> Result<()> {
        self.engine.reset(self.branches[self.current].talk.seq())?;
        let fresh = Branch::new(self.branch().talk.seq(), &self.sizes, self.params, self.args.system.as_deref())?;
        *self.branch() = fresh;
        say("[a new conversation]")
    }

    pub(super) fn save(&mut self, file: &str) -> Result<()> {
        let (path, engine, branch) = (named(file)?, &self.engine, &mut self.branches[self.current]);
        let entries: Vec<Entry<'_>> = branch.messages.iter().map(Said::entry).collect();
        let bytes = branch.talk.with(|talk| {
            let mut bytes = vec![0; talk.saved_len(engine, &entries)?];
            talk.save(engine, &entries, &mut bytes).map(|_| bytes)
        })?;
        self.file.write(path, &self.args.read(), &bytes)?;
        say(&format!("[{} tokens saved, {} bytes]", engine.seq_len(branch.talk.seq())?, bytes.len()))
    }

    pub(super) fn load(&mut self, file: &str) -> Result<()> {
        let fail = |error: &dyn Display| format!("{file}: {error}");
        let bytes = fs::read(named(file)?).map_err(|error| fail(&error))?;
        let loaded = Branch::load(&mut self.engine, &bytes, &self.sizes, self.params).map_err(|error| fail(&error))?;
        let tokens = self.engine.seq_len(loaded.talk.seq())?;
        let old = std::mem::replace(self.branch(), loaded);
        self.engine.close(old.talk.seq())?;
        say(&format!("[{tokens} tokens loaded]"))
    }

    pub(super) fn fork(&mut self) -> Result<()> {
        if self.branches.len() == self.args.branches {
            return Err(format!("all {} branches are in use (see /close, --branches)", self.args.branches).into());
        }
        // The fork gets other random numbers. With the same ones, the same question would get the same answer.
        self.forks += 1;
        let mut fork = self.branches[self.current].fork(&mut self.engine)?;
        fork.sampler.set_state(fork.sampler.state() ^ self.forks);
        self.branches.push(fork);
        self.current = self.branches.len() - 1;
        say(&format!("[branch {} of {}]", self.current + 1, self.branches.len()))
    }

    pub(super) fn switch(&mut self, number: &str) -> Result<()> {
        let count = self.branches.len();
        if !number.is_empty() {
            let chosen = number.parse().ok().filter(|number| (1..=count).contains(number));
            self.current = chosen.ok_or_else(|| format!("{number} is none of the branches 1 to {count}"))? - 1;
        }
        for (index, branch) in self.branches.iter().enumerate() {
            let here = if index == self.current { '*' } else { ' ' };
            say(&format!("{here} branch {}: {} tokens", index + 1, self.engine.seq_len(branch.talk.seq())?))?;
        }
        Ok(())
    }

    pub(super) fn close(&mut self) -> Result<()> {
        if self.branches.len() == 1 {
            return Err("this is the only branch (see /reset)".into());
        }
        let branch = self.branches.remove(self.current);
        self.engine.close(branch.talk.seq())?;
        self.current = self.current.saturating_sub(1);
        self.switch("")
    }

    pub(super) fn stats(&mut self) -> Result<()> {
        let (sequence, speed) = (self.branch().talk.seq(), self.branch().speed);
        let (cache, context) = (self.engine.cache(), self.plan.limits().context);
        let (table, allocator) = (cache.block_table(sequence, 0)?, cache.allocator(0)?);
        let shared =
            table.blocks().iter().filter(|&&block| allocator.meta(block).is_some_and(|meta| meta.ref_count() > 1));
        let (all, shared) = (table.blocks().len(), shared.count());
        let (own, free, limits) = (all - shared, allocator.free_blocks(), self.plan.limits());
        say(&format!(
            "branch {} of {}: {} of {context} tokens",
            self.current + 1,
            self.branches.len(),
            cache.seq_len(sequence)?
        ))?;
        say(&format!(
            "blocks of {BLOCK_TOKENS} tokens: {own} own, {shared} shared, {free} of {} free",
            allocator.len()
        ))?;
        say(&format!("memory: {} bytes, kv {} {}", self.plan.bytes(), limits.kv_kind, limits.kv_type))?;
        match speed {
            Some((tokens, speed)) => say(&format!("last reply: {tokens} tokens, {speed:.1} tokens/s")),
            None => Ok(()),
        }
    }
}

fn named(file: &str) -> Result<&Path> {
    if file.is_empty() { Err("a file's name is missing".into()) } else { Ok(Path::new(file)) }
}
