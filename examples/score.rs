//! Scores multiple-choice questions: how probable each of several continuations is to a model.
//!
//! ```text
//! cargo run --release --example score -- --prompt "Once upon a" --choice " time" --choice " banana"
//! cargo run --release --example score -- --model model.gguf --file questions.jsonl
//! ```
//!
//! A line of the file is one question: `{"prompt": "...", "choices": ["...", "..."], "answer": 0}`. `answer` may be
//! left out. If it is there, the program prints the share of right answers at the end. Prompt and choice are encoded as
//! one text. The tokens that all choices begin with are computed once, and each choice is a fork of that sequence.
//! `sum` marks the choice with the highest sum of log-probabilities, `byte` the one with the highest sum per byte.
//! Longer texts are less probable, so most test sets are scored by byte.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use common::args::{EngineArgs, ModelArgs};
use common::{ModelFile, Result, text};
use gleed::host::{AlignedBytes, ThreadPool};
use gleed::token::Tokenizer;
use gleed::{Engine, Limits, Plan};
use serde_json::Value;

const EXAMPLES: &str = r#"Examples:
  cargo run --release --example score -- --prompt "Once upon a" --choice " time" --choice " banana"
  printf '{"prompt":"Once upon a","choices":[" time"," dog"],"answer":0}\n' > questions.jsonl
  cargo run --release --example score -- --file questions.jsonl"#;

/// Scores multiple-choice questions: prints how probable each continuation of a prompt is.
///
/// `sum` marks the most probable choice. `byte` marks the most probable one per byte.
#[derive(Parser)]
#[command(name = "score", version, long_version = common::version(), after_help = EXAMPLES)]
struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    engine: EngineArgs,

    /// Text that the choices continue
    #[arg(long, value_name = "TEXT", required_unless_present = "file")]
    prompt: Option<String>,

    /// A continuation of the prompt; give this option at least twice
    #[arg(long, value_name = "TEXT", required_unless_present = "file", allow_hyphen_values = true)]
    choice: Vec<String>,

    /// File with one question per line, as JSON: {"prompt": "...", "choices": ["...", "..."], "answer": 0}.
    /// "answer" is the index of the right choice, from 0; it may be left out
    #[arg(long, value_name = "FILE", conflicts_with_all = ["prompt", "choice"])]
    file: Option<PathBuf>,
}

struct Question {
    prompt: String,
    choices: Vec<String>,
    answer: Option<usize>,
}

/// Score of one choice.
struct Scored {
    sum: f64,
    tokens: usize,
    bytes: usize,
}

impl Scored {
    fn per_byte(&self) -> f64 {
        self.sum / self.bytes.max(1) as f64
    }
}

fn main() -> ExitCode {
    common::exit(score(&Args::parse()))
}

fn score(args: &Args) -> Result<ExitCode> {
    if args.file.is_none() && args.choice.len() < 2 {
        return Err("there is one --choice, it must be at least two".into());
    }
    let questions = match &args.file {
        None => vec![Question {
            prompt: args.prompt.clone().unwrap_or_default(),
            choices: args.choice.clone(),
            answer: None,
        }],
        Some(path) => read_questions(path)?,
    };
    let file = ModelFile::open(args.model.model.as_deref())?;
    let model = file.generative()?;
    let mut tables = AlignedBytes::new(Tokenizer::plan(model.gguf()).unwrap_or(0));
    let tokenizer = Tokenizer::new(model.gguf(), tables.bytes()).map_err(|error| file.error(error))?;
    const ROWS: usize = 64;
    let context = model.config().context;
    let limits = args.engine.limits(context.min(4096));
    let plan = Plan::new(&model, &Limits { sequences: 2, rows: ROWS, logit_rows: ROWS, ..limits })?;
    let pool = ThreadPool::new(args.engine.threads)?;
    let mut memory = AlignedBytes::try_new(plan.bytes())?;
    let mut engine = Engine::new(&model, &plan, memory.bytes())?;
    engine.set_parallel(&pool);

    let (mut right, mut asked) = ([0, 0], 0);
    for question in &questions {
        let scored = score_question(&mut engine, &tokenizer, question)?;
        let best = [best(&scored, |scored| scored.sum), best(&scored, Scored::per_byte)];
        print(question, &scored, best)?;
        if let Some(answer) = question.answer {
            asked += 1;
            right.iter_mut().zip(best).for_each(|(right, best)| *right += usize::from(best == answer));
        }
    }
    if asked > 0 {
        let percent = |right: usize| 100.0 * right as f64 / asked as f64;
        let [sum, byte] = right.map(percent);
        let mut out = std::io::stdout();
        writeln!(out, "{asked} questions with an answer: {sum:.1} % right by sum, {byte:.1} % by byte")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn score_question(
    engine: &mut Engine<'_, '_>,
    tokenizer: &Tokenizer<'_, '_>,
    question: &Question,
) -> Result<Vec<Scored>> {
    if question.choices.iter().any(String::is_empty) {
        return Err("a choice is empty".into());
    }
    let prompt = text::encode_prompt(tokenizer, &question.prompt)?;
    let encode = |choice: &String| text::encode_prompt(tokenizer, &format!("{}{choice}", question.prompt));
    let texts = question.choices.iter().map(encode).collect::<std::result::Result<Vec<_>, _>>()?;
    let common = texts.iter().map(|text| common_prefix(&prompt, text)).min().unwrap_or(0);
    // At least one token is left to score, and at least one token is before it.
    let common = common.min(texts.iter().map(|text| text.len().saturating_sub(1)).min().unwrap_or(0));
    if common == 0 {
        return Err("without BOS the prompt must have a token".into());
    }
    let seq = engine.open()?;
    let shared = &prompt[..common - 1];
    if !shared.is_empty() {
        engine.prefill(seq, shared)?;
    }
    let mut scored = Vec::new();
    for (text, choice) in texts.iter().zip(&question.choices) {
        let fork = engine.fork(seq, shared.len())?;
        let mut log_probs = vec![0.0; text.len() - common];
        engine.log_probs(fork, &text[common - 1..], &mut log_probs)?;
        engine.close(fork)?;
        let sum = log_probs.iter().map(|&log_prob| f64::from(log_prob)).sum();
        scored.push(Scored { sum, tokens: log_probs.len(), bytes: choice.len() });
    }
    engine.close(seq)?;
    Ok(scored)
}

fn common_prefix(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Returns the index of the largest value, the first one of equal values.
fn best(scored: &[Scored], by: impl Fn(&Scored) -> f64) -> usize {
    let mut best = 0;
    for (index, candidate) in scored.iter().enumerate() {
        if by(candidate) > by(&scored[best]) {
            best = index;
        }
    }
    best
}

fn print(question: &Question, scored: &[Scored], best: [usize; 2]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", question.prompt)?;
    writeln!(out, "{:>12} {:>12} {:>7}", "ln p", "ln p / byte", "tokens")?;
    for (index, (scored, choice)) in scored.iter().zip(&question.choices).enumerate() {
        let marks = [("sum", best[0] == index), ("byte", best[1] == index), ("answer", question.answer == Some(index))];
        let marks: Vec<&str> = marks.iter().filter(|(_, set)| *set).map(|(mark, _)| *mark).collect();
        let Scored { sum, tokens, .. } = scored;
        writeln!(out, "{sum:>12.4} {:>12.4} {tokens:>7}  {choice:?}  {}", scored.per_byte(), marks.join(", "))?;
    }
    Ok(())
}

fn read_questions(path: &Path) -> Result<Vec<Question>> {
    let text = common::score::read_text(path)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let questions = lines.map(|(index, line)| {
        let wrong = |what: &str| format!("{}, line {}: {what}", path.display(), index + 1);
        let value: Value = serde_json::from_str(line).map_err(|error| wrong(&error.to_string()))?;
        let prompt = value["prompt"].as_str().ok_or_else(|| wrong("no \"prompt\""))?.to_string();
        let choices = strings(&value["choices"]).ok_or_else(|| wrong("no list \"choices\" of texts"))?;
        let answer = value["answer"].as_u64().map(|answer| answer as usize);
        if choices.is_empty() || answer.is_some_and(|answer| answer >= choices.len()) {
            return Err(wrong("an answer that is none of the choices").into());
        }
        Ok(Question { prompt, choices, answer })
    });
    let questions = questions.collect::<Result<Vec<_>>>()?;
    if questions.is_empty() {
        return Err(format!("{}: there is no question", path.display()).into());
    }
    Ok(questions)
}

fn strings(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|text| Some(text.as_str()?.to_string())).collect()
}
