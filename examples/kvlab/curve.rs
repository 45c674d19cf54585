//! `curve`: compares computing everything again with keeping keys and values, and measures the cost of appending a
//! token.

use clap::Args;
use gleed::cache::{BLOCK_TOKENS, KvCache, KvGeometry, SeqId};
use gleed::{KvKind, KvType, Limits};
use indicatif::ProgressBar;

use crate::lab::{Lab, LabArgs, bar, median, timed, with_cache};
use crate::report::{Cell, Report, Table};
use common::plot::{Axis, Curve, Plot};
use common::{Result, limit};

#[derive(Args)]
pub(crate) struct CurveArgs {
    #[command(flatten)]
    pub(crate) lab: LabArgs,

    /// Number of tokens to decode after each prompt
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = limit::within::<u16>(1, u16::MAX.into()))]
    steps: u16,

    /// Number of tokens to append to a cache without a model; it may exceed the model's context
    #[arg(long, value_name = "N", default_value_t = 8192, value_parser = limit::within::<u32>(16, u32::MAX.into()))]
    append: u32,
}

pub(crate) fn run(lab: &Lab<'_>, args: &CurveArgs) -> Result<Report> {
    let mut report = Report::default();
    forward(lab, usize::from(args.steps), &mut report)?;
    append(lab, if lab.args.quick { args.append.min(256) } else { args.append } as usize, &mut report)?;
    Ok(report)
}

/// Measures a decode step after prompts of several lengths.
fn forward(lab: &Lab<'_>, steps: usize, report: &mut Report) -> Result<()> {
    let steps = if lab.args.quick { steps.min(3) } else { steps };
    let room = lab.model.config().context;
    limit::check("--steps", steps, 1, room.saturating_sub(1))?;
    let longest = room - steps;
    let most = if lab.args.quick { 64 } else { 1024 };
    let mut lengths: Vec<usize> = (5..=10).map(|log| 1 << log).filter(|&n| n <= most).map(|n| n.min(longest)).collect();
    lengths.dedup();

    let tokens = lab.tokens(longest + steps);
    let bar = bar(KvKind::ALL.len() * lengths.len(), "decode");
    let mut measured = Vec::new();
    for kv_kind in KvKind::ALL {
        let context = lengths.last().copied().unwrap_or(0) + steps;
        let times = lab.with_engine(&Limits { kv_kind, ..lab.limits(context) }, |engine| {
            let seq = engine.open()?;
            let mut times = Vec::new();
            for &length in &lengths {
                engine.reset(seq)?;
                engine.prefill(seq, &tokens[..length])?;
                let step = |&token| timed(|| Ok(engine.decode_step(seq, token).map(drop)?));
                let samples = tokens[length..][..steps].iter().map(step).collect::<Result<Vec<_>>>()?;
                times.push(median(&samples));
                bar.inc(1);
            }
            Ok(times)
        })?;
        measured.push((kv_kind, times));
    }
    bar.finish_and_clear();

    let columns =
        ["prompt", "off ms", "basic ms", "paged ms", "off tok/s", "basic tok/s", "paged tok/s", "off / paged"];
    let mut table = Table::new(format!("A decode step after a prompt, median of {steps}"), &columns);
    for (row, &length) in lengths.iter().enumerate() {
        let ms: Vec<f64> = measured.iter().map(|(_, times)| times[row]).collect();
        let mut cells = vec![Cell::Count(length)];
        cells.extend(ms.iter().map(|&ms| Cell::Real(ms, 3)));
        cells.extend(ms.iter().map(|&ms| Cell::Real(1e3 / ms, 1)));
        cells.push(Cell::Real(ms[0] / ms[ms.len() - 1], 1));
        table.rows.push(cells);
    }
    report.tables.push(table);
    let curves = |value: fn(f64) -> f64| {
        let curve = |(kind, times): &(KvKind, Vec<f64>)| Curve {
            name: kind.to_string(),
            points: lengths.iter().zip(times).map(|(&length, &ms)| (length as f64, value(ms))).collect(),
        };
        measured.iter().map(curve).collect()
    };
    let x = || Axis::log("tokens of the prompt", 2.0);
    report.plots.push(Plot {
        file: "curve-forward.svg",
        title: "Milliseconds of a decode step".into(),
        x: x(),
        y: Axis::log("ms", 10.0),
        curves: curves(|ms| ms),
    });
    report.plots.push(Plot {
        file: "curve-speed.svg",
        title: "Tokens per second".into(),
        x: x(),
        y: Axis::log("tokens/s", 10.0),
        curves: curves(|ms| 1e3 / ms),
    });
    Ok(())
}

/// Measures the time to append the keys and values of one token, without a model. Elements are f32, so that all caches
/// move the same bytes.
fn append(lab: &Lab<'_>, tokens: usize, report: &mut Report) -> Result<()> {
    let tokens = tokens.next_multiple_of(BLOCK_TOKENS);
    let geometry = KvGeometry { element: KvType::F32, ..lab.geometry(tokens)? };
    let first = BLOCK_TOKENS.ilog2();
    let at: Vec<usize> = (first..=tokens.ilog2()).map(|log| 1 << log).collect();

    const ROUNDS: usize = 5;
    let bar = bar(2 * ROUNDS + at.len(), "append");
    let concatenating = at.iter().map(|&at| concatenate(&geometry, at, &bar)).collect::<Result<Vec<_>>>()?;
    let kinds = [KvKind::Basic, KvKind::Paged];
    let ours = kinds.map(|kind| append_all(kind, &geometry, ROUNDS, &bar));
    let [basic, paged] = ours;
    let (basic, paged) = (around(&basic?, &at), around(&paged?, &at));
    bar.finish_and_clear();

    let mb = geometry.block_bytes() as f64 / BLOCK_TOKENS as f64 / 1e3;
    let columns = ["token", "concatenating us", "basic us", "paged us"];
    let title = format!("Appending one token ({mb:.1} kB, f32) to a cache that has so many");
    let mut table = Table::new(title, &columns);
    for (row, &at) in at.iter().enumerate() {
        let times = [concatenating[row], basic[row], paged[row]].map(|us| Cell::Real(us, 2));
        table.rows.push([Cell::Count(at)].into_iter().chain(times).collect());
    }
    report.tables.push(table);
    let curves = [("concatenating", concatenating), ("basic", basic), ("paged", paged)];
    let curve = |(name, times): (&str, Vec<f64>)| Curve {
        name: name.into(),
        points: at.iter().map(|&at| at as f64).zip(times).collect(),
    };
    report.plots.push(Plot {
        file: "curve-append.svg",
        title: "Microseconds to append one token".into(),
        x: Axis::log("tokens in the cache", 2.0),
        y: Axis::log("µs", 10.0),
        curves: curves.map(curve).into(),
    });
    Ok(())
}

/// Fills an empty cache block by block. Returns the microseconds per token of each block, medians of several rounds.
fn append_all(kind: KvKind, geometry: &KvGeometry, rounds: usize, bar: &ProgressBar) -> Result<Vec<f64>> {
    let row = vec![0.5; geometry.kv_width(0)];
    let blocks = geometry.blocks_per_sequence();
    let mut samples = vec![Vec::new(); blocks];
    with_cache(KvGeometry { kind, ..*geometry }, |cache| {
        let seq = cache.open()?;
        for round in 0..=rounds {
            for (block, samples) in samples.iter_mut().enumerate() {
                let ms = timed(|| {
                    let positions = block * BLOCK_TOKENS..(block + 1) * BLOCK_TOKENS;
                    positions.into_iter().try_for_each(|position| append_row(cache, seq, position, &row))
                })?;
                // The first round touches the memory.
                samples.extend((round > 0).then_some(ms * 1e3 / BLOCK_TOKENS as f64));
            }
            cache.clear(seq)?;
            bar.inc(u64::from(round > 0));
        }
        Ok(())
    })?;
    Ok(samples.iter().map(|samples| median(samples)).collect())
}

/// Appends a token as an engine does. There are no shared blocks to copy.
fn append_row(cache: &mut KvCache<'_>, seq: SeqId, position: usize, row: &[f32]) -> Result<()> {
    cache.reserve(seq, [0].into_iter())?;
    for layer in 0..cache.num_layers() {
        cache.write_row(seq, layer, position, row, row)?;
    }
    Ok(cache.commit(seq, 1)?)
}

/// Returns for each position the median over the blocks of the last quarter before it.
fn around(blocks: &[f64], at: &[usize]) -> Vec<f64> {
    let slice = |&at: &usize| {
        let end = at / BLOCK_TOKENS;
        median(&blocks[(end * 3 / 4).min(end - 1)..end])
    };
    at.iter().map(slice).collect()
}

/// The cache of many first implementations: one array per layer for K and one for V. Appending makes longer arrays.
struct Concatenating {
    layers: Vec<[Vec<f32>; 2]>,
}

impl Concatenating {
    fn append(&mut self, row: &[f32]) {
        for rows in self.layers.iter_mut().flatten() {
            *rows = [rows, row].concat();
        }
    }
}

/// Returns the microseconds to append a token to a concatenating cache, which has `tokens` tokens afterwards.
fn concatenate(geometry: &KvGeometry, tokens: usize, bar: &ProgressBar) -> Result<f64> {
    const SAMPLES: usize = 5;
    let row = vec![0.5; geometry.kv_width(0)];
    let before = vec![0.5; tokens.saturating_sub(SAMPLES) * row.len()];
    let mut cache = Concatenating { layers: vec![[before.clone(), before]; geometry.layers] };
    let samples = (0..SAMPLES)
        .map(|_| {
            timed(|| {
                cache.append(&row);
                Ok(())
            })
        })
        .collect::<Result<Vec<_>>>()?;
    bar.inc(1);
    Ok(median(&samples) * 1e3)
}
