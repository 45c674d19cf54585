//! `share`: measures characters that continue one system prompt, and what a sequence costs beside others.

use clap::Args;
use gleed::cache::BLOCK_TOKENS;
use gleed::host::{AlignedBytes, ThreadPool};
use gleed::{Engine, Limits, Logits, SeqId};

use crate::lab::{Lab, LabArgs, bar, finish, median, timed};
use crate::memory::used_bytes;
use crate::report::{Cell, Report, Table};
use common::plot::{Axis, Curve, Plot};
use common::random::Random;
use common::{Result, limit};

#[derive(Args)]
pub(crate) struct ShareArgs {
    #[command(flatten)]
    pub(crate) lab: LabArgs,

    /// The largest number of characters [default: 128, with --quick 4]
    #[arg(long, value_name = "N", value_parser = limit::within::<u16>(1, 4096))]
    characters: Option<u16>,

    /// Tokens of the system prompt that all share [default: 512, with --quick 64, or what the context leaves]
    #[arg(long, value_name = "N")]
    system: Option<usize>,

    /// Tokens that each character adds [default: 64, with --quick 4]
    #[arg(long, value_name = "N", value_parser = limit::within::<u16>(1, u16::MAX.into()))]
    own: Option<u16>,
}

/// The sizes of an experiment.
struct Cast {
    system: Vec<u32>,
    own: usize,
    /// Numbers of characters: 1, 2, 4 and so on.
    counts: Vec<usize>,
    limits: Limits,
}

/// Memory and time of a number of characters.
struct Shared {
    characters: usize,
    /// Number of blocks that a character alone holds. `shared` is the number of blocks that it shares.
    own: usize,
    shared: usize,
    bytes: usize,
    together_ms: f64,
    alone_ms: f64,
}

pub(crate) fn run(lab: &Lab<'_>, args: &ShareArgs) -> Result<Report> {
    let cast = Cast::new(lab, args)?;
    let mut report = Report::default();
    characters(lab, &cast, &mut report)?;
    resident(lab, &cast, &mut report)?;
    Ok(report)
}

impl Cast {
    fn new(lab: &Lab<'_>, args: &ShareArgs) -> Result<Self> {
        let (own, most) = if lab.args.quick { (4, 4) } else { (64, 128) };
        let (own, most) = (args.own.map_or(own, usize::from), args.characters.map_or(most, usize::from));
        let room = lab.model.config().context.saturating_sub(own);
        let system = args.system.unwrap_or(room.min(if lab.args.quick { 64 } else { 512 }));
        limit::check("--system", system, 1, room)?;
        let mut counts: Vec<usize> = (0..13).map(|log| 1 << log).take_while(|&n| n < most).collect();
        counts.push(most);
        let limits = Limits {
            sequences: most + 1,
            rows: most.max(256),
            logit_rows: most,
            // The prompt, and for each character its own tokens, which begin in a copy of the partial block.
            kv_blocks: system.div_ceil(16) + most * (own.div_ceil(16) + 1),
            ..lab.limits(system + own)
        };
        Ok(Self { system: lab.tokens(system), own, counts, limits })
    }

    /// Returns the tokens of all characters at one step.
    fn step(&self, index: usize, characters: usize, vocab: usize) -> Vec<u32> {
        Random::new(index as u64 + 1).ids(characters, vocab)
    }
}

fn characters(lab: &Lab<'_>, cast: &Cast, report: &mut Report) -> Result<()> {
    let bar = bar(2 * cast.counts.iter().sum::<usize>(), "characters");
    let measured = lab.with_engine(&cast.limits, |engine| {
        let system = engine.open()?;
        engine.prefill(system, &cast.system)?;
        let mut measured = Vec::new();
        for &count in &cast.counts {
            measured.push(measure(engine, cast, system, count)?);
            bar.inc(2 * count as u64);
        }
        Ok(measured)
    })?;
    bar.finish_and_clear();

    let geometry = lab.geometry(cast.limits.context)?;
    let row = geometry.block_bytes() / BLOCK_TOKENS;
    let (system, own) = (cast.system.len(), cast.own);
    let columns = [
        "characters",
        "own blocks",
        "shared blocks",
        "pool bytes",
        "of the tokens'",
        "not shared",
        "together ms/token",
        "one by one ms/token",
        "ratio",
    ];
    let mut table = Table::new(format!("{system} tokens of a system prompt, {own} of each character"), &columns);
    for it in &measured {
        let n = it.characters;
        table.rows.push(vec![
            Cell::Count(n),
            Cell::Count(it.own),
            Cell::Count(it.shared),
            Cell::Count(it.bytes),
            Cell::Real(it.bytes as f64 / (row * (system + n * own)) as f64, 4),
            Cell::Count(row * n * (system + own)),
            Cell::Real(it.together_ms, 3),
            Cell::Real(it.alone_ms, 3),
            Cell::Real(it.alone_ms / it.together_ms, 2),
        ]);
    }
    report.tables.push(table);
    let curve = |name: &str, value: &dyn Fn(&Shared) -> f64| Curve {
        name: name.into(),
        points: measured.iter().map(|it| (it.characters as f64, value(it))).collect(),
    };
    let x = || Axis::log("characters", 2.0);
    report.plots.push(Plot {
        file: "share-memory.svg",
        title: format!("Megabytes of keys and values: {system} tokens shared, {own} of each character"),
        x: x(),
        y: Axis::log("MB", 10.0),
        curves: vec![
            curve("one pool", &|it| it.bytes as f64 / 1e6),
            curve("not shared", &|it| (row * it.characters * (system + own)) as f64 / 1e6),
        ],
    });
    report.plots.push(Plot {
        file: "share-time.svg",
        title: "Milliseconds per token".into(),
        x: x(),
        y: Axis::log("ms", 10.0),
        curves: vec![curve("together", &|it| it.together_ms), curve("one by one", &|it| it.alone_ms)],
    });
    Ok(())
}

/// Forks the characters and measures their steps. Each step runs for all characters together, is taken back, and runs
/// again for one character after the other.
fn measure(engine: &mut Engine<'_, '_>, cast: &Cast, system: SeqId, characters: usize) -> Result<Shared> {
    let (start, vocab) = (cast.system.len(), engine.model().config().vocab);
    let forks = (0..characters).map(|_| engine.fork(system, start)).collect::<std::result::Result<Vec<_>, _>>()?;
    let (mut together, mut alone) = (Vec::new(), Vec::new());
    for (index, position) in (start..start + cast.own).enumerate() {
        let tokens = cast.step(index, characters, vocab);
        together.push(timed(|| {
            for (&fork, token) in forks.iter().zip(&tokens) {
                engine.queue(fork, position, &[*token], Logits::Last)?;
            }
            finish(engine)
        })?);
        forks.iter().try_for_each(|&fork| engine.rewind(fork, position))?;
        alone.push(timed(|| {
            forks.iter().zip(&tokens).try_for_each(|(&fork, &token)| Ok(engine.decode_step(fork, token).map(drop)?))
        })?);
    }
    let blocks = engine.sequence_stats(forks[0])?.total();
    let bytes = used_bytes(engine);
    forks.iter().try_for_each(|&fork| engine.close(fork))?;
    Ok(Shared {
        characters,
        own: blocks.own,
        shared: blocks.shared,
        bytes,
        together_ms: median(&together) / characters as f64,
        alone_ms: median(&alone) / characters as f64,
    })
}

/// Measures one sequence while idle sequences are open. The engines take turns, so that changes of the machine's speed
/// affect all of them.
fn resident(lab: &Lab<'_>, cast: &Cast, report: &mut Report) -> Result<()> {
    const STEPS: usize = 4;
    let rounds = if lab.args.quick { 3 } else { 40 };
    let most = cast.counts.last().copied().unwrap_or(1);
    let mut others: Vec<usize> = [1, 32, 128].into_iter().map(|n| n.min(most)).collect();
    others.dedup();
    let limits = Limits { sequences: most + 2, kv_blocks: cast.limits.kv_blocks + 8, ..cast.limits };
    let mut machines =
        others.iter().map(|_| lab.args.device.prepare(lab.model, &limits)).collect::<Result<Vec<_>>>()?;
    let pool = ThreadPool::new(cast.limits.workers)?;
    let mut memories: Vec<_> = machines.iter().map(|(plan, _)| AlignedBytes::new(plan.bytes())).collect();
    let mut engines = Vec::new();
    let bar = bar(others.len() + rounds, "residents");
    for (((plan, machine), memory), &count) in machines.iter_mut().zip(&mut memories).zip(&others) {
        let mut engine = machine.engine(lab.model, plan, memory.bytes())?;
        engine.set_parallel(&pool);
        let start = cast.system.len();
        let system = engine.open()?;
        engine.prefill(system, &cast.system)?;
        let one = engine.fork(system, start)?;
        for index in 0..count {
            let fork = engine.fork(system, start)?;
            engine.prefill(fork, &cast.step(index, cast.own, lab.model.config().vocab))?;
        }
        engines.push((engine, one, Vec::new()));
        bar.inc(1);
    }
    let tokens = lab.tokens(STEPS.min(cast.own));
    // The first round warms up.
    for round in 0..=rounds {
        for (engine, one, samples) in &mut engines {
            for &token in &tokens {
                let ms = timed(|| Ok(engine.decode_step(*one, token).map(drop)?))?;
                samples.extend((round > 0).then_some(ms));
            }
            engine.rewind(*one, cast.system.len())?;
        }
        bar.inc(u64::from(round > 0));
    }
    bar.finish_and_clear();
    let samples = rounds * tokens.len();
    let title = format!("A token of one sequence while others are there, medians of {samples} in turn");
    let mut table = Table::new(title, &["others", "ms/token", "of the first"]);
    let first = engines.first().map_or(0.0, |(_, _, samples)| median(samples));
    for (others, (_, _, samples)) in others.iter().zip(&engines) {
        let ms = median(samples);
        table.rows.push(vec![Cell::Count(*others), Cell::Real(ms, 4), Cell::Real(ms / first, 4)]);
    }
    report.tables.push(table);
    Ok(())
}
