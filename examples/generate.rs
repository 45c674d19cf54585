//! Continues a text.
//!
//! ```text
//! cargo run --release --example generate -- "Once upon a time"
//! cargo run --release --example generate -- --model model.gguf --temp 0 -n 100 "The capital of France is"
//! ```
//!
//! Standard output gets the text while it is generated. On a terminal the prompt comes before it. Standard error gets
//! the statistics. Generation stops at a token that ends a text, at a `--stop` string, after `-n` tokens, when the
//! context is full, or on Ctrl-C. After Ctrl-C the exit code is 130, and the statistics cover the tokens so far. With
//! `--window` the context never fills up:
//!
//! ```text
//! cargo run --release --example generate -- --window 128 --ignore-end -n 5000 "Once upon a time"
//! ```
//!
//! The text can come from a file (`-f FILE`) or from standard input, as `-` or without a text.
//!
//! `--json-schema`, `--grammar` and `--regex` restrict the text to a form that a program can read
//! (`docs/structured.md`):
//!
//! ```text
//! cargo run --release --example generate -- --regex "The (dog|cat) (ran|sat|slept)[.!]" "Once upon a time"
//! ```
//!
//! `--guess` guesses tokens and checks several of them at a time. This changes the time, not the text:
//!
//! ```text
//! cargo run --release --example generate -- --temp 0 --guess auto "The dog ran. The cat ran. The dog ran. The cat"
//! ```
//!
//! `--tools` offers tools to a model that was trained to call them. The text becomes a message of the user, and the
//! program reads the calls in the reply (`docs/tools.md`):
//!
//! ```text
//! cargo run --release --example generate -- --model model.gguf --tools builtin --tool-choice required "Roll three dice."
//! ```
//!
//! `hello.rs` does the same without flags, in 40 lines.

use std::io::{IsTerminal, Write, stdout};
use std::process::ExitCode;
use std::time::Instant;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use common::args::GenerateArgs;
use common::calling::{CallRules, Calling};
use common::constraint::Constraint;
use common::guesses::{self, Guesses};
use common::prompt::Begin;
use common::reply::Asked;
use common::run::{self, Steps};
use common::story::{Output, Stop, Story};
use common::trace::{Trace, Watcher};
use common::turns::Style;
use common::{ModelFile, Result, figures, interrupt, limit, text};
use gleed::host::{AlignedBytes, ThreadPool};
use gleed::sample::{Choice, Sampler, scratch_len};
use gleed::token::Tokenizer;
use gleed::{Engine, KvKind, Limits, Model, SeqId};

fn main() -> ExitCode {
    common::exit(generate(&GenerateArgs::parse()))
}

fn generate(args: &GenerateArgs) -> Result<ExitCode> {
    limit::check("-n", args.n, 1, usize::MAX)?;
    let Some(begin) = args.prompt.read()? else {
        let words = "nothing to continue: TEXT, -f FILE, --ids 1,2,3, or a text on standard input";
        GenerateArgs::command().error(ErrorKind::MissingRequiredArgument, words).exit();
    };
    // Open the model, and encode the prompt. A prompt of ids needs no vocabulary.
    let file = ModelFile::open(args.model.model.as_deref())?;
    let model = file.generative()?;
    let read = args.read();
    let (json, trace) = (file.output(args.json.as_deref(), &read)?, args.trace.output(&file, &read)?);
    let mut tables = AlignedBytes::new(Tokenizer::plan(model.gguf()).unwrap_or(0));
    let tokenizer = Tokenizer::new(model.gguf(), tables.bytes()).map_err(|error| file.error(error));
    let tokenizer = match &begin {
        Begin::Text(text) if text.is_empty() => return Err("the prompt is empty".into()),
        Begin::Text(_) => Some(tokenizer?),
        Begin::Ids(_) => tokenizer.ok(),
    };
    let asked = tokenizer.as_ref().filter(|_| matches!(begin, Begin::Text(_)));
    let offered = offer(args, &model, asked)?;
    let (prompt, echo) = match (begin, &offered, &tokenizer) {
        (Begin::Text(text), Some((style, _)), _) => (style.prompt(&text)?, text),
        (Begin::Text(text), None, Some(tokenizer)) => (text::encode_prompt(tokenizer, &text)?, text),
        (Begin::Ids(ids), ..) => (ids, String::new()),
        (Begin::Text(_), None, None) => return Err("this file has no tokenizer".into()),
    };
    let (room, window) = (model.config().context, args.window.window()?);
    // Without a cache each step computes all tokens again, so all of them are kept, and the context limits the text.
    let endless = !window.is_all() && args.engine.kv != KvKind::Off;
    if prompt.is_empty() {
        return Err("the prompt is empty".into());
    } else if prompt.len() > room && !endless {
        return Err(format!("the prompt has {} tokens, the model's context is {room}", prompt.len()).into());
    }

    // Plan the memory for as many tokens as there can be, and make an engine in it.
    let context = if window.is_all() { room.min(prompt.len().saturating_add(args.n)) } else { room };
    let adapters = args.lora.open(&model)?;
    let logit_rows = if args.guess == "off" { 1 } else { guesses::MOST + 1 };
    let limits = Limits { window, logit_rows, ..args.engine.limits(context) };
    let (plan, mut machine) = args.device.prepare(&model, &args.lora.limits(limits, &adapters))?;
    let pool = ThreadPool::new(args.engine.threads)?;
    let watcher = Watcher::new(&pool);
    let mut memory = AlignedBytes::try_new(plan.bytes())?;
    let mut engine = machine.engine(&model, &plan, memory.bytes())?;
    engine.set_parallel(args.trace.executor(&pool, &watcher));
    engine.set_clock(Some(figures::clock()));
    let trace = trace.map(|output| Trace::create(output, &watcher, &model, &plan)).transpose()?;
    let steps = Steps { plan: &plan, trace };
    let sampler = Sampler::new(args.sample.params(file.is_demo()))?;
    interrupt::catch(|| {})?;

    // Generate the text in a sequence, then print the statistics.
    let echo = if stdout().is_terminal() { &*echo } else { "" };
    let stream = tokenizer.as_ref().map(|tokenizer| text::Stream::rendering(tokenizer, offered.is_some()));
    let mut output = Output { echo, text: String::new(), stream, stops: args.stops(tokenizer.is_some())? };
    let ends = Ends {
        tokenizer: tokenizer.as_ref().filter(|_| !args.ignore_end),
        stops: offered.as_ref().map_or(Vec::new(), |(style, _)| style.stops()),
        strings: &args.stop,
        n: args.n,
        context: if endless { usize::MAX } else { context },
        together: if plan.is_for_device() && args.leaves_choices() { run::TOGETHER } else { 0 },
    };
    let sequence = engine.open()?;
    args.lora.apply(&mut engine, sequence, &adapters)?;
    let mut room = guesses::Room::new(context)?;
    let mut layer = guesses::Layer::of(&model, &args.guess, *plan.limits())?;
    let mut layer = layer.as_mut().map(|layer| layer.engine(&pool)).transpose()?;
    let guesses = match &*args.guess {
        "off" => None,
        kind => Some(room.begin(sequence, kind == "auto", layer.as_mut())?),
    };
    let mut ruled = offered.as_ref().and_then(|(_, rules)| rules.as_ref()).map(|rules| rules.reply(0)).transpose()?;
    let calling = ruled.as_mut().map(|ruled| ruled.begin()).transpose()?;
    let mut story = args.constraint.with(args.whitespace.whitespace, tokenizer.as_ref(), |constraint| {
        let scratch = vec![0; scratch_len(model.config().vocab)];
        let chooser = Chooser { sampler, constraint, calling, scratch };
        tell((&mut engine, sequence), &steps, (chooser, guesses), &prompt, &ends, &mut output)
    })?;
    story.metrics = engine.metrics();
    steps.finish()?;
    output.end()?;
    if let Some((style, _)) = &offered {
        let (lines, calls): (Vec<_>, Vec<_>) = Asked::all(&output.text, style).iter().map(Asked::told).unzip();
        lines.iter().try_for_each(|line| writeln!(stdout(), "{line}"))?;
        story.calls = Some(calls);
    }
    if args.verbose {
        story.print_tokens(tokenizer.as_ref(), &prompt)?;
    }
    story.print_statistics(prompt.len())?;
    if let Some(json) = json {
        json.write(story.to_json(&prompt, &output.text).to_string().as_bytes())?;
    }
    Ok(if story.stop == Stop::Interrupted { ExitCode::from(130) } else { ExitCode::SUCCESS })
}

/// Returns how the text is written as a message, and the rules for the calls in the reply; `None` without `--tools`.
fn offer<'t>(
    args: &GenerateArgs,
    model: &Model<'_>,
    tokenizer: Option<&'t Tokenizer<'t, 't>>,
) -> Result<Option<(Style<'t>, Option<CallRules<'t>>)>> {
    if !args.tools.is_some() {
        return if args.tools.wants_more() { Err("--free-calls and --think need --tools".into()) } else { Ok(None) };
    } else if args.constraint.is_some() {
        return Err("--tools and another grammar exclude each other".into());
    }
    let tokenizer = tokenizer.ok_or("--tools needs a text, not ids")?;
    let mut style = Style::choose(model.gguf(), tokenizer, args.template.as_deref(), false)?;
    args.tools.apply(&mut style)?;
    let rules = args.tools.rules(tokenizer, &style)?;
    Ok(Some((style, rules)))
}

/// The conditions that end a story.
struct Ends<'t, 'm, 'a> {
    /// Tokenizer, which knows the tokens that end a text; `None` if these tokens do not end the story.
    tokenizer: Option<&'t Tokenizer<'m, 'a>>,
    /// Ids of tokens that end a message in the turn format.
    stops: Vec<u32>,
    /// Strings that end the text (`--stop`).
    strings: &'t [String],
    /// Most tokens to generate.
    n: usize,
    /// Most tokens of the sequence, prompt included.
    context: usize,
    /// Number of tokens that a GPU chooses in one call; 0 if the program chooses each token from its logits.
    together: usize,
}

/// Chooses each next token.
struct Chooser<'c, 't, 'r> {
    sampler: Sampler,
    constraint: Option<&'c mut Constraint<'t>>,
    calling: Option<Calling<'r>>,
    scratch: Vec<u64>,
}

impl Chooser<'_, '_, '_> {
    /// Returns the tokens that have to follow, at most `most`, and accepts them into the constraint.
    fn forced(&mut self, most: usize) -> Result<Vec<u32>> {
        self.constraint.as_mut().map_or(Ok(Vec::new()), |constraint| constraint.forced(most))
    }

    fn is_complete(&self) -> bool {
        self.constraint.as_ref().is_some_and(|constraint| constraint.is_complete())
    }

    /// Chooses a token and accepts it. `left` is the most tokens that can still follow, this one included.
    fn choose(&mut self, left: usize, logits: &[f32]) -> Result<Choice> {
        let Self { sampler, constraint, calling, scratch } = self;
        let choice = match (constraint, calling) {
            (Some(constraint), _) => constraint.choose(sampler, left.max(1), logits, scratch)?,
            (None, Some(calling)) => calling.choose(sampler, logits, scratch)?,
            (None, None) => sampler.sample(logits, scratch)?,
        };
        sampler.accept(choice.token);
        Ok(choice)
    }
}

fn tell(
    (engine, sequence): (&mut Engine<'_, '_>, SeqId),
    steps: &Steps<'_>,
    (mut chooser, mut guesses): (Chooser<'_, '_, '_>, Option<Guesses<'_>>),
    prompt: &[u32],
    ends: &Ends<'_, '_, '_>,
    output: &mut Output<'_, '_, '_>,
) -> Result<Story> {
    let mut story = Story::default();
    prompt.iter().for_each(|&id| chooser.sampler.accept(id));
    let start = Instant::now();
    let is_free = chooser.constraint.is_none() && chooser.calling.is_none();
    let together = if is_free { ends.together } else { 0 };
    let ms = || start.elapsed().as_secs_f64() * 1000.0;
    // `next` is the whole prompt first, then the token that was chosen last, with the tokens that have to follow it.
    let (mut next, mut known) = (prompt.to_vec(), None);
    while story.ids.len() < ends.n {
        let room = ends.context.saturating_sub(engine.seq_len(sequence)?);
        if next.len() > room {
            story.stop = Stop::Context(ends.context);
            break;
        }
        if together > 0 && !story.ids.is_empty() {
            let most = together.min(room).min(ends.n - story.ids.len());
            match tell_together((engine, sequence), &mut chooser, (next[0], most), ends, (&mut story, &start), output)?
            {
                Some(last) => next = vec![last],
                None => break,
            }
            continue;
        }
        let mut left = (ends.n - story.ids.len()).min(room - next.len());
        let forced = match known.take() {
            Some(forced) => forced,
            None => chooser.forced(left)?,
        };
        let is_complete = chooser.is_complete();
        if let (Some(guesses), [token], false, true) = (&mut guesses, &next[..], is_complete, forced.is_empty())
            && !story.ids.is_empty()
        {
            let batch = Batch { steps, token: *token };
            match tell_guessed(engine, batch, (guesses, &mut chooser), ends, (&mut story, &start), output)? {
                Some((last, forced)) => (next, known) = (vec![last], Some(forced)),
                None => break,
            }
            continue;
        }
        if !is_complete {
            next.extend(&forced);
            let before = ms();
            let by_layer = match &mut guesses {
                Some(guesses) if story.ids.is_empty() && steps.trace.is_none() => guesses.prefill(engine, &next)?,
                _ => false,
            };
            if !by_layer && !run::advance(engine, steps, sequence, &next)? {
                story.stop = Stop::Interrupted;
                break;
            }
            story.forward(ms() - before);
        }
        for &token in &forced {
            chooser.sampler.accept(token);
            story.add_forced(token, ms());
            // A forced token is never the end token, but it may complete a stop string.
            if ends.are_here(token, &mut story, output)? {
                return Ok(story);
            }
        }
        if is_complete {
            story.stop = Stop::Complete;
            break;
        } else if story.ids.len() == ends.n {
            break;
        }
        left -= forced.len();
        let logits = engine.logits(sequence).unwrap_or_default();
        let choice = chooser.choose(left, logits)?;
        story.add(choice, ms());
        if ends.are_here(choice.token, &mut story, output)? {
            break;
        }
        next = vec![choice.token];
    }
    let of_calls = chooser.calling.map(|calling| calling.may_end());
    story.complete = chooser.constraint.map(|constraint| constraint.may_end()).or(of_calls);
    Ok(story)
}

/// The token that was chosen last, and the steps that compute it.
struct Batch<'b> {
    token: u32,
    steps: &'b Steps<'b>,
}

/// Computes a token and guesses in one batch, and chooses tokens from its rows. Returns the last chosen token and the
/// tokens that have to follow it, or `None` if the story has ended.
fn tell_guessed(
    engine: &mut Engine<'_, '_>,
    Batch { token, steps }: Batch<'_>,
    (guesses, chooser): (&mut Guesses<'_>, &mut Chooser<'_, '_, '_>),
    ends: &Ends<'_, '_, '_>,
    (story, start): (&mut Story, &Instant),
    output: &mut Output<'_, '_, '_>,
) -> Result<Option<(u32, Vec<u32>)>> {
    let ms = || start.elapsed().as_secs_f64() * 1000.0;
    let (before, mut len) = (ms(), engine.seq_len(guesses.guessing.seq())?);
    if !guesses.advance(engine, steps, chooser.constraint.as_deref_mut(), token)? {
        story.stop = Stop::Interrupted;
        return Ok(None);
    }
    story.forward(ms() - before);
    let (mut last, mut forced) = (token, Vec::new());
    while let Some(logits) = guesses.guessing.logits(engine) {
        len += 1;
        let left = |story: &Story, len| (ends.n - story.ids.len()).min(ends.context.saturating_sub(len));
        let choice = chooser.choose(left(story, len), logits)?;
        story.add(choice, ms());
        last = choice.token;
        let goes_on = guesses.guessing.take(last);
        if ends.are_here(last, story, output)? {
            guesses.end(engine, story)?;
            return Ok(None);
        }
        forced = chooser.forced(left(story, len + 1))?;
        if !goes_on || !forced.is_empty() || chooser.is_complete() || story.ids.len() == ends.n {
            break;
        }
    }
    guesses.end(engine, story)?;
    Ok(Some((last, forced)))
}

/// Adds at most `most` tokens that a device chooses after `token`. Returns the last of them, or `None` if the story has
/// ended.
fn tell_together(
    (engine, sequence): (&mut Engine<'_, '_>, SeqId),
    Chooser { sampler, scratch, .. }: &mut Chooser<'_, '_, '_>,
    (token, most): (u32, usize),
    ends: &Ends<'_, '_, '_>,
    (story, start): (&mut Story, &Instant),
    output: &mut Output<'_, '_, '_>,
) -> Result<Option<u32>> {
    let before = start.elapsed().as_secs_f64() * 1000.0;
    let mut ids = vec![0; most];
    engine.decode_sampled(sequence, token, (sampler, scratch), &mut ids)?;
    let each = (start.elapsed().as_secs_f64() * 1000.0 - before) / most as f64;
    for (&token, count) in ids.iter().zip(1..) {
        story.forward(each);
        // The probability is unknown without the logits. Only --verbose prints it, and --verbose does not come here.
        story.add(Choice { token, probability: f32::NAN }, before + each * f64::from(count));
        if ends.are_here(token, story, output)? {
            return Ok(None);
        }
    }
    if interrupt::take() {
        story.stop = Stop::Interrupted;
        return Ok(None);
    }
    Ok(ids.last().copied())
}

impl Ends<'_, '_, '_> {
    /// Writes a token to the output. Returns whether the text ends with it.
    fn are_here(&self, token: u32, story: &mut Story, output: &mut Output<'_, '_, '_>) -> Result<bool> {
        if self.tokenizer.is_some_and(|tokenizer| tokenizer.is_end(token) || self.stops.contains(&token)) {
            story.stop = Stop::End;
            return Ok(true);
        }
        let Some(index) = output.token(token)? else { return Ok(false) };
        story.stop = Stop::Text(self.strings.get(index).cloned().unwrap_or_default());
        Ok(true)
    }
}
