//! The sources of the kernels: WGSL files that include others.

use gleed::num::Xxh64;

/// The files that may compute with floats. All other files call these.
pub const LIBRARY: &[&str] = &["num.wgsl", "halves.wgsl", "native_halves.wgsl"];

/// The entry of `given` with which [`composed`] makes sources for devices that convert f16 themselves.
pub const NATIVE_HALVES: (&str, &str) = ("halves.wgsl", "native_halves.wgsl");

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        /// All files, by name.
        const FILES: &[(&str, &str)] = &[$(($name, include_str!(concat!("wgsl/", $name)))),*];
    };
}

files!(
    "activations.wgsl",
    "attend.wgsl",
    "attend_many.wgsl",
    "attention.wgsl",
    "best.wgsl",
    "bf16.wgsl",
    "blocks.wgsl",
    "bytes.wgsl",
    "choose.wgsl",
    "chunk.wgsl",
    "coded.wgsl",
    "convolve.wgsl",
    "dot.wgsl",
    "draw.wgsl",
    "embed.wgsl",
    "f16.wgsl",
    "f32.wgsl",
    "floats.wgsl",
    "group_norm.wgsl",
    "groups.wgsl",
    "halves.wgsl",
    "heads.wgsl",
    "input.wgsl",
    "keys.wgsl",
    "kv.wgsl",
    "lanes_16.wgsl",
    "lanes_64.wgsl",
    "linear.wgsl",
    "mxfp4.wgsl",
    "native_halves.wgsl",
    "next.wgsl",
    "num.wgsl",
    "outputs.wgsl",
    "probe.wgsl",
    "products.wgsl",
    "q4_0.wgsl",
    "q4_k.wgsl",
    "q6_k.wgsl",
    "q8.wgsl",
    "q8_0.wgsl",
    "quantize.wgsl",
    "queries_16.wgsl",
    "queries_4.wgsl",
    "queries_8.wgsl",
    "raw.wgsl",
    "route.wgsl",
    "store.wgsl",
    "store_many.wgsl",
    "sums.wgsl",
    "tile.wgsl",
    "tree.wgsl",
    "update.wgsl",
    "vector.wgsl",
    "wide.wgsl",
);

/// Returns the source of a kernel with all files that it includes, each file once. A line `//!include NAME` includes a
/// file. `given` replaces names, as in `//!include FORMAT`, by those of files. A name that is replaced by nothing is
/// left out. Returns `None` where a file is missing.
pub fn composed(name: &str, given: &[(&str, &str)]) -> Option<String> {
    let (mut out, mut seen) = (String::new(), Vec::new());
    append(name, given, &mut seen, &mut out)?;
    Some(out)
}

fn append(name: &str, given: &[(&str, &str)], seen: &mut Vec<String>, out: &mut String) -> Option<()> {
    if seen.iter().any(|seen| seen == name) {
        return Some(());
    }
    seen.push(name.to_owned());
    let (_, text) = FILES.iter().find(|(file, _)| *file == name)?;
    for line in text.lines() {
        match line.strip_prefix("//!include ") {
            Some(included) => {
                let file = given.iter().find(|(from, _)| *from == included).map_or(included, |(_, to)| to);
                if !file.is_empty() {
                    append(file, given, seen, out)?;
                }
            }
            None => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    Some(())
}

/// Returns the hash of all sources. A result of the self-test holds for these sources only.
pub fn hash() -> u64 {
    let mut hash = Xxh64::new();
    for (name, text) in FILES {
        hash.update(name.as_bytes());
        hash.update(text.as_bytes());
    }
    hash.finish()
}

/// How a kernel accesses a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    /// The kernel reads the buffer.
    Read,
    /// The kernel writes the buffer, too.
    Write,
}

/// Returns how a kernel accesses its buffers, in the order of their binding numbers.
pub(crate) fn bindings(source: &str) -> Vec<Binding> {
    let mut found: Vec<(usize, Binding)> = source
        .lines()
        .filter_map(|line| line.strip_prefix("@group(0) @binding(")?.split_once(')'))
        .filter_map(|(number, rest)| Some((number.parse().ok()?, binding(rest))))
        .collect();
    found.sort_unstable_by_key(|(number, _)| *number);
    found.into_iter().map(|(_, binding)| binding).collect()
}

fn binding(declaration: &str) -> Binding {
    if declaration.contains("read_write") { Binding::Write } else { Binding::Read }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_included_once() {
        let given = |format| [("FORMAT", format), ("LANES", "lanes_16.wgsl"), ("INPUT", "raw.wgsl")];
        let source = composed("vector.wgsl", &given("q8_0.wgsl")).unwrap();
        assert_eq!(source.matches("fn keep(").count(), 1);
        assert_eq!(source.matches("const SUBS = 1u;").count(), 1);
        assert!(!source.contains("//!include"));
        assert_eq!(composed("vector.wgsl", &given("q9.wgsl")), None);
        use Binding::{Read, Write};
        assert_eq!(bindings(&source), [Read, Read, Read, Write, Read, Write, Read, Write]);
    }
}
