//! `break`: shows what a damaged cache does to a text.
//!
//! The keys and values of a prompt are taken out of the cache, damaged, and set into another sequence. Both sequences
//! then continue with the same tokens, which gives the error of the logits. Then each continues with its own tokens,
//! which gives its text.

use clap::Args;
use gleed::cache::KvShape;
use gleed::host::AlignedBytes;
use gleed::sample::argmax;
use gleed::token::Tokenizer;
use gleed::{Engine, Limits, SeqId};

use crate::lab::{Lab, LabArgs, bar, median};
use crate::report::{Cell, Report, Table};
use common::plot::{Axis, Curve, Plot};
use common::random::Random;
use common::score::STORY;
use common::{Result, limit, text};

/// Default layer of the damaged key.
const LAYER: usize = 3;

/// Default position of the damaged key in the text.
const POSITION: usize = 57;

#[derive(Args)]
pub(crate) struct BreakArgs {
    #[command(flatten)]
    pub(crate) lab: LabArgs,

    /// Text whose cache is damaged [default: the first three paragraphs of a story that is part of this program]
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,

    /// Number of tokens to generate after the text
    #[arg(short, value_name = "N", default_value_t = 64, value_parser = limit::within::<u16>(1, u16::MAX.into()))]
    n: u16,

    /// Layer of the damaged key, from 0 [default: 3, or the last one]
    #[arg(long, value_name = "L")]
    layer: Option<usize>,

    /// KV head of the damaged key, from 0
    #[arg(long, value_name = "H", default_value_t = 0)]
    head: usize,

    /// Position of the damaged key in the text, in tokens, from 0 [default: 57, or the last one]
    #[arg(long, value_name = "P")]
    position: Option<usize>,

    /// Seed of the random key
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,

    /// Factor that the key is multiplied by, beside the random one
    #[arg(long, value_name = "X", default_value_t = -4.0, allow_negative_numbers = true)]
    factor: f32,
}

/// The damaged key, and the parameters of the damage.
#[derive(Clone, Copy)]
struct Target {
    layer: usize,
    head: usize,
    position: usize,
    factor: f32,
    seed: u64,
}

/// Keys and values of each layer, packed `[tokens, kv_width]`.
type Cached = Vec<[Vec<f32>; 2]>;

/// The kinds of damage, by name.
const DAMAGES: [(&str, Damage); 5] = [
    ("set back unchanged", |_, _, _| {}),
    ("one key random", randomize),
    ("one key multiplied", multiply),
    ("slot + 1", shift_all),
    ("slot + 1 for keys", shift_keys),
];

/// A function that damages the rows of a cache, given the shape of each layer's rows.
type Damage = fn(&mut Cached, &[KvShape], &Target);

/// A continuation.
struct Told {
    name: &'static str,
    ids: Vec<u32>,
    /// Largest difference of a logit at each step, when the tokens of the intact text are fed.
    errors: Vec<f32>,
}

pub(crate) fn run(lab: &Lab<'_>, args: &BreakArgs) -> Result<Report> {
    let mut tables = AlignedBytes::new(Tokenizer::plan(lab.model.gguf()).unwrap_or(0));
    let tokenizer = Tokenizer::new(lab.model.gguf(), tables.bytes()).map_err(|error| lab.file.error(error))?;
    let prompt = text::encode_prompt(&tokenizer, args.prompt.as_deref().unwrap_or(beginning()))?;
    let target = target(lab, args, prompt.len())?;
    let n = if lab.args.quick { args.n.min(12) } else { args.n } as usize;

    let limits = Limits { sequences: 2, ..lab.limits(prompt.len() + n) };
    let (intact, broken) = lab.with_engine(&limits, |engine| tell_all(engine, &prompt, n, &target))?;

    let mut report = Report::default();
    report.tables.push(table(&intact, &broken, &target, prompt.len()));
    let curve = |told: &Told| Curve {
        name: told.name.into(),
        points: told.errors.iter().enumerate().map(|(step, &error)| ((step + 1) as f64, f64::from(error))).collect(),
    };
    report.plots.push(Plot {
        file: "break.svg",
        title: "Largest error of a logit, fed the tokens of the intact text".into(),
        x: Axis::linear("step"),
        y: Axis::log("error", 10.0),
        curves: broken[1..].iter().map(curve).collect(),
    });
    // The control, `broken[0]`, has the same text as the intact sequence.
    let texts = [("intact", &intact)].into_iter().chain(broken[1..].iter().map(|told| (told.name, &told.ids)));
    let texts: Vec<_> = texts.map(|(name, ids)| (name, text_of(&tokenizer, ids))).collect();
    report.texts.push(("How each of them goes on by itself", side_by_side(&texts)));
    Ok(report)
}

/// Returns the first three paragraphs of the built-in story.
fn beginning() -> &'static str {
    STORY.match_indices("\n\n").nth(2).and_then(|(end, _)| STORY.get(..end)).unwrap_or(STORY)
}

/// Returns the key that the flags name. The default is layer 3, head 0, position 57, or the last ones that the model
/// and the text have.
fn target(lab: &Lab<'_>, args: &BreakArgs, prompt: usize) -> Result<Target> {
    let config = lab.model.config();
    let room = config.context.saturating_sub(usize::from(args.n));
    if prompt < 2 || prompt > room {
        return Err(format!("the prompt has {prompt} tokens, it must be 2 to {room}").into());
    }
    let layers = config.kv_layers();
    let layer = args.layer.unwrap_or(LAYER.min(layers.saturating_sub(1)));
    let position = args.position.unwrap_or(POSITION.min(prompt - 1));
    let bounds = [
        ("--layer", layer, layers),
        ("--head", args.head, config.layer(layer).kv.heads),
        ("--position", position, prompt),
    ];
    bounds.into_iter().try_for_each(|(name, given, count)| limit::check(name, given, 0, count.saturating_sub(1)))?;
    Ok(Target { layer, head: args.head, position, factor: args.factor, seed: args.seed })
}

fn tell_all(engine: &mut Engine<'_, '_>, prompt: &[u32], n: usize, target: &Target) -> Result<(Vec<u32>, Vec<Told>)> {
    let config = *engine.model().config();
    let seq = engine.open()?;
    let first = argmax(engine.prefill(seq, prompt)?)?;
    let shapes: Vec<KvShape> =
        (0..config.layers).filter(|&layer| config.has_kv(layer)).map(|layer| config.layer(layer).kv).collect();
    let rows = |shape: &KvShape| vec![0.0; prompt.len() * shape.width()];
    let mut cached: Cached = shapes.iter().map(|shape| [rows(shape), rows(shape)]).collect();
    for (layer, [k, v]) in cached.iter_mut().enumerate() {
        engine.cache().materialize(seq, layer, k, v)?;
    }
    let mut logits: Vec<Vec<f32>> = Vec::new();
    let ids = go_on(engine, seq, first, n, |row| logits.push(row.to_vec()))?;

    let bar = bar(DAMAGES.len(), "break");
    let mut broken = Vec::new();
    for (name, damage) in DAMAGES {
        let mut cached = cached.clone();
        damage(&mut cached, &shapes, target);
        let seq = engine.open()?;
        let cache = engine.cache_mut()?;
        for (layer, [k, v]) in cached.iter().enumerate() {
            cache.set_prefill(seq, layer, k, v)?;
        }
        let mut errors = Vec::new();
        for (&id, intact) in ids.iter().zip(&logits) {
            let row = engine.decode_step(seq, id)?;
            errors.push(row.iter().zip(intact).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max));
        }
        engine.rewind(seq, prompt.len())?;
        broken.push(Told { name, ids: go_on(engine, seq, first, n, |_| {})?, errors });
        engine.close(seq)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok((ids, broken))
}

/// Returns `n` tokens, the most probable one at each step. The first one is known from the prompt.
fn go_on(
    engine: &mut Engine<'_, '_>,
    seq: SeqId,
    first: u32,
    n: usize,
    mut on_row: impl FnMut(&[f32]),
) -> Result<Vec<u32>> {
    let mut ids = vec![first];
    loop {
        let row = engine.decode_step(seq, ids[ids.len() - 1])?;
        on_row(row);
        if ids.len() == n {
            return Ok(ids);
        }
        ids.push(argmax(row)?);
    }
}

/// Returns the elements of the damaged key.
fn key<'c>(cached: &'c mut Cached, shapes: &[KvShape], target: &Target) -> &'c mut [f32] {
    let ([k, _], shape) = (&mut cached[target.layer], shapes[target.layer]);
    let start = target.position * shape.width() + target.head * shape.head_dim;
    &mut k[start..][..shape.head_dim]
}

/// Replaces the key with one of the same length in a random direction.
fn randomize(cached: &mut Cached, shapes: &[KvShape], target: &Target) {
    let key = key(cached, shapes, target);
    let length = |key: &[f32]| key.iter().map(|x| x * x).sum::<f32>().sqrt();
    let (before, mut random) = (length(key), Random::new(target.seed));
    key.fill_with(|| (0..6).map(|_| random.unit() - 0.5).sum());
    let factor = before / length(key).max(f32::MIN_POSITIVE);
    key.iter_mut().for_each(|x| *x *= factor);
}

fn multiply(cached: &mut Cached, shapes: &[KvShape], target: &Target) {
    key(cached, shapes, target).iter_mut().for_each(|x| *x *= target.factor);
}

/// Moves every row one slot too far. Slot 0 stays empty, and the last row is lost.
fn shift_all(cached: &mut Cached, shapes: &[KvShape], _: &Target) {
    for ([k, v], shape) in cached.iter_mut().zip(shapes) {
        shift(k, shape.width());
        shift(v, shape.width());
    }
}

/// Moves only the keys one slot too far, so that each value belongs to another token's key.
fn shift_keys(cached: &mut Cached, shapes: &[KvShape], _: &Target) {
    cached.iter_mut().zip(shapes).for_each(|([k, _], shape)| shift(k, shape.width()));
}

fn shift(rows: &mut [f32], width: usize) {
    rows.rotate_right(width);
    rows[..width].fill(0.0);
}

fn table(intact: &[u32], broken: &[Told], target: &Target, prompt: usize) -> Table {
    let Target { layer, head, position, factor, seed } = target;
    let title = format!(
        "{prompt} tokens of prompt, {} after it; the damaged key: layer {layer}, head {head}, position {position}, \
         random with seed {seed}, or times {factor}",
        intact.len(),
    );
    let columns = ["", "first other token", "error at step 1", "median error", "largest error", "at step"];
    let mut table = Table::new(title, &columns);
    for Told { name, ids, errors } in broken {
        let all: Vec<f64> = errors.iter().map(|&error| f64::from(error)).collect();
        let (step, largest) = errors
            .iter()
            .enumerate()
            .fold((0, 0.0), |most, (step, &error)| if error > most.1 { (step + 1, error) } else { most });
        table.rows.push(vec![
            Cell::Text((*name).into()),
            ids.iter().zip(intact).position(|(a, b)| a != b).map_or(Cell::Nothing, |index| Cell::Count(index + 1)),
            Cell::Real(f64::from(errors[0]), 4),
            Cell::Real(median(&all), 4),
            Cell::Real(f64::from(largest), 4),
            if step > 0 { Cell::Count(step) } else { Cell::Nothing },
        ]);
    }
    table
}

/// Returns the text of tokens, up to the token with which the model ends it.
fn text_of(tokenizer: &Tokenizer<'_, '_>, ids: &[u32]) -> String {
    let mut stream = text::Stream::new(tokenizer);
    let ids = ids.iter().take_while(|&&id| !tokenizer.is_end(id));
    let mut text: String = ids.map(|&id| stream.push(id).to_owned()).collect();
    text.push_str(stream.finish());
    text
}

/// Returns lines that show texts in columns.
fn side_by_side(texts: &[(&str, String)]) -> Vec<String> {
    const WIDTH: usize = 28;
    let columns: Vec<Vec<String>> = texts.iter().map(|(name, text)| wrap(name, text, WIDTH)).collect();
    let lines = columns.iter().map(Vec::len).max().unwrap_or(0);
    let cell = |column: &Vec<String>, line| format!("{:WIDTH$}", column.get(line).map_or("", String::as_str));
    let line = |line| columns.iter().map(|column| cell(column, line)).collect::<Vec<_>>().join(" | ").trim_end().into();
    (0..lines).map(line).collect()
}

/// Splits a text into lines of at most `width` characters, with the name first.
fn wrap(name: &str, text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![name.into(), "-".repeat(width), String::new()];
    for word in text.split_whitespace() {
        let chars: Vec<char> = word.chars().collect();
        for part in chars.chunks(width) {
            let last = lines.last_mut().expect("there are three lines from the start");
            let blank = usize::from(!last.is_empty());
            if last.chars().count() + blank + part.len() <= width {
                last.extend(std::iter::repeat_n(' ', blank).chain(part.iter().copied()));
            } else {
                lines.push(part.iter().collect());
            }
        }
    }
    lines
}
