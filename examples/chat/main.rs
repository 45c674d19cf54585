//! A conversation in the terminal.
//!
//! ```text
//! cargo run --release --example chat -- --model model.gguf
//! ```
//!
//! Each line is a turn, in the format that the model was trained on, if it is known. Lines that start with `/` are
//! commands: see `/help`. `//text` says `/text`. Ctrl-C stops a reply, Ctrl-D quits. It works in a pipe, too.

mod branch;
mod commands;
mod writing;

use std::io::{self, BufRead, IsTerminal, StdinLock, Write, stdin, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use branch::Branch;
use clap::Parser;
use common::args::{EngineArgs, KeepArgs, ModelArgs, SampleArgs, TraceArgs, WindowArgs};
use common::calling::CallRules;
use common::device::DeviceArgs;
use common::figures::{self, Heard};
use common::reply::{Asked, Reply};
use common::run::{self, Steps};
use common::tool_args::ToolArgs;
use common::trace::{Trace, Watcher};
use common::turns::{Said, Style};
use common::{ModelFile, Result, interrupt, limit, output, random};
use gleed::conversation::ConversationLimits;
use gleed::host::{AlignedBytes, ThreadPool};
use gleed::sample::{SamplerParams, scratch_len};
use gleed::token::Tokenizer;
use gleed::turns::Role;
use gleed::{Engine, Limits, Plan};
use writing::Writing;

const HELP: &str = "\
/list          show the messages
/edit N TEXT   say TEXT instead of your message N, and go on from there
/regenerate    answer the last message again
/reset         start over
/save FILE     write this conversation to a file
/load FILE     go on with the one in a file
/fork          branch: a second conversation that begins like this one
/switch [N]    go to branch N; without a number: list them
/close         drop this branch
/stats         tokens, memory, speed
/quit          or Ctrl-D
//TEXT         say /TEXT
Ctrl-C stops a reply.";

const EXAMPLES: &str = r#"Examples:
  cargo run --release --example chat
  cargo run --release --example chat -- --system "You tell short stories." --temp 0.8 -n 100
  cargo run --release --example chat -- -n 60 -m "Once upon a time"
  printf 'Once upon a time\n/stats\n' | cargo run --release --example chat -- --template none --seed 1"#;

/// Talks with a language model in the terminal.
///
/// Each line of input is a message to the model. Lines that start with `/` are commands: /help lists them.
#[derive(Parser)]
#[command(name = "chat", version, long_version = common::version(), after_help = EXAMPLES)]
struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    window: WindowArgs,
    #[command(flatten)]
    keep: KeepArgs,
    #[command(flatten)]
    sample: SampleArgs,

    /// Answer this message and exit
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,

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

    /// The most times that a reply goes on after calls of tools
    #[arg(long, value_name = "N", default_value_t = 8)]
    rounds: usize,

    /// Print the figures of each turn also where standard output is no terminal
    #[arg(long)]
    metrics: bool,

    #[command(flatten)]
    trace: TraceArgs,

    /// The most tokens of a reply
    #[arg(short, value_name = "N", default_value_t = 512)]
    n: usize,
}

impl Args {
    /// Returns the files that are read besides the model.
    fn read(&self) -> Vec<PathBuf> {
        let paths = [self.tools.path(), self.template.as_ref().map(Path::new)];
        paths.into_iter().flatten().map(Path::to_owned).collect()
    }
}

fn main() -> ExitCode {
    common::exit(chat(&Args::parse()))
}

fn chat(args: &Args) -> Result<ExitCode> {
    limit::check("--branches", args.branches, 1, usize::MAX)?;
    let file = ModelFile::open(args.model.model.as_deref())?;
    let model = file.generative()?;
    let trace = args.trace.output(&file, &args.read())?;
    let mut tables = AlignedBytes::new(Tokenizer::plan(model.gguf()).map_err(|error| file.error(error))?);
    let tokenizer = Tokenizer::new(model.gguf(), tables.bytes()).map_err(|error| file.error(error))?;
    let mut style = Style::choose(model.gguf(), &tokenizer, args.template.as_deref(), args.jinja)?;
    args.tools.apply(&mut style)?;
    let rules = args.tools.rules(&tokenizer, &style)?;
    // One more than branches, because /load closes the old conversation after it has opened the new one.
    let sequences = args.branches.saturating_add(1);
    let window = args.window.window()?;
    // For models with recurrent layers: two for each of the last two branches, at the end of the last turn and before
    // the reply.
    let checkpoints = 4;
    let limits = Limits { sequences, window, checkpoints, ..args.engine.limits(args.context) };
    let (plan, mut machine) = args.device.prepare(&model, &limits)?;
    let pool = ThreadPool::new(args.engine.threads)?;
    let watcher = Watcher::new(&pool);
    let mut memory = AlignedBytes::try_new(plan.bytes())?;
    let mut engine = machine.engine(&model, &plan, memory.bytes())?;
    engine.set_parallel(args.trace.executor(&pool, &watcher));
    engine.set_clock(Some(figures::clock()));
    let trace = trace.map(|output| Trace::create(output, &watcher, &model, &plan)).transpose()?;
    let steps = Steps { plan: &plan, trace };

    let params = args.sample.params(file.is_demo());
    let sizes = branch::limits(&engine, &plan);
    let first = Branch::new(engine.open()?, &sizes, params, args.system.as_deref())?;
    let mut chat = Chat {
        args,
        file: &file,
        plan: &plan,
        steps,
        params,
        tokenizer: &tokenizer,
        stops: style.stops(),
        style,
        rules: rules.as_ref(),
        sizes,
        scratch: vec![0; scratch_len(model.config().vocab)],
        engine,
        branches: vec![first],
        current: 0,
        forks: 0,
        failed: false,
        heard: Heard::default(),
        random: random::Random::new(params.seed),
    };
    if let Some(message) = &args.message {
        // An interrupt removes a trace that is not complete.
        output::end_on_interrupt()?;
        chat.say(message, &mut stdin().lock())?;
        chat.steps.finish()?;
        return Ok(ExitCode::SUCCESS);
    }
    if stdin().is_terminal() {
        say(&format!("{}, context {}, turn format: {}", file.name(), plan.limits().context, chat.style.name()))?;
        say("/help lists the commands.")?;
    }
    interrupt::catch(|| {
        if !REPLYING.load(Ordering::Relaxed) && stdin().is_terminal() {
            eprint!("\n(Ctrl-D or /quit quits)\n> ");
        }
    })?;
    chat.run()?;
    chat.steps.finish()?;
    // At a pipe nobody sees the errors, so the exit code reports them.
    Ok(if chat.failed && !stdin().is_terminal() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

static REPLYING: AtomicBool = AtomicBool::new(false);

struct Chat<'t> {
    args: &'t Args,
    file: &'t ModelFile,
    plan: &'t Plan,
    steps: Steps<'t>,
    params: SamplerParams,
    tokenizer: &'t Tokenizer<'t, 't>,
    style: Style<'t>,
    /// The grammar of replies with calls, if there is one.
    rules: Option<&'t CallRules<'t>>,
    /// Tokens that end a reply.
    stops: Vec<u32>,
    /// Sizes of a conversation.
    sizes: ConversationLimits,
    engine: Engine<'t, 't>,
    scratch: Vec<u64>,
    branches: Vec<Branch>,
    current: usize,
    forks: u64,
    /// Whether any message got no answer.
    failed: bool,
    /// What the turn in progress, or the last turn, has read and written.
    heard: Heard,
    /// The random numbers of the dice.
    random: random::Random,
}

impl Chat<'_> {
    fn run(&mut self) -> Result<()> {
        let mut input = stdin().lock();
        let terminal = stdin().is_terminal();
        let mut line = Vec::new();
        loop {
            if terminal {
                write!(stdout(), "> ")?;
                stdout().flush()?;
            }
            line.clear();
            if input.read_until(b'\n', &mut line)? == 0 {
                if terminal {
                    say("")?;
                }
                return Ok(());
            }
            let line = String::from_utf8_lossy(&line);
            let (command, argument) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
            let done = match (command, argument.trim()) {
                ("", _) => Ok(()),
                ("/quit" | "/exit", _) => return Ok(()),
                ("/help", _) => say(HELP),
                ("/list", _) => self.list(),
                ("/edit", argument) => self.edit(argument, &mut input),
                ("/regenerate", _) => self.regenerate(&mut input),
                ("/reset", _) => self.reset(),
                ("/save", file) => self.save(file),
                ("/load", file) => self.load(file),
                ("/fork", _) => self.fork(),
                ("/switch", number) => self.switch(number),
                ("/close", _) => self.close(),
                ("/stats", _) => self.stats(),
                (command, _) if command.starts_with("//") => self.say(&line.trim()[1..], &mut input),
                (command, _) if command.starts_with('/') => Err(format!("{command} is no command, see /help").into()),
                _ => self.say(line.trim(), &mut input),
            };
            match done {
                // The output is closed, so nobody reads it.
                Err(error) if error.is::<io::Error>() => return Err(error),
                Err(error) => eprintln!("error: {error}"),
                Ok(()) => {}
            }
        }
    }

    fn branch(&mut self) -> &mut Branch {
        &mut self.branches[self.current]
    }

    /// Says something to the model.
    fn say(&mut self, text: &str, input: &mut StdinLock<'_>) -> Result<()> {
        let mut messages = self.branch().messages.clone();
        messages.push(Said::Message(Role::User, text.to_owned()));
        self.respond(messages, input)
    }

    /// Lets the model answer the last of these messages. If the model does not read it, the conversation stays as
    /// before.
    fn respond(&mut self, messages: Vec<Said>, input: &mut StdinLock<'_>) -> Result<()> {
        let before = std::mem::replace(&mut self.branch().messages, messages);
        let count = self.branch().messages.len();
        interrupt::take();
        REPLYING.store(true, Ordering::Relaxed);
        self.engine.reset_metrics();
        self.heard = Heard::default();
        let end = self.answer(input);
        self.failed |= end.is_err();
        REPLYING.store(false, Ordering::Relaxed);
        if self.branch().messages.len() == count {
            self.branch().messages = before;
        }
        say(end?)?;
        let figures = self.heard.line(&self.engine.metrics());
        match stdout().is_terminal() {
            true => say(&format!("\x1b[2m{figures}\x1b[0m")),
            false if self.args.metrics => say(&format!("[{figures}]")),
            false => Ok(()),
        }
    }

    /// Writes the reply to a turn. As long as the model calls tools, it gets their results and goes on.
    fn answer(&mut self, input: &mut StdinLock<'_>) -> Result<&'static str> {
        for round in 0.. {
            let (end, calls) = self.speak(round)?;
            if calls.is_empty() || !end.is_empty() {
                return Ok(end);
            } else if round == self.args.rounds {
                return Ok(" [more calls than --rounds]");
            }
            for call in calls {
                let told = call.run(&mut self.random, input)?;
                self.branch().messages.push(Said::Result(told));
            }
        }
        Ok("")
    }

    /// Lets the model read new tokens, and writes its reply after `round` replies with calls. Returns the note for the
    /// end of the reply, and the calls in it.
    fn speak(&mut self, round: usize) -> Result<(&'static str, Vec<Asked>)> {
        let (start, before) = (Instant::now(), self.engine.metrics());
        let room = self.args.n.min(self.plan.limits().context / 4);
        let branch = &mut self.branches[self.current];
        let turn = branch.update(&mut self.engine, self.plan, &self.style, &self.args.keep.keep(room), self.params)?;
        let (sequence, engine) = (branch.talk.seq(), &mut self.engine);
        if !run::advance(engine, &self.steps, sequence, &turn)? {
            // The model has not read the whole turn.
            return Ok(("[stopped]", Vec::new()));
        }
        self.heard.add(&before, &engine.metrics(), start);
        turn.iter().for_each(|&token| branch.sampler.accept(token));
        let mut reply = Reply::new(self.tokenizer, &self.style);
        let mut ruled = self.rules.map(|rules| rules.reply(round)).transpose()?;
        let mut calling = ruled.as_mut().map(|ruled| ruled.begin()).transpose()?;
        let mut writing = Writing {
            engine,
            steps: &self.steps,
            branch,
            scratch: &mut self.scratch,
            ends: |token| self.tokenizer.is_end(token) || self.stops.contains(&token),
            most: self.args.n,
            together: self.plan.is_for_device()
                && calling.is_none()
                && self.args.sample.has_no_penalties()
                && self.plan.limits().window.is_all(),
        };
        let start = Instant::now();
        let (end, tokens) = writing.write(&mut reply, calling.as_mut())?;
        branch.speed = Some((tokens, tokens as f64 / start.elapsed().as_secs_f64()));
        let (text, calls) = reply.finish()?;
        branch.messages.push(Said::Message(Role::Assistant, text));
        Ok((end, calls))
    }
}

/// Prints a line on standard output.
fn say(line: &str) -> Result<()> {
    Ok(writeln!(stdout(), "{line}")?)
}
