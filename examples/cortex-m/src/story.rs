//! The story: the same code on the board and on the machine that compiles it.

use core::fmt::{self, Write};

use gleed::engine::PlanError;
use gleed::kernels::Level;
use gleed::model::ModelError;
use gleed::num::Xxh64;
use gleed::token::{DecodeOptions, Detokenizer, EncodeOptions, TokenError, Tokenizer, VocabError};
use gleed::{Engine, EngineError, Limits, Model, Plan};

/// The model, at the address that the linker chose.
static MODEL: &[u8] = include_bytes!(env!("GLEED_STORY_MODEL"));

const PROMPT: &str = "Once upon a time";

/// Largest number of tokens after the prompt.
const TOKENS: usize = 64;

/// The memory of a story, besides the stack.
#[repr(C, align(64))]
pub struct Memory {
    engine: [u8; 448 << 10],
    tokenizer: [u8; 16 << 10],
    encoding: [u32; 512],
}

impl Memory {
    pub const NEW: Self = Self { engine: [0; 448 << 10], tokenizer: [0; 16 << 10], encoding: [0; 512] };
}

/// The receiver of the story.
pub trait Host {
    fn print(&mut self, text: &str);

    /// Runs the computation of one token.
    fn decode<T>(&mut self, work: impl FnOnce() -> T) -> T {
        work()
    }
}

/// The figures of a story.
#[cfg_attr(not(target_os = "none"), expect(dead_code))]
pub struct Figures {
    /// Size of the model in bytes.
    pub model: usize,
    /// Number of bytes of the arena that the engine and the tokenizer use.
    pub arena: usize,
}

/// Prints the story, and below it `logits HASH`.
pub fn tell(host: &mut impl Host, memory: &mut Memory) -> Result<Figures, Error> {
    let model = Model::open(MODEL)?;
    // Every level gives the same bits. The board has the scalar level.
    let limits = Limits { context: 96, rows: 8, level: Level::detect(), ..Limits::default() };
    let plan = Plan::new(&model, &limits)?;
    let mut engine = Engine::new(&model, &plan, &mut memory.engine)?;
    let tables = Tokenizer::plan(model.gguf())?;
    let tokenizer = Tokenizer::new(model.gguf(), &mut memory.tokenizer)?;

    let mut prompt = [0; 16];
    let encoded = tokenizer.encode(
        PROMPT,
        EncodeOptions { add_special: true, ..EncodeOptions::default() },
        &mut memory.encoding,
        &mut prompt,
    )?;
    let sequence = engine.open()?;
    let mut hash = Xxh64::new();
    let mut detokenizer = Detokenizer::new(&tokenizer, DecodeOptions { starts_text: false, ..Default::default() });
    let mut bytes = [0; 64];

    host.print(PROMPT);
    let mut logits = engine.prefill(sequence, prompt.get(..encoded.ids).unwrap_or_default())?;
    for _ in 0..TOKENS {
        logits.iter().for_each(|logit| hash.update(&logit.to_le_bytes()));
        let token = most_likely(logits);
        if tokenizer.is_end(token) {
            break;
        }
        host.print(detokenizer.push(&tokenizer, token, &mut bytes)?);
        logits = host.decode(|| engine.decode_step(sequence, token))?;
    }
    host.print(detokenizer.finish());

    let mut line = Line(host);
    // Only the host could fail, and it never does.
    let _ = writeln!(line, "\nlogits {:016x}", hash.finish());
    Ok(Figures { model: MODEL.len(), arena: plan.bytes() + tables })
}

/// Returns the lowest id with the largest logit.
fn most_likely(logits: &[f32]) -> u32 {
    let mut best = (0, f32::NEG_INFINITY);
    for (id, &logit) in (0..).zip(logits) {
        if logit > best.1 {
            best = (id, logit);
        }
    }
    best.0
}

/// Formatted text for a host.
pub struct Line<'h, H>(pub &'h mut H);

impl<H: Host> Write for Line<'_, H> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.print(text);
        Ok(())
    }
}

/// The reason why there is no story.
pub enum Error {
    Model(ModelError),
    Plan(PlanError),
    Engine(EngineError),
    Vocab(VocabError),
    Token(TokenError),
}

macro_rules! from {
    ($($variant:ident($error:ty)),*) => { $(
        impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        }
    )* };
}
from!(Model(ModelError), Plan(PlanError), Engine(EngineError), Vocab(VocabError), Token(TokenError));

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model(error) => error.fmt(f),
            Self::Plan(error) => error.fmt(f),
            Self::Engine(error) => error.fmt(f),
            Self::Vocab(error) => error.fmt(f),
            Self::Token(error) => error.fmt(f),
        }
    }
}
