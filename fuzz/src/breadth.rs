//! Runs a target on many inputs without libFuzzer: random changes of a corpus, without guidance by coverage. A build
//! without sanitizer and counters tries ten to a hundred times as many inputs in a second of processor time as
//! libFuzzer does, and it asserts the same.
//!
//! - `breadth try TARGET SEED SECONDS FILE CORPUS...`: runs for SECONDS of processor time. FILE holds the input of a
//!   run that fails.
//! - `breadth runs TARGET SEED RUNS FILE CORPUS...`: makes RUNS runs, which are the same each time.
//! - `breadth replay TARGET FILE...`: runs these inputs.
#![allow(unsafe_code)]

mod support;
mod targets;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::random::Rng;
use support::clock::processor_time;
use support::damaged;

/// A run that takes longer than this processor time counts as a hang.
const HANG: Duration = Duration::from_secs(20);
/// Factor by which a run tries more inputs than a run of libFuzzer.
const FACTOR: usize = 8;
/// Number of runs that have begun.
static RUNS: AtomicU64 = AtomicU64::new(0);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut next = |what: &str| arguments.next().unwrap_or_else(|| panic!("{what} is missing"));
    let (command, name) = (next("a command"), next("a target"));
    let (_, run) = targets::ALL.iter().find(|(other, _)| *other == name).expect("a target of this name");
    match command.as_str() {
        "try" | "runs" => {
            support::count::set_factor(FACTOR);
            let mut random = Rng::new(next("a seed").parse().expect("a seed is a number"));
            let amount: f64 = next("an amount").parse().expect("a number of seconds or runs");
            let end =
                if command == "try" { End::Time(Duration::from_secs_f64(amount)) } else { End::Runs(amount as u64) };
            let path = next("a file");
            let corpus: Vec<Vec<u8>> = arguments.flat_map(|folder| files(&folder)).collect();
            try_inputs(*run, || input(&corpus, &mut random), end, &path);
        }
        "replay" => arguments.for_each(|path| {
            // If the target fails, this path is the last line.
            eprintln!("{path}");
            run(&read(path.as_ref()));
        }),
        _ => panic!("no command {command}"),
    }
}

/// When the program stops trying inputs.
enum End {
    /// After this processor time.
    Time(Duration),
    Runs(u64),
}

impl End {
    fn is_reached(&self, time: Duration, runs: u64) -> bool {
        match self {
            Self::Time(most) => time >= *most,
            Self::Runs(most) => runs >= *most,
        }
    }
}

fn try_inputs(run: targets::Target, mut input: impl FnMut() -> Box<[u8]>, end: End, path: &str) {
    let file = File::create(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    // A target makes some things only once. This run makes them before the clock starts.
    run(&[]);
    std::thread::spawn(watch);
    let (start, mut slowest) = (processor_time(), Duration::ZERO);
    let mut now = start;
    while !end.is_reached(now - start, RUNS.load(Ordering::Relaxed)) {
        let input = input();
        file.set_len(input.len() as u64).expect("room for an input");
        file.write_all_at(&input, 0).expect("room for an input");
        RUNS.fetch_add(1, Ordering::Relaxed);
        run(&input);
        let after = processor_time();
        (slowest, now) = (slowest.max(after - now), after);
    }
    drop(std::fs::remove_file(path));
    let (runs, seconds) = (RUNS.load(Ordering::Relaxed), (now - start).as_secs_f64());
    println!("{runs} runs{} in {seconds:.0} s, slowest run {} ms", support::count::said(), slowest.as_millis());
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the files of a folder, in an order that is the same everywhere. The folder need not exist.
fn files(folder: &str) -> Vec<Vec<u8>> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a folder that can be read").path()).collect();
    paths.sort();
    paths.iter().filter(|path| path.is_file()).map(|path| read(path)).collect()
}

/// Returns a damaged input of the corpus, damaged parts of two inputs, or random bytes.
fn input(corpus: &[Vec<u8>], random: &mut Rng) -> Box<[u8]> {
    let kind = random.below(8);
    if corpus.is_empty() || kind == 0 {
        let most = [16, 256, 4096][random.below(3)];
        let mut any = vec![0; random.below(most)];
        random.fill(&mut any);
        return any.into();
    }
    let one = &corpus[random.below(corpus.len())];
    if kind > 2 {
        return damaged(one, random);
    }
    let other = &corpus[random.below(corpus.len())];
    let (head, tail) = (random.below(one.len() + 1), random.below(other.len() + 1));
    damaged(&[&one[..head], &other[tail..]].concat(), random)
}

/// Aborts the process if a run does not end.
fn watch() {
    let (mut last, mut since) = (0, processor_time());
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let (runs, now) = (RUNS.load(Ordering::Relaxed), processor_time());
        if runs != last {
            (last, since) = (runs, now);
        } else if now - since > HANG {
            eprintln!("a run takes longer than {} s", HANG.as_secs());
            std::process::abort();
        }
    }
}
