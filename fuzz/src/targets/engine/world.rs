//! The engine, and its expected contents.

use std::ops::Range;

use gleed::cache::{CacheStats, SequenceStats};
use gleed::{Engine, EngineError, KvKind, Plan, Progress, SeqId};

use super::oracle::{Oracle, Scaled, hash};
use super::texts::{Place, Text};
use crate::support::forbidden;
use crate::support::memory::Peek;

/// The expected state of a sequence.
#[derive(Clone)]
pub struct Timeline {
    pub seq: SeqId,
    /// Its tokens, including queued ones.
    pub tokens: Vec<Scaled>,
    /// The bits of its adapter's scale.
    pub scale: u32,
    /// How many of the tokens are queued.
    pub pending: usize,
    /// Whether the oracle cannot compute its keys and values: they come from outside, or have two scales with a window.
    pub is_strange: bool,
}

impl Timeline {
    pub fn new(seq: SeqId) -> Self {
        Self { seq, tokens: Vec::new(), scale: 0, pending: 0, is_strange: false }
    }
}

/// A snapshot, and the expected state of its sequence.
pub struct Saved {
    pub bytes: Vec<u8>,
    pub of: Timeline,
    pub base: usize,
    pub state: usize,
}

pub struct World<'m, 'a, 'p> {
    pub engine: Engine<'m, 'a>,
    pub oracle: Oracle<'m>,
    pub is_loaded: bool,
    pub open: Vec<Timeline>,
    pub closed: Vec<SeqId>,
    pub saved: Vec<Saved>,
    pub pins: Vec<Vec<u32>>,
    pub texts: Vec<Text<'p>>,
    pub places: std::slice::IterMut<'p, Place>,
    peek: Peek,
    sections: Vec<Range<usize>>,
    /// Whether each step computes all tokens again, with the present scale.
    is_off: bool,
    has_window: bool,
}

/// What a refused call leaves as it is: all of the engine's memory, and what the engine reports.
#[derive(PartialEq)]
pub struct Seen {
    memory: Vec<u8>,
    pub says: Says,
}

/// What an engine reports: the progress, the statistics and the adapter's scale of each sequence, the statistics of the
/// cache, and the positions of results.
#[derive(Debug, PartialEq)]
pub struct Says {
    sequences: Vec<(Result<Progress, EngineError>, Result<SequenceStats, EngineError>, Result<u32, EngineError>)>,
    stats: CacheStats,
    results: Vec<(SeqId, usize)>,
    hidden: usize,
}

impl<'m, 'a, 'p> World<'m, 'a, 'p> {
    pub fn new(engine: Engine<'m, 'a>, peek: Peek, plan: &Plan, oracle: Oracle<'m>, places: &'p mut [Place]) -> Self {
        let limits = plan.limits();
        Self {
            engine,
            oracle,
            is_loaded: false,
            open: Vec::new(),
            closed: vec![SeqId::from_bits(0), SeqId::from_bits(u32::MAX)],
            saved: Vec::new(),
            pins: Vec::new(),
            texts: Vec::new(),
            places: places.iter_mut(),
            peek,
            sections: plan.sections().iter().map(|section| section.offset..section.offset + section.bytes).collect(),
            is_off: limits.kv_kind == KvKind::Off,
            has_window: !limits.window.is_all(),
        }
    }

    pub fn position_of(&self, seq: SeqId) -> Option<usize> {
        self.open.iter().position(|timeline| timeline.seq == seq)
    }

    pub fn see(&self) -> Seen {
        let engine = &self.engine;
        let of = |timeline: &Timeline| {
            let seq = timeline.seq;
            (engine.progress(seq), engine.sequence_stats(seq), engine.adapter(seq, 0).map(f32::to_bits))
        };
        let says = Says {
            sequences: self.open.iter().map(of).collect(),
            stats: engine.stats(),
            results: engine.results().map(|(seq, position, _)| (seq, position)).collect(),
            hidden: engine.hidden_rows(),
        };
        Seen { memory: self.peek.copy(&self.sections), says }
    }

    /// Appends tokens to the expected tokens of a sequence.
    pub fn append(&mut self, index: usize, tokens: &[u32]) {
        let (is_off, has_window) = (self.is_off, self.has_window);
        let timeline = &mut self.open[index];
        let scale = timeline.scale;
        if is_off && !tokens.is_empty() {
            timeline.tokens.iter_mut().for_each(|token| token.1 = scale);
        }
        timeline.tokens.extend(tokens.iter().map(|&token| (token, scale)));
        timeline.is_strange |= has_window && timeline.tokens.iter().any(|token| token.1 != timeline.tokens[0].1);
    }

    /// Cuts the expected tokens of a sequence.
    pub fn truncate(&mut self, index: usize, keep: usize) {
        let timeline = &mut self.open[index];
        timeline.tokens.truncate(keep);
        timeline.pending = 0;
        timeline.is_strange &= keep > 0;
    }

    /// Compares a row of logits with the row that the oracle computes.
    pub fn compare(&self, timeline: &Timeline, position: usize, row: u64, what: &str) {
        if !timeline.is_strange {
            let wanted = self.oracle.row(&timeline.tokens[..=position]);
            assert!(row == wanted, "{what}: other bits behind token {position} of {:?}", timeline.tokens);
        }
    }

    /// Compares the logits of the last token of a sequence.
    pub fn compare_last(&self, index: usize, what: &str) {
        let timeline = &self.open[index];
        let logits = self.engine.logits(timeline.seq).expect("logits of the last token");
        self.compare(timeline, timeline.tokens.len() - 1, hash(logits), what);
    }

    /// Checks what must hold after every call.
    pub fn check(&self, what: &str) {
        for timeline in &self.open {
            let length = self.engine.seq_len(timeline.seq).map(|length| length + timeline.pending);
            assert_eq!(length, Ok(timeline.tokens.len()), "{what}: the length of a sequence");
        }
        assert_eq!(self.engine.is_busy(), self.open.iter().any(|timeline| timeline.pending > 0), "{what}");
        if let Err(rule) = self.engine.cache().check() {
            panic!("{what}: {rule}");
        }
    }

    /// Computes one more token of every sequence, and closes all.
    pub fn finish(&mut self) {
        for index in 0..self.open.len() {
            let seq = self.open[index].seq;
            self.engine.cancel(seq).expect("an open sequence");
            let length = self.engine.seq_len(seq).expect("an open sequence");
            self.open[index].pending = 0;
            self.open[index].tokens.truncate(length);
        }
        for index in 0..self.open.len() {
            let seq = self.open[index].seq;
            if forbidden(|| self.engine.decode_step(seq, 1).is_ok()) {
                self.append(index, &[1]);
                self.compare_last(index, "the end");
            }
        }
        self.open.drain(..).for_each(|timeline| self.engine.close(timeline.seq).expect("an open sequence"));
        for pin in self.pins.drain(..) {
            assert_eq!(self.engine.unpin(&pin), Ok(pin.len()));
        }
        let stats = self.engine.stats();
        assert!(stats.pools.iter().all(|pool| pool.used == 0 && pool.pinned == 0), "blocks are left: {stats:?}");
        self.check("the end");
    }
}
