//! Plays calls on an engine and keeps every row of logits together with its tokens, so that all rows can be compared
//! with the rows of the plainest run.

use std::collections::HashMap;

use gleed::kernels::Level;
use gleed::par::{Parallel, Serial};
use gleed::{Budget, Engine, EngineError, KvKind, KvType, Limits, Logits, Model, Plan, SeqId, Step, Window};
use xxhash_rust::xxh64::xxh64;

use super::Memory;

/// The tokens of a sequence up to a position, and a hash of the bits of the logits at that position.
pub type Row = (Vec<u32>, u64);

/// Settings of an engine on which calls are played.
#[derive(Clone, Copy)]
pub struct Stage<'p> {
    pub limits: Limits,
    /// Number of units per step.
    pub budget: usize,
    pub parallel: &'p dyn Parallel,
}

impl Stage<'_> {
    pub fn new(limits: Limits) -> Self {
        Self { limits, budget: usize::MAX, parallel: &Serial }
    }

    /// Makes an engine, plays, and returns what was recorded.
    pub fn play(&self, model: &Model<'_>, play: impl FnOnce(&mut Player<'_, '_>)) -> Vec<Row> {
        let plan = Plan::new(model, &self.limits).unwrap();
        let mut memory = Memory::new(plan.bytes());
        let mut engine = Engine::new(model, &plan, memory.bytes()).unwrap();
        engine.set_parallel(self.parallel);
        let mut player = Player { engine, sequences: Vec::new(), rows: Vec::new(), budget: self.budget };
        play(&mut player);
        player.rows
    }
}

/// An engine, and the expected contents of its sequences.
pub struct Player<'m, 'a> {
    pub engine: Engine<'m, 'a>,
    /// Open sequences with their tokens, including queued ones.
    pub sequences: Vec<(SeqId, Vec<u32>)>,
    pub rows: Vec<Row>,
    pub budget: usize,
}

impl Player<'_, '_> {
    pub fn open(&mut self) -> SeqId {
        let seq = self.engine.open().unwrap();
        self.sequences.push((seq, Vec::new()));
        seq
    }

    pub fn tokens(&mut self, seq: SeqId) -> &mut Vec<u32> {
        &mut self.sequences.iter_mut().find(|(other, _)| *other == seq).expect("open").1
    }

    pub fn try_queue(&mut self, seq: SeqId, tokens: &[u32]) -> Result<(), EngineError> {
        let position = self.engine.seq_len(seq)?;
        self.engine.queue(seq, position, tokens, Logits::All)?;
        self.tokens(seq).extend(tokens);
        Ok(())
    }

    pub fn queue(&mut self, seq: SeqId, tokens: &[u32]) {
        self.try_queue(seq, tokens).unwrap();
    }

    pub fn step(&mut self) -> Step {
        self.step_within(self.budget.into())
    }

    /// Makes one step, and records the rows that are ready.
    pub fn step_within(&mut self, budget: Budget<'_>) -> Step {
        let step = self.engine.step(budget).unwrap();
        if step == Step::Ready {
            let mut found = Vec::new();
            for (seq, position, logits) in self.engine.results() {
                found.push((seq, position, hash(logits)));
            }
            assert!(!found.is_empty());
            for (seq, position, hash) in found {
                let history = self.tokens(seq)[..=position].to_vec();
                self.rows.push((history, hash));
            }
        }
        step
    }

    pub fn run(&mut self) {
        while self.step() != Step::Idle {}
    }

    /// Queues tokens, and runs until nothing is queued.
    pub fn append(&mut self, seq: SeqId, tokens: &[u32]) {
        self.queue(seq, tokens);
        self.run();
    }

    /// Starts an empty sequence with the cached prefix of a prompt.
    pub fn reuse(&mut self, seq: SeqId, prompt: &[u32]) -> usize {
        let reused = self.engine.reuse(seq, prompt).unwrap();
        self.tokens(seq).extend(&prompt[..reused]);
        reused
    }

    pub fn try_fork(&mut self, seq: SeqId, keep: usize) -> Result<SeqId, EngineError> {
        let fork = self.engine.fork(seq, keep)?;
        let tokens = self.tokens(seq)[..keep].to_vec();
        self.sequences.push((fork, tokens));
        Ok(fork)
    }

    pub fn fork(&mut self, seq: SeqId, keep: usize) -> SeqId {
        self.try_fork(seq, keep).unwrap()
    }

    pub fn try_rewind(&mut self, seq: SeqId, keep: usize) -> Result<(), EngineError> {
        self.engine.rewind(seq, keep)?;
        self.tokens(seq).truncate(keep);
        Ok(())
    }

    pub fn rewind(&mut self, seq: SeqId, keep: usize) {
        self.try_rewind(seq, keep).unwrap();
    }

    pub fn try_close(&mut self, seq: SeqId) -> Result<(), EngineError> {
        self.engine.close(seq)?;
        self.sequences.retain(|(other, _)| *other != seq);
        Ok(())
    }

    pub fn close(&mut self, seq: SeqId) {
        self.try_close(seq).unwrap();
    }

    pub fn cancel(&mut self, seq: SeqId) {
        self.engine.cancel(seq).unwrap();
        let length = self.engine.seq_len(seq).unwrap();
        self.tokens(seq).truncate(length);
    }

    pub fn snapshot(&self, seq: SeqId) -> Vec<u8> {
        let mut bytes = vec![0; self.engine.snapshot_len(seq).unwrap()];
        assert_eq!(self.engine.snapshot(seq, &mut bytes).unwrap(), bytes.len());
        bytes
    }

    pub fn try_restore(&mut self, snapshot: &[u8], tokens: &[u32]) -> Result<SeqId, EngineError> {
        let seq = self.engine.restore(snapshot)?;
        assert_eq!(self.engine.seq_len(seq), Ok(tokens.len()));
        self.sequences.push((seq, tokens.to_vec()));
        Ok(seq)
    }
}

/// The rows of the plainest run: one sequence, one prefill, a paged cache, scalar code.
pub struct Plain<'m> {
    model: Model<'m>,
    kv_type: KvType,
    /// The window of the host. With a window, the cache keeps nothing between calls.
    window: Window,
    /// Hashes of the logits, by hashes of the tokens.
    rows: HashMap<u64, u64>,
}

impl<'m> Plain<'m> {
    pub fn new(model: &Model<'m>, kv_type: KvType) -> Self {
        Self { model: *model, kv_type, window: Window::ALL, rows: HashMap::new() }
    }

    pub fn with_window(model: &Model<'m>, kv_type: KvType, window: Window) -> Self {
        Self { window, ..Self::new(model, kv_type) }
    }

    /// Returns the number of tokens of the first recorded row that differs from the plain run.
    pub fn difference(&mut self, rows: &[Row]) -> Option<usize> {
        assert!(!rows.is_empty(), "nothing was recorded");
        let mut longest_first: Vec<&Row> = rows.iter().collect();
        longest_first.sort_by_key(|(tokens, _)| std::cmp::Reverse(tokens.len()));
        for (tokens, _) in longest_first {
            if !self.rows.contains_key(&key(tokens)) {
                self.compute(tokens);
            }
        }
        rows.iter().find(|(tokens, hash)| self.rows[&key(tokens)] != *hash).map(|(tokens, _)| tokens.len())
    }

    pub fn assert_same(&mut self, rows: &[Row], what: &dyn std::fmt::Debug) {
        if let Some(length) = self.difference(rows) {
            panic!("other bits after {length} tokens: {what:?}");
        }
    }

    fn compute(&mut self, tokens: &[u32]) {
        let limits = Limits {
            context: tokens.len().max(self.window.sinks + self.window.last),
            window: self.window,
            rows: 64,
            logit_rows: 64,
            kv_kind: if self.window.is_all() { KvKind::Paged } else { KvKind::Off },
            kv_type: self.kv_type,
            level: Level::SCALAR,
            ..Limits::default()
        };
        let plan = Plan::new(&self.model, &limits).unwrap();
        let mut memory = Memory::new(plan.bytes());
        let mut engine = Engine::new(&self.model, &plan, memory.bytes()).unwrap();
        let seq = engine.open().unwrap();
        let known = &mut self.rows;
        let insert = |position: usize, logits: &[f32]| {
            known.insert(key(&tokens[..=position]), hash(logits));
        };
        engine.prefill_rows(seq, tokens, insert).unwrap();
    }
}

/// Returns a hash of the bits of a row.
pub fn hash(logits: &[f32]) -> u64 {
    xxh64(bytemuck::cast_slice(logits), 1)
}

fn key(tokens: &[u32]) -> u64 {
    xxh64(bytemuck::cast_slice(tokens), 2)
}
