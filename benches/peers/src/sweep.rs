//! Runs the measurements: all engines in turn, as often as the arguments say.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::child::{self, Task};
use crate::engines::{Gleed, Kind, Llama, Peer, llama_backend, llama_model};
use crate::random::Random;
use crate::report::{Metric, Row};
use crate::{Args, Result};

/// Measures prefill and decode, with all engines in this process.
pub(crate) fn speed(args: &Args, path: &Path, threads: usize, rows: &mut Vec<Row>) -> Result<()> {
    let context = args.prompt.max(args.depth.iter().max().unwrap_or(&0) + args.r#gen);
    let backend = llama_backend()?;
    let model = llama_model(&backend, path)?;
    let mut gleed = Gleed::open(path, threads, context, args.level())?;
    let mut random = Random::new(0);
    let mut ids = |count, vocab| random.ids(count, vocab);
    let vocab = gleed.vocab();
    let (prompt, decode) = (ids(args.prompt, vocab), ids(args.r#gen, vocab));
    let longest = ids(args.depth.iter().copied().max().unwrap_or(0), vocab);

    let mut flash = Llama::new(&backend, &model, true, threads, context)?;
    let mut plain = Llama::new(&backend, &model, false, threads, context)?;
    let mut peers: [(Kind, &mut dyn Peer); 3] =
        [(Kind::Llama, &mut plain), (Kind::LlamaFlash, &mut flash), (Kind::Gleed, &mut gleed)];

    progress(path, threads, "prefill");
    let mut logits = Vec::new();
    for (_, peer) in &mut peers {
        // The first call starts threads and touches memory.
        peer.append(&prompt[..prompt.len().min(64)])?;
    }
    let mut row = Row::new(path, Metric::Prefill(args.prompt), threads);
    for _ in 0..args.repeat {
        for (kind, peer) in &mut peers {
            peer.keep(0)?;
            let took = timed(|| peer.append(&prompt))?;
            row.add(*kind, prompt.len() as f64 / took);
        }
    }
    for (_, peer) in &mut peers {
        logits.push(peer.logits());
    }
    row.distance = Some(distance(&logits[0], &logits[2]));
    rows.push(row);

    for &depth in &args.depth {
        progress(path, threads, &format!("decode at {depth}"));
        let mut row = Row::new(path, Metric::Decode(args.r#gen, depth), threads);
        for (_, peer) in &mut peers {
            peer.keep(0)?;
            if depth > 0 {
                peer.append(&longest[..depth])?;
            }
        }
        for _ in 0..args.repeat {
            for (kind, peer) in &mut peers {
                peer.keep(depth)?;
                let took = timed(|| decode.iter().try_for_each(|&id| peer.append(&[id])))?;
                row.add(*kind, decode.len() as f64 / took);
            }
        }
        rows.push(row);
    }
    Ok(())
}

/// Measures the time to the first token, and the peak memory, each in a child process.
pub(crate) fn start_and_memory(args: &Args, path: &Path, threads: usize, rows: &mut Vec<Row>) -> Result<()> {
    progress(path, threads, "start and memory");
    // After this, the whole file is in the page cache.
    drop(std::fs::read(path)?);
    let mut first = Row::new(path, Metric::FirstToken, threads);
    let mut memory = Row::new(path, Metric::PeakMemory, threads);
    for _ in 0..args.repeat {
        for kind in Kind::ALL {
            let (seconds, _) = child::start(args, Task::FirstToken, kind, path, threads)?;
            first.add(kind, 1000.0 * seconds);
        }
    }
    for kind in Kind::ALL {
        let (_, line) = child::start(args, Task::Memory, kind, path, threads)?;
        memory.add(kind, line.trim().parse::<f64>()? / 1e6);
    }
    rows.extend([first, memory]);
    Ok(())
}

/// Returns the seconds that `work` takes. It sleeps before, so that threads which another engine left spinning come to
/// rest.
pub(crate) fn timed(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    std::thread::sleep(Duration::from_millis(30));
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64())
}

pub(crate) fn progress(path: &Path, threads: usize, what: &str) {
    eprintln!("{}, threads {threads}: {what}", path.display());
}

/// Returns the L2 norm of the difference divided by the L2 norm of `a`.
pub(crate) fn distance(a: &[f32], b: &[f32]) -> f64 {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
    let difference = norm(&mut a.iter().zip(b).map(|(a, b)| f64::from(a - b)));
    difference / norm(&mut a.iter().map(|a| f64::from(*a)))
}
