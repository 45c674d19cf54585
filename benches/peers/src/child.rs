//! Child processes: for what is measured from the start of a process, for its memory, and to keep a core busy.

use std::io::{BufRead, BufReader, Write, stdout};
use std::os::unix::process::parent_id;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use clap::ValueEnum;

use crate::engines::{Gleed, Kind, Llama, Peer, llama_backend, llama_model};
use crate::random::Random;
use crate::{Args, Result};

/// What a child does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Task {
    /// Loads the model, runs 16 tokens and prints the id of the next one.
    FirstToken,
    /// Runs the prompt and decodes, then prints the most bytes that were resident.
    Memory,
    /// Keeps a core busy.
    Spin,
}

/// Most tokens of a sequence in a child.
const CONTEXT: usize = 1024;

/// Starts a child. Returns the seconds until its first line, and the line.
pub(crate) fn start(args: &Args, task: Task, kind: Kind, path: &Path, threads: usize) -> Result<(f64, String)> {
    let started = Instant::now();
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--child", name(task).as_str(), "--engine", name(kind).as_str()])
        .args(["--threads", threads.to_string().as_str(), "--level", args.level().name()])
        .args(["--prompt", args.prompt.to_string().as_str(), "--gen", args.r#gen.to_string().as_str()])
        .arg(path)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output).read_line(&mut line)?;
    }
    let seconds = started.elapsed().as_secs_f64();
    match child.wait()?.success() && !line.is_empty() {
        true => Ok((seconds, line)),
        false => Err(format!("{}: the process of {} failed", path.display(), kind.name()).into()),
    }
}

fn name(value: impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// Does the task in the child.
pub(crate) fn run(task: Task, args: &Args) -> Result<()> {
    let work = |peer: &mut dyn Peer, vocab: usize| match task {
        Task::FirstToken => first_token(peer, vocab),
        Task::Memory => memory(peer, vocab, args.prompt.min(CONTEXT - args.r#gen.min(CONTEXT)), args.r#gen),
        Task::Spin => spin(),
    };
    if task == Task::Spin {
        return spin();
    }
    let (Some(path), Some(&threads)) = (args.models.first(), args.threads.first()) else {
        return Err("no model".into());
    };
    if args.engine == Kind::Gleed {
        let mut peer = Gleed::open(path, threads, CONTEXT, args.level())?;
        // The first token of a real program includes its tokenizer, and llama.cpp always loads one.
        peer.load_tokenizer()?;
        let vocab = peer.vocab();
        return work(&mut peer, vocab);
    }
    let backend = llama_backend()?;
    let model = llama_model(&backend, path)?;
    let flash = args.engine == Kind::LlamaFlash;
    work(&mut Llama::new(&backend, &model, flash, threads, CONTEXT)?, model.n_vocab() as usize)
}

fn first_token(peer: &mut dyn Peer, vocab: usize) -> Result<()> {
    peer.append(&Random::new(1).ids(16, vocab))?;
    let logits = peer.logits();
    let best = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map(|(id, _)| id);
    print(&format!("{}", best.unwrap_or(0)))
}

fn memory(peer: &mut dyn Peer, vocab: usize, prompt: usize, decode: usize) -> Result<()> {
    let mut random = Random::new(1);
    peer.append(&random.ids(prompt, vocab))?;
    random.ids(decode, vocab).iter().try_for_each(|&id| peer.append(&[id]))?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    print(&format!("{}", kib.ok_or("the system does not tell the peak memory")? * 1024))
}

fn print(line: &str) -> Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// Keeps a core busy until the parent is gone, at the latest.
fn spin() -> Result<()> {
    let parent = parent_id();
    while parent_id() == parent {
        (0..1_000_000).for_each(|_| std::hint::spin_loop());
    }
    Ok(())
}

/// Child processes that keep cores busy until this value is dropped.
pub(crate) struct Busy(Vec<Child>);

impl Busy {
    pub(crate) fn start(count: usize) -> Result<Self> {
        let mut busy = Self(Vec::new());
        for _ in 0..count {
            busy.0.push(Command::new(std::env::current_exe()?).args(["--child", "spin", "-"]).spawn()?);
        }
        Ok(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
