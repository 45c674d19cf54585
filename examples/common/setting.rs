//! Describes in a plot how its figures were measured.

use std::thread;

use gleed::{Limits, Model};

use crate::ModelFile;
use crate::machine::{load, processor_name};

/// The state of the machine before a measurement, for the subtitle of its plot.
pub struct Setting {
    load: Option<f64>,
}

impl Setting {
    /// Notes the load. Call it before the measurement.
    pub fn begin() -> Self {
        Self { load: load() }
    }

    /// Returns the subtitle: model, machine, level, number of threads, type of keys and values, and the load before and
    /// after.
    pub fn subtitle(&self, file: &ModelFile, model: &Model<'_>, limits: &Limits, threads: &[usize]) -> String {
        let config = model.config();
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        let load = |load: Option<f64>| load.map_or_else(|| "unknown".into(), |load| format!("{load:.1}"));
        let counts: Vec<String> = threads.iter().map(usize::to_string).collect();
        format!(
            "{} ({}, {} layer{}) · {}, {cores} processor{} · level {}, {} thread{}, KV {} · load {} before, {} after",
            file.short_name(),
            config.architecture,
            config.layers,
            plural(config.layers),
            processor_name(),
            plural(cores),
            limits.level,
            counts.join(" and "),
            plural(threads.last().copied().unwrap_or(1)),
            limits.kv_type,
            load(self.load),
            load(self::load()),
        )
    }
}
