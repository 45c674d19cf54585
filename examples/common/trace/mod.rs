//! Traces of an engine's work for `chrome://tracing` and <https://ui.perfetto.dev>: forward passes, layers and
//! operations, and the units of each worker.
//!
//! The engine knows nothing of traces. Each step has the units of one operation, the executor is a [`Watcher`], and
//! each call of the deadline's clock marks the start of a unit. Because of the deadline the workers take units in
//! order, which is slower with several workers.

mod watcher;

use std::cell::RefCell;
use std::io::{BufWriter, IntoInnerError, Write};

use gleed::program::Part;
use gleed::{Budget, Deadline, Engine, Metrics, Model, Plan, Step};
use serde_json::{Value, json};

use super::Result;
use super::output::{Output, Unfinished};
pub use watcher::Watcher;

/// Number of the timeline of passes, layers and operations. The timelines of the workers are 1, 2 and so on.
const ENGINE: usize = 0;

/// Writes a trace.
pub struct Trace<'w> {
    watcher: &'w Watcher<'w>,
    /// Name of the operation with which every batch begins.
    first: &'static str,
    writer: RefCell<Writer>,
}

struct Writer {
    file: BufWriter<Unfinished>,
    is_empty: bool,
    /// Time at which the pass in progress began.
    pass: Option<u64>,
    /// Layer that was last worked on, and the times at which it began and ended.
    layer: Option<(Part, u64, u64)>,
}

impl<'w> Trace<'w> {
    /// Begins a trace of an engine with this plan, whose executor is `watcher`.
    pub fn create(output: Output, watcher: &'w Watcher<'w>, model: &Model<'_>, plan: &Plan) -> Result<Self> {
        if plan.is_for_device() {
            return Err("--trace needs --device cpu".into());
        }
        let mut first = "";
        plan.for_each_step(model, &mut |step| first = if first.is_empty() { step.operation } else { first })?;
        let mut writer = Writer { file: BufWriter::new(output.begin()?), is_empty: true, pass: None, layer: None };
        for thread in 0..=watcher.workers() {
            let name = if thread == ENGINE { "engine".to_owned() } else { format!("worker {}", thread - 1) };
            writer
                .write(&json!({"name": "thread_name", "ph": "M", "pid": 1, "tid": thread, "args": {"name": name}}))?;
        }
        Ok(Self { watcher, first, writer: RefCell::new(writer) })
    }

    /// Calls [`Engine::step`] with a budget of units, operation by operation. The last operation may exceed the budget.
    pub fn step(&self, engine: &mut Engine<'_, '_>, units: usize) -> Result<Step> {
        let mut left = units;
        while left > 0 {
            let (step, done) = self.operation(engine)?;
            if step != Step::Yielded {
                return Ok(step);
            }
            left = left.saturating_sub(done.max(1));
        }
        Ok(Step::Yielded)
    }

    /// Ends the file.
    pub fn finish(self) -> Result<()> {
        let mut writer = self.writer.into_inner();
        writer.file.write_all(b"\n]\n")?;
        writer.file.into_inner().map_err(IntoInnerError::into_error)?.finish()
    }

    /// Runs the next operation and writes its events. Returns the step's result and the number of units.
    fn operation(&self, engine: &mut Engine<'_, '_>) -> Result<(Step, usize)> {
        let (before, next) = (engine.metrics(), engine.next_step());
        let units = next.as_ref().map_or(1, |next| next.units.saturating_sub(next.done).max(1));
        let begin = self.watcher.now();
        self.watcher.begin();
        let clock = || self.watcher.look();
        let until = Some(Deadline { clock: &clock, at: u64::MAX });
        let step = engine.step(Budget { units, until, cancel: None })?;
        let end = self.watcher.now();
        if step == Step::Idle {
            return Ok((step, 0));
        }
        let work = self.watcher.take((begin, end), units);
        let (part, name) = match &next {
            Some(next) => (next.part, next.operation),
            None if step == Step::Yielded && engine.next_step().is_none() => (Part::Begin, "copy"),
            // The step that begins a batch also does a unit of the first operation.
            None => (Part::Begin, self.first),
        };
        let mut writer = self.writer.borrow_mut();
        writer.operation((part, name), (begin, end), units)?;
        for (slot, visit, begins) in work {
            writer.span(slot + 1, "worker", name, (visit.begin, visit.end), &json!({}))?;
            let ends = begins.iter().skip(1).copied().chain([visit.end]);
            for (&begin, end) in begins.iter().zip(ends) {
                writer.span(slot + 1, "unit", name, (begin, end), &json!({}))?;
            }
        }
        if let Some((phase, rows)) = finished(&before, &engine.metrics()) {
            writer.end_of_pass(phase, rows, end)?;
        }
        Ok((step, units))
    }
}

/// Returns phase and rows of the pass that ended between two readings of the metrics.
fn finished(before: &Metrics, after: &Metrics) -> Option<(&'static str, u64)> {
    let phases = |all: &Metrics| [("prefill", all.prefill), ("decode", all.decode), ("mixed", all.mixed)];
    let mut pairs = phases(before).into_iter().zip(phases(after));
    let (old, (name, new)) = pairs.find(|((_, old), (_, new))| new.count > old.count)?;
    Some((name, new.rows - old.1.rows))
}

impl Writer {
    fn write(&mut self, event: &Value) -> Result<()> {
        self.file.write_all(if self.is_empty { b"[\n" } else { b",\n" })?;
        self.is_empty = false;
        Ok(serde_json::to_writer(&mut self.file, event)?)
    }

    /// Writes an event with a start and an end in nanoseconds. The format has microseconds.
    fn span(&mut self, thread: usize, kind: &str, name: &str, (begin, end): (u64, u64), args: &Value) -> Result<()> {
        let us = |ns: u64| ns as f64 / 1e3;
        let (ts, dur) = (us(begin), us(end.saturating_sub(begin)));
        self.write(
            &json!({"name": name, "cat": kind, "ph": "X", "ts": ts, "dur": dur, "pid": 1, "tid": thread, "args": args}),
        )
    }

    fn operation(&mut self, (part, name): (Part, &str), (begin, end): (u64, u64), units: usize) -> Result<()> {
        if self.layer.is_none_or(|(last, _, _)| last != part) {
            self.end_of_layer()?;
            self.layer = Some((part, begin, end));
        }
        if let Some((_, _, last)) = &mut self.layer {
            *last = end;
        }
        self.pass.get_or_insert(begin);
        self.span(ENGINE, "operation", name, (begin, end), &json!({"units": units}))
    }

    fn end_of_layer(&mut self) -> Result<()> {
        match self.layer.take() {
            Some((Part::Layer(layer), begin, end)) => {
                self.span(ENGINE, "layer", &format!("layer {layer}"), (begin, end), &json!({}))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn end_of_pass(&mut self, phase: &str, rows: u64, end: u64) -> Result<()> {
        self.end_of_layer()?;
        let begin = self.pass.take().unwrap_or(end);
        self.span(ENGINE, "pass", phase, (begin, end), &json!({"rows": rows}))
    }
}
