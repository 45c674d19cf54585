//! Measures the time of prefill and decode.

use std::time::{Duration, Instant};

use gguf_rs_lite::TensorInfo;
use gleed::cache::BLOCK_TOKENS;
use gleed::host::{AlignedBytes, ThreadPool};
use gleed::num::Xxh64;
use gleed::{Engine, KvType, Limits, Logits, Metrics, Model, Plan, SeqId, Step};
use indicatif::ProgressBar;

use crate::machine;
use common::Result;
use common::device::DeviceArgs;
use common::figures;
use common::output::{self, Output};
use common::random::Random;
use common::run::{self, Steps};
use common::trace::{Trace, Watcher};

/// The amount of work that a model takes.
pub(crate) struct Work {
    /// Number of elements of all matrices that every token is multiplied with.
    pub(crate) layer_weights: u64,
    /// Number of elements of the output matrix.
    pub(crate) output_weights: u64,
    /// Number of bytes of weights that a decode step reads.
    pub(crate) bytes: u64,
}

impl Work {
    pub(crate) fn of(model: &Model<'_>) -> Self {
        let matrix = |tensor: &TensorInfo<'_>| tensor.dims().len() > 1;
        let elements = |tensor: &TensorInfo<'_>| tensor.dims().iter().product::<u64>();
        let (gguf, embedding) = (model.gguf(), "token_embd.weight");
        // A token reads one row of the embedding, which does not count. Without `output.weight` the embedding is the
        // output matrix and counts.
        let output = gguf.tensor("output.weight").or_else(|| gguf.tensor(embedding));
        let output_name = output.map(|tensor| tensor.name()).unwrap_or_default();
        let read = |tensor: &TensorInfo<'_>| tensor.name() == output_name || tensor.name() != embedding;
        let layers = gguf.tensors().filter(|tensor| matrix(tensor) && tensor.name().starts_with("blk."));
        Self {
            layer_weights: layers.map(|tensor| elements(&tensor)).sum(),
            output_weights: output.map(|tensor| elements(&tensor)).unwrap_or(0),
            bytes: gguf.tensors().filter(read).map(|tensor| tensor.data().len() as u64).sum(),
        }
    }
}

/// Most tokens that a trace decodes.
const TRACED: usize = 4;

/// The parameters of a measurement.
pub(crate) struct Bench<'m> {
    pub(crate) model: &'m Model<'m>,
    pub(crate) file: &'m [u8],
    pub(crate) work: Work,
    pub(crate) device: &'m DeviceArgs,
    pub(crate) prompt: usize,
    pub(crate) r#gen: usize,
    pub(crate) depth: usize,
    pub(crate) repeat: usize,
    pub(crate) seed: u64,
    pub(crate) bar: ProgressBar,
}

/// The results of a measurement with some limits.
pub(crate) struct Run {
    pub(crate) limits: Limits,
    /// Name of the machine that computed.
    pub(crate) device: String,
    pub(crate) device_bytes: u64,
    pub(crate) plan_bytes: usize,
    pub(crate) units_per_token: usize,
    pub(crate) peak_resident: Option<u64>,
    pub(crate) prefill: Option<Phase>,
    pub(crate) decode: Option<Phase>,
    /// Decode while a GPU chooses the tokens.
    pub(crate) chosen: Option<Phase>,
}

/// Results of a phase, with one element for each repeat.
#[derive(Default)]
pub(crate) struct Phase {
    pub(crate) tokens_s: Vec<f64>,
    /// Prefill: multiply-adds per second. Decode: bytes of weights, keys and values per second.
    pub(crate) rate: Vec<f64>,
    /// Bytes of weights alone per second.
    pub(crate) weights_rate: Vec<f64>,
    /// Peak rate of the processor, measured just before each repeat. Empty for other devices.
    pub(crate) best: Vec<f64>,
    /// Part of the time that the threads waited for a core.
    pub(crate) waited: Vec<f64>,
    /// Hash of the last logits, or of the tokens that a GPU chose. It is the same for every level, number of threads
    /// and repeat.
    pub(crate) logits_hash: u64,
    /// Metrics of the engine for all repeats.
    pub(crate) metrics: Metrics,
}

impl Bench<'_> {
    pub(crate) fn run(&self, limits: &Limits) -> Result<Run> {
        let (plan, mut machine) = self.device.prepare(self.model, limits)?;
        let (device, device_bytes) = (machine.name().to_owned(), machine.device_bytes());
        let pool = ThreadPool::new(limits.workers)?;
        let mut memory = AlignedBytes::try_new(plan.bytes())?;
        machine::reset_peak_resident();
        let mut engine = machine.engine(self.model, &plan, memory.bytes())?;
        engine.set_parallel(&pool);
        engine.set_clock(Some(figures::clock()));
        let mut ids = Random::new(self.seed);
        let sequences = (0..limits.sequences).map(|_| engine.open()).collect::<std::result::Result<Vec<_>, _>>()?;
        Ok(Run {
            prefill: (self.prompt > 0).then(|| self.prefill(&mut engine, &plan, sequences[0], &mut ids)).transpose()?,
            decode: (self.r#gen > 0).then(|| self.decode(&mut engine, &plan, &sequences, &mut ids)).transpose()?,
            chosen: (self.r#gen > 0 && plan.is_for_device() && sequences.len() == 1)
                .then(|| self.chosen(&mut engine, &plan, sequences[0], &mut ids))
                .transpose()?,
            limits: *plan.limits(),
            device,
            device_bytes,
            plan_bytes: plan.bytes(),
            units_per_token: plan.units_per_token(),
            peak_resident: machine::peak_resident(),
        })
    }

    fn prefill(&self, engine: &mut Engine<'_, '_>, plan: &Plan, sequence: SeqId, ids: &mut Random) -> Result<Phase> {
        let limits = plan.limits();
        let prompt = ids.ids(self.prompt, self.model.config().vocab);
        let macs = self.work.layer_weights * self.prompt as u64 + self.work.output_weights;
        let mut phase = Phase::default();
        self.bar.set_message(format!("threads {}: prefill", limits.workers));
        // The first pass reads the file, starts the threads and touches the memory.
        engine.prefill(sequence, &prompt[..self.prompt.min(limits.rows)])?;
        engine.reset_metrics();
        for _ in 0..self.repeat {
            engine.reset(sequence)?;
            let best = if plan.is_for_device() { None } else { machine::integer_peak(limits.level, limits.workers) };
            let (took, waited) = timed(|| {
                engine.queue(sequence, 0, &prompt, Logits::Last)?;
                finish(engine)
            })?;
            phase.add(took, waited, limits.workers, self.prompt, macs as f64, best);
            self.bar.inc(1);
        }
        (phase.logits_hash, phase.metrics) = (hash(engine), engine.metrics());
        engine.reset(sequence)?;
        Ok(phase)
    }

    fn decode(&self, engine: &mut Engine<'_, '_>, plan: &Plan, sequences: &[SeqId], ids: &mut Random) -> Result<Phase> {
        let limits = plan.limits();
        let (threads, vocab) = (limits.workers, self.model.config().vocab);
        for &sequence in sequences.iter().filter(|_| self.depth > 0) {
            self.bar.set_message(format!("threads {threads}: {} tokens before decode", self.depth));
            engine.prefill(sequence, &ids.ids(self.depth, vocab))?;
        }
        let steps: Vec<Vec<u32>> = (0..self.r#gen).map(|_| ids.ids(sequences.len(), vocab)).collect();
        let bytes = self.work.bytes * self.r#gen as u64;
        let kv_bytes = self.kv_bytes(limits) * sequences.len() as u64;
        let mut phase = Phase::default();
        self.bar.set_message(format!("threads {threads}: decode"));
        for repeat in 0..=self.repeat {
            sequences.iter().try_for_each(|&sequence| engine.rewind(sequence, self.depth))?;
            let best = (!plan.is_for_device()).then(|| machine::streaming_read(self.file, threads));
            // The first repeat warms up and is not counted.
            let steps = if repeat == 0 { &steps[..1] } else { &steps[..] };
            let (took, waited) = timed(|| {
                for (position, tokens) in (self.depth..).zip(steps) {
                    for (&sequence, token) in sequences.iter().zip(tokens) {
                        engine.queue(sequence, position, &[*token], Logits::Last)?;
                    }
                    finish(engine)?;
                }
                Ok(())
            })?;
            if repeat == 0 {
                engine.reset_metrics();
            } else {
                let tokens = self.r#gen * sequences.len();
                phase.add(took, waited, threads, tokens, (bytes + kv_bytes) as f64, best);
                phase.weights_rate.push(bytes as f64 / took.as_secs_f64());
                self.bar.inc(1);
            }
        }
        (phase.logits_hash, phase.metrics) = (hash(engine), engine.metrics());
        Ok(phase)
    }

    /// Measures decode after the same tokens, while a GPU chooses several tokens in each call, as in `generate` and
    /// `chat`.
    fn chosen(&self, engine: &mut Engine<'_, '_>, plan: &Plan, sequence: SeqId, ids: &mut Random) -> Result<Phase> {
        let first = ids.ids(1, self.model.config().vocab);
        let mut chosen = vec![0; self.r#gen];
        let bytes = self.work.bytes * self.r#gen as u64;
        let mut phase = Phase::default();
        self.bar.set_message("decode, chosen by the device");
        engine.reset_metrics();
        for _ in 0..self.repeat {
            engine.rewind(sequence, self.depth)?;
            let (took, waited) = timed(|| {
                let mut token = first[0];
                for ids in chosen.chunks_mut(run::TOGETHER.min(plan.limits().rows)) {
                    engine.decode_greedy(sequence, token, ids)?;
                    token = ids[ids.len() - 1];
                }
                Ok(())
            })?;
            phase.add(took, waited, 1, self.r#gen, (bytes + self.kv_bytes(plan.limits())) as f64, None);
            phase.weights_rate.push(bytes as f64 / took.as_secs_f64());
        }
        let mut hash = Xxh64::new();
        chosen.iter().for_each(|id| hash.update(&id.to_le_bytes()));
        (phase.logits_hash, phase.metrics) = (hash.finish(), engine.metrics());
        Ok(phase)
    }

    /// Writes a trace of a prompt and a few tokens, if one is wanted. Nothing is measured meanwhile.
    pub(crate) fn trace(&self, output: Option<Output>, limits: &Limits) -> Result<()> {
        let Some(output) = output else { return Ok(()) };
        output::end_on_interrupt()?;
        let (plan, mut machine) = self.device.prepare(self.model, limits)?;
        let pool = ThreadPool::new(limits.workers)?;
        let watcher = Watcher::new(&pool);
        let trace = Trace::create(output, &watcher, self.model, &plan)?;
        let mut memory = AlignedBytes::try_new(plan.bytes())?;
        let mut engine = machine.engine(self.model, &plan, memory.bytes())?;
        engine.set_parallel(&watcher);
        let (steps, mut ids, vocab) =
            (Steps { plan: &plan, trace: Some(trace) }, Random::new(self.seed), self.model.config().vocab);
        let sequence = engine.open()?;
        if self.prompt > 0 {
            run::advance(&mut engine, &steps, sequence, &ids.ids(self.prompt, vocab))?;
            engine.reset(sequence)?;
        }
        for _ in 0..self.r#gen.min(TRACED) {
            run::advance(&mut engine, &steps, sequence, &ids.ids(1, vocab))?;
        }
        steps.finish()
    }

    /// Returns the bytes of keys and values that a sequence reads while it decodes.
    fn kv_bytes(&self, limits: &Limits) -> u64 {
        let config = self.model.config();
        let KvType { k, v } = limits.kv_type;
        let of_layer = |layer: usize| {
            let (kv, window) = (config.layer(layer).kv, config.windows[config.layer_groups.group(layer)]);
            let block = kv.heads * (k.k_tile(kv.head_dim).unwrap_or(0) + v.v_tile(kv.head_dim).unwrap_or(0));
            let seen = |position: usize| if window > 0 { window.min(position + 1) } else { position + 1 };
            let tokens: usize = (self.depth..self.depth + self.r#gen).map(seen).sum();
            (tokens * block / BLOCK_TOKENS) as u64
        };
        (0..config.layers).filter(|&layer| config.attention_layers.contains(layer)).map(of_layer).sum()
    }
}

impl Phase {
    fn add(&mut self, took: Duration, waited: f64, threads: usize, tokens: usize, work: f64, best: Option<f64>) {
        self.tokens_s.push(tokens as f64 / took.as_secs_f64());
        self.rate.push(work / took.as_secs_f64());
        self.best.extend(best);
        self.waited.push(waited / (took.as_secs_f64() * threads as f64));
    }
}

/// Returns the time that `work` takes, and the seconds that the threads waited for a core.
fn timed(work: impl FnOnce() -> Result<()>) -> Result<(Duration, f64)> {
    let waited = machine::waited().unwrap_or_default();
    let start = Instant::now();
    work()?;
    let took = start.elapsed();
    Ok((took, machine::waited().unwrap_or_default().saturating_sub(waited).as_secs_f64()))
}

/// Computes all queued tokens.
fn finish(engine: &mut Engine<'_, '_>) -> Result<()> {
    while engine.is_busy() {
        let _: Step = engine.step(usize::MAX)?;
    }
    Ok(())
}

fn hash(engine: &Engine<'_, '_>) -> u64 {
    let mut hash = Xxh64::new();
    for (_, _, logits) in engine.results() {
        logits.iter().for_each(|logit| hash.update(&logit.to_le_bytes()));
    }
    hash.finish()
}
