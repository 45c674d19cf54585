//! Results as a table and as JSON.

use std::fmt;
use std::io::{self, Write, stdout};
use std::path::Path;

use serde_json::{Value, json};

use crate::Args;
use crate::engines::{Kind, llama_features};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Metric {
    /// Prefill of this number of tokens.
    Prefill(usize),
    /// Decode: the number of tokens, and the number of tokens before them.
    Decode(usize, usize),
    FirstToken,
    PeakMemory,
    /// The first token of an answer in a conversation: the number of the turn, and how it begins.
    Turn(usize, Turn),
    /// Vectors of texts: the number of texts, the tokens of each, and the texts in a batch.
    Texts(usize, usize, usize),
}

/// What a turn of a conversation begins with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The sequence ends with the last answer as it was computed.
    Appended,
    /// The last answer was changed.
    Edited,
    /// The last answer was changed, and the program kept a state before that answer.
    EditedWithState,
}

impl Turn {
    pub(crate) const ALL: [Self; 3] = [Self::Appended, Self::Edited, Self::EditedWithState];
}

impl Metric {
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Prefill(_) | Self::Decode(..) | Self::Texts(..) => "tokens/s",
            Self::FirstToken | Self::Turn(..) => "ms",
            Self::PeakMemory => "MB",
        }
    }

    /// Returns whether a larger number is better.
    fn is_speed(self) -> bool {
        matches!(self, Self::Prefill(_) | Self::Decode(..) | Self::Texts(..))
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prefill(tokens) => write!(f, "prefill {tokens}"),
            Self::Decode(tokens, depth) => write!(f, "decode {tokens} at {depth}"),
            Self::FirstToken => f.write_str("first token"),
            Self::PeakMemory => f.write_str("peak memory"),
            Self::Texts(count, tokens, together) => write!(f, "{count} texts of {tokens}, {together} together"),
            Self::Turn(turn, Turn::Appended) => write!(f, "turn {turn}"),
            Self::Turn(turn, Turn::Edited) => write!(f, "turn {turn}, answer changed"),
            Self::Turn(turn, Turn::EditedWithState) => write!(f, "turn {turn}, answer changed, state kept"),
        }
    }
}

/// One metric of one file and number of threads.
pub(crate) struct Row {
    pub(crate) file: String,
    pub(crate) metric: Metric,
    pub(crate) threads: usize,
    /// One sample per repeat for each engine, in the order of [`Kind::ALL`].
    samples: [Vec<f64>; 3],
    /// Distance of Gleed's logits or vectors from those of llama.cpp.
    pub(crate) distance: Option<f64>,
}

impl Row {
    pub(crate) fn new(path: &Path, metric: Metric, threads: usize) -> Self {
        let file = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Self { file, metric, threads, samples: Default::default(), distance: None }
    }

    pub(crate) fn add(&mut self, kind: Kind, sample: f64) {
        self.samples[index(kind)].push(sample);
    }

    pub(crate) fn samples(&self, kind: Kind) -> &[f64] {
        &self.samples[index(kind)]
    }

    /// Returns llama.cpp's better setting.
    pub(crate) fn best_llama(&self) -> Kind {
        let [plain, flash] = [Kind::Llama, Kind::LlamaFlash].map(|kind| spread(self.samples(kind)).0);
        if (plain > flash) == self.metric.is_speed() { Kind::Llama } else { Kind::LlamaFlash }
    }

    /// Returns the median of Gleed's advantage over llama.cpp's better setting. Above 1 is better.
    pub(crate) fn ratio(&self) -> f64 {
        let pairs = self.samples(Kind::Gleed).iter().zip(self.samples(self.best_llama()));
        let ratios: Vec<_> =
            pairs.map(|(us, them)| if self.metric.is_speed() { us / them } else { them / us }).collect();
        spread(&ratios).0
    }
}

fn index(kind: Kind) -> usize {
    Kind::ALL.iter().position(|other| *other == kind).unwrap_or(0)
}

/// Returns the median, the least and the greatest sample.
pub(crate) fn spread(samples: &[f64]) -> (f64, f64, f64) {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
    let last = sorted.len().saturating_sub(1);
    ((at(sorted.len() / 2) + at(last / 2)) / 2.0, at(0), at(last))
}

pub(crate) fn table(args: &Args, rows: &[Row]) -> io::Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "Gleed at level {}; llama.cpp: {}", args.level(), llama_features())?;
    writeln!(out, "{} repeats, {} other busy processes\n", args.repeat, args.busy)?;
    let [plain, flash, gleed] = Kind::ALL.map(Kind::name);
    writeln!(out, "| file | threads | what | | {plain} | {flash} | {gleed} | min - max | ratio | distance |")?;
    writeln!(out, "|---|---|---|---|---|---|---|---|---|---|")?;
    for row in rows {
        let [plain, flash, gleed] = Kind::ALL.map(|kind| spread(row.samples(kind)));
        let distance = row.distance.map(|distance| format!("{distance:.4}")).unwrap_or_default();
        writeln!(
            out,
            "| {} | {} | {} | {} | {:.1} | {:.1} | {:.1} | {:.1} - {:.1} | {:.2} | {distance} |",
            row.file,
            row.threads,
            row.metric,
            row.metric.unit(),
            plain.0,
            flash.0,
            gleed.0,
            gleed.1,
            gleed.2,
            row.ratio(),
        )?;
    }
    Ok(())
}

pub(crate) fn json(args: &Args, rows: &[Row]) -> Value {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            let mut value = json!({
                "file": row.file,
                "threads": row.threads,
                "what": row.metric.to_string(),
                "unit": row.metric.unit(),
                "best_llama": row.best_llama().name(),
                "ratio": row.ratio(),
                "distance": row.distance,
            });
            for kind in Kind::ALL {
                let (median, min, max) = spread(row.samples(kind));
                value[kind.name()] = json!({ "median": median, "min": min, "max": max, "all": row.samples(kind) });
            }
            value
        })
        .collect();
    json!({
        "gleed_level": args.level().name(),
        "llama_features": llama_features(),
        "repeat": args.repeat,
        "busy": args.busy,
        "rows": rows,
    })
}
