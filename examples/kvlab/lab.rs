//! Shared by all experiments: flags, engines, caches without a model, and timing.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use gleed::cache::{KvCache, KvGeometry};
use gleed::host::{AlignedBytes, ThreadPool};
use gleed::kernels::Level;
use gleed::mem::Arena;
use gleed::{Engine, KvType, Limits, Model, Step};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use common::args::{ModelArgs, threads};
use common::device::DeviceArgs;
use common::random::Random;
use common::{ModelFile, Result};

/// Flags of every experiment.
#[derive(Args)]
pub(crate) struct LabArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,

    /// Folder for the plots; the program creates it
    #[arg(long, value_name = "DIR", default_value = "kvlab")]
    pub(crate) out: PathBuf,

    /// Write tables and curves to this file as JSON [default: write no file]
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Number of threads that compute, or `parallel`: one for each processor
    #[arg(long, value_name = "N|parallel", default_value_t = 1, value_parser = threads)]
    pub(crate) threads: usize,

    /// Instruction set of the kernels; `simd` is the best one [default: the best that this machine has]
    #[arg(long, value_name = "NAME", value_parser = Level::from_name)]
    pub(crate) level: Option<Level>,

    /// Element type of keys and values: f32, f16, q8_0 or q4_0; or two types, as in q8_0/q4_0
    #[arg(long, value_name = "TYPE", default_value = "f16", value_parser = KvType::from_name)]
    pub(crate) kv_type: KvType,

    #[command(flatten)]
    pub(crate) device: DeviceArgs,

    /// Measure less: the program takes seconds, and the figures are rough
    #[arg(long)]
    pub(crate) quick: bool,
}

/// The model and the flags of an experiment.
pub(crate) struct Lab<'m> {
    pub(crate) model: &'m Model<'m>,
    pub(crate) file: &'m ModelFile,
    pub(crate) args: &'m LabArgs,
}

impl<'m> Lab<'m> {
    /// Returns limits for one sequence of `context` tokens.
    pub(crate) fn limits(&self, context: usize) -> Limits {
        let level = self.args.level.unwrap_or_else(Level::detect);
        Limits { context, kv_type: self.args.kv_type, workers: self.args.threads, level, ..Limits::default() }
    }

    /// Calls `work` with an engine that has these limits.
    pub(crate) fn with_engine<R>(
        &self,
        limits: &Limits,
        work: impl FnOnce(&mut Engine<'_, '_>) -> Result<R>,
    ) -> Result<R> {
        let (plan, mut machine) = self.args.device.prepare(self.model, limits)?;
        let pool = ThreadPool::new(limits.workers)?;
        let mut memory = AlignedBytes::try_new(plan.bytes())?;
        let mut engine = machine.engine(self.model, &plan, memory.bytes())?;
        engine.set_parallel(&pool);
        work(&mut engine)
    }

    /// Returns random tokens, the same ones each time.
    pub(crate) fn tokens(&self, count: usize) -> Vec<u32> {
        Random::new(0).ids(count, self.model.config().vocab)
    }

    /// Returns the geometry of the model's cache for one sequence of `context` tokens. The context may be longer than
    /// the model's.
    pub(crate) fn geometry(&self, context: usize) -> Result<KvGeometry> {
        let geometry = self.with_engine(&self.limits(1), |engine| Ok(*engine.cache().geometry()))?;
        let geometry = KvGeometry { context, ..geometry };
        Ok(KvGeometry { blocks: geometry.blocks_per_sequence(), ..geometry })
    }
}

/// Calls `work` with a cache that belongs to no model.
pub(crate) fn with_cache<R>(geometry: KvGeometry, work: impl FnOnce(&mut KvCache<'_>) -> Result<R>) -> Result<R> {
    let mut measuring = Arena::measuring();
    KvCache::carve(&mut measuring, geometry)?;
    let mut memory = AlignedBytes::new(measuring.used());
    work(&mut KvCache::carve(&mut Arena::new(memory.bytes())?, geometry)?)
}

/// Computes all queued tokens.
pub(crate) fn finish(engine: &mut Engine<'_, '_>) -> Result<()> {
    while engine.is_busy() {
        let _: Step = engine.step(usize::MAX)?;
    }
    Ok(())
}

/// Returns the milliseconds that `work` takes.
pub(crate) fn timed(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

/// Returns the median of the samples, or 0 if there are none.
pub(crate) fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |index: usize| sorted.get(index).copied().unwrap_or(0.0);
    (at(sorted.len() / 2) + at(sorted.len().saturating_sub(1) / 2)) / 2.0
}

/// Returns a progress bar on standard error.
pub(crate) fn bar(total: usize, message: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {bar:32} {pos}/{len}, {eta} left");
    ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr())
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_message(message)
}
