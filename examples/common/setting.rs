//! What a plot says about its figures.

use std::thread;

use gleed::{Limits, Model};

use crate::ModelFile;
use crate::machine::{load, processor_name};

/// When something is measured: the load then is part of what its plot says.
pub struct Setting {
    load: Option<f64>,
}

impl Setting {
    /// Made before anything is measured.
    pub fn begin() -> Self {
        Self { load: load() }
    }

    /// The model, the machine, how it computes, on how many threads, and the load.
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
