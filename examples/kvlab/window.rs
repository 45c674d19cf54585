//! `window`: measures what a model loses if it sees only the last tokens, and the memory that this saves.
//!
//! Every text is a sequence of its own. If many texts were one sequence, the earlier texts would say nothing about the
//! next one, and a window that hides them would look like a gain.

use std::path::PathBuf;

use clap::Args;
use gleed::host::AlignedBytes;
use gleed::token::{EncodeOptions, Tokenizer};
use gleed::{Limits, Window};

use crate::lab::{Lab, LabArgs, bar};
use crate::report::{Cell, Report, Table};
use common::plot::{Axis, Curve, Plot};
use common::score::{self, SEPARATOR, STORIES, Score};
use common::{Result, limit, text};

#[derive(Args)]
pub(crate) struct WindowArgs {
    #[command(flatten)]
    pub(crate) lab: LabArgs,

    /// File with the texts, in UTF-8 [default: short stories that are part of this program]
    #[arg(long, value_name = "FILE")]
    pub(crate) text: Option<PathBuf>,

    /// Cut the file at each TEXT: what is between is a sequence of its own, because what came before says nothing about
    /// it. Neither TEXT nor white space around it is scored. An empty TEXT makes no cuts
    #[arg(long, value_name = "TEXT", default_value = SEPARATOR)]
    separator: String,

    /// Tokens per sequence; longer texts are cut [default: the model's context, at most 2048]
    #[arg(long, value_name = "N")]
    ctx: Option<usize>,

    /// Number of first tokens that stay visible beside the window; the window is shorter by as many. 0: no such rows
    #[arg(long, value_name = "S", default_value_t = 4)]
    sinks: usize,
}

/// Most tokens of a sequence by default.
const DEFAULT_TOKENS: usize = 2048;

/// Number of tokens of all texts together with `--quick`.
const QUICK: usize = 200;

/// The result of a window: the score of the texts, and the most bytes of keys and values.
struct Seen {
    window: Window,
    score: Score,
    bytes: usize,
}

pub(crate) fn run(lab: &Lab<'_>, args: &WindowArgs) -> Result<Report> {
    let mut tables = AlignedBytes::new(Tokenizer::plan(lab.model.gguf()).unwrap_or(0));
    let tokenizer = Tokenizer::new(lab.model.gguf(), tables.bytes()).map_err(|error| lab.file.error(error))?;
    let text = args.text.as_deref().map_or(Ok(STORIES.into()), score::read_text)?;
    let ctx = chunk_tokens(args.ctx, lab.model.config().context)?;
    let chunks = chunks(&tokenizer, &text, args, ctx)?;
    let longest = chunks.iter().map(Vec::len).max().unwrap_or(0);
    if longest < 2 {
        return Err("the text is too short: there is nothing to score".into());
    }
    let windows = windows(longest, args.sinks, if lab.args.quick { 64 } else { 1024 });
    let bar = bar(windows.len() * chunks.len(), "window");
    let mut seen = Vec::new();
    for window in windows {
        const ROWS: usize = 16;
        let limits = Limits { window, rows: ROWS, logit_rows: ROWS, ..lab.limits(ctx) };
        seen.push(lab.with_engine(&limits, |engine| {
            let mut score = Score::default();
            for chunk in &chunks {
                score.chunk(engine, tokenizer.vocab().bos(), chunk, ROWS)?;
                bar.inc(1);
            }
            let bytes = engine.stats().pools.iter().map(|pool| pool.high_water * pool.block_bytes).sum();
            Ok(Seen { window, score, bytes })
        })?);
    }
    bar.finish_and_clear();
    Ok(report(&seen, &chunks, longest))
}

/// Returns the tokens of each scored sequence: a text, or a piece of a text that is longer than `ctx`.
fn chunks(tokenizer: &Tokenizer<'_, '_>, text: &str, args: &WindowArgs, ctx: usize) -> Result<Vec<Vec<u32>>> {
    let mut left = if args.lab.quick { QUICK } else { usize::MAX };
    let mut chunks = Vec::new();
    for text in score::split(text, Some(&args.separator)) {
        let mut tokens = text::encode(tokenizer, text, EncodeOptions::default())?;
        tokens.truncate(left);
        left -= tokens.len();
        chunks.extend(tokens.chunks(ctx).map(<[u32]>::to_vec));
    }
    Ok(chunks)
}

fn chunk_tokens(asked: Option<usize>, context: usize) -> Result<usize> {
    match asked {
        None => Ok(context.min(DEFAULT_TOKENS)),
        Some(ctx) => limit::check("--ctx", ctx, 2, context).map(|()| ctx),
    }
}

/// Returns the windows to measure: everything visible, then powers of two that are shorter than the text, without and
/// with sinks.
fn windows(visible: usize, sinks: usize, most: usize) -> Vec<Window> {
    let mut windows = vec![Window::default()];
    for total in (5..=10).rev().map(|log| 1 << log).filter(|&total| total < visible && total <= most) {
        windows.push(Window { sinks: 0, last: total });
        windows.extend((0 < sinks && sinks < total).then(|| Window { sinks, last: total - sinks }));
    }
    windows
}

fn report(seen: &[Seen], chunks: &[Vec<u32>], longest: usize) -> Report {
    let (tokens, count) = (chunks.iter().map(Vec::len).sum::<usize>(), chunks.len());
    let title = format!("{tokens} tokens in {count} sequences of at most {longest}, what each token sees");
    let columns = ["first", "last", "nats/token", "perplexity", "pool bytes"];
    let mut table = Table::new(title, &columns);
    for Seen { window, score, bytes } in seen {
        let all = window.last == 0;
        table.rows.push(vec![
            if all { Cell::Text("all".into()) } else { Cell::Count(window.sinks) },
            if all { Cell::Text("all".into()) } else { Cell::Count(window.last) },
            Cell::Real(score.nats(), 4),
            Cell::Real(score.nats().exp(), 3),
            Cell::Count(*bytes),
        ]);
    }
    let curve = |name: &str, sinks: bool| {
        let shown = seen.iter().filter(|it| it.window.last == 0 || (it.window.sinks > 0) == sinks);
        let visible = |it: &Seen| if it.window.last == 0 { longest } else { it.window.sinks + it.window.last };
        Curve { name: name.into(), points: shown.map(|it| (visible(it) as f64, it.score.nats().exp())).collect() }
    };
    let mut curves = vec![curve("the last ones", false)];
    curves.extend(seen.iter().any(|it| it.window.sinks > 0).then(|| curve("the first and the last ones", true)));
    let plot = Plot {
        file: "window.svg",
        title: "Perplexity by the number of visible tokens".into(),
        x: Axis::log("visible tokens", 2.0),
        y: Axis::log("perplexity", 10.0),
        curves,
    };
    Report { tables: vec![table], plots: vec![plot], ..Report::default() }
}
