//! A conversation in the terminal.
//!
//! ```text
//! cargo run --release --example chat -- --model model.gguf
//! ```
//!
//! Each line is a turn, in the format that the model was trained on where it is known. Lines that start with `/` are
//! commands: see `/help`. Ctrl-C stops a reply, Ctrl-D quits. It works in a pipe, too.

mod common;

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufRead, IsTerminal, Read, StdinLock, Write, stdin, stdout};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::Parser;
use common::args::{EngineArgs, ModelArgs, SampleArgs, ToolArgs};
use common::device::DeviceArgs;
use common::reply::{Asked, Reply};
use common::turns::{History, Style};
use common::{ModelFile, Result, interrupt, random, run};
use gleed::cache::{BLOCK_TOKENS, SnapshotOptions};
use gleed::host::{AlignedBytes, ThreadPool};
use gleed::sample::{Sampler, SamplerParams, scratch_len};
use gleed::token::Tokenizer;
use gleed::{Engine, Limits, Plan, SeqId};

const HELP: &str = "\
/reset         start over
/save FILE     write this conversation to a file
/load FILE     go on with the one in a file
/fork          branch: a second conversation that begins like this one
/switch [N]    go to branch N; without a number: list them
/close         drop this branch
/stats         tokens, memory, speed
/quit          or Ctrl-D
Ctrl-C stops a reply.";

const EXAMPLES: &str = r#"Examples:
  cargo run --release --example chat
  cargo run --release --example chat -- --system "You tell short stories." --temp 0.8 -n 100
  printf 'Once upon a time\n/stats\n' | cargo run --release --example chat -- --template none --seed 1"#;

/// Talks with a language model in the terminal.
///
/// Each line of input is a message to the model. Lines that start with `/` are commands: /help lists them.
#[derive(Parser)]
#[command(name = "chat", after_help = EXAMPLES)]
struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    sample: SampleArgs,

    /// The most tokens of a conversation [default: the context that the model was trained on, at most 4096]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    context: usize,

    /// The most conversations that are open at the same time: /fork opens one
    #[arg(long, value_name = "N", default_value_t = 4)]
    branches: usize,

    /// System message: instructions to the model before the conversation [default: none]
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,

    /// Turn format: its name, a file with a chat template, or `none` [default: that of the model's file]
    #[arg(long, value_name = "NAME|FILE")]
    template: Option<String>,

    /// Render the chat template in Jinja, even if its turn format is known
    #[arg(long)]
    jinja: bool,

    #[command(flatten)]
    tools: ToolArgs,

    /// The most tokens of a reply
    #[arg(short, value_name = "N", default_value_t = 512)]
    n: usize,
}

fn main() -> ExitCode {
    common::exit(chat(&Args::parse()))
}

fn chat(args: &Args) -> Result<ExitCode> {
    let file = ModelFile::open(args.model.model.as_deref())?;
    let model = file.model()?;
    let mut tables = AlignedBytes::new(Tokenizer::plan(model.gguf()).map_err(|error| file.error(error))?);
    let tokenizer = Tokenizer::new(model.gguf(), tables.bytes()).map_err(|error| file.error(error))?;
    // One more than branches: /load lets go of the old conversation when the new one is there.
    let sequences = args.branches.saturating_add(1);
    let limits = Limits { sequences, ..args.engine.limits(args.context) };
    let (plan, mut machine) = args.device.prepare(&model, &limits)?;
    let pool = ThreadPool::new(args.engine.threads)?;
    let mut memory = AlignedBytes::new(plan.bytes());
    let mut engine = machine.engine(&model, &plan, memory.bytes())?;
    engine.set_parallel(&pool);

    let params = args.sample.params(file.is_demo());
    let mut style = Style::choose(model.gguf(), &tokenizer, args.template.as_deref(), args.jinja)?;
    args.tools.apply(&mut style)?;
    let history = History::new(args.system.as_deref());
    let first = Branch { sequence: engine.open()?, sampler: Sampler::new(params)?, history, speed: None };
    let mut chat = Chat {
        args,
        plan: &plan,
        params,
        tokenizer: &tokenizer,
        stops: style.stops(&tokenizer),
        style,
        scratch: vec![0; scratch_len(model.config().vocab)],
        engine,
        branches: vec![first],
        current: 0,
        forks: 0,
        random: random::Random::new(params.seed),
    };
    if stdin().is_terminal() {
        println!("{}, context {}, turn format: {}", file.name(), plan.limits().context, chat.style.name());
        println!("/help lists the commands.");
    }
    interrupt::catch(|| {
        if !REPLYING.load(Ordering::Relaxed) && stdin().is_terminal() {
            eprint!("\n(Ctrl-D or /quit quits)\n> ");
        }
    })?;
    chat.run()?;
    Ok(ExitCode::SUCCESS)
}

static REPLYING: AtomicBool = AtomicBool::new(false);

/// A conversation.
struct Branch {
    sequence: SeqId,
    sampler: Sampler,
    history: History,
    /// Tokens of the last reply, and tokens per second.
    speed: Option<(usize, f64)>,
}

struct Chat<'t, 'm, 'a> {
    args: &'t Args,
    plan: &'t Plan,
    params: SamplerParams,
    tokenizer: &'t Tokenizer<'m, 'a>,
    style: Style,
    /// Tokens that end a reply.
    stops: Vec<u32>,
    engine: Engine<'m, 'a>,
    scratch: Vec<u64>,
    branches: Vec<Branch>,
    current: usize,
    forks: u64,
    /// For the dice.
    random: random::Random,
}

impl Chat<'_, '_, '_> {
    fn run(&mut self) -> Result<()> {
        let mut input = stdin().lock();
        let terminal = stdin().is_terminal();
        let mut line = Vec::new();
        loop {
            if terminal {
                print!("> ");
                stdout().flush()?;
            }
            line.clear();
            if input.read_until(b'\n', &mut line)? == 0 {
                if terminal {
                    println!();
                }
                return Ok(());
            }
            let line = String::from_utf8_lossy(&line);
            let (command, argument) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
            let done = match (command, argument.trim()) {
                ("", _) => Ok(()),
                ("/quit" | "/exit", _) => return Ok(()),
                ("/help", _) => say(HELP),
                ("/reset", _) => self.reset(),
                ("/save", file) => self.save(file),
                ("/load", file) => self.load(file),
                ("/fork", _) => self.fork(),
                ("/switch", number) => self.switch(number),
                ("/close", _) => self.close(),
                ("/stats", _) => self.stats(),
                (command, _) if command.starts_with('/') => Err(format!("{command} is no command, see /help").into()),
                _ => self.reply(line.trim(), &mut input),
            };
            match done {
                // Nobody reads what this writes.
                Err(error) if error.is::<io::Error>() => return Err(error),
                Err(error) => eprintln!("error: {error}"),
                Ok(()) => {}
            }
        }
    }

    fn branch(&mut self) -> &mut Branch {
        &mut self.branches[self.current]
    }

    fn reply(&mut self, user: &str, input: &mut StdinLock<'_>) -> Result<()> {
        let branch = &mut self.branches[self.current];
        let sequence = branch.sequence;
        let cached: Vec<u32> =
            (0..self.engine.seq_len(sequence)?).map_while(|at| self.engine.cache().token(sequence, at)).collect();
        let encoded = self.style.encode(self.tokenizer, &cached, &mut branch.history, user);
        let turn = encoded.and_then(|(tokens, kept)| {
            // Only a template that is not appended to keeps less than all.
            self.engine.rewind(sequence, kept)?;
            let new = &tokens[kept..];
            self.engine.can_extend(sequence, new.len() + 1).map_err(|error| format!("{error} (/reset starts over)"))?;
            Ok(new.to_vec())
        });
        let turn = turn.inspect_err(|_| branch.history.take_back())?;
        interrupt::take();
        REPLYING.store(true, Ordering::Relaxed);
        let end = self.answer(turn, input);
        REPLYING.store(false, Ordering::Relaxed);
        say(end?)
    }

    /// Writes the reply to a turn. While the model calls tools, it is told their results and goes on.
    fn answer(&mut self, mut turn: Vec<u32>, input: &mut StdinLock<'_>) -> Result<&'static str> {
        for round in 0.. {
            let (end, calls) = self.speak(&turn)?;
            if calls.is_empty() || !end.is_empty() {
                return Ok(end);
            } else if round == self.args.tools.rounds {
                return Ok(" [more calls than --rounds]");
            }
            let results =
                calls.into_iter().map(|call| call.run(&mut self.random, input)).collect::<Result<Vec<_>>>()?;
            turn = self.style.encode_results(self.tokenizer, &results)?;
            let sequence = self.branch().sequence;
            if self.engine.can_extend(sequence, turn.len() + 1).is_err() {
                return Ok(" [the context is full: /reset starts over]");
            }
        }
        Ok("")
    }

    /// Runs a turn and writes what the model says; what is to be said at its end, and the calls in it.
    fn speak(&mut self, turn: &[u32]) -> Result<(&'static str, Vec<Asked>)> {
        let branch = &mut self.branches[self.current];
        let (sequence, engine) = (branch.sequence, &mut self.engine);
        let before = engine.seq_len(sequence)?;
        if !run::advance(engine, self.plan, sequence, turn)? {
            // The model has not heard all of the turn.
            branch.history.take_back();
            engine.rewind(sequence, before)?;
            return Ok(("[stopped]", Vec::new()));
        }
        turn.iter().for_each(|&token| branch.sampler.accept(token));
        let mut reply = Reply::new(self.tokenizer, &self.style);
        let (start, mut tokens) = (Instant::now(), 0);
        let end = loop {
            let logits = engine.logits(sequence).unwrap_or_default();
            let token = branch.sampler.sample(logits, &mut self.scratch)?.token;
            if self.tokenizer.is_end(token) || self.stops.contains(&token) {
                break "";
            } else if tokens == self.args.n {
                break " [cut after -n tokens]";
            } else if engine.can_extend(sequence, 1).is_err() {
                break " [the context is full: /reset starts over]";
            }
            reply.push(token)?;
            if !run::advance(engine, self.plan, sequence, &[token])? {
                break " [stopped]";
            }
            branch.sampler.accept(token);
            tokens += 1;
        };
        branch.speed = Some((tokens, tokens as f64 / start.elapsed().as_secs_f64()));
        let (text, calls) = reply.finish()?;
        branch.history.reply(text);
        Ok((end, calls))
    }

    fn reset(&mut self) -> Result<()> {
        let (sequence, sampler) = (self.branch().sequence, Sampler::new(self.params)?);
        self.engine.reset(sequence)?;
        self.branch().sampler = sampler;
        self.branch().history = History::new(self.args.system.as_deref());
        say("[a new conversation]")
    }

    fn save(&mut self, file: &str) -> Result<()> {
        let sequence = self.branch().sequence;
        let fail = |error: &dyn Display| format!("{file}: {error}");
        let mut to = File::create(named(file)?).map_err(|error| fail(&error))?;
        let options = SnapshotOptions::default();
        let written = self.engine.write_snapshot(sequence, &options, |bytes| to.write_all(bytes));
        let written = written.map_err(|error| fail(&error))?;
        say(&format!("[{} tokens saved, {written} bytes]", self.engine.seq_len(sequence)?))
    }

    fn load(&mut self, file: &str) -> Result<()> {
        if !self.style.needs_no_history() {
            return Err("a template in Jinja needs the messages, which the file does not have".into());
        }
        let fail = |error: &dyn Display| format!("{file}: {error}");
        let mut from = File::open(named(file)?).map_err(|error| fail(&error))?;
        let restored = self.engine.read_snapshot(None, |bytes| from.read(bytes));
        let (sequence, _) = restored.map_err(|error| fail(&error))?;
        let old = std::mem::replace(&mut self.branch().sequence, sequence);
        self.engine.close(old)?;
        let tokens = self.engine.seq_len(sequence)?;
        let mut sampler = Sampler::new(self.params)?;
        (0..tokens).filter_map(|at| self.engine.cache().token(sequence, at)).for_each(|token| sampler.accept(token));
        self.branch().sampler = sampler;
        say(&format!("[{tokens} tokens loaded]"))
    }

    fn fork(&mut self) -> Result<()> {
        if self.branches.len() == self.args.branches {
            return Err(format!("all {} branches are in use (see /close, --branches)", self.args.branches).into());
        }
        let sequence = self.branch().sequence;
        let sequence = self.engine.fork(sequence, self.engine.seq_len(sequence)?)?;
        // Other random numbers, or else the same question would get the same answer.
        self.forks += 1;
        let mut sampler = self.branch().sampler.clone();
        sampler.set_state(sampler.state() ^ self.forks);
        let history = self.branch().history.clone();
        self.branches.push(Branch { sequence, sampler, history, speed: None });
        self.current = self.branches.len() - 1;
        say(&format!("[branch {} of {}]", self.current + 1, self.branches.len()))
    }

    fn switch(&mut self, number: &str) -> Result<()> {
        let count = self.branches.len();
        if !number.is_empty() {
            let chosen = number.parse().ok().filter(|number| (1..=count).contains(number));
            self.current = chosen.ok_or_else(|| format!("{number} is none of the branches 1 to {count}"))? - 1;
        }
        for (index, branch) in self.branches.iter().enumerate() {
            let here = if index == self.current { '*' } else { ' ' };
            say(&format!("{here} branch {}: {} tokens", index + 1, self.engine.seq_len(branch.sequence)?))?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        if self.branches.len() == 1 {
            return Err("this is the only branch (see /reset)".into());
        }
        let branch = self.branches.remove(self.current);
        self.engine.close(branch.sequence)?;
        self.current = self.current.saturating_sub(1);
        self.switch("")
    }

    fn stats(&mut self) -> Result<()> {
        let (sequence, speed) = (self.branch().sequence, self.branch().speed);
        let (cache, context) = (self.engine.cache(), self.plan.limits().context);
        let (table, allocator) = (cache.block_table(sequence, 0)?, cache.allocator(0)?);
        let shared =
            table.blocks().iter().filter(|&&block| allocator.meta(block).is_some_and(|meta| meta.ref_count() > 1));
        let (all, shared) = (table.blocks().len(), shared.count());
        let (own, free, limits) = (all - shared, allocator.free_blocks(), self.plan.limits());
        say(&format!(
            "branch {} of {}: {} of {context} tokens",
            self.current + 1,
            self.branches.len(),
            cache.seq_len(sequence)?
        ))?;
        say(&format!(
            "blocks of {BLOCK_TOKENS} tokens: {own} own, {shared} shared, {free} of {} free",
            allocator.len()
        ))?;
        say(&format!("memory: {} bytes, kv {} {}", self.plan.bytes(), limits.kv_kind, limits.kv_type))?;
        match speed {
            Some((tokens, speed)) => say(&format!("last reply: {tokens} tokens, {speed:.1} tokens/s")),
            None => Ok(()),
        }
    }
}

/// A line on standard output.
fn say(line: &str) -> Result<()> {
    Ok(writeln!(stdout(), "{line}")?)
}

fn named(file: &str) -> Result<&Path> {
    if file.is_empty() { Err("a file's name is missing".into()) } else { Ok(Path::new(file)) }
}
