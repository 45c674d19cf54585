//! Compares Gleed's grammars with llguidance's: compilation, masks and tokens of real schemas, in one process, in turn.

mod clock;
mod heap;
mod ours;
mod set;
mod theirs;

use std::error::Error;
use std::path::PathBuf;

use clap::Parser;
use gguf_rs_lite::Gguf;
use gleed::grammar::Vocabulary;
use gleed::host::AlignedBytes;
use gleed::token::{EncodeOptions, Tokenizer};

use set::Case;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Compares Gleed's grammars with llguidance's on a set of JSON Schemas and instances
#[derive(Parser)]
struct Args {
    /// Schemas with instances, one in a line: {"name": …, "schema": …, "tests": [{"valid": true, "data": …}, …]}
    schemas: PathBuf,

    /// GGUF file whose vocabulary is used
    #[arg(long, value_name = "FILE")]
    model: PathBuf,

    /// Takes one schema of every N
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,

    /// Valid instances of each schema
    #[arg(long, value_name = "N", default_value_t = 2)]
    instances: usize,

    /// Only the schema of this name
    #[arg(long)]
    name: Option<String>,

    /// Prints the slowest masks of both with their positions, and the schemas whose masks take longest
    #[arg(long)]
    slowest: bool,
}

/// Measurements of one of the two libraries: microseconds of the thread's processor time, and bytes.
#[derive(Default)]
pub(crate) struct Times {
    compile: Vec<f64>,
    /// The time of each mask, and where the mask was computed.
    masks: Vec<(f64, String)>,
    tokens: Vec<f64>,
    bytes: Vec<f64>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let named = |path: &PathBuf, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let file = std::fs::read(&args.model).map_err(|error| named(&args.model, &error))?;
    let gguf = Gguf::parse(&file).map_err(|error| named(&args.model, &error))?;
    let mut tables = AlignedBytes::new(Tokenizer::plan(&gguf).map_err(|error| named(&args.model, &error))?);
    let tokenizer = Tokenizer::new(&gguf, tables.bytes())?;
    let text = std::fs::read_to_string(&args.schemas).map_err(|error| named(&args.schemas, &error))?;
    let mut cases = set::read(&text, args.every as usize, args.instances)?;
    cases.retain(|case| args.name.as_ref().is_none_or(|name| *name == case.name));
    if cases.is_empty() {
        return Err("no schema is left".into());
    }

    let mut theirs = theirs::Engine::new(&tokenizer)?;
    let mut memory = AlignedBytes::new(0);
    let (trie, once) = ours::trie(&tokenizer, &mut memory)?;
    let (mut a, mut b, mut left_out) = (Times::default(), Times::default(), Vec::new());
    for case in &cases {
        let walks = tokens(&tokenizer, case)?;
        // Only schemas that both libraries understand can be compared.
        let (mut ours, mut other) = (Times::default(), Times::default());
        let found =
            ours::run(&tokenizer, &trie, case, &walks, &mut ours).and_then(|_| theirs.run(case, &walks, &mut other));
        match found {
            Ok(()) => {
                a.add(ours);
                b.add(other);
            }
            Err(error) => left_out.push(format!("{}: {error}", case.name)),
        }
    }
    println!("{} schemas, {} masks, {} tokens in the vocabulary", a.compile.len(), a.masks.len(), tokenizer.tokens());
    println!("{} schemas are left out:", left_out.len());
    left_out.iter().for_each(|name| println!("  {name}"));
    report("compile, µs", &a.compile, &b.compile);
    report("mask, µs", &a.mask_times(), &b.mask_times());
    report("token, µs", &a.tokens, &b.tokens);
    report("grammar and state, bytes", &a.bytes, &b.bytes);
    for (name, (bytes, us)) in [("Gleed", once), ("llguidance", theirs.once)] {
        println!("{name}: tables of the vocabulary {:.2} MB, {:.1} ms", bytes as f64 / 1e6, us / 1e3);
    }
    if args.slowest {
        for (name, times) in [("Gleed", &mut a), ("llguidance", &mut b)] {
            times.masks.sort_by(|(a, _), (b, _)| b.total_cmp(a));
            times.masks.iter().take(20).for_each(|(us, place)| println!("{name}: {us:.0} µs {place}"));
            times.sums().iter().take(20).for_each(|(us, count, schema)| {
                println!("{name}: {us:.0} µs in {count} masks of {schema}");
            });
        }
    }
    Ok(())
}

impl Times {
    fn add(&mut self, other: Self) {
        self.compile.extend(other.compile);
        self.masks.extend(other.masks);
        self.tokens.extend(other.tokens);
        self.bytes.extend(other.bytes);
    }

    /// Returns for each schema the time and the number of its masks, the longest time first.
    fn sums(&self) -> Vec<(f64, usize, &str)> {
        let mut sums = std::collections::BTreeMap::new();
        for (us, place) in &self.masks {
            let schema = place.split(' ').next().unwrap_or_default();
            let (sum, count) = sums.entry(schema).or_insert((0.0, 0));
            (*sum, *count) = (*sum + us, *count + 1);
        }
        let mut sums: Vec<_> = sums.into_iter().map(|(schema, (us, count))| (us, count, schema)).collect();
        sums.sort_by(|(a, ..), (b, ..)| b.total_cmp(a));
        sums
    }

    fn mask_times(&self) -> Vec<f64> {
        self.masks.iter().map(|(us, _)| *us).collect()
    }
}

/// Returns the instances as tokens.
fn tokens(tokenizer: &Tokenizer<'_, '_>, case: &Case) -> Result<Vec<Vec<u32>>> {
    let options = EncodeOptions { add_special: false, parse_special: false, ..EncodeOptions::default() };
    let walk = |text: &String| {
        let mut scratch = vec![0; tokenizer.scratch_len(text.len())];
        let mut ids = vec![0; text.len() + 8];
        let encoded = tokenizer.encode(text, options, &mut scratch, &mut ids)?;
        ids.truncate(encoded.ids);
        Ok(ids)
    };
    case.texts.iter().map(walk).collect()
}

/// Prints the mean, median, 99th percentile and maximum of both, and the ratios.
fn report(what: &str, ours: &[f64], theirs: &[f64]) {
    let [a, b] = [ours, theirs].map(|values| {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| sorted.get(((sorted.len() as f64 - 1.0) * share) as usize).copied().unwrap_or(0.0);
        [values.iter().sum::<f64>() / values.len().max(1) as f64, at(0.5), at(0.99), at(1.0)]
    });
    println!("{what}: mean, median, 99 %, largest");
    for (name, row) in [("Gleed", a), ("llguidance", b)] {
        println!("  {name:10} {}", row.map(|x| format!("{x:>12.1}")).join(""));
    }
    let ratio: Vec<String> = a.iter().zip(b).map(|(a, b)| format!("{:>12.2}", a / b)).collect();
    println!("  {:10} {}", "ratio", ratio.join(""));
}
