//! Serves a model over HTTP, in the manner of OpenAI's API.
//!
//! ```text
//! cargo run --release --example serve -- --model model.gguf --sequences 8
//! curl http://127.0.0.1:8080/v1/chat/completions -d '{"messages": [{"role": "user", "content": "Who are you?"}]}'
//! ```
//!
//! It answers `GET /v1/models`, `POST /v1/completions` and `POST /v1/chat/completions`, whole or as events
//! (`"stream": true`), with `response_format` and `tools`. One thread has the engine. The sequences of all clients run
//! in its batches and share one pool of blocks, so a prefix that several prompts share is computed once. The answer to
//! a client does not depend on the others. A client that goes away frees its sequence.
//!
//! A request without sampling parameters gets those of the flags. Without `seed` the seed is 0, so the same request has
//! the same answer. The server has no keys and no TLS, so it listens on this machine only, unless `--host` says
//! otherwise.

mod answer;
mod ask;
mod client;
mod head;
mod http;
mod prompt;
mod rules;
mod work;

use std::io::{Write, stdout};
use std::net::TcpListener;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::channel;

use clap::Parser;
use client::Server;
use common::args::{EngineArgs, ModelArgs, SampleArgs};
use common::turns::Style;
use common::{ModelFile, Result, limit};
use gleed::host::{AlignedBytes, OwnedTrie, ThreadPool};
use gleed::token::Tokenizer;
use gleed::{Engine, EngineError, Limits, Plan};
use rules::Rules;
use work::Worker;

const EXAMPLES: &str = r#"Examples:
  cargo run --release --example serve
  cargo run --release --example serve -- --model model.gguf --sequences 8 --threads parallel
  curl http://127.0.0.1:8080/v1/completions -d '{"prompt": "Once upon a time", "max_tokens": 40}'"#;

/// Serves a model over HTTP, in the manner of OpenAI's API.
#[derive(Parser)]
#[command(name = "serve", version, long_version = common::version(), after_help = EXAMPLES)]
struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    sample: SampleArgs,

    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: String,

    /// Port to listen on; 0: a free one, which the first line of output names
    #[arg(long, value_name = "N", default_value_t = 8080)]
    port: u16,

    /// The most requests that are answered at the same time
    #[arg(long, value_name = "N", default_value_t = 4)]
    sequences: usize,

    /// The most requests that wait for one of these to end; more are refused with status 429
    #[arg(long, value_name = "N", default_value_t = 16)]
    queue: usize,

    /// The most connections; more are refused with status 503
    #[arg(long, value_name = "N", default_value_t = 64)]
    connections: usize,

    /// The most tokens of a request and its answer [default: the context that the model was trained on, at most 4096]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    context: usize,

    /// Turn format: its name, a file with a chat template, or `none` [default: that of the model's file]
    #[arg(long, value_name = "NAME|FILE")]
    template: Option<String>,
}

fn main() -> ExitCode {
    common::exit(serve(&Args::parse()))
}

fn serve(args: &Args) -> Result<ExitCode> {
    limit::check("--sequences", args.sequences, 1, 1 << 10)?;
    limit::check("--connections", args.connections, 1, usize::MAX)?;
    let file = ModelFile::open(args.model.model.as_deref())?;
    let model = file.model()?;
    if !model.has_logits() {
        return Err(file.error(EngineError::NoLogits));
    }
    let mut tables = AlignedBytes::new(Tokenizer::plan(model.gguf()).map_err(|error| file.error(error))?);
    let tokenizer = Tokenizer::new(model.gguf(), tables.bytes()).map_err(|error| file.error(error))?;
    let style = Style::choose(model.gguf(), &tokenizer, args.template.as_deref(), false)?;
    let trie = OwnedTrie::new(&tokenizer)?;
    let sequences = args.sequences;
    let limits = Limits { sequences, prefix_cache: true, ..args.engine.limits(args.context) };
    // A batch has at most as many logits as rows. If there are more sequences, some wait for the next batch.
    let limits = Limits { logit_rows: sequences.min(limits.rows), ..limits };
    let plan = Plan::new(&model, &limits)?;
    let pool = ThreadPool::new(args.engine.threads)?;
    let mut memory = AlignedBytes::try_new(plan.bytes())?;
    let mut engine = Engine::new(&model, &plan, memory.bytes())?;
    engine.set_parallel(&pool);
    let template = model.gguf().get("tokenizer.chat_template").and_then(|value| value.as_str());
    let rules = Rules::new(&style.script, template);

    let place = format!("{}:{}", args.host, args.port);
    let listener = TcpListener::bind(&place).map_err(|error| format!("{place}: {error}"))?;
    writeln!(stdout(), "listening on http://{}", listener.local_addr()?)?;
    stdout().flush()?;
    let (sender, jobs) = channel();
    let name = args.model.model.as_deref().and_then(Path::file_stem);
    let server = Server {
        model: name.map_or_else(|| "gleed-tales".to_owned(), |name| name.to_string_lossy().into_owned()),
        jobs: sender,
        open: AtomicUsize::new(0),
        connections: Arc::new(AtomicUsize::new(0)),
        most_open: args.sequences.saturating_add(args.queue),
        most_connections: args.connections,
        number: AtomicUsize::new(1),
        sampling: args.sample.params(file.is_demo()),
        rules,
    };
    let server = Arc::new(server);
    std::thread::Builder::new().spawn(move || server.listen(&listener))?;
    Worker::new(engine, &plan, &tokenizer, &style.script, rules, trie.get()).run(&jobs)?;
    Ok(ExitCode::SUCCESS)
}
