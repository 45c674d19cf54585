//! llama.cpp and Gleed behind one trait.

use std::num::NonZeroU32;
use std::path::Path;

use clap::ValueEnum;
use gleed::host::{AlignedBytes, OwnedEngine};
use gleed::kernels::Level;
use gleed::token::Tokenizer;
use gleed::{KvType, Limits, Logits, SeqId};
use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::params::LlamaContextParams;
use llama_cpp_2::context::session::{LlamaStateSeqFlags, SeqState};
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::model::params::LlamaModelParams;
use llama_cpp_2::token::LlamaToken;

use crate::Result;

/// The engines. llama.cpp counts twice, with two settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    Gleed,
    /// llama.cpp without flash attention.
    Llama,
    /// llama.cpp with flash attention.
    LlamaFlash,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Llama, Self::LlamaFlash, Self::Gleed];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Gleed => "gleed",
            Self::Llama => "llama",
            Self::LlamaFlash => "llama-flash",
        }
    }
}

/// An engine with one sequence.
pub(crate) trait Peer {
    /// Computes more tokens of the sequence, with logits for the last one.
    fn append(&mut self, ids: &[u32]) -> Result<()>;

    /// Drops all tokens behind the first `tokens`.
    fn keep(&mut self, tokens: usize) -> Result<()>;

    /// Returns the logits of the last token.
    fn logits(&mut self) -> Vec<f32>;

    /// Keeps the state of recurrent layers, for a later [`Peer::go_back`].
    fn keep_state(&mut self) -> Result<()>;

    /// Keeps only the first `tokens` tokens of the sequence, whose tokens are `ids`. An engine that cannot go back
    /// computes the tokens again: from the state that it kept, or from the start.
    fn go_back(&mut self, tokens: usize, ids: &[u32]) -> Result<()>;
}

/// Number of states of recurrent layers that Gleed keeps.
const CHECKPOINTS: usize = 2;

pub(crate) struct Gleed {
    engine: OwnedEngine,
    sequence: SeqId,
}

impl Gleed {
    pub(crate) fn open(path: &Path, threads: usize, context: usize, level: Level) -> Result<Self> {
        let rows = 256 * threads.clamp(1, 16);
        // One for the end of a prompt, and one that is asked for.
        let limits = Limits {
            context,
            rows,
            checkpoints: CHECKPOINTS,
            workers: threads,
            level,
            kv_type: KvType::F16,
            ..Limits::default()
        };
        let mut engine = OwnedEngine::open(path, &limits).map_err(|error| format!("{}: {error}", path.display()))?;
        let sequence = engine.with(|engine| engine.open())?;
        Ok(Self { engine, sequence })
    }

    /// Makes the tokenizer, only because that takes time and memory.
    pub(crate) fn load_tokenizer(&mut self) -> Result<()> {
        self.engine.with(|engine| {
            let gguf = engine.model().gguf();
            let mut tables = AlignedBytes::new(Tokenizer::plan(gguf)?);
            Tokenizer::new(gguf, tables.bytes())?;
            Ok(())
        })
    }

    pub(crate) fn vocab(&mut self) -> usize {
        self.engine.with(|engine| engine.model().config().vocab)
    }
}

impl Peer for Gleed {
    fn append(&mut self, ids: &[u32]) -> Result<()> {
        let sequence = self.sequence;
        Ok(self.engine.with(|engine| {
            engine.queue(sequence, engine.seq_len(sequence)?, ids, Logits::Last)?;
            while engine.is_busy() {
                let _ = engine.step(usize::MAX)?;
            }
            Ok::<_, gleed::EngineError>(())
        })?)
    }

    fn keep(&mut self, tokens: usize) -> Result<()> {
        let sequence = self.sequence;
        Ok(self.engine.with(|engine| engine.rewind(sequence, tokens))?)
    }

    fn logits(&mut self) -> Vec<f32> {
        let sequence = self.sequence;
        self.engine.with(|engine| engine.logits(sequence).unwrap_or_default().to_vec())
    }

    fn keep_state(&mut self) -> Result<()> {
        let sequence = self.sequence;
        match self.engine.with(|engine| engine.checkpoint(sequence))? {
            true => Ok(()),
            false => Err("there is no room for a checkpoint".into()),
        }
    }

    fn go_back(&mut self, tokens: usize, _: &[u32]) -> Result<()> {
        self.keep(tokens)
    }
}

/// Starts llama.cpp, without its messages.
pub(crate) fn llama_backend() -> Result<LlamaBackend> {
    let mut backend = LlamaBackend::init()?;
    backend.void_logs();
    Ok(backend)
}

/// Loads a file. llama.cpp maps and repacks it, as is its default.
pub(crate) fn llama_model(backend: &LlamaBackend, path: &Path) -> Result<LlamaModel> {
    Ok(LlamaModel::load_from_file(backend, path, &LlamaModelParams::default().with_n_gpu_layers(0))?)
}

/// The value of llama.cpp that switches flash attention on or off.
pub(crate) fn flash_policy(on: bool) -> llama_cpp_sys_2::llama_flash_attn_type {
    match on {
        true => llama_cpp_sys_2::LLAMA_FLASH_ATTN_TYPE_ENABLED,
        false => llama_cpp_sys_2::LLAMA_FLASH_ATTN_TYPE_DISABLED,
    }
}

/// Returns the features with which llama.cpp was compiled.
pub(crate) fn llama_features() -> String {
    // SAFETY: the function returns a string that ends with 0 and lives as long as the program.
    let text = unsafe { std::ffi::CStr::from_ptr(llama_cpp_sys_2::llama_print_system_info()) };
    text.to_string_lossy().trim().to_owned()
}

/// llama.cpp's default for the most tokens in one call.
const BATCH: usize = 2048;

pub(crate) struct Llama<'m> {
    context: LlamaContext<'m>,
    batch: LlamaBatch<'static>,
    len: usize,
    /// The kept state of recurrent layers, and the number of tokens before it.
    kept: Option<(usize, SeqState)>,
}

impl<'m> Llama<'m> {
    pub(crate) fn new(
        backend: &LlamaBackend,
        model: &'m LlamaModel,
        flash: bool,
        threads: usize,
        context: usize,
    ) -> Result<Self> {
        let params = LlamaContextParams::default()
            .with_n_ctx(NonZeroU32::new(context as u32))
            .with_n_batch(BATCH as u32)
            .with_n_threads(threads as i32)
            .with_n_threads_batch(threads as i32)
            .with_flash_attention_policy(flash_policy(flash));
        Ok(Self { context: model.new_context(backend, params)?, batch: LlamaBatch::new(BATCH, 1), len: 0, kept: None })
    }
}

impl Peer for Llama<'_> {
    fn append(&mut self, ids: &[u32]) -> Result<()> {
        let mut left = ids.len();
        for ids in ids.chunks(BATCH) {
            self.batch.clear();
            for &id in ids {
                left -= 1;
                self.batch.add(LlamaToken(id as i32), self.len as i32, &[0], left == 0)?;
                self.len += 1;
            }
            self.context.decode(&mut self.batch)?;
        }
        self.context.synchronize();
        Ok(())
    }

    fn keep(&mut self, tokens: usize) -> Result<()> {
        if !self.context.clear_kv_cache_seq(Some(0), Some(tokens as u32), None)? {
            return Err("llama.cpp does not drop the end of the sequence".into());
        }
        self.len = tokens;
        Ok(())
    }

    fn logits(&mut self) -> Vec<f32> {
        self.context.get_logits_ith(self.batch.n_tokens() - 1).to_vec()
    }

    fn keep_state(&mut self) -> Result<()> {
        self.kept = Some((self.len, self.context.state_seq_get(0, LlamaStateSeqFlags::PARTIAL_ONLY)?));
        Ok(())
    }

    /// Does what llama-server does, which keeps such states, too.
    fn go_back(&mut self, tokens: usize, ids: &[u32]) -> Result<()> {
        if self.keep(tokens).is_ok() {
            return Ok(());
        }
        let mut from = 0;
        match self.kept.take().filter(|(len, _)| *len <= tokens) {
            None => self.keep(0)?,
            Some((len, state)) => {
                self.context.state_seq_set(&state, 0)?;
                self.keep(len)?;
                from = len;
                self.kept = Some((len, state));
            }
        }
        if from < tokens { self.append(&ids[from..tokens]) } else { Ok(()) }
    }
}
