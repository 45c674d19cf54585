//! Flags that several examples share.

use std::path::{Path, PathBuf};

use clap::{Args, Parser};
use gleed::conversation::Keep;
use gleed::host::{MappedFile, ThreadPool};
use gleed::kernels::{Level, UnknownLevel};
use gleed::model::Adapter;
use gleed::par::Parallel;
use gleed::sample::SamplerParams;
use gleed::token::StopStrings;
use gleed::{Engine, KvKind, KvType, Limits, Model, SeqId, Window};

use super::constraint::{ConstraintArgs, WhitespaceArgs};
use super::device::DeviceArgs;
use super::output::Output;
use super::prompt::Prompt;
use super::tool_args::ToolArgs;
use super::trace::Watcher;
use super::{ModelFile, Result, limit};

#[derive(Args)]
pub struct ModelArgs {
    /// Model, a GGUF file [default: the demo model, which is part of this program]
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
}

/// How keys and values are kept, and who computes.
#[derive(Args)]
pub struct EngineArgs {
    /// Kind of the KV cache: off, basic or paged; the results do not depend on it
    #[arg(long, value_name = "KIND", num_args = 0..=1, default_value = "paged", default_missing_value = "paged",
          value_parser = KvKind::from_name)]
    pub kv: KvKind,

    /// Element type of keys and values: f32, f16, q8_0 or q4_0; or two types, as in q8_0/q4_0 [default: f16; f32
    /// where texts become vectors, which needs them for a short time only]
    #[arg(long, value_name = "TYPE", value_parser = KvType::from_name)]
    kv_type: Option<KvType>,

    /// Number of threads that compute, or `parallel`: one for each processor; the results do not depend on it
    #[arg(long, value_name = "N|parallel", default_value_t = 1, value_parser = threads)]
    pub threads: usize,

    /// Instruction set of the kernels; `simd` is the best one; the results do not depend on it [default: the best that
    /// this machine has]
    #[arg(long, value_name = "NAME", value_parser = level)]
    pub level: Option<Level>,
}

impl EngineArgs {
    /// Returns the element type of keys and values.
    pub fn kv_type(&self) -> KvType {
        self.kv_type.unwrap_or(KvType::F16)
    }

    /// Returns the element type of keys and values for embeddings.
    pub fn kv_type_of_texts(&self) -> KvType {
        self.kv_type.unwrap_or(KvType::F32)
    }

    /// Returns the limits of an engine for one sequence.
    pub fn limits(&self, context: usize) -> Limits {
        let level = self.level.unwrap_or_else(best_level);
        let (workers, rows) = (self.threads, 256 * self.threads.clamp(1, 16));
        Limits { context, rows, kv_kind: self.kv, kv_type: self.kv_type(), workers, level, ..Limits::default() }
    }
}

/// Parses a number of threads.
pub fn threads(text: &str) -> std::result::Result<usize, String> {
    if text == "parallel" {
        return Ok(std::thread::available_parallelism().map_or(1, usize::from));
    }
    text.parse().map_err(|_| format!("{text:?} is neither a number nor `parallel`"))
}

/// Returns the level with this name.
fn level(name: &str) -> std::result::Result<Level, UnknownLevel> {
    Level::allow_amx();
    Level::from_name(name)
}

/// Returns the fastest level of this machine.
fn best_level() -> Level {
    Level::allow_amx();
    Level::detect()
}

/// Which tokens stay visible.
#[derive(Args)]
pub struct WindowArgs {
    /// Let each token see only the last W tokens, and reuse the memory of the others [default: all tokens are visible]
    #[arg(long, value_name = "W")]
    window: Option<usize>,

    /// With --window: let each token see the first S tokens, too
    #[arg(long, value_name = "S", default_value_t = 0, requires = "window")]
    sinks: usize,
}

impl WindowArgs {
    pub fn window(&self) -> Result<Window> {
        if let Some(last) = self.window {
            limit::check("--window", last, 1, usize::MAX)?;
        }
        Ok(Window { sinks: self.sinks, last: self.window.unwrap_or(0) })
    }
}

/// Which turns of a conversation stay when the context is full.
#[derive(Args)]
pub struct KeepArgs {
    /// When the context is full, keep the first N turns, besides the system message
    #[arg(long, value_name = "N", default_value_t = 0)]
    keep_first: usize,

    /// When the context is full, keep the last N turns, at least one
    #[arg(long, value_name = "N", default_value_t = 1)]
    keep_last: usize,

    /// When the context is full, leave turns out until so many tokens are left [default: half of the context]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    keep_tokens: usize,
}

impl KeepArgs {
    /// Returns the policy that leaves room for a reply of `room` tokens.
    pub fn keep(&self, room: usize) -> Keep<'static> {
        Keep { room, first: self.keep_first, last: self.keep_last, target: self.keep_tokens, summary: None }
    }
}

/// Where a trace goes.
#[derive(Args)]
pub struct TraceArgs {
    /// Write what the engine and each worker do to this file, for chrome://tracing and ui.perfetto.dev: some 100 bytes
    /// for each unit of work. It takes time [default: write no file]
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

impl TraceArgs {
    /// Returns the file for the trace, if one is wanted. Refuses the files of the model and the files in `read`.
    pub fn output(&self, file: &ModelFile, read: &[PathBuf]) -> Result<Option<Output>> {
        file.output(self.trace.as_deref(), read)
    }

    pub fn is_wanted(&self) -> bool {
        self.trace.is_some()
    }

    /// Returns the executor for the engine: the watcher if a trace is wanted, otherwise the pool.
    pub fn executor<'w>(&self, pool: &'w ThreadPool, watcher: &'w Watcher<'w>) -> &'w dyn Parallel {
        if self.trace.is_some() { watcher } else { pool }
    }
}

/// How tokens are chosen.
#[derive(Args)]
pub struct SampleArgs {
    /// Temperature; 0 takes the most probable token each time [default: 0.6 for the demo model, 0.7 for others]
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    pub temp: Option<f32>,

    /// Draw only from the K most probable tokens; 0 means all
    #[arg(long, value_name = "K", default_value_t = 0)]
    top_k: usize,

    /// Draw only from the most probable tokens that together have probability P; 1 means all
    #[arg(long, value_name = "P", default_value_t = 1.0, allow_negative_numbers = true)]
    top_p: f32,

    /// Draw only from tokens with at least P times the probability of the most probable one; 0 means all
    #[arg(long, value_name = "P", default_value_t = 0.05, allow_negative_numbers = true)]
    min_p: f32,

    /// Divide positive and multiply negative logits of repeated tokens by X; 1 does nothing
    #[arg(long, value_name = "X", default_value_t = 1.0, allow_negative_numbers = true)]
    repetition_penalty: f32,

    /// Subtract X from the logit of a repeated token for each time it occurs; 0 does nothing
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    frequency_penalty: f32,

    /// Subtract X once from the logit of a repeated token; 0 does nothing
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    presence_penalty: f32,

    /// Number of last tokens that the penalties count, at most 256
    #[arg(long, value_name = "N", default_value_t = 64)]
    penalty_window: usize,

    /// Seed of the random numbers; the same seed gives the same text on every machine
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
}

impl SampleArgs {
    /// Returns whether no penalty is set, so that a choice does not depend on the tokens before it.
    pub fn has_no_penalties(&self) -> bool {
        [self.repetition_penalty, self.frequency_penalty, self.presence_penalty] == [1.0, 0.0, 0.0]
    }

    pub fn params(&self, demo: bool) -> SamplerParams {
        SamplerParams {
            temperature: self.temp.unwrap_or(if demo { 0.6 } else { 0.7 }),
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            frequency_penalty: self.frequency_penalty,
            presence_penalty: self.presence_penalty,
            penalty_window: self.penalty_window,
            seed: self.seed,
        }
    }
}

/// Parses token ids that are separated by commas or white space.
pub fn parse_ids(text: &str) -> std::result::Result<Vec<u32>, String> {
    let words = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
    words.map(|word| word.parse().map_err(|_| format!("{word:?} is no token id"))).collect()
}

/// Adapters of the weights.
#[derive(Args)]
pub struct LoraArgs {
    /// LoRA adapter, a GGUF file, and its scale; repeat the option for several adapters [default scale: 1]
    #[arg(long, value_name = "FILE[=SCALE]")]
    lora: Vec<String>,
}

impl LoraArgs {
    /// Opens the adapters and returns them with their scales. The files stay mapped as long as the program runs.
    pub fn open<'m>(&self, model: &Model<'m>) -> Result<Vec<(Adapter<'m>, f32)>> {
        let open = |argument: &String| {
            let (path, scale) = scaled(argument)?;
            let file = MappedFile::open(path).map_err(|error| format!("{path}: {error}"))?;
            let file = Box::leak(Box::new(file));
            Ok((Adapter::open(file.bytes(), model).map_err(|error| format!("{path}: {error}"))?, scale))
        };
        self.lora.iter().map(open).collect()
    }

    /// Returns the paths of the adapter files.
    fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.lora.iter().filter_map(|argument| Some(scaled(argument).ok()?.0.into()))
    }

    /// Returns the limits with room for the adapters.
    pub fn limits(&self, limits: Limits, adapters: &[(Adapter<'_>, f32)]) -> Limits {
        let adapter_rank = adapters.iter().map(|(adapter, _)| adapter.rank()).max().unwrap_or(1).max(1);
        Limits { adapters: adapters.len(), adapter_rank, ..limits }
    }

    /// Loads the adapters into the engine and sets their scales for a sequence.
    pub fn apply<'m>(&self, engine: &mut Engine<'m, '_>, seq: SeqId, adapters: &[(Adapter<'m>, f32)]) -> Result<()> {
        for (adapter, scale) in adapters {
            let number = engine.load_adapter(adapter)?;
            engine.set_adapter(seq, number, *scale)?;
        }
        Ok(())
    }
}

/// Splits an argument into a path and the scale after `=`. The name of a file may contain `=`, too.
fn scaled(argument: &str) -> Result<(&str, f32)> {
    let Some((path, scale)) = argument.rsplit_once('=') else { return Ok((argument, 1.0)) };
    match scale.parse() {
        Ok(number) => Ok((path, number)),
        Err(_) if Path::new(argument).exists() => Ok((argument, 1.0)),
        Err(_) => Err(format!("--lora {argument}: the scale {scale:?} is no number").into()),
    }
}

const EXAMPLES: &str = r#"Examples:
  cargo run --release --example generate -- "Once upon a time"
  cargo run --release --example generate -- --temp 0 -n 100 --json story.json "The little dog"
  cargo run --release --example generate -- -f beginning.txt
  printf 'Once upon a time' | cargo run --release --example generate
  cargo run --release --features gpu --example generate -- --device gpu "Once upon a time"
  cargo run --release --example generate -- --window 128 --ignore-end -n 2000 "Once upon a time""#;

/// Continues a text with a language model.
///
/// Prints the text to standard output and statistics to standard error.
#[derive(Parser)]
#[command(name = "generate", version, long_version = super::version(), after_help = EXAMPLES)]
pub struct GenerateArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub engine: EngineArgs,
    #[command(flatten)]
    pub device: DeviceArgs,
    #[command(flatten)]
    pub window: WindowArgs,
    #[command(flatten)]
    pub prompt: Prompt,
    #[command(flatten)]
    pub sample: SampleArgs,
    #[command(flatten)]
    pub lora: LoraArgs,

    /// The most tokens to generate
    #[arg(short, value_name = "N", default_value_t = 512)]
    pub n: usize,

    /// Guess tokens and check several at a time; the text is the same. ngram: what followed the last tokens before;
    /// nextn: what the model's own layer for that predicts, where its file has one; auto: that or ngram, and what a
    /// grammar forces, as many as pay by the clock
    #[arg(long, value_name = "off|ngram|nextn|auto", default_value = "off", value_parser = ["off", "ngram", "nextn", "auto"])]
    pub guess: String,

    /// Go on when the model ends the text
    #[arg(long)]
    pub ignore_end: bool,

    /// End the text before this string, wherever tokens end; may be given several times
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub stop: Vec<String>,

    #[command(flatten)]
    pub constraint: ConstraintArgs,
    #[command(flatten)]
    pub whitespace: WhitespaceArgs,

    /// Write ids, text, times and the engine's figures to this file as JSON [default: write no file]
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    #[command(flatten)]
    pub trace: TraceArgs,

    #[command(flatten)]
    pub tools: ToolArgs,

    /// Turn format of the message that a text is with --tools: a name or a file [default: that of the model's file]
    #[arg(long, value_name = "NAME|FILE", requires = "tools")]
    pub template: Option<String>,

    /// Print one line per token: phase, id, text, probability, milliseconds
    #[arg(long)]
    pub verbose: bool,
}

impl GenerateArgs {
    /// Returns whether a GPU can choose the tokens. It cannot with --verbose, which prints probabilities, or with
    /// penalties, which depend on earlier tokens.
    pub fn leaves_choices(&self) -> bool {
        !self.verbose && self.sample.has_no_penalties()
    }

    /// Returns the files that the program reads besides the model.
    pub fn read(&self) -> Vec<PathBuf> {
        let others =
            [self.prompt.path(), self.constraint.path(), self.tools.path(), self.template.as_ref().map(Path::new)];
        others.into_iter().flatten().map(Path::to_owned).chain(self.lora.paths()).collect()
    }

    /// Returns the strings that end the text. Refuses them without a vocabulary, because there is no text then.
    pub fn stops(&self, has_text: bool) -> Result<StopStrings<'_>> {
        if !has_text && !self.stop.is_empty() {
            return Err("--stop needs text, and the vocabulary of this file cannot be used".into());
        }
        let strings: Vec<&str> = self.stop.iter().map(String::as_str).collect();
        StopStrings::new(&strings).map_err(|error| format!("--stop: {error}").into())
    }
}
