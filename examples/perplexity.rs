//! Measures how well a model predicts a text.
//!
//! ```text
//! cargo run --release --example perplexity
//! cargo run --release --example perplexity -- --model model.gguf --text book.txt --ctx 512 --window 64
//! ```
//!
//! The text is encoded once. Names of special tokens in it are ordinary text. The tokens are cut into chunks of `--ctx`
//! tokens that do not overlap. The last chunk may be shorter. Every chunk is a sequence of its own with BOS in front,
//! and each of its tokens is scored by the logits before it. (A model without BOS does not score the first token of a
//! chunk.) So a chunk uses as many positions as it has tokens. The first tokens of a chunk have little context, which
//! makes the perplexity higher than that of a long text without cuts, and more so with shorter chunks. If the text
//! consists of several texts and the model was trained on one at a time, `--separator` cuts between them.
//!
//! With `--window` chunks may be longer than the model's context. This shows how the model behaves on a text without
//! end.
//!
//! Bits per byte count the bytes of the scored text, so that models with different vocabularies can be compared.

use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use common::args::{EngineArgs, ModelArgs, WindowArgs};
use common::score::{self, STORY, Score};
use common::{ModelFile, Result, limit, text};
use gleed::host::{AlignedBytes, ThreadPool};
use gleed::token::{EncodeOptions, Tokenizer};
use gleed::{Engine, KvKind, Limits, Plan, Window};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const EXAMPLES: &str = "\
Examples:
  cargo run --release --example perplexity
  cargo run --release --example perplexity -- --ctx 128 --kv-type q8_0/q4_0
  cargo run --release --example perplexity -- --ctx 1024 --window 64 --sinks 4 --json perplexity.json";

/// Measures how well a model predicts a text: perplexity and bits per byte.
///
/// The text is cut into chunks that do not overlap. Every chunk is a sequence of its own.
#[derive(Parser)]
#[command(name = "perplexity", version, long_version = common::version(), after_help = EXAMPLES)]
struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    window: WindowArgs,

    /// File with the text, in UTF-8 [default: a short story that is part of this program]
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,

    /// Cut the text at each TEXT. Neither TEXT nor white space around it is scored [default: no cuts]
    #[arg(long, value_name = "TEXT")]
    separator: Option<String>,

    /// Tokens per chunk. With --window it may exceed the model's context [default: that context, at most 4096]
    #[arg(long, value_name = "N")]
    ctx: Option<usize>,

    /// Write the results to this file as JSON [default: write no file]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    common::exit(perplexity(&Args::parse()))
}

fn perplexity(args: &Args) -> Result<ExitCode> {
    let file = ModelFile::open(args.model.model.as_deref())?;
    let model = file.generative()?;
    let json = file.output(args.json.as_deref(), args.text.as_slice())?;
    let name = args.text.as_ref().map_or("the built-in story".into(), |path| path.display().to_string());
    let text = args.text.as_deref().map_or(Ok(STORY.into()), score::read_text)?;
    let (context, window) = (model.config().context, args.window.window()?);
    let endless = !window.is_all() && args.engine.kv != KvKind::Off;
    let ctx = chunk_tokens(args.ctx, if endless { None } else { Some(context) }, context)?;
    let mut tables = AlignedBytes::new(Tokenizer::plan(model.gguf()).unwrap_or(0));
    let tokenizer = Tokenizer::new(model.gguf(), tables.bytes()).map_err(|error| file.error(error))?;
    let texts = score::split(&text, args.separator.as_deref());
    let encode = |text: &&str| text::encode(&tokenizer, text, EncodeOptions::default());
    let tokens = texts.iter().map(encode).collect::<std::result::Result<Vec<_>, _>>()?;
    let count: usize = tokens.iter().map(Vec::len).sum();

    const ROWS: usize = 64;
    let rows = ROWS.min(ctx);
    let plan = Plan::new(&model, &Limits { window, rows, logit_rows: rows, ..args.engine.limits(ctx.min(context)) })?;
    let pool = ThreadPool::new(args.engine.threads)?;
    let mut memory = AlignedBytes::try_new(plan.bytes())?;
    let mut engine = Engine::new(&model, &plan, memory.bytes())?;
    engine.set_parallel(&pool);
    let bar = bar(count);
    let bytes = texts.iter().map(|text| text.len()).sum::<usize>();
    let mut score = Score { bytes: bytes as i64, ..Score::default() };
    let start = Instant::now();
    for chunk in tokens.iter().flat_map(|tokens| tokens.chunks(ctx)) {
        let unscored = score.chunk(&mut engine, tokenizer.vocab().bos(), chunk, rows)?;
        score.bytes -= unscored.map_or(0, |id| text::piece(&tokenizer, id).len() as i64);
        bar.inc(chunk.len() as u64);
    }
    let seconds = start.elapsed().as_secs_f64();
    bar.finish_and_clear();
    if score.tokens == 0 {
        return Err(format!("{name}: there is nothing to score").into());
    }
    let (nats, bits, speed) = (score.nats(), score.bits(), count as f64 / seconds);
    let mut out = stdout().lock();
    writeln!(out, "{}, {name}: {bytes} bytes, {count} tokens in chunks of {ctx}", file.name())?;
    writeln!(out, "visible: {}, keys and values {} in {}", describe(window), args.engine.kv, args.engine.kv_type())?;
    writeln!(out, "{nats:.5} nats/token, perplexity {:.4}, {bits:.5} bits/byte", nats.exp())?;
    writeln!(out, "{speed:.0} tokens/s")?;
    if let Some(json) = json {
        json.write(to_json(&score, &plan, ctx, speed).to_string().as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn chunk_tokens(asked: Option<usize>, max: Option<usize>, context: usize) -> Result<usize> {
    const DEFAULT: usize = 4096;
    match (asked, max) {
        (None, _) => Ok(context.min(DEFAULT)),
        (Some(ctx), max) => limit::check("--ctx", ctx, 2, max.unwrap_or(usize::MAX)).map(|()| ctx),
    }
}

fn bar(tokens: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:32} {pos}/{len} tokens, {eta} left");
    let bar = ProgressBar::with_draw_target(Some(tokens as u64), ProgressDrawTarget::stderr());
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn describe(window: Window) -> String {
    match window {
        Window { last: 0, .. } => "all tokens".into(),
        Window { sinks: 0, last } => format!("the last {last} tokens"),
        Window { sinks, last } => format!("the first {sinks} and the last {last} tokens"),
    }
}

fn to_json(score: &Score, plan: &Plan, ctx: usize, speed: f64) -> serde_json::Value {
    let Limits { window, kv_kind, kv_type, .. } = plan.limits();
    serde_json::json!({
        "ctx": ctx,
        "window": window.last,
        "sinks": window.sinks,
        "kv": kv_kind.name(),
        "kv_type": kv_type.to_string(),
        "tokens": score.tokens,
        "bytes": score.bytes,
        "nats_per_token": score.nats(),
        "perplexity": score.nats().exp(),
        "bits_per_byte": score.bits(),
        "tok_s": speed,
    })
}
