//! Semantic search: finds the lines of a text whose embeddings are most similar to that of a query.
//!
//! ```text
//! cargo run --release --example search -- "how is memory planned"
//! cargo run --release --example search -- --model embedder.gguf --text lines.txt --index lines.index -k 5
//! ```
//!
//! Each line becomes a vector once. `--index` keeps the vectors in a file for the next run. Queries are arguments, or
//! lines of standard input. Any model works, but embedding models are far better. The demo model is not an embedding
//! model.

use std::io::{BufRead, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use common::args::{EngineArgs, ModelArgs};
use common::embed::{cosine, encode, pooling, pooling_of, unit, vectors};
use common::{ModelFile, Result};
use gleed::num::Xxh64;
use gleed::{Model, Pooling};

/// Text that is searched if none is given: Gleed's own pages.
const PAGES: [&str; 8] = [
    include_str!("../README.md"),
    include_str!("../docs/design.md"),
    include_str!("../docs/kv.md"),
    include_str!("../docs/arithmetic.md"),
    include_str!("../docs/models.md"),
    include_str!("../docs/budget.md"),
    include_str!("../docs/glossary.md"),
    include_str!("../docs/snapshot.md"),
];

/// Most lines that are taken from these pages.
const LINES: usize = 1000;

/// First bytes of an index file.
const MAGIC: &[u8; 8] = b"gleedix1";

const EXAMPLES: &str = r#"Examples:
  cargo run --release --example search -- "how is memory planned"
  printf 'snapshots\nthreads\n' | cargo run --release --example search -- -k 3
  cargo run --release --example search -- --text README.md --index readme.index "speed""#;

/// Finds the lines of a text that are most similar to a query.
///
/// Prints the cosine, the number and the text of each line, the most similar one first.
#[derive(Parser)]
#[command(name = "search", version, long_version = common::version(), after_help = EXAMPLES)]
struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    engine: EngineArgs,

    /// What to search for; several queries are answered one after the other [default: each line of standard input]
    #[arg(value_name = "QUERY")]
    queries: Vec<String>,

    /// File with the lines that are searched [default: 1,000 lines of Gleed's documentation, which are part of this
    /// program]
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,

    /// Number of lines that are printed for each query
    #[arg(short, value_name = "K", default_value_t = 5)]
    k: usize,

    /// Keep the vectors of the lines in this file. They are computed again where the lines or the model are others
    /// [default: keep none]
    #[arg(long, value_name = "FILE")]
    index: Option<PathBuf>,

    /// How the hidden states of a line become one vector: mean, last or cls [default: what the file says, or mean]
    #[arg(long, value_name = "NAME", value_parser = pooling)]
    pooling: Option<Pooling>,

    /// Text that is put before each query, as some models want it
    #[arg(long, value_name = "TEXT", default_value = "")]
    query_prefix: String,

    /// Text that is put before each line
    #[arg(long, value_name = "TEXT", default_value = "")]
    line_prefix: String,
}

fn main() -> ExitCode {
    common::exit(search(&Args::parse()))
}

fn search(args: &Args) -> Result<ExitCode> {
    let text = match &args.text {
        Some(path) => common::score::read_text(path)?,
        None => PAGES.join("\n"),
    };
    let most = if args.text.is_some() { usize::MAX } else { LINES };
    let lines: Vec<(usize, &str)> =
        (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()).take(most).collect();
    if lines.is_empty() {
        return Err("there are no lines to search".into());
    }
    let file = ModelFile::open(args.model.model.as_deref())?;
    let model = file.model()?;
    let pooling = pooling_of(&model, args.pooling);
    if pooling == Pooling::Rank {
        return Err("a reranker gives numbers for pairs of texts, no vectors: see the example `embed`".into());
    }
    let embed = |texts: &[String]| -> Result<Vec<Vec<f32>>> {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let vectors = vectors(&model, &args.engine, &encode(&file, &model, &texts, pooling)?, pooling)?;
        Ok(vectors.iter().map(|vector| unit(vector)).collect())
    };
    let texts: Vec<String> = lines.iter().map(|(_, line)| format!("{}{line}", args.line_prefix)).collect();
    let key = key(&model, pooling, args, &texts);
    let width = model.config().embedding_len(pooling).unwrap_or(0);
    let known = match args.index.as_deref() {
        Some(path) => read_index(path, key, [texts.len(), width])?,
        None => None,
    };
    let index = match known {
        Some(index) => index,
        None => {
            let start = Instant::now();
            let index = embed(&texts)?;
            eprintln!("{} lines became vectors in {:.1} s", index.len(), start.elapsed().as_secs_f64());
            if let Some(path) = &args.index {
                write_index(path, key, &index, &file)?;
            }
            index
        }
    };
    let answer = |query: &str| -> Result<()> {
        let vector = embed(&[format!("{}{query}", args.query_prefix)])?.concat();
        print(query, &best(&index, &vector, args.k), &lines)
    };
    if args.queries.is_empty() {
        std::io::stdin().lock().lines().try_for_each(|line| match line? {
            line if line.trim().is_empty() => Ok(()),
            line => answer(&line),
        })?;
    }
    args.queries.iter().try_for_each(|query| answer(query))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns cosine and index of the `k` vectors that are most similar to the query, in descending order of the cosine.
/// Equal cosines keep the order of the index.
fn best(index: &[Vec<f32>], query: &[f32], k: usize) -> Vec<(f64, usize)> {
    let mut found: Vec<_> = index.iter().enumerate().map(|(place, line)| (cosine(line, query), place)).collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    found.truncate(k);
    found
}

fn print(query: &str, found: &[(f64, usize)], lines: &[(usize, &str)]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{query}")?;
    for &(cosine, place) in found {
        let (number, line) = lines[place];
        writeln!(out, "{cosine:>7.3} {number:>6}  {line}")?;
    }
    Ok(())
}

/// Returns a hash of everything that an index depends on: the model, how it is used, and the lines.
fn key(model: &Model<'_>, pooling: Pooling, args: &Args, texts: &[String]) -> u64 {
    let mut hash = Xxh64::new();
    hash.update(&model.fingerprint().to_le_bytes());
    hash.update(format!("{pooling:?} {}", args.engine.kv_type_of_texts()).as_bytes());
    for text in texts {
        hash.update(&(text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    }
    hash.finish()
}

/// Returns the vectors in an index file, or `None` if there is no file or it belongs to another key. Refuses a file
/// that is not an index, because it would be overwritten.
fn read_index(path: &Path, key: u64, [lines, width]: [usize; 2]) -> Result<Option<Vec<Vec<f32>>>> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{}: {error}", path.display()).into()),
    };
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        return Err(format!("{}: it is no index, and would be written over", path.display()).into());
    };
    let Some((floats, [])) = rest.strip_prefix(&key.to_le_bytes()).map(<[u8]>::as_chunks::<4>) else { return Ok(None) };
    let floats: Vec<f32> = floats.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    let is_whole = floats.len() == lines * width;
    Ok(is_whole.then(|| floats.chunks(width.max(1)).map(<[f32]>::to_vec).collect()))
}

fn write_index(path: &Path, key: u64, index: &[Vec<f32>], model: &ModelFile) -> Result<()> {
    let floats = index.iter().flatten().flat_map(|x| x.to_le_bytes());
    let bytes: Vec<u8> = MAGIC.iter().copied().chain(key.to_le_bytes()).chain(floats).collect();
    model.write(path, &[], &bytes)
}
