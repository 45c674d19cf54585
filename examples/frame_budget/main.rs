//! A game loop that gives the engine a part of each frame.
//!
//! ```text
//! cargo run --release --example frame_budget -- --ms 2 --fps 60 --threads 2
//! cargo run --release --example frame_budget -- --model model.gguf --tokens 20 --svg overshoot.svg
//! ```
//!
//! In every frame the engine may work until a deadline of the program's clock. Then the frame goes on with the text so
//! far. Standard output gets the text, then a histogram of the time past the deadline, for all frames in which the
//! deadline ended the work. If the text differs from the one without a budget, the exit code is 1.

mod overshoot;

use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use common::args::ModelArgs;
use common::setting::Setting;
use common::{ModelFile, Result, limit, text};
use gleed::host::{AlignedBytes, ThreadPool};
use gleed::sample::{Sampler, SamplerParams, scratch_len};
use gleed::token::Tokenizer;
use gleed::{Budget, Deadline, Engine, Limits, Logits, Plan, SeqId, Step};
use overshoot::Overshoot;

const EXAMPLES: &str = "\
Examples:
  cargo run --release --example frame_budget
  cargo run --release --example frame_budget -- --ms 0.5 --fps 120 --threads 2 --tokens 40
  cargo run --release --example frame_budget -- --units 20 --no-sleep --svg overshoot.svg";

/// Generates text in a game loop, within a time budget per frame.
///
/// Prints the text, and a histogram of how much later than its deadline the engine returned.
#[derive(Parser)]
#[command(name = "frame_budget", version, long_version = common::version(), after_help = EXAMPLES)]
struct Args {
    #[command(flatten)]
    model: ModelArgs,

    /// Milliseconds per frame that the engine may compute
    #[arg(long, value_name = "T", default_value_t = 2.0)]
    ms: f64,

    /// Frames per second
    #[arg(long, value_name = "F", default_value_t = 60.0)]
    fps: f64,

    /// The most units of work per frame [default: no limit but --ms]
    #[arg(long, value_name = "N", default_value_t = usize::MAX, hide_default_value = true)]
    units: usize,

    /// Number of threads that compute; the text does not depend on it
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,

    /// Number of tokens to generate
    #[arg(long, value_name = "N", default_value_t = 100)]
    tokens: usize,

    /// Text to continue
    #[arg(long, value_name = "TEXT", default_value = "Once upon a time", allow_hyphen_values = true)]
    prompt: String,

    /// Write the histogram to this file as SVG [default: write no file]
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Start the next frame at once, whatever --fps says
    #[arg(long)]
    no_sleep: bool,
}

fn main() -> ExitCode {
    common::exit(play(&Args::parse()))
}

fn play(args: &Args) -> Result<ExitCode> {
    limit::check("--tokens", args.tokens, 1, usize::MAX)?;
    limit::check("--units", args.units, 1, usize::MAX)?;
    limit::check_real("--fps", args.fps, 1e-3, 1e6)?;
    limit::check_real("--ms", args.ms, 0.0, 1e6)?;
    let setting = Setting::begin();
    let file = ModelFile::open(args.model.model.as_deref())?;
    let model = file.generative()?;
    let mut tables = AlignedBytes::new(Tokenizer::plan(model.gguf()).unwrap_or(0));
    let tokenizer = Tokenizer::new(model.gguf(), tables.bytes()).map_err(|error| file.error(error))?;
    let prompt = text::encode_prompt(&tokenizer, &args.prompt)?;
    let (room, needed) = (model.config().context, prompt.len().saturating_add(args.tokens));
    if prompt.is_empty() || prompt.len() >= room {
        return Err(
            format!("the prompt has {} tokens, it must be 1 to {}", prompt.len(), room.saturating_sub(1)).into()
        );
    }
    limit::check("--tokens", args.tokens, 1, room.saturating_sub(prompt.len()))?;
    let svg = file.output(args.svg.as_deref(), &[])?;

    let plan = Plan::new(&model, &Limits { context: needed, workers: args.threads, ..Limits::default() })?;
    let pool = ThreadPool::new(args.threads)?;
    let mut memory = AlignedBytes::try_new(plan.bytes())?;
    let mut engine = Engine::new(&model, &plan, memory.bytes())?;
    engine.set_parallel(&pool);
    let seq = engine.open()?;
    let mut story = Story::begin(&mut engine, seq, &prompt, args.tokens)?;
    while !story.is_over() {
        let _: bool = story.work(&mut engine, Budget::default())?;
    }
    let expected = story.ids;

    engine.reset(seq)?;
    let mut stream = text::Stream::new(&tokenizer);
    write!(stdout(), "{}", args.prompt)?;
    let story = Story::begin(&mut engine, seq, &prompt, args.tokens)?;
    let (ids, overshoot) = run_frames(args, &mut engine, story, &mut stream)?;
    writeln!(stdout(), "{}\n", stream.finish())?;
    overshoot.print(&mut stdout().lock())?;
    if let Some(svg) = svg {
        let picture = overshoot.draw(&setting.subtitle(&file, &model, plan.limits(), &[args.threads]));
        svg.write(picture.as_bytes())?;
    }
    if ids != expected {
        return Err("the text is not the one that the engine gives without a budget".into());
    }
    writeln!(stdout(), "the text is the one that the engine gives without a budget")?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the frames of a game. The game's own computing and drawing is left out.
fn run_frames(
    args: &Args,
    engine: &mut Engine<'_, '_>,
    mut story: Story,
    stream: &mut text::Stream<'_, '_, '_>,
) -> Result<(Vec<u32>, Overshoot)> {
    let start = Instant::now();
    let clock = || start.elapsed().as_nanos() as u64;
    let (frame, share) = (Duration::from_secs_f64(1.0 / args.fps), Duration::from_secs_f64(args.ms / 1e3));
    let (mut shown, mut overshoot) = (0, Overshoot::default());
    while !story.is_over() {
        let begin = clock();
        let at = begin + share.as_nanos() as u64;
        let budget = Budget { units: args.units, until: Some(Deadline { clock: &clock, at }), cancel: None };
        // A finished token ends a step, not the frame.
        while story.work(engine, budget)? && !story.is_over() && clock() < at {}
        let end = clock();
        overshoot.add(end.checked_sub(at).map(Duration::from_nanos));
        for &id in &story.ids[shown..] {
            write!(stdout(), "{}", stream.push(id))?;
        }
        stdout().flush()?;
        shown = story.ids.len();
        if !args.no_sleep {
            thread::sleep(frame.saturating_sub(Duration::from_nanos(clock() - begin)));
        }
    }
    Ok((story.ids, overshoot))
}

/// A text that grows by the most probable token each time.
struct Story {
    seq: SeqId,
    sampler: Sampler,
    scratch: Vec<u64>,
    ids: Vec<u32>,
    tokens: usize,
}

impl Story {
    fn begin(engine: &mut Engine<'_, '_>, seq: SeqId, prompt: &[u32], tokens: usize) -> Result<Self> {
        engine.queue(seq, 0, prompt, Logits::Last)?;
        let scratch = vec![0; scratch_len(engine.model().config().vocab)];
        let sampler = Sampler::new(SamplerParams { temperature: 0.0, ..SamplerParams::default() })?;
        Ok(Self { seq, sampler, scratch, ids: Vec::new(), tokens })
    }

    fn is_over(&self) -> bool {
        self.ids.len() >= self.tokens
    }

    /// Works until the budget is used up or there is another token. Returns whether there is one.
    fn work(&mut self, engine: &mut Engine<'_, '_>, budget: Budget<'_>) -> Result<bool> {
        if engine.step(budget)? != Step::Ready {
            return Ok(false);
        }
        let choice = self.sampler.sample(engine.logits(self.seq).unwrap_or_default(), &mut self.scratch)?;
        self.ids.push(choice.token);
        if !self.is_over() {
            engine.queue(self.seq, engine.seq_len(self.seq)?, &[choice.token], Logits::Last)?;
        }
        Ok(true)
    }
}
