//! Random calls of an engine, and the expected contents of its sequences.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gleed::cache::SnapshotOptions;
use gleed::model::Adapter;
use gleed::{Budget, Deadline, Engine, EngineError, KvType, Logits, Model, Plan, SeqId, Step, Window};

use crate::oracle::Oracle;
use crate::{CONTEXT, VOCAB};
use common::random::Rng;

/// Number of files of a round.
const FILES: usize = 4;

#[derive(Debug, Default)]
pub(crate) struct Counts {
    calls: u64,
    refused: u64,
    tokens: u64,
    compared: u64,
    saved: u64,
    restored: u64,
    cancelled: u64,
}

#[derive(Clone)]
struct Text {
    seq: SeqId,
    tokens: Vec<u32>,
    scale: f32,
}

pub(crate) struct Traffic<'m, 'a, 't> {
    engine: Engine<'m, 'a>,
    model: &'t Model<'m>,
    adapter: &'t Adapter<'m>,
    kind: (KvType, Window),
    oracle: &'t mut Oracle,
    folder: &'t Path,
    rng: Rng,
    open: Vec<Text>,
    saved: [Option<Text>; FILES],
}

impl<'m, 'a, 't> Traffic<'m, 'a, 't> {
    pub(crate) fn new(
        engine: Engine<'m, 'a>,
        model: &'t Model<'m>,
        adapter: &'t Adapter<'m>,
        plan: &Plan,
        oracle: &'t mut Oracle,
        folder: &'t Path,
        seed: u64,
    ) -> Self {
        let kind = (plan.limits().kv_type, plan.limits().window);
        let (rng, open, saved) = (Rng::new(seed), Vec::new(), Default::default());
        Self { engine, model, adapter, kind, oracle, folder, rng, open, saved }
    }

    /// Makes `calls` calls, then closes all sequences.
    pub(crate) fn play(&mut self, calls: usize, counts: &mut Counts) {
        for _ in 0..calls {
            counts.calls += 1;
            match self.call(counts) {
                Ok(()) => {}
                Err(EngineError::Internal(_) | EngineError::NonFinite { .. }) => panic!("an error that cannot be"),
                Err(_) => counts.refused += 1,
            }
            assert_eq!(self.engine.cache().check(), Ok(()));
            for text in &self.open {
                assert_eq!(self.engine.seq_len(text.seq), Ok(text.tokens.len()));
            }
        }
        self.open.drain(..).for_each(|text| self.engine.close(text.seq).unwrap());
        assert!(self.engine.stats().pools.iter().all(|pool| pool.used == 0 && pool.pinned == 0));
        let size = |index: usize| std::fs::metadata(self.file(index)).map_or(0, |file| file.len());
        assert!((0..FILES).map(size).sum::<u64>() < 1 << 20, "files that grow");
    }

    fn call(&mut self, counts: &mut Counts) -> Result<(), EngineError> {
        if self.open.is_empty() {
            return self.begin();
        }
        let index = self.rng.below(self.open.len());
        match self.rng.below(16) {
            0 => self.begin(),
            1 => {
                let text = self.open.swap_remove(index);
                self.engine.close(text.seq)
            }
            2 | 3 => self.fork(index),
            4 => {
                let keep = self.rng.below(self.open[index].tokens.len() + 1);
                self.engine.rewind(self.open[index].seq, keep)?;
                self.open[index].tokens.truncate(keep);
                Ok(())
            }
            5 => self.save(index, counts),
            6 => self.restore(counts),
            7 => self.make_room(index),
            8 | 9 => self.prompt(index, counts),
            10..13 => self.slices(index, counts),
            _ => self.decode(index, counts),
        }
    }

    fn begin(&mut self) -> Result<(), EngineError> {
        let seq = self.engine.open()?;
        let scale = [0.0, 0.0, 1.0, -0.5][self.rng.below(4)];
        self.engine.set_adapter(seq, 0, scale)?;
        self.open.push(Text { seq, tokens: Vec::new(), scale });
        Ok(())
    }

    fn fork(&mut self, index: usize) -> Result<(), EngineError> {
        let keep = self.rng.below(self.open[index].tokens.len() + 1);
        let seq = self.engine.fork(self.open[index].seq, keep)?;
        let mut text = Text { seq, ..self.open[index].clone() };
        text.tokens.truncate(keep);
        self.open.push(text);
        Ok(())
    }

    fn tokens(&mut self, most: usize) -> Vec<u32> {
        let len = 1 + self.rng.below(most);
        // Often the same tokens, so that prefixes repeat.
        if self.rng.below(2) == 0 { (0..len as u32).map(|at| at % 5).collect() } else { self.rng.tokens(len, VOCAB) }
    }

    fn prompt(&mut self, index: usize, counts: &mut Counts) -> Result<(), EngineError> {
        let (prompt, seq) = (self.tokens(40), self.open[index].seq);
        if self.open[index].tokens.is_empty() {
            self.engine.prefill_prompt(seq, &prompt).map(drop)?;
        } else {
            self.engine.prefill(seq, &prompt).map(drop)?;
        }
        self.took(index, &prompt, counts);
        Ok(())
    }

    fn decode(&mut self, index: usize, counts: &mut Counts) -> Result<(), EngineError> {
        let (seq, token) = (self.open[index].seq, self.rng.below(VOCAB) as u32);
        self.engine.decode_step(seq, token).map(drop)?;
        self.took(index, &[token], counts);
        Ok(())
    }

    fn took(&mut self, index: usize, tokens: &[u32], counts: &mut Counts) {
        let text = &mut self.open[index];
        text.tokens.extend_from_slice(tokens);
        counts.tokens += tokens.len() as u64;
        // With a window, a text may be longer than the context of the oracle, which computes the whole text again.
        if text.tokens.len() <= CONTEXT && self.rng.below(8) == 0 {
            counts.compared += 1;
            let logits = self.engine.logits(text.seq).unwrap();
            let how = (self.model, self.adapter, text.scale);
            assert!(self.oracle.agrees(how, self.kind, &text.tokens, logits), "other bits of {:?}", text.tokens);
        }
    }

    /// Computes tokens in small steps that end by units, by a clock, or by a flag.
    fn slices(&mut self, index: usize, counts: &mut Counts) -> Result<(), EngineError> {
        let (tokens, seq, position) = (self.tokens(30), self.open[index].seq, self.open[index].tokens.len());
        self.engine.queue(seq, position, &tokens, Logits::Last)?;
        let (cancel, ticks) = (AtomicBool::new(false), AtomicU64::new(0));
        let clock = || ticks.fetch_add(1, Ordering::Relaxed);
        let mut left = if self.rng.below(4) == 0 { self.rng.below(6) } else { usize::MAX };
        let mut is_ready = false;
        loop {
            let budget = match self.rng.below(3) {
                0 => Budget::from(1 + self.rng.below(20)),
                1 => Budget::from(Deadline { clock: &clock, at: ticks.load(Ordering::Relaxed) + 9 }),
                _ => Budget { cancel: Some(&cancel), ..Budget::default() },
            };
            match self.engine.step(budget)? {
                Step::Idle => break,
                Step::Ready => is_ready = true,
                Step::Yielded | Step::Cancelled => {}
            }
            left = left.saturating_sub(1);
            if left == 0 {
                counts.cancelled += 1;
                cancel.store(true, Ordering::Relaxed);
                self.engine.cancel(seq)?;
                break;
            }
        }
        let taken = self.engine.seq_len(seq)? - position;
        if is_ready && taken == tokens.len() && self.engine.logits(seq).is_some() {
            self.took(index, &tokens, counts);
        } else {
            self.open[index].tokens.extend_from_slice(&tokens[..taken]);
        }
        Ok(())
    }

    fn make_room(&mut self, index: usize) -> Result<(), EngineError> {
        let (tokens, consents) = (self.rng.below(40), self.rng.u64());
        let mut asked = 0;
        let consent = |_: SeqId, _: &_| {
            asked += 1;
            consents >> (asked % 64) & 1 == 1
        };
        let result = self.engine.make_room(self.open[index].seq, tokens, consent).map(drop);
        let engine = &self.engine;
        self.open.retain(|text| engine.seq_len(text.seq).is_ok());
        result
    }

    fn file(&self, index: usize) -> std::path::PathBuf {
        self.folder.join(format!("{index}.snapshot"))
    }

    fn save(&mut self, index: usize, counts: &mut Counts) -> Result<(), EngineError> {
        let place = self.rng.below(FILES);
        let mut file = BufWriter::new(File::create(self.file(place)).unwrap());
        self.saved[place] = None;
        let text = &self.open[index];
        let written = self.engine.write_snapshot(text.seq, &SnapshotOptions::default(), |bytes| file.write_all(bytes));
        match written {
            Ok(_) => file.flush().unwrap(),
            Err(gleed::StreamError::Engine(error)) => return Err(error),
            Err(gleed::StreamError::Host(error)) => panic!("{error}"),
        }
        counts.saved += 1;
        self.saved[place] = Some(text.clone());
        Ok(())
    }

    fn restore(&mut self, counts: &mut Counts) -> Result<(), EngineError> {
        let place = self.rng.below(FILES);
        let Some(text) = self.saved[place].clone() else { return Ok(()) };
        let mut file = BufReader::new(File::open(self.file(place)).unwrap());
        let (seq, _) = match self.engine.read_snapshot(None, |out| file.read(out)) {
            Ok(restored) => restored,
            Err(gleed::StreamError::Engine(error)) => return Err(error),
            Err(gleed::StreamError::Host(error)) => panic!("{error}"),
        };
        counts.restored += 1;
        self.engine.set_adapter(seq, 0, text.scale)?;
        self.open.push(Text { seq, ..text });
        Ok(())
    }
}
