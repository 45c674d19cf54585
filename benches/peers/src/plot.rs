//! A plot per metric: bars of Gleed and of llama.cpp's better setting, for each file and number of threads.

use std::path::Path;

use crate::engines::Kind;
use crate::machine::{load, processor_name};
use crate::report::{Metric, Row, spread};
use crate::svg_plot::{Pair, Pairs};
use crate::{Args, Result};

pub(crate) fn all(args: &Args, folder: &Path, rows: &[Row]) -> Result<()> {
    let subtitle = subtitle(args);
    let mut metrics: Vec<Metric> = Vec::new();
    for row in rows {
        if !metrics.contains(&row.metric) {
            metrics.push(row.metric);
        }
    }
    for metric in metrics {
        let rows = rows.iter().filter(|row| row.metric == metric).map(pair).collect();
        let (title, x) = (format!("{metric}, {}", metric.unit()), metric.unit());
        let plot = Pairs { title, x, names: ["Gleed", "llama.cpp"], rows };
        let path = folder.join(format!("{}.svg", metric.to_string().replace(' ', "-")));
        std::fs::write(path, plot.draw(&subtitle))?;
    }
    Ok(())
}

/// Returns what the figures depend on. The models are in the rows.
fn subtitle(args: &Args) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let load = load().map_or_else(|| "unknown".into(), |load| format!("{load:.1}"));
    format!(
        "{}, {cores} processors · level {}, KV f16 · medians of {} runs · {} other busy processes, load {load}",
        processor_name(),
        args.level(),
        args.repeat,
        args.busy,
    )
}

fn pair(row: &Row) -> Pair {
    let [ours, theirs] = [Kind::Gleed, row.best_llama()].map(|kind| spread(row.samples(kind)).0);
    let threads = if row.threads == 1 { "1 thread".into() } else { format!("{} threads", row.threads) };
    Pair {
        name: format!("{}, {threads}", row.file),
        values: [ours, theirs],
        text: format!("{ours:.1} / {theirs:.1} ({:.2}x)", row.ratio()),
    }
}
