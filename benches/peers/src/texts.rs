//! Measures how fast an encoder makes vectors of texts.

use std::num::NonZeroU32;
use std::path::Path;

use gleed::host::OwnedEngine;
use gleed::{KvKind, Limits, Pooling};
use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::params::{LlamaContextParams, LlamaPoolingType};
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::token::LlamaToken;

use crate::engines::{Kind, flash_policy, llama_backend, llama_model};
use crate::random::Random;
use crate::report::{Metric, Row};
use crate::sweep::{distance, progress, timed};
use crate::{Args, Result};

/// Number of tokens of a text.
const TOKENS: usize = 128;

/// An engine that makes a vector of each text: the mean of its tokens' vectors.
trait Embedder {
    fn embed(&mut self, texts: &[Vec<u32>]) -> Result<Vec<f32>>;
}

/// Measures all engines in turn.
pub(crate) fn texts(args: &Args, path: &Path, threads: usize, rows: &mut Vec<Row>) -> Result<()> {
    let backend = llama_backend()?;
    let model = llama_model(&backend, path)?;
    let mut gleed = Gleed::open(args, path, threads)?;
    let mut random = Random::new(3);
    let vocab = gleed.engine.with(|engine| engine.model().config().vocab);
    let texts: Vec<Vec<u32>> = (0..args.texts).map(|_| random.ids(TOKENS, vocab)).collect();

    let mut flash = Llama::new(args, &backend, &model, true, threads)?;
    let mut plain = Llama::new(args, &backend, &model, false, threads)?;
    let mut peers: [(Kind, &mut dyn Embedder); 3] =
        [(Kind::Llama, &mut plain), (Kind::LlamaFlash, &mut flash), (Kind::Gleed, &mut gleed)];
    let metric = Metric::Texts(args.texts, TOKENS, args.together);
    progress(path, threads, &metric.to_string());
    for (_, peer) in &mut peers {
        // The first call starts threads and touches memory.
        peer.embed(&texts[..args.together.min(texts.len())])?;
    }
    let mut row = Row::new(path, metric, threads);
    let mut vectors = [(); 3].map(|()| Vec::new());
    for _ in 0..args.repeat {
        for ((kind, peer), vectors) in peers.iter_mut().zip(&mut vectors) {
            let took = timed(|| {
                *vectors = peer.embed(&texts)?;
                Ok(())
            })?;
            row.add(*kind, (args.texts * TOKENS) as f64 / took);
        }
    }
    row.distance = Some(distance(&vectors[0], &vectors[2]));
    rows.push(row);
    Ok(())
}

struct Gleed {
    engine: OwnedEngine,
}

impl Gleed {
    fn open(args: &Args, path: &Path, threads: usize) -> Result<Self> {
        let limits = Limits {
            sequences: args.together,
            context: TOKENS,
            rows: args.together * TOKENS,
            kv_kind: KvKind::Off,
            workers: threads,
            level: args.level(),
            ..Limits::default()
        };
        let engine = OwnedEngine::open(path, &limits).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { engine })
    }
}

impl Embedder for Gleed {
    fn embed(&mut self, texts: &[Vec<u32>]) -> Result<Vec<f32>> {
        self.engine.with(|engine| {
            let len =
                engine.model().config().embedding_len(Pooling::Mean).ok_or("the model has no vectors of texts")?;
            let mut out = vec![0.0; texts.len() * len];
            engine.embed_all(texts.iter().map(Vec::as_slice), Pooling::Mean, &mut out)?;
            Ok(out)
        })
    }
}

struct Llama<'m> {
    context: LlamaContext<'m>,
    batch: LlamaBatch<'static>,
    /// Number of texts in a call.
    together: usize,
}

impl<'m> Llama<'m> {
    fn new(args: &Args, backend: &LlamaBackend, model: &'m LlamaModel, flash: bool, threads: usize) -> Result<Self> {
        let (together, tokens) = (args.together, args.together * TOKENS);
        // An encoder has no causal mask, so all rows of a call must be computed at once.
        let params = LlamaContextParams::default()
            .with_n_ctx(NonZeroU32::new(tokens as u32))
            .with_n_batch(tokens as u32)
            .with_n_ubatch(tokens as u32)
            .with_n_seq_max(together as u32)
            .with_n_threads(threads as i32)
            .with_n_threads_batch(threads as i32)
            .with_embeddings(true)
            .with_pooling_type(LlamaPoolingType::Mean)
            .with_flash_attention_policy(flash_policy(flash));
        let batch = LlamaBatch::new(tokens, 1);
        Ok(Self { context: model.new_context(backend, params)?, batch, together })
    }
}

impl Embedder for Llama<'_> {
    fn embed(&mut self, texts: &[Vec<u32>]) -> Result<Vec<f32>> {
        let mut out = Vec::new();
        for texts in texts.chunks(self.together) {
            self.batch.clear();
            for (sequence, text) in texts.iter().enumerate() {
                for (position, &id) in text.iter().enumerate() {
                    self.batch.add(LlamaToken(id as i32), position as i32, &[sequence as i32], true)?;
                }
            }
            self.context.encode(&mut self.batch)?;
            for sequence in 0..texts.len() {
                out.extend_from_slice(self.context.embeddings_seq_ith(sequence as i32)?);
            }
        }
        Ok(out)
    }
}
