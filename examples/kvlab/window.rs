//! `window`: what a model loses where it sees the last tokens only, and what that saves.

use std::path::PathBuf;

use clap::Args;
use gleed::host::AlignedBytes;
use gleed::token::{EncodeOptions, Tokenizer};
use gleed::{Limits, Window};

use crate::common::score::{self, STORY, Score};
use crate::common::{Result, text};
use crate::lab::{Lab, LabArgs, bar};
use crate::plot::{Axis, Curve, Plot};
use crate::report::{Cell, Report, Table};

#[derive(Args)]
pub(crate) struct WindowArgs {
    #[command(flatten)]
    pub(crate) lab: LabArgs,

    /// File with the text, in UTF-8 [default: a short story that is part of this program]
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,

    /// Number of first tokens that stay visible beside the window; the window is shorter by as many. 0: no such rows
    #[arg(long, value_name = "S", default_value_t = 4)]
    sinks: usize,
}

/// How well a text was predicted, and what its keys and values took at most.
struct Seen {
    window: Window,
    score: Score,
    bytes: usize,
}

pub(crate) fn run(lab: &Lab<'_>, args: &WindowArgs) -> Result<Report> {
    let mut tables = AlignedBytes::new(Tokenizer::plan(lab.model.gguf()).unwrap_or(0));
    let tokenizer = Tokenizer::new(lab.model.gguf(), tables.bytes()).map_err(|error| lab.file.error(error))?;
    let text = args.text.as_deref().map_or(Ok(STORY.into()), score::read_text)?;
    let mut tokens = text::encode(&tokenizer, &text, EncodeOptions::default())?;
    if lab.args.quick {
        tokens.truncate(200);
    }
    if tokens.len() < 2 {
        return Err("the text is too short: there is nothing to score".into());
    }
    let ctx = lab.model.config().context.min(4096);
    let windows = windows(ctx.min(tokens.len()), args.sinks, if lab.args.quick { 64 } else { 1024 });
    let bar = bar(windows.len() * tokens.len().div_ceil(ctx), "window");
    let mut seen = Vec::new();
    for window in windows {
        const ROWS: usize = 16;
        let limits = Limits { window, rows: ROWS, logit_rows: ROWS, ..lab.limits(ctx) };
        seen.push(lab.with_engine(&limits, |engine| {
            let mut score = Score::default();
            for chunk in tokens.chunks(ctx) {
                score.chunk(engine, tokenizer.vocab().bos(), chunk, ROWS)?;
                bar.inc(1);
            }
            let bytes = engine.stats().pools.iter().map(|pool| pool.high_water * pool.block_bytes).sum();
            Ok(Seen { window, score, bytes })
        })?);
    }
    bar.finish_and_clear();
    Ok(report(&seen, tokens.len(), ctx))
}

/// Everything; then the halves of what is there, with and without sinks.
fn windows(visible: usize, sinks: usize, most: usize) -> Vec<Window> {
    let mut windows = vec![Window::default()];
    for total in (5..=10).rev().map(|log| 1 << log).filter(|&total| total < visible && total <= most) {
        windows.push(Window { sinks: 0, last: total });
        windows.extend((0 < sinks && sinks < total).then(|| Window { sinks, last: total - sinks }));
    }
    windows
}

fn report(seen: &[Seen], tokens: usize, ctx: usize) -> Report {
    let title = format!("{tokens} tokens in chunks of {ctx}, what each token sees");
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
    let everything = ctx.min(tokens);
    let curve = |name: &str, sinks: bool| {
        let shown = seen.iter().filter(|it| it.window.last == 0 || (it.window.sinks > 0) == sinks);
        let visible = |it: &Seen| if it.window.last == 0 { everything } else { it.window.sinks + it.window.last };
        Curve { name: name.into(), points: shown.map(|it| (visible(it) as f64, it.score.nats().exp())).collect() }
    };
    let mut curves = vec![curve("the last ones", false)];
    curves.extend(seen.iter().any(|it| it.window.sinks > 0).then(|| curve("the first and the last ones", true)));
    let plot = Plot {
        file: "window.svg",
        title: "Perplexity by the number of visible tokens".into(),
        x: Axis::log("visible tokens", 2.0),
        y: Axis::linear("perplexity"),
        curves,
    };
    Report { tables: vec![table], plots: vec![plot], ..Report::default() }
}
