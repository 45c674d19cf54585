//! Measures the time of single units of work. Every step has a budget of one unit.

use std::collections::BTreeMap;
use std::io::{Write, stdout};
use std::time::{Duration, Instant};

use gleed::cache::BLOCK_TOKENS;
use gleed::host::AlignedBytes;
use gleed::program::Part;
use gleed::{Engine, Limits, Logits, Model, Plan, SeqId, Step};

use common::Result;
use common::random::Random;

/// The parameters of a measurement.
pub(crate) struct Units<'m> {
    pub(crate) model: &'m Model<'m>,
    /// Number of tokens that each sequence has before the batch.
    pub(crate) depth: usize,
    /// Number of times that each unit is done. The least time counts, so that other work of the machine is left out.
    pub(crate) repeat: usize,
    pub(crate) seed: u64,
}

/// A unit of work.
struct Unit {
    /// Step of the program that it belongs to: part and operation. `None` if it begins a batch.
    step: Option<(Part, &'static str)>,
    took: Duration,
}

impl Unit {
    fn operation(&self) -> &'static str {
        self.step.map_or("begin", |(_, operation)| operation)
    }
}

impl Units<'_> {
    /// Measures a batch with one chunk of a prompt for each sequence, and prints a table. Times are wall-clock times,
    /// so the processor time of a unit is at most as long.
    pub(crate) fn print(&self, limits: &Limits, chunk: usize) -> Result<()> {
        let least = self.measure(limits, chunk)?;
        let mut operations: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
        for unit in &least {
            operations.entry(unit.operation()).or_default().push(unit.took);
        }
        let all: Duration = least.iter().map(|unit| unit.took).sum();
        operations.insert("all", least.iter().map(|unit| unit.took).collect());
        let mut out = stdout().lock();
        let Limits { sequences, level, kv_type, .. } = limits;
        writeln!(out, "{sequences} x {chunk} rows from position {} on, level {level}, kv {kv_type}", self.depth)?;
        let heads = ["units", "us mean", "p50", "p99", "max", "of time"];
        let [units, mean, p50, p99, max, part] = heads;
        writeln!(out, "{:<20} {units:>7} {mean:>9} {p50:>9} {p99:>9} {max:>9} {part:>8}", "operation")?;
        for (operation, mut times) in operations {
            times.sort();
            let us = |time: Duration| time.as_secs_f64() * 1e6;
            let at = |part: f64| us(times[((times.len() - 1) as f64 * part) as usize]);
            let sum: Duration = times.iter().sum();
            let part = 100.0 * sum.as_secs_f64() / all.as_secs_f64();
            let (count, mean) = (times.len(), us(sum) / times.len() as f64);
            let [p50, p99, max] = [0.5, 0.99, 1.0].map(at);
            writeln!(out, "{operation:<20} {count:>7} {mean:>9.1} {p50:>9.1} {p99:>9.1} {max:>9.1} {part:>7.1}%")?;
        }
        write!(out, "{} steps, after each of which the threads meet; times as fast at most:", steps(&least).count())?;
        for threads in [2, 4, 8, 16] {
            let path = critical_path(&least, threads);
            write!(out, "  {threads} threads {:.2}", all.as_secs_f64() / path.as_secs_f64())?;
        }
        Ok(writeln!(out, "\n")?)
    }

    fn measure(&self, limits: &Limits, chunk: usize) -> Result<Vec<Unit>> {
        let plan = Plan::new(self.model, &self.limits(limits, chunk))?;
        let mut memory = AlignedBytes::try_new(plan.bytes())?;
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
            least.iter_mut().zip(again).for_each(|(least, again)| least.took = least.took.min(again.took));
        }
        Ok(least)
    }

    /// Measures one pass over forks of `base`. They share its partial block, so the batch begins with copies.
    fn one_pass(&self, engine: &mut Engine<'_, '_>, base: SeqId, prompts: &[Vec<u32>]) -> Result<Vec<Unit>> {
        let forks = prompts.iter().map(|_| engine.fork(base, self.depth));
        let forks = forks.collect::<std::result::Result<Vec<_>, _>>()?;
        for (&fork, prompt) in forks.iter().zip(prompts) {
            engine.queue(fork, self.depth, prompt, Logits::Last)?;
        }
        let mut units = Vec::new();
        while engine.is_busy() {
            let step = engine.next_step().map(|step| (step.part, step.operation));
            let start = Instant::now();
            let _: Step = engine.step(1)?;
            units.push(Unit { step, took: start.elapsed() });
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

/// Returns the units of each step of the program.
fn steps(units: &[Unit]) -> impl Iterator<Item = &[Unit]> {
    units.chunk_by(|one, next| one.step == next.step)
}

/// Returns the least time that `threads` threads take, if meeting costs nothing. Each unit goes to the thread that is
/// free first.
fn critical_path(units: &[Unit], threads: usize) -> Duration {
    let of_step = |units: &[Unit]| {
        let mut busy = vec![Duration::ZERO; threads];
        for unit in units {
            if let Some(first) = busy.iter_mut().min() {
                *first += unit.took;
            }
        }
        busy.into_iter().max().unwrap_or_default()
    };
    steps(units).map(of_step).sum()
}
