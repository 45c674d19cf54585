//! Embeddings of many texts, and their similarity.

use gleed::host::{AlignedBytes, ThreadPool};
use gleed::token::Tokenizer;
use gleed::{Engine, Limits, Model, Plan, Pooling};

use super::args::EngineArgs;
use super::{ModelFile, Result, text};

/// Returns the pooling with this name.
pub fn pooling(name: &str) -> std::result::Result<Pooling, String> {
    match name {
        "mean" => Ok(Pooling::Mean),
        "last" => Ok(Pooling::Last),
        "cls" => Ok(Pooling::Cls),
        "rank" => Ok(Pooling::Rank),
        _ => Err("one of mean, last, cls, rank".into()),
    }
}

/// Returns the pooling that is wanted, or the one that the model's file states, or the mean.
pub fn pooling_of(model: &Model<'_>, wanted: Option<Pooling>) -> Pooling {
    wanted.or(model.pooling()).unwrap_or(Pooling::Mean)
}

/// Returns the ids of each text, or for [`Pooling::Rank`] of each pair of texts.
pub fn encode(file: &ModelFile, model: &Model<'_>, texts: &[&str], pooling: Pooling) -> Result<Vec<Vec<u32>>> {
    let encode = if pooling == Pooling::Rank { text::encode_pair } else { text::encode_whole };
    let mut tables = AlignedBytes::new(Tokenizer::plan(model.gguf()).unwrap_or(0));
    let tokenizer = Tokenizer::new(model.gguf(), tables.bytes()).map_err(|error| file.error(error))?;
    texts.iter().map(|text| Ok(encode(&tokenizer, text)?)).collect()
}

/// Returns the vector of each text, computed by `args.threads` threads. With [`Pooling::Rank`] it holds one number for
/// each class.
pub fn vectors(model: &Model<'_>, args: &EngineArgs, texts: &[Vec<u32>], pooling: Pooling) -> Result<Vec<Vec<f32>>> {
    let most = model.config().context.min(model.config().longest());
    if let Some((index, long)) = texts.iter().enumerate().find(|(_, ids)| ids.len() > most) {
        return Err(format!("text {} has {} tokens, the model takes {most}", index + 1, long.len()).into());
    }
    let width = model.config().embedding_len(pooling).ok_or("the model has no classifier to rank texts with")?;
    let plan = Plan::new(model, &limits(model, args, texts))?;
    let pool = ThreadPool::new(args.threads)?;
    let mut memory = AlignedBytes::try_new(plan.bytes())?;
    let mut engine = Engine::new(model, &plan, memory.bytes())?;
    engine.set_parallel(&pool);
    let mut out = vec![0.0; width * texts.len()];
    engine.embed_all(texts.iter().map(Vec::as_slice), pooling, &mut out)?;
    Ok(out.chunks(width).map(<[f32]>::to_vec).collect())
}

/// Returns limits that let as many texts run at a time as fill a batch.
fn limits(model: &Model<'_>, args: &EngineArgs, texts: &[Vec<u32>]) -> Limits {
    const BLOCK: usize = gleed::cache::BLOCK_TOKENS;
    let longest = texts.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let limits = args.limits(longest);
    // Where the tokens of a text see each other, all of them must be in one batch.
    let rows = if model.config().attention.causal { limits.rows } else { limits.rows.max(longest) };
    let sequences = texts.len().clamp(1, 64);
    let kv_blocks =
        (rows.div_ceil(BLOCK) + sequences + longest.div_ceil(BLOCK)).min(longest.div_ceil(BLOCK) * sequences);
    Limits { rows, sequences, kv_blocks, kv_type: args.kv_type_of_texts(), ..limits }
}

/// Returns the vector scaled to length 1.
pub fn unit(vector: &[f32]) -> Vec<f32> {
    let length = vector.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
    vector.iter().map(|&x| if length > 0.0 { (f64::from(x) / length) as f32 } else { 0.0 }).collect()
}

/// Returns the cosine of two vectors of length 1.
pub fn cosine(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}
