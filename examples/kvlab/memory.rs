//! `memory`: the bytes of keys and values, measured and by the formula.

use clap::Args;
use gleed::cache::{BLOCK_TOKENS, CacheError, KvGeometry, LayerGroups};
use gleed::tensor::Dtype;
use gleed::{Engine, KvElement, KvType, Limits, Plan};

use crate::lab::{Lab, LabArgs, bar, with_cache};
use crate::report::{Cell, Report, Table};
use common::Result;
use common::plot::{Axis, Curve, Plot};

#[derive(Args)]
pub(crate) struct MemoryArgs {
    #[command(flatten)]
    pub(crate) lab: LabArgs,

    /// Memory for keys and values, in bytes or with a unit; the table shows how many tokens fit
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_size)]
    budget: usize,
}

/// Parses a number of bytes with an optional unit.
fn parse_size(text: &str) -> std::result::Result<usize, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit.trim() {
        "" | "B" => 1,
        "kB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(format!("{text:?} is no size, try 64MiB, 512kB or a number of bytes")),
    };
    let bytes = number.parse::<usize>().ok().and_then(|number| number.checked_mul(unit));
    bytes.ok_or_else(|| format!("{text:?} is no size, try 64MiB, 512kB or a number of bytes"))
}

pub(crate) fn run(lab: &Lab<'_>, args: &MemoryArgs) -> Result<Report> {
    let mut report = Report::default();
    measure(lab, &mut report)?;
    budget(lab, args.budget, &mut report)?;
    Ok(report)
}

/// Number of bytes of a scale, an f16.
const SCALE: usize = 2;

/// Returns the bytes of the keys and values of `tokens` tokens by the formula. Quantized elements have the codes of
/// GGUF's type of the same name, and a scale for each 32 elements of a head or fewer.
fn formula(lab: &Lab<'_>, element: KvType, tokens: usize) -> Option<f64> {
    let config = lab.model.config();
    let head = |element: KvElement, head_dim: usize| {
        let dtype = Dtype::ALL.into_iter().find(|dtype| dtype.name().eq_ignore_ascii_case(element.name()))?;
        let (len, scale) = (dtype.block_len(), if dtype.block_len() > 1 { SCALE } else { 0 });
        let codes = head_dim * (dtype.block_bytes() - scale);
        Some(codes as f64 / len as f64 + (head_dim.div_ceil(len) * scale) as f64)
    };
    let of_layer = |layer: usize| {
        let kv = config.layer(layer).kv;
        Some((tokens * kv.heads) as f64 * (head(element.k, kv.head_dim)? + head(element.v, kv.head_dim)?))
    };
    (0..config.layers).filter(|&layer| config.has_kv(layer)).map(of_layer).sum()
}

/// Fills a sequence, and compares the measured bytes with the formula.
fn measure(lab: &Lab<'_>, report: &mut Report) -> Result<()> {
    let context = lab.model.config().context.min(if lab.args.quick { 64 } else { 1024 });
    let mut lengths: Vec<usize> = [1, 16, 17, 100, 256, 512, 1024].into_iter().map(|n| n.min(context)).collect();
    lengths.dedup();
    let tokens = lab.tokens(context);
    let bar = bar(KvType::ALL.len() * lengths.len(), "fill");
    let columns = ["type", "tokens", "formula bytes", "measured bytes", "measured / formula", "plan bytes", "metadata"];
    let mut table = Table::new(
        format!(
            "Keys and values: formula 2 * layers * tokens * kv_heads * head_dim * bytes; plan for {context} tokens"
        ),
        &columns,
    );
    let mut curves = Vec::new();
    for element in KvType::ALL {
        let limits = Limits { kv_type: element, ..lab.limits(context) };
        let plan = Plan::new(lab.model, &limits)?;
        let bytes = |wanted: bool| -> usize {
            let sections = plan.sections().iter().filter(|section| section.name.starts_with("kv"));
            sections.filter(|section| (section.name == "kv blocks") == wanted).map(|section| section.bytes).sum()
        };
        let mut points = Vec::new();
        lab.with_engine(&limits, |engine| {
            let seq = engine.open()?;
            for &length in &lengths {
                let start = engine.seq_len(seq)?;
                engine.prefill(seq, &tokens[start..length])?;
                let (used, formula) = (used_bytes(engine), formula(lab, element, length));
                let ratio = formula.map_or(Cell::Nothing, |formula| Cell::Real(used as f64 / formula, 3));
                table.rows.push(vec![
                    Cell::Text(element.to_string()),
                    Cell::Count(length),
                    formula.map_or(Cell::Nothing, |formula| Cell::Real(formula, 0)),
                    Cell::Count(used),
                    ratio,
                    Cell::Count(bytes(true)),
                    Cell::Count(bytes(false)),
                ]);
                points.push((length as f64, used as f64 / 1e6));
                bar.inc(1);
            }
            Ok(())
        })?;
        curves.push(Curve { name: element.to_string(), points });
    }
    bar.finish_and_clear();
    report.tables.push(table);
    report.plots.push(Plot {
        file: "memory.svg",
        title: "Megabytes of keys and values".into(),
        x: Axis::linear("tokens"),
        y: Axis::linear("MB"),
        curves,
    });
    Ok(())
}

/// Returns the bytes of the blocks that a sequence or a pin holds.
pub(crate) fn used_bytes(engine: &Engine<'_, '_>) -> usize {
    engine.stats().pools.iter().map(|pool| pool.used * pool.block_bytes).sum()
}

/// Compares how many tokens fit by the formula and in a pool that is filled until it refuses.
fn budget(lab: &Lab<'_>, budget: usize, report: &mut Report) -> Result<()> {
    let title = format!("One sequence in {budget} bytes of keys and values");
    let mut table = Table::new(title, &["type", "formula tokens", "pool tokens", "pool bytes", "bytes per token"]);
    for element in KvType::ALL {
        // With one layer group there is one pool, which is full when the sequence is.
        let geometry = KvGeometry { element, groups: LayerGroups::ONE, ..lab.geometry(BLOCK_TOKENS)? };
        let block = with_cache(geometry, |cache| Ok(cache.stats().pools[0].block_bytes))?;
        let blocks = budget / block.max(1);
        // The block table has room for one more block than the pool has, so the pool refuses first.
        let geometry = KvGeometry { context: (blocks + 1) * BLOCK_TOKENS, blocks, ..geometry };
        let tokens = with_cache(geometry, |cache| {
            let seq = cache.open()?;
            let mut tokens = 0;
            loop {
                match cache.reserve(seq, [0; BLOCK_TOKENS].into_iter()) {
                    Ok(()) => cache.commit(seq, BLOCK_TOKENS)?,
                    Err(CacheError::OutOfBlocks { .. }) => return Ok(tokens),
                    Err(error) => return Err(error.into()),
                }
                tokens += BLOCK_TOKENS;
            }
        })?;
        let per_token = formula(lab, element, 1);
        table.rows.push(vec![
            Cell::Text(element.to_string()),
            per_token.map_or(Cell::Nothing, |bytes| Cell::Count((budget as f64 / bytes) as usize)),
            Cell::Count(tokens),
            Cell::Count(blocks * block),
            Cell::Real(block as f64 / BLOCK_TOKENS as f64, 1),
        ]);
    }
    report.tables.push(table);
    Ok(())
}
