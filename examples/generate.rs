//! Continues a text.
//!
//! ```text
//! cargo run --release --example generate -- "Once upon a time"
//! cargo run --release --example generate -- --model model.gguf --temp 0 -n 100 "The capital of France is"
//! ```
//!
//! Standard output gets the text, as it is generated (on a terminal with the prompt before it), standard error the
//! statistics. It stops at a token that ends a text, after `-n` tokens, where the context is full, or on Ctrl-C; then
//! the exit code is 130, and the statistics are those up to there. With `--window` the context never fills up:
//!
//! ```text
//! cargo run --release --example generate -- --window 128 --ignore-end -n 5000 "Once upon a time"
//! ```

mod common;

use std::fs::File;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use common::args::{EngineArgs, LoraArgs, ModelArgs, SampleArgs, WindowArgs, parse_ids};
use common::{ModelFile, Result, interrupt, run, text};
use gleed::host::{AlignedBytes, ThreadPool};
use gleed::sample::{Sampler, scratch_len};
use gleed::token::Tokenizer;
use gleed::{Engine, KvKind, Limits, Plan, SeqId};

/// Continues a text with a language model.
#[derive(Parser)]
#[command(name = "generate")]
struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    window: WindowArgs,
    #[command(flatten)]
    prompt: Prompt,
    #[command(flatten)]
    sample: SampleArgs,
    #[command(flatten)]
    lora: LoraArgs,

    /// The most tokens to generate
    #[arg(short, value_name = "N", default_value_t = 512)]
    n: usize,

    /// Go on where the model ends the text
    #[arg(long)]
    ignore_end: bool,

    /// Write ids, text and times to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Show a line per token: phase, id, text, probability, milliseconds
    #[arg(long)]
    verbose: bool,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct Prompt {
    /// The text to continue
    #[arg(value_name = "TEXT")]
    text: Option<String>,

    /// The same as a flag
    #[arg(long = "prompt", value_name = "TEXT", allow_hyphen_values = true)]
    flag: Option<String>,

    /// The text to continue as token ids, taken as they are: no token is put before them
    #[arg(long, value_name = "1,2,3", value_parser = parse_ids)]
    ids: Option<std::vec::Vec<u32>>,
}

impl Prompt {
    fn text(&self) -> Option<&str> {
        self.text.as_deref().or(self.flag.as_deref())
    }
}

fn main() -> ExitCode {
    common::exit(generate(&Args::parse()))
}

fn generate(args: &Args) -> Result<ExitCode> {
    if args.n == 0 {
        return Err("-n is 0, it must be at least 1".into());
    }
    let file = ModelFile::open(args.model.model.as_deref())?;
    let model = file.model()?;
    let mut tables = AlignedBytes::new(Tokenizer::plan(model.gguf()).unwrap_or(0));
    let tokenizer = Tokenizer::new(model.gguf(), tables.bytes()).map_err(|error| file.error(error));
    // Ids can be continued without a vocabulary.
    let (prompt, tokenizer) = match (args.prompt.text(), tokenizer) {
        (Some(""), _) => return Err("the prompt is empty".into()),
        (Some(text), tokenizer) => {
            let tokenizer = tokenizer?;
            (text::encode_prompt(&tokenizer, text)?, Some(tokenizer))
        }
        (None, tokenizer) => (args.prompt.ids.clone().unwrap_or_default(), tokenizer.ok()),
    };
    let (room, window) = (model.config().context, args.window.window()?);
    // Without a cache, all tokens are kept to be computed again.
    let endless = !window.is_all() && args.engine.kv != KvKind::Off;
    if prompt.is_empty() {
        return Err("the prompt is empty".into());
    } else if prompt.len() > room && !endless {
        return Err(format!("the prompt has {} tokens, the model's context is {room}", prompt.len()).into());
    }

    let context = if window.is_all() { room.min(prompt.len().saturating_add(args.n)) } else { room };
    let adapters = args.lora.open(&model)?;
    let limits = Limits { window, ..args.engine.limits(context) };
    let plan = Plan::new(&model, &args.lora.limits(limits, &adapters))?;
    let pool = ThreadPool::new(args.engine.threads)?;
    let mut memory = AlignedBytes::new(plan.bytes());
    let mut engine = Engine::new(&model, &plan, memory.bytes())?;
    engine.set_parallel(&pool);
    let sampler = Sampler::new(args.sample.params(file.is_demo()))?;
    let json = args.json.as_ref().map(File::create).transpose();
    let json = json.map_err(|error| format!("{}: {error}", args.json.clone().unwrap_or_default().display()))?;
    interrupt::catch(|| {})?;

    let echo = args.prompt.text().filter(|_| stdout().is_terminal()).unwrap_or_default();
    let mut output = Output { echo, text: String::new(), stream: tokenizer.as_ref().map(text::Stream::new) };
    let ends = Ends {
        tokenizer: tokenizer.as_ref().filter(|_| !args.ignore_end),
        n: args.n,
        context: if endless { usize::MAX } else { context },
    };
    let sequence = engine.open()?;
    args.lora.apply(&mut engine, sequence, &adapters)?;
    let story = Story::tell((&mut engine, sequence), &plan, sampler, &prompt, &ends, &mut output)?;
    output.end()?;
    if args.verbose {
        story.print_tokens(tokenizer.as_ref(), &prompt)?;
    }
    story.print_statistics(prompt.len())?;
    if let Some(json) = json {
        serde_json::to_writer(json, &story.to_json(&prompt, &output.text))?;
    }
    Ok(if story.stop == Stop::Interrupted { ExitCode::from(130) } else { ExitCode::SUCCESS })
}

/// Where the generated text goes: standard output, and a copy.
struct Output<'t, 'm, 'a> {
    /// To be written before the first token.
    echo: &'t str,
    text: String,
    /// None where the vocabulary cannot be used: then the ids are written.
    stream: Option<text::Stream<'t, 'm, 'a>>,
}

impl Output<'_, '_, '_> {
    fn token(&mut self, id: u32) -> Result<()> {
        stdout().write_all(std::mem::take(&mut self.echo).as_bytes())?;
        let text = match &mut self.stream {
            Some(stream) => stream.push(id).to_owned(),
            None => format!("{id} "),
        };
        self.write(&text)
    }

    fn write(&mut self, text: &str) -> Result<()> {
        self.text.push_str(text);
        stdout().write_all(text.as_bytes())?;
        Ok(stdout().flush()?)
    }

    fn end(&mut self) -> Result<()> {
        let rest = self.stream.as_mut().map_or("", text::Stream::finish);
        self.write(rest)?;
        Ok(stdout().write_all(b"\n")?)
    }
}

/// Where a story ends.
struct Ends<'t, 'm, 'a> {
    /// Knows the tokens with which the model ends a text.
    tokenizer: Option<&'t Tokenizer<'m, 'a>>,
    /// Generated tokens.
    n: usize,
    /// Tokens with the prompt.
    context: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Stop {
    End,
    Length,
    Context(usize),
    Interrupted,
}

/// What was generated, and how long it took.
struct Story {
    ids: Vec<u32>,
    probabilities: Vec<f32>,
    /// When each token was there, in milliseconds from the start.
    at_ms: Vec<f64>,
    /// The first one is that of the prompt; each of the others fed the token before.
    forward_ms: Vec<f64>,
    stop: Stop,
}

impl Story {
    fn tell(
        (engine, sequence): (&mut Engine<'_, '_>, SeqId),
        plan: &Plan,
        mut sampler: Sampler,
        prompt: &[u32],
        ends: &Ends<'_, '_, '_>,
        output: &mut Output<'_, '_, '_>,
    ) -> Result<Self> {
        let mut scratch = vec![0; scratch_len(engine.model().config().vocab)];
        let mut story = Self {
            ids: Vec::new(),
            probabilities: Vec::new(),
            at_ms: Vec::new(),
            forward_ms: Vec::new(),
            stop: Stop::Length,
        };
        prompt.iter().for_each(|&id| sampler.accept(id));
        let start = Instant::now();
        let ms = || start.elapsed().as_secs_f64() * 1000.0;
        let mut next = prompt.to_vec();
        while story.ids.len() < ends.n {
            if engine.seq_len(sequence)? >= ends.context {
                story.stop = Stop::Context(ends.context);
                break;
            }
            let before = ms();
            if !run::advance(engine, plan, sequence, &next)? {
                story.stop = Stop::Interrupted;
                break;
            }
            story.forward_ms.push(ms() - before);
            let choice = sampler.sample(engine.logits(sequence).unwrap_or_default(), &mut scratch)?;
            sampler.accept(choice.token);
            story.ids.push(choice.token);
            story.probabilities.push(choice.probability);
            story.at_ms.push(ms());
            if ends.tokenizer.is_some_and(|tokenizer| tokenizer.is_end(choice.token)) {
                story.stop = Stop::End;
                break;
            }
            output.token(choice.token)?;
            next = vec![choice.token];
        }
        Ok(story)
    }

    fn decode_tok_s(&self) -> Option<f64> {
        let (first, last) = (self.at_ms.first()?, self.at_ms.last()?);
        (last > first).then(|| 1000.0 * (self.ids.len() - 1) as f64 / (last - first))
    }

    fn print_tokens(&self, tokenizer: Option<&Tokenizer<'_, '_>>, prompt: &[u32]) -> Result<()> {
        let mut err = stderr().lock();
        let piece = |id| tokenizer.map(|tokenizer| format!("{:?}", text::piece(tokenizer, id))).unwrap_or_default();
        writeln!(err, "\n{:8} {:>7} {:20} {:>11} {:>9}", "phase", "id", "text", "probability", "ms")?;
        for (index, &id) in prompt.iter().enumerate() {
            let ms = self.forward_ms.first().filter(|_| index + 1 == prompt.len());
            let ms = ms.map(|ms| format!("{ms:.2}")).unwrap_or_default();
            writeln!(err, "{:8} {id:>7} {:20} {:>11} {ms:>9}", "prefill", piece(id), "")?;
        }
        let mut before = self.forward_ms.first().copied().unwrap_or(0.0);
        for ((&id, probability), &at) in self.ids.iter().zip(&self.probabilities).zip(&self.at_ms) {
            writeln!(err, "{:8} {id:>7} {:20} {probability:>11.4} {:>9.2}", "decode", piece(id), at - before)?;
            before = at;
        }
        Ok(())
    }

    fn print_statistics(&self, prompt: usize) -> Result<()> {
        let mut err = stderr().lock();
        let end = match self.stop {
            Stop::End => "the model ended the text".into(),
            Stop::Length => "-n tokens generated".into(),
            Stop::Context(context) => format!("the context of {context} tokens is full"),
            Stop::Interrupted => "interrupted".into(),
        };
        writeln!(err, "\nstopped: {end}")?;
        let count = |tokens| if tokens == 1 { "1 token".into() } else { format!("{tokens} tokens") };
        if let Some(ttft) = self.at_ms.first() {
            writeln!(err, "prompt: {}, time to first token {ttft:.1} ms", count(prompt))?;
        }
        write!(err, "generated: {}", count(self.ids.len()))?;
        match self.decode_tok_s() {
            Some(speed) => writeln!(err, ", {speed:.1} tokens/s after the first")?,
            None => writeln!(err)?,
        }
        Ok(())
    }

    fn to_json(&self, prompt: &[u32], text: &str) -> serde_json::Value {
        serde_json::json!({
            "prompt_ids": prompt,
            "ids": self.ids,
            "text": text,
            "ttft_ms": self.at_ms.first(),
            "decode_tok_s": self.decode_tok_s(),
            "forward_ms": self.forward_ms,
        })
    }
}
