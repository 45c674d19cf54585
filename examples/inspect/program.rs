//! The program of a model as a table.

use std::io::{self, Write};

use gleed::program::{Part, StepInfo};
use gleed::{Model, Plan};

use common::Result;

/// The layers of one kind, with the steps of the first layer.
struct Kind {
    name: String,
    layers: Vec<usize>,
    steps: Vec<StepInfo>,
}

/// Prints the operations of every kind of layer, in the order in which they run.
pub(crate) fn print(out: &mut impl Write, model: &Model<'_>, plan: &Plan) -> Result<()> {
    let kinds = kinds(model, plan)?;
    let config = model.config();
    writeln!(out, "Program of {}, {} layers", config.architecture, config.layers)?;
    writeln!(out, "Units are those of one token with the whole context ({} tokens) before it.", plan.limits().context)?;
    writeln!(
        out,
        "Rows: from the last layer on that keeps something, \"finished\" are only rows whose hidden state is wanted.\n"
    )?;
    let width = kinds.iter().flat_map(|kind| &kind.steps).map(|step| step.operation.len()).max().unwrap_or(0);
    for kind in &kinds {
        writeln!(out, "{}", heading(model, kind))?;
        for step in &kind.steps {
            line(out, model, step, width)?;
        }
        writeln!(out)?;
    }
    Ok(writeln!(out, "{} units in all", plan.units_per_token())?)
}

fn kinds(model: &Model<'_>, plan: &Plan) -> Result<Vec<Kind>> {
    let mut kinds: Vec<Kind> = Vec::new();
    plan.for_each_step(model, &mut |step| {
        let (name, layer) = match step.part {
            Part::Begin => ("Before the layers".to_owned(), 0),
            Part::Layer(layer) => (format!("Kind \"{}\"", step.kind), layer),
            Part::End => ("After the layers".to_owned(), 0),
        };
        if !kinds.iter().any(|kind| kind.name == name) {
            kinds.push(Kind { name: name.clone(), layers: Vec::new(), steps: Vec::new() });
        }
        let Some(kind) = kinds.iter_mut().find(|kind| kind.name == name) else { return };
        if kind.layers.last() != Some(&layer) {
            kind.layers.push(layer);
        }
        if kind.layers.len() == 1 {
            kind.steps.push(step.clone());
        }
    })?;
    Ok(kinds)
}

/// Returns the kind, its layers, and its differences from other kinds besides the operations.
fn heading(model: &Model<'_>, kind: &Kind) -> String {
    let config = model.config();
    let Some(Part::Layer(first)) = kind.steps.first().map(|step| step.part) else { return kind.name.clone() };
    let window = config.windows[config.layer_groups.place(first).0];
    let window = if window > 0 { format!(", window {window}") } else { String::new() };
    let rotary = match config.rope.frequencies[config.rope.groups.place(first).0] {
        Some(frequencies) => format!(", rotary base {}", frequencies.base),
        None => String::new(),
    };
    format!(
        "{}: {} of {} layers ({}){window}{rotary}",
        kind.name,
        kind.layers.len(),
        config.layers,
        ranges(&kind.layers)
    )
}

/// Returns increasing numbers as a text, with consecutive ones as a range.
fn ranges(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b);
    let texts = runs.map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        _ => run.iter().map(usize::to_string).collect(),
    });
    texts.collect::<Vec<_>>().join(", ")
}

fn line(out: &mut impl Write, model: &Model<'_>, step: &StepInfo, width: usize) -> io::Result<()> {
    let tensors = step.tensors.iter().filter_map(|name| {
        let name_in_file = match step.part {
            Part::Layer(layer) => format!("blk.{layer}.{name}"),
            Part::Begin | Part::End => (*name).to_owned(),
        };
        let tensor = model.tensor(&name_in_file)?;
        let dims: Vec<String> = tensor.dims().iter().rev().map(u64::to_string).collect();
        Some(format!("{} {}[{}]", name.trim_end_matches(".weight"), tensor.ggml_type().name(), dims.join(", ")))
    });
    let mut tensors: Vec<String> = tensors.collect();
    if tensors.is_empty() && step.tensors.contains(&"output.weight") {
        tensors.push("token_embd (tied)".to_owned());
    }
    let rows = step.rows.name();
    let text = format!("  {:width$}  {rows:8}  {:>6}  {}", step.operation, step.units, tensors.join("  "));
    writeln!(out, "{}", text.trim_end())
}
