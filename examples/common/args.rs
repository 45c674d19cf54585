//! Flags that several examples have.

use std::path::PathBuf;

use clap::{Args, Parser};
use gleed::host::MappedFile;
use gleed::kernels::Level;
use gleed::model::Adapter;
use gleed::sample::SamplerParams;
use gleed::{Engine, KvKind, KvType, Limits, Model, SeqId, Window};

use super::Result;

#[derive(Args)]
pub(crate) struct ModelArgs {
    /// The model, a GGUF file [default: the demo model, which is part of this program]
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
}

/// How keys and values are kept, and who computes.
#[derive(Args)]
pub(crate) struct EngineArgs {
    /// How keys and values are kept: off, basic or paged
    #[arg(long, value_name = "KIND", num_args = 0..=1, default_value = "paged", default_missing_value = "paged",
          value_parser = KvKind::from_name)]
    pub(crate) kv: KvKind,

    /// Their element type: f32, f16, q8_0 or q4_0, or those of keys and of values, as in q8_0/q4_0
    #[arg(long, value_name = "TYPE", default_value = "f16", value_parser = KvType::from_name)]
    pub(crate) kv_type: KvType,

    /// Threads that compute; the results do not depend on it
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) threads: usize,

    /// The instruction set that the kernels use [default: the best that this machine has]
    #[arg(long, value_name = "NAME", value_parser = Level::from_name)]
    pub(crate) level: Option<Level>,
}

impl EngineArgs {
    /// Limits for one sequence.
    pub(crate) fn limits(&self, context: usize) -> Limits {
        let level = self.level.unwrap_or_else(Level::detect);
        let (workers, rows) = (self.threads, 256 * self.threads.clamp(1, 16));
        Limits { context, rows, kv_kind: self.kv, kv_type: self.kv_type, workers, level, ..Limits::default() }
    }
}

/// Which tokens stay visible.
#[derive(Args)]
pub(crate) struct WindowArgs {
    /// Only the last W tokens are visible, and the memory of the others is used again [default: all are visible]
    #[arg(long, value_name = "W")]
    window: Option<usize>,

    /// With --window: the first S tokens stay visible, too
    #[arg(long, value_name = "S", default_value_t = 0, requires = "window")]
    sinks: usize,
}

impl WindowArgs {
    pub(crate) fn window(&self) -> std::result::Result<Window, String> {
        match self.window {
            Some(0) => Err("--window is 0, it must be at least 1".into()),
            last => Ok(Window { sinks: self.sinks, last: last.unwrap_or(0) }),
        }
    }
}

/// How tokens are chosen.
#[derive(Args)]
pub(crate) struct SampleArgs {
    /// Temperature; 0 takes the most probable token each time [default: 0.6 for the demo model, 0.7 for others]
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    pub(crate) temp: Option<f32>,

    /// Draw from the K most probable tokens only; 0 for all
    #[arg(long, value_name = "K", default_value_t = 0)]
    top_k: usize,

    /// Draw from the most probable tokens that together have this probability
    #[arg(long, value_name = "P", default_value_t = 1.0, allow_negative_numbers = true)]
    top_p: f32,

    /// Draw from tokens that are at least P times as probable as the most probable one
    #[arg(long, value_name = "P", default_value_t = 0.05, allow_negative_numbers = true)]
    min_p: f32,

    /// Makes repeated tokens less probable: divides their logits; 1 does nothing
    #[arg(long, value_name = "X", default_value_t = 1.0, allow_negative_numbers = true)]
    repetition_penalty: f32,

    /// Taken off the logit of a token for each time that it was repeated
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    frequency_penalty: f32,

    /// Taken off the logits of repeated tokens once
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    presence_penalty: f32,

    /// How many of the last tokens the penalties look at
    #[arg(long, value_name = "N", default_value_t = 64)]
    penalty_window: usize,

    /// Starts the random numbers: the same seed gives the same text, on every machine
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
}

impl SampleArgs {
    pub(crate) fn params(&self, demo: bool) -> SamplerParams {
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

/// Ids separated by commas or white space.
pub(crate) fn parse_ids(text: &str) -> std::result::Result<Vec<u32>, String> {
    let words = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
    words.map(|word| word.parse().map_err(|_| format!("{word:?} is no token id"))).collect()
}

/// Adapters of the weights.
#[derive(Args)]
pub(crate) struct LoraArgs {
    /// A LoRA adapter, a GGUF file, and how much of it; give it several times for several [scale: 1]
    #[arg(long, value_name = "FILE[=SCALE]")]
    lora: Vec<String>,
}

impl LoraArgs {
    /// The adapters with their scales. The files stay mapped for as long as the program runs.
    pub(crate) fn open<'m>(&self, model: &Model<'m>) -> Result<Vec<(Adapter<'m>, f32)>> {
        let open = |argument: &String| {
            let scaled = argument.rsplit_once('=').and_then(|(path, scale)| Some((path, scale.parse().ok()?)));
            let (path, scale) = scaled.unwrap_or((argument, 1.0));
            let file = MappedFile::open(path).map_err(|error| format!("{path}: {error}"))?;
            let file = Box::leak(Box::new(file));
            Ok((Adapter::open(file.bytes(), model).map_err(|error| format!("{path}: {error}"))?, scale))
        };
        self.lora.iter().map(open).collect()
    }

    /// Limits with room for them.
    pub(crate) fn limits(&self, limits: Limits, adapters: &[(Adapter<'_>, f32)]) -> Limits {
        let adapter_rank = adapters.iter().map(|(adapter, _)| adapter.rank()).max().unwrap_or(1).max(1);
        Limits { adapters: adapters.len(), adapter_rank, ..limits }
    }

    /// Loads them for a sequence.
    pub(crate) fn apply<'m>(
        &self,
        engine: &mut Engine<'m, '_>,
        seq: SeqId,
        adapters: &[(Adapter<'m>, f32)],
    ) -> Result<()> {
        for (adapter, scale) in adapters {
            let number = engine.load_adapter(adapter)?;
            engine.set_adapter(seq, number, *scale)?;
        }
        Ok(())
    }
}

/// Continues a text with a language model.
#[derive(Parser)]
#[command(name = "generate")]
pub(crate) struct GenerateArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) window: WindowArgs,
    #[command(flatten)]
    pub(crate) prompt: Prompt,
    #[command(flatten)]
    pub(crate) sample: SampleArgs,
    #[command(flatten)]
    pub(crate) lora: LoraArgs,

    /// The most tokens to generate
    #[arg(short, value_name = "N", default_value_t = 512)]
    pub(crate) n: usize,

    /// Go on where the model ends the text
    #[arg(long)]
    pub(crate) ignore_end: bool,

    /// Write ids, text and times to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Show a line per token: phase, id, text, probability, milliseconds
    #[arg(long)]
    pub(crate) verbose: bool,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Prompt {
    /// The text to continue
    #[arg(value_name = "TEXT")]
    text: Option<String>,

    /// The same as a flag
    #[arg(long = "prompt", value_name = "TEXT", allow_hyphen_values = true)]
    flag: Option<String>,

    /// The text to continue as token ids, taken as they are: no token is put before them
    #[arg(long, value_name = "1,2,3", value_parser = parse_ids)]
    pub(crate) ids: Option<std::vec::Vec<u32>>,
}

impl Prompt {
    pub(crate) fn text(&self) -> Option<&str> {
        self.text.as_deref().or(self.flag.as_deref())
    }
}
