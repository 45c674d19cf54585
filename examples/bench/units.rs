//! How long units of work take: every step has a budget of one unit.

use std::collections::BTreeMap;
use std::io::{Write, stdout};
use std::time::{Duration, Instant};

use gleed::cache::BLOCK_TOKENS;
use gleed::host::AlignedBytes;
use gleed::{Engine, Limits, Logits, Model, Plan, SeqId, Step};

use crate::common::Result;
use crate::common::random::Random;

/// What is measured.
pub(crate) struct Units<'m> {
    pub(crate) model: &'m Model<'m>,
    /// Tokens that each sequence has before.
    pub(crate) depth: usize,
    /// How often each unit is done; the least time counts, so that what else the machine does is left out.
    pub(crate) repeat: usize,
    pub(crate) seed: u64,
}

/// A unit and the part of the pass that it belongs to.
type Unit = (String, Duration);

impl Units<'_> {
    /// Measures a batch of one chunk of a prompt per sequence, and prints a table. The clock is that on the wall, so
    /// the processor time of a unit is no more than this.
    pub(crate) fn print(&self, limits: &Limits, chunk: usize) -> Result<()> {
        let least = self.measure(limits, chunk)?;
        let mut stages: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
        for (stage, took) in &least {
            stages.entry(stage).or_default().push(*took);
        }
        stages.insert("all", least.iter().map(|(_, took)| *took).collect());
        let mut out = stdout().lock();
        let Limits { sequences, level, kv_type, .. } = limits;
        writeln!(out, "{sequences} x {chunk} rows from position {} on, level {level}, kv {kv_type}", self.depth)?;
        writeln!(out, "{:<16} {:>7} {:>9} {:>9} {:>9} {:>9}", "stage", "units", "us mean", "p50", "p99", "max")?;
        for (stage, mut times) in stages {
            times.sort();
            let us = |time: Duration| time.as_secs_f64() * 1e6;
            let at = |part: f64| us(times[((times.len() - 1) as f64 * part) as usize]);
            let mean = us(times.iter().sum()) / times.len() as f64;
            writeln!(
                out,
                "{stage:<16} {:>7} {mean:>9.1} {:>9.1} {:>9.1} {:>9.1}",
                times.len(),
                at(0.5),
                at(0.99),
                at(1.0)
            )?;
        }
        Ok(writeln!(out)?)
    }

    fn measure(&self, limits: &Limits, chunk: usize) -> Result<Vec<Unit>> {
        let plan = Plan::new(self.model, &self.limits(limits, chunk))?;
        let mut memory = AlignedBytes::new(plan.bytes());
        let mut engine = Engine::new(self.model, &plan, memory.bytes())?;
        let (mut ids, vocab) = (Random::new(self.seed), self.model.config().vocab);
        let base = engine.open()?;
        if self.depth > 0 {
            engine.prefill(base, &ids.ids(self.depth, vocab))?;
        }
        let prompts: Vec<_> = (0..limits.sequences).map(|_| ids.ids(chunk, vocab)).collect();
        let mut least = self.one_pass(&mut engine, base, &prompts)?;
        for _ in 1..self.repeat {
            let again = self.one_pass(&mut engine, base, &prompts)?;
            least.iter_mut().zip(again).for_each(|((_, least), (_, took))| *least = took.min(*least));
        }
        Ok(least)
    }

    /// The forks share the base's partial block, so their batch begins with copies.
    fn one_pass(&self, engine: &mut Engine<'_, '_>, base: SeqId, prompts: &[Vec<u32>]) -> Result<Vec<Unit>> {
        let forks = prompts.iter().map(|_| engine.fork(base, self.depth));
        let forks = forks.collect::<std::result::Result<Vec<_>, _>>()?;
        for (&fork, prompt) in forks.iter().zip(prompts) {
            engine.queue(fork, self.depth, prompt, Logits::Last)?;
        }
        let (mut units, mut next) = (Vec::new(), "Begin".to_owned());
        while engine.is_busy() {
            let start = Instant::now();
            let _: Step = engine.step(1)?;
            let took = start.elapsed();
            units.push((std::mem::replace(&mut next, stage(engine)), took));
        }
        forks.iter().try_for_each(|&fork| engine.close(fork))?;
        Ok(units)
    }

    fn limits(&self, limits: &Limits, chunk: usize) -> Limits {
        let sequences = limits.sequences;
        let blocks = |tokens: usize| tokens.div_ceil(BLOCK_TOKENS);
        Limits {
            sequences: sequences + 1,
            context: self.depth + chunk,
            rows: (sequences * chunk).max(64),
            logit_rows: sequences,
            kv_blocks: blocks(self.depth) + sequences * (blocks(chunk) + 1),
            workers: 1,
            ..*limits
        }
    }
}

/// What the engine does next, from what it shows of itself.
fn stage(engine: &Engine<'_, '_>) -> String {
    let shown = format!("{engine:?}");
    let word = |after: &str| {
        let rest = shown.split_once(after)?.1;
        Some(rest.split(|c: char| !c.is_alphanumeric()).next()?.to_owned())
    };
    word("stage: ").or_else(|| word("phase: ")).unwrap_or_default()
}
