//! Characters of a game who answer in JSON, within a part of each frame.
//!
//! ```text
//! cargo run --release --example npc_dialogue
//! cargo run --release --example npc_dialogue -- --ms 1 --threads 2 --characters 8
//! ```
//!
//! All characters share one grammar and one trie of tokens; each has a matcher, a sampler and a sequence. In each frame
//! the engine computes rows and the matchers compute masks until the deadline. Unfinished work continues in the next
//! frame. Forced tokens are not chosen: they run in the same batch as the token before them. Standard output gets the
//! number of frames, how far they exceeded their deadlines, how many tokens were forced, and the answers. Each answer
//! is a value of the schema.

use std::io::{Write, stdout};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use common::args::ModelArgs;
use common::compile::compile;
use common::{ModelFile, Result, limit, text};
use gleed::grammar::{Limits as MatcherLimits, Matcher, Options, Source, TokenTrie, Whitespace};
use gleed::host::{AlignedBytes, ThreadPool};
use gleed::sample::{Sampler, SamplerParams, scratch_len};
use gleed::token::Tokenizer;
use gleed::{Budget, Deadline, Engine, Limits, Logits, Plan, SeqId, Step};

const SCHEMA: &str = r#"{
    "type": "object",
    "properties": {
        "emotion": {"enum": ["calm", "happy", "angry", "afraid", "sad"]},
        "line": {"type": "string", "minLength": 1, "maxLength": 60},
        "action": {"enum": ["wait", "walk", "wave", "run", "hide"]}
    },
    "required": ["emotion", "line", "action"],
    "additionalProperties": false
}"#;

const NAMES: [&str; 32] = [
    "Lily", "Tom", "Sara", "Ben", "Mia", "Max", "Anna", "Sam", "Lucy", "Jack", "Amy", "Tim", "Emma", "Bob", "Sue",
    "Dan", "Kate", "Leo", "Ella", "Joe", "Nina", "Roy", "Rose", "Bill", "Zoe", "Fred", "Jane", "Mark", "Ruby", "Pete",
    "Molly", "Gus",
];

/// Most tokens of an answer: the number of characters of the longest one.
const ANSWER: usize = 128;

/// Number of trie nodes that a mask visits between two looks at the clock, in units of 4,096.
const MASK_UNITS: usize = 1;

const EXAMPLES: &str = "\
Examples:
  cargo run --release --example npc_dialogue
  cargo run --release --example npc_dialogue -- --characters 8 --ms 0.5 --seed 3";

/// Lets characters of a game answer in JSON, within a time budget per frame.
#[derive(Parser)]
#[command(name = "npc_dialogue", version, long_version = common::version(), after_help = EXAMPLES)]
struct Args {
    #[command(flatten)]
    model: ModelArgs,

    /// Milliseconds per frame for the engine and the masks
    #[arg(long, value_name = "T", default_value_t = 2.0)]
    ms: f64,

    /// Number of characters, at most 32
    #[arg(long, value_name = "N", default_value_t = 32)]
    characters: usize,

    /// Number of threads that compute; the answers do not depend on it
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,

    /// Start of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    common::exit(play(&Args::parse()))
}

fn play(args: &Args) -> Result<ExitCode> {
    limit::check("--characters", args.characters, 1, NAMES.len())?;
    limit::check_real("--ms", args.ms, 0.0, 1e6)?;
    let file = ModelFile::open(args.model.model.as_deref())?;
    let model = file.model()?;
    let mut tables = AlignedBytes::new(Tokenizer::plan(model.gguf()).unwrap_or(0));
    let tokenizer = Tokenizer::new(model.gguf(), tables.bytes()).map_err(|error| file.error(error))?;
    let mut scratch = vec![0; TokenTrie::scratch_len(&tokenizer)];
    let mut nodes = AlignedBytes::new(TokenTrie::plan(&tokenizer, &mut scratch)?);
    let trie = TokenTrie::new(&tokenizer, &mut scratch, nodes.bytes())?;
    let options = Options { whitespace: Whitespace::Compact, ..Options::default() };
    let mut compiled = AlignedBytes::new(0);
    let grammar = compile(Source::Schema(SCHEMA.as_bytes()), &options, &mut compiled)?;

    let prompts: Vec<Vec<u32>> = NAMES[..args.characters]
        .iter()
        .map(|name| text::encode_prompt(&tokenizer, &format!("Once upon a time, {name} met a dragon. {name} said: ")))
        .collect::<std::result::Result<_, _>>()?;
    let context = prompts.iter().map(Vec::len).max().unwrap_or(0) + ANSWER;
    let (sequences, workers) = (args.characters, args.threads);
    let limits = Limits { sequences, context, workers, logit_rows: sequences, ..Limits::default() };
    let plan = Plan::new(&model, &limits)?;
    let pool = ThreadPool::new(args.threads)?;
    let mut memory = AlignedBytes::try_new(plan.bytes())?;
    let mut engine = Engine::new(&model, &plan, memory.bytes())?;
    engine.set_parallel(&pool);

    let matcher_limits = MatcherLimits { items: 16, nodes: 16, depth: 8, past: 0 };
    let bytes = Matcher::plan(matcher_limits)?;
    let mut states: Vec<AlignedBytes> = prompts.iter().map(|_| AlignedBytes::new(bytes)).collect();
    let mut cast = Vec::new();
    for (state, seed) in states.iter_mut().zip(args.seed..) {
        let seq = engine.open()?;
        let sampler = Sampler::new(SamplerParams { temperature: 0.8, seed, ..SamplerParams::default() })?;
        let matcher = Matcher::new(&grammar, matcher_limits, state.bytes())?;
        cast.push(Character { seq, sampler, matcher, stream: text::Stream::new(&tokenizer), answer: String::new() });
    }
    let mask = vec![0; trie.mask_len()];
    let room = vec![0; scratch_len(model.config().vocab)];
    let scratch = vec![0; Matcher::forced_scratch_len(&tokenizer)];
    let (tokenizer, ready, tokens) = (&tokenizer, Vec::new(), Tokens::default());
    let mut scene = Scene { tokenizer, trie: &trie, cast, ready, mask, room, scratch, tokens };
    for (index, prompt) in prompts.into_iter().enumerate() {
        scene.go_on(index, prompt, &mut engine)?;
    }
    let past = run_frames(&mut engine, &mut scene, Duration::from_secs_f64(args.ms / 1e3))?;
    report(&scene, past, bytes)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs frames until all characters have answered. Returns by how much each frame exceeded its deadline. The work of
/// the game itself is left out.
fn run_frames(engine: &mut Engine<'_, '_>, scene: &mut Scene<'_>, share: Duration) -> Result<Vec<Duration>> {
    let start = Instant::now();
    let clock = || start.elapsed().as_nanos() as u64;
    let mut past = Vec::new();
    loop {
        let deadline = Deadline { clock: &clock, at: clock() + share.as_nanos() as u64 };
        let is_over = scene.work(engine, deadline)?;
        past.push(Duration::from_nanos(clock().saturating_sub(deadline.at)));
        if is_over {
            return Ok(past);
        }
    }
}

fn report(scene: &Scene<'_>, mut past: Vec<Duration>, bytes: usize) -> Result<()> {
    let mut out = stdout().lock();
    past.sort();
    let at = |part: usize| past[(past.len() - 1) * part / 100].as_secs_f64() * 1e6;
    writeln!(out, "{} characters, {bytes} bytes for the state of each answer", scene.cast.len())?;
    writeln!(out, "{} frames", past.len())?;
    let Tokens { all, forced } = scene.tokens;
    writeln!(out, "{all} tokens, {forced} of them forced")?;
    writeln!(out, "overshoot: p50 {:.1} us, p99 {:.1} us, max {:.1} us\n", at(50), at(99), at(100))?;
    for (name, character) in NAMES.iter().zip(&scene.cast) {
        writeln!(out, "{name}: {}", character.answer)?;
    }
    Ok(())
}

/// A character, with its sequence and its answer so far.
struct Character<'c> {
    seq: SeqId,
    sampler: Sampler,
    matcher: Matcher<'c, 'c>,
    stream: text::Stream<'c, 'c, 'c>,
    answer: String,
}

/// All characters, and the state that they share.
struct Scene<'c> {
    tokenizer: &'c Tokenizer<'c, 'c>,
    trie: &'c TokenTrie<'c>,
    cast: Vec<Character<'c>>,
    /// Indices of characters whose logits are ready but whose next token is not chosen yet.
    ready: Vec<usize>,
    /// Mask in progress, for the last character of `ready`.
    mask: Vec<u32>,
    room: Vec<u64>,
    /// Scratch for finding forced tokens.
    scratch: Vec<u32>,
    tokens: Tokens,
}

/// Counts of the tokens in all answers.
#[derive(Clone, Copy, Default)]
struct Tokens {
    all: usize,
    forced: usize,
}

impl Scene<'_> {
    /// Works until the deadline, or until all characters have answered. Returns whether they have.
    fn work(&mut self, engine: &mut Engine<'_, '_>, deadline: Deadline<'_>) -> Result<bool> {
        loop {
            while let Some(&index) = self.ready.last() {
                if self.choose(index, engine)? {
                    self.ready.pop();
                }
                if (deadline.clock)() >= deadline.at {
                    return Ok(false);
                }
            }
            match engine.step(Budget { until: Some(deadline), ..Budget::default() })? {
                Step::Ready => {
                    let waits = |seq| self.cast.iter().position(|character| character.seq == seq);
                    self.ready.extend(engine.results().filter_map(|(seq, ..)| waits(seq)));
                }
                Step::Idle => return Ok(true),
                _ => return Ok(false),
            }
        }
    }

    /// Continues the mask of a character, and chooses its next token once the mask is finished. Returns whether a token
    /// was chosen.
    fn choose(&mut self, index: usize, engine: &mut Engine<'_, '_>) -> Result<bool> {
        let character = &mut self.cast[index];
        if !character.matcher.mask(self.trie, MASK_UNITS, &mut self.mask)? {
            return Ok(false);
        }
        let logits = engine.logits(character.seq).ok_or("no logits")?;
        let token = character.sampler.sample_masked(logits, &self.mask, &mut self.room)?.token;
        self.take(index, token)?;
        self.go_on(index, vec![token], engine)?;
        Ok(true)
    }

    /// Queues tokens of a character and the forced tokens after them. After the end of the object it queues nothing.
    fn go_on(&mut self, index: usize, mut tokens: Vec<u32>, engine: &mut Engine<'_, '_>) -> Result<()> {
        let mut ids = [0; 64];
        let count = self.cast[index].matcher.forced_tokens(self.tokenizer, self.trie, &mut self.scratch, &mut ids)?;
        for &token in &ids[..count] {
            self.take(index, token)?;
            tokens.push(token);
        }
        self.tokens.forced += count;
        let Character { seq, matcher, .. } = &self.cast[index];
        if !matcher.is_complete() {
            engine.queue(*seq, engine.seq_len(*seq)?, &tokens, Logits::Last)?;
        }
        Ok(())
    }

    /// Adds a token to an answer.
    fn take(&mut self, index: usize, token: u32) -> Result<()> {
        let character = &mut self.cast[index];
        character.matcher.accept(self.tokenizer, token)?;
        character.answer.push_str(character.stream.push(token));
        self.tokens.all += 1;
        Ok(())
    }
}
