//! Measures how much faster guesses make decoding, on answers that are known beforehand.
//!
//! ```text
//! cargo run --release --example guess -- --model qwen3-0.6b-q4_k_m.gguf
//! ```
//!
//! A file with random weights draws no text worth guessing. So the answers are given. Each batch computes its rows, and
//! a token is chosen from each row as always, but then the token of the answer replaces it. The time is that of a model
//! that draws this answer. In most texts each word is a token, numbered in the order in which the words occur. The text
//! under a schema consists of tokens of the model's vocabulary.
//!
//! Times are processor time of this thread where the system reports it (Linux), because other programs disturb it less.

use std::io::{Write, stdout};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use common::args::{EngineArgs, ModelArgs};
use common::compile::compile;
use common::random::Random;
use common::{ModelFile, Result, guesses, limit, text};
use gleed::grammar::{Limits as MatcherLimits, Matcher, Options, Source, TokenTrie, Whitespace};
use gleed::guess::{Counts, Forced, Guessing, NGrams};
use gleed::host::{AlignedBytes, ThreadPool};
use gleed::sample::{Sampler, SamplerParams, scratch_len};
use gleed::token::Tokenizer;
use gleed::{Engine, Limits, Plan, Step};

/// Text whose words are the tokens of the tasks without a schema.
const TEXT: &str = include_str!("../docs/kv.md");

/// JSON Schema, the prompt with the facts, and the answer that follows the schema.
const SCHEMA: &str = include_str!("assets/guess-schema.json");
const FACTS: &str = include_str!("assets/guess-facts.txt");
const ANSWER: &str = include_str!("assets/guess-answer.json");

const EXAMPLES: &str = "\
Examples:
  cargo run --release --example guess
  cargo run --release --example guess -- --only schema --repeat 5
  cargo run --release --example guess -- --model qwen3-0.6b-q4_k_m.gguf";

/// Measures decoding with guesses against decoding token by token.
#[derive(Parser)]
#[command(name = "guess", version, long_version = common::version(), after_help = EXAMPLES)]
struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    engine: EngineArgs,

    /// Tokens of a prompt, and of an answer
    #[arg(long, value_name = "N", default_value_t = 160, value_parser = limit::within::<u16>(32, 1024))]
    tokens: u16,

    /// Pairs of passes, of which the median counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = limit::within::<usize>(1, 1000))]
    repeat: usize,

    /// Only the tasks with this in their names: `rewriting, runs of 16`, `rewriting, runs of 40`, `without repetition`,
    /// `under a schema`
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,

    /// Batches of 1, 2, 3, 4, 6, 8, 12 and 16 rows instead
    #[arg(long)]
    rows: bool,
}

fn main() -> ExitCode {
    common::exit(measure(&Args::parse()))
}

/// A prompt and its answer.
struct Task {
    name: &'static str,
    prompt: Vec<u32>,
    answer: Vec<u32>,
}

fn measure(args: &Args) -> Result<ExitCode> {
    let file = ModelFile::open(args.model.model.as_deref())?;
    let model = file.model()?;
    let count = usize::from(args.tokens);
    let mut tables = AlignedBytes::new(Tokenizer::plan(model.gguf())?);
    let tokenizer = Tokenizer::new(model.gguf(), tables.bytes())?;
    let schema =
        Task { name: "under a schema", prompt: text::encode_prompt(&tokenizer, FACTS)?, answer: spelled(&tokenizer)? };
    let context = (2 * count).max(schema.prompt.len() + schema.answer.len()) + 32;
    let tasks = texts(count, model.config().vocab as u32).map(|task| (task, false)).into_iter().chain([(schema, true)]);
    let only = args.only.as_deref().unwrap_or_default();
    let tasks: Vec<_> = tasks.filter(|(task, _)| task.name.contains(only)).collect();
    if tasks.is_empty() {
        return Err(format!("--only {only:?}: no task has this in its name").into());
    }
    let limits = Limits { logit_rows: guesses::MOST + 1, ..args.engine.limits(context) };
    let plan = Plan::new(&model, &limits)?;
    let pool = ThreadPool::new(args.engine.threads)?;
    let mut memory = AlignedBytes::try_new(plan.bytes())?;
    let mut engine = Engine::new(&model, &plan, memory.bytes())?;
    engine.set_parallel(&pool);
    if args.rows {
        return rows(&mut engine);
    }

    let mut scratch = vec![0; TokenTrie::scratch_len(&tokenizer)];
    let mut nodes = AlignedBytes::new(TokenTrie::plan(&tokenizer, &mut scratch)?);
    let trie = TokenTrie::new(&tokenizer, &mut scratch, nodes.bytes())?;
    let mut compiled = AlignedBytes::new(0);
    let options = Options { whitespace: Whitespace::Spaced, ..Options::default() };
    let grammar = compile(Source::Schema(SCHEMA.as_bytes()), &options, &mut compiled)?;
    let limits = MatcherLimits::default();
    let scratch = vec![0; Matcher::forced_scratch_len(&tokenizer)];
    for (task, is_ruled) in tasks {
        let mut memory = AlignedBytes::new(Matcher::plan(limits)?);
        let matcher = Matcher::new(&grammar, limits, memory.bytes())?;
        let rules = Rules {
            matcher,
            tokenizer: &tokenizer,
            trie: &trie,
            mask: vec![0; trie.mask_len()],
            scratch: scratch.clone(),
        };
        report(&mut engine, &task, is_ruled.then_some(rules), args.repeat)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns three tasks with the same prompt of words. The first two answers rewrite the prompt, and 80 % of their words
/// are words of the prompt: runs of 8 to 24 words stay and 2 to 6 words between them are new, or 30 to 50 and 8 to 12.
/// The third answer is the text that follows the prompt. If the vocabulary has fewer tokens than the text has words,
/// numbers begin again at 0, and some words share a token.
fn texts(count: usize, vocab: u32) -> [Task; 3] {
    let words: Vec<&str> = TEXT.split_whitespace().collect();
    let number = |word: &&str| words.iter().position(|other| other == word).unwrap_or(0) as u32 % vocab;
    let ids: Vec<u32> = words.iter().take(2 * count).map(number).collect();
    let (prompt, follows) = ids.split_at(count);
    let mut random = Random::new(1);
    let mut below = |end: u64| (random.draw() % end) as usize;
    let mut rewritten = |name, [kept, kept_more, new, new_more]: [usize; 4]| {
        let (mut answer, mut at, mut next) = (Vec::new(), 0, words.len() as u32);
        while at < count {
            let (kept, new) = (kept + below(kept_more as u64), new + below(new_more as u64));
            answer.extend(prompt.iter().skip(at).take(kept));
            answer.extend((next..).take(new).map(|number| number % vocab));
            (at, next) = (at + kept + new, next + new as u32);
        }
        answer.truncate(count);
        Task { name, prompt: prompt.to_vec(), answer }
    };
    [
        rewritten("rewriting, runs of 16", [8, 17, 2, 5]),
        rewritten("rewriting, runs of 40", [30, 21, 8, 5]),
        Task { name: "without repetition", prompt: prompt.to_vec(), answer: follows.to_vec() },
    ]
}

/// Returns the tokens of the answer under the schema.
fn spelled(tokenizer: &Tokenizer<'_, '_>) -> Result<Vec<u32>> {
    let options = gleed::token::EncodeOptions { continues: true, ..Default::default() };
    let text = ANSWER.trim_end();
    let (mut ids, mut scratch) = (vec![0; text.len() + 8], vec![0; tokenizer.scratch_len(text.len())]);
    let count = tokenizer.encode(text, options, &mut scratch, &mut ids)?.ids;
    ids.truncate(count);
    Ok(ids)
}

/// The grammar that an answer has to follow, with its matcher and buffers.
struct Rules<'r> {
    matcher: Matcher<'r, 'r>,
    tokenizer: &'r Tokenizer<'r, 'r>,
    trie: &'r TokenTrie<'r>,
    mask: Vec<u32>,
    scratch: Vec<u32>,
}

/// Chooses a token from logits, as a host does, and accepts a given one in its place.
struct Chooser<'r> {
    sampler: Sampler,
    scratch: Vec<u64>,
    rules: Option<Rules<'r>>,
}

impl Chooser<'_> {
    /// Chooses a token from the logits, as always, and accepts `token` instead.
    fn choose(&mut self, logits: &[f32], token: u32) -> Result<()> {
        match &mut self.rules {
            Some(Rules { matcher, tokenizer, trie, mask, .. }) => {
                matcher.mask(trie, usize::MAX, mask)?;
                self.sampler.sample_masked(logits, mask, &mut self.scratch)?;
                if !matcher.accept(*tokenizer, token)? {
                    return Err("the answer does not follow the schema".into());
                }
            }
            None => {
                self.sampler.sample(logits, &mut self.scratch)?;
            }
        }
        Ok(())
    }
}

fn report(engine: &mut Engine<'_, '_>, task: &Task, rules: Option<Rules<'_>>, repeat: usize) -> Result<()> {
    let scratch = vec![0; scratch_len(engine.model().config().vocab)];
    let mut chooser = Chooser { sampler: Sampler::new(SamplerParams::default())?, scratch, rules };
    let mut pairs = Vec::new();
    for _ in 0..repeat {
        let plain = decode(engine, task, &mut chooser)?;
        let (guessed, counts) = guess(engine, task, &mut chooser)?;
        pairs.push((plain / guessed, plain, guessed, counts));
    }
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (ratio, plain, guessed, Counts { proposed, accepted, .. }) = pairs[pairs.len() / 2];
    let count = task.answer.len();
    writeln!(
        stdout(),
        "{:21} {ratio:5.2} times as fast: {:.1} ms a token, {:.1} with guesses; {count} tokens, {accepted} of {proposed} guesses right; ratios {}",
        task.name,
        1e3 * plain / count as f64,
        1e3 * guessed / count as f64,
        pairs.iter().map(|(ratio, ..)| format!("{ratio:.2}")).collect::<Vec<_>>().join(" "),
    )?;
    Ok(())
}

/// Returns the seconds that the answer takes token by token. The prompt does not count.
fn decode(engine: &mut Engine<'_, '_>, task: &Task, chooser: &mut Chooser<'_>) -> Result<f64> {
    let seq = engine.open()?;
    chooser.rules.as_mut().map_or(Ok(()), |rules| rules.matcher.reset())?;
    engine.prefill(seq, &task.prompt)?;
    let start = now();
    for &token in &task.answer {
        let logits = engine.logits(seq).unwrap_or_default();
        chooser.choose(logits, token)?;
        engine.decode_step(seq, token)?;
    }
    let took = now() - start;
    engine.close(seq)?;
    Ok(took)
}

/// Returns the seconds that the answer takes with guesses, and the counts of guesses. The prompt does not count.
fn guess(engine: &mut Engine<'_, '_>, task: &Task, chooser: &mut Chooser<'_>) -> Result<(f64, Counts)> {
    let seq = engine.open()?;
    chooser.rules.as_mut().map_or(Ok(()), |rules| rules.matcher.reset())?;
    let places = task.prompt.len() + task.answer.len();
    let mut table = AlignedBytes::new(NGrams::plan(places)?);
    let mut ngrams = NGrams::new(places, table.bytes())?;
    let mut memory = AlignedBytes::new(Guessing::plan(guesses::MOST)?);
    let mut guessing = Guessing::new(seq, guesses::MOST, memory.bytes())?;
    let mut answer = task.answer.iter().copied();
    let mut last = answer.next().unwrap_or(0);
    chooser.choose(engine.prefill(seq, &task.prompt)?, last)?;
    let start = now();
    while answer.len() > 0 {
        // The wall clock, as hosts use it. The thread's clock moves in steps that are as long as a batch.
        let before = Instant::now();
        match &mut chooser.rules {
            Some(Rules { matcher, tokenizer, trie, scratch, .. }) => {
                let mut forced = Forced { matcher, tokenizer, trie, scratch, others: &mut ngrams };
                guessing.queue(engine, &mut forced, last, usize::MAX)?
            }
            None => guessing.queue(engine, &mut ngrams, last, usize::MAX)?,
        };
        while engine.step(usize::MAX)? != Step::Ready {}
        guessing.took(before.elapsed().as_nanos() as u64);
        while let (Some(logits), Some(token)) = (guessing.logits(engine), answer.next()) {
            chooser.choose(logits, token)?;
            last = token;
            if !guessing.take(token) {
                break;
            }
        }
        guessing.end(engine)?;
    }
    engine.decode_step(seq, last)?;
    let took = now() - start;
    engine.close(seq)?;
    Ok((took, guessing.counts()))
}

/// Prints the time of batches of several rows, and its ratio to the time of one row.
fn rows(engine: &mut Engine<'_, '_>) -> Result<ExitCode> {
    let seq = engine.open()?;
    engine.prefill(seq, &[1; 128])?;
    let mut one = 0.0;
    for rows in [1, 2, 3, 4, 6, 8, 12, 16] {
        let mut times: Vec<f64> = Vec::new();
        for _ in 0..7 {
            times.push(seconds(|| {
                engine.prefill_rows(seq, &vec![7; rows], |_, _| {})?;
                Ok(engine.rewind(seq, 128)?)
            })?);
        }
        times.sort_by(f64::total_cmp);
        let time = times[times.len() / 2];
        one = if rows == 1 { time } else { one };
        writeln!(stdout(), "{rows:2} rows: {:7.2} ms, {:.2} times one row", 1e3 * time, time / one)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the seconds that `work` takes. Repeats it until the clock has moved far enough, because the clock of the
/// thread may move in steps of some milliseconds.
fn seconds(mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    const LEAST: f64 = 0.02;
    let (start, begun, mut count) = (now(), Instant::now(), 0.0);
    loop {
        work()?;
        count += 1.0;
        let (computed, passed) = (now() - start, begun.elapsed().as_secs_f64());
        if computed >= LEAST {
            return Ok(computed / count);
        } else if passed > 50.0 * LEAST {
            // The system has a clock of the thread, but it does not move.
            return Ok(passed / count);
        }
    }
}

/// Returns the processor time of this thread in seconds, or the time that has passed if the system does not report it.
fn now() -> f64 {
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    let start = *START;
    let computed = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let computed = computed.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    computed.map_or_else(|| start.elapsed().as_secs_f64(), |nanoseconds| nanoseconds / 1e9)
}
