//! Histogram of the time by which frames were past their deadlines.

use std::io::{self, Write};
use std::time::Duration;

use common::plot::Bars;

/// Upper bounds of the columns, in microseconds.
const BOUNDS: [u64; 12] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000];

#[derive(Default)]
pub(crate) struct Overshoot {
    frames: usize,
    /// The time past the deadline, of the frames that a deadline ended.
    past: Vec<Duration>,
}

impl Overshoot {
    /// Adds a frame, with the time past its deadline if the deadline ended it.
    pub(crate) fn add(&mut self, past: Option<Duration>) {
        self.frames += 1;
        self.past.extend(past);
    }

    /// Returns the count of each column. The last column is for times above all bounds.
    fn columns(&self) -> [usize; BOUNDS.len() + 1] {
        let mut columns = [0; BOUNDS.len() + 1];
        for past in &self.past {
            columns[BOUNDS.partition_point(|&bound| Duration::from_micros(bound) < *past)] += 1;
        }
        columns
    }

    pub(crate) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{} frames, {} of them ended by the deadline", self.frames, self.past.len())?;
        let columns = self.columns();
        let most = columns.iter().copied().max().unwrap_or(0).max(1);
        let used = columns.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        for (index, &count) in columns.iter().enumerate().take(used) {
            let stars = "#".repeat((count * 50).div_ceil(most));
            writeln!(out, "{:>10} us {count:>7}  {stars}", label(index))?;
        }
        let mut sorted = self.past.clone();
        sorted.sort();
        let at = |part: f64| {
            let index = (sorted.len().saturating_sub(1) as f64 * part).round() as usize;
            sorted.get(index).map_or(0.0, |past| past.as_secs_f64() * 1e6)
        };
        writeln!(out, "overshoot: p50 {:.1} us, p99 {:.1} us, max {:.1} us", at(0.5), at(0.99), at(1.0))
    }

    /// Returns the histogram as SVG.
    pub(crate) fn draw(&self, subtitle: &str) -> String {
        let columns = self.columns();
        let columns =
            columns.iter().enumerate().map(|(index, &count)| (label(index).replace("<= ", "≤ "), count as f64));
        let title = "How late the engine returned".into();
        Bars { title, x: "microseconds past the deadline", y: "frames", columns: columns.collect() }.draw(subtitle)
    }
}

/// Returns the name of a column.
fn label(index: usize) -> String {
    match BOUNDS.get(index) {
        Some(bound) => format!("<= {bound}"),
        None => format!("> {}", BOUNDS[BOUNDS.len() - 1]),
    }
}
