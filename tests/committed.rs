//! A clone without `../shared` tests every architecture: with numbers of transformers if their files fit into the
//! repository, otherwise with synthetic models against the f64 reference of these tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use common::committed;
use common::fixtures::parse_json;
use common::synthetic::Architecture;
use gguf_rs_lite::Gguf;

/// Architectures without numbers of transformers in `tests/data`. `tests/architectures.rs`, or `tests/encoders.rs` for
/// encoders, compares synthetic models of them with the reference. One that gets a file must leave this list.
const MADE: [&str; 7] =
    ["bailingmoe2", "eurobert", "jina-bert-v2", "llama-embed", "neo-bert", "nomic-bert-moe", "spark2_5"];

/// Returns the names of this library's architectures, from the features of the rows in `src/model/arch/mod.rs`.
fn architectures() -> BTreeSet<String> {
    let source = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/model/arch/mod.rs")).unwrap();
    let rows = source.split("const ARCHITECTURES").nth(1).unwrap();
    let names: BTreeSet<String> =
        rows.split("feature = \"arch-").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()).collect();
    // This search would miss a row without a feature, so the rows are counted, too.
    let rows = rows.lines().filter(|line| line.starts_with("    ") && line.trim_end().ends_with(',')).count();
    assert_eq!(names.len(), rows);
    names
}

/// Returns the name of the architecture that a Hugging Face folder becomes.
fn of_folder(name: &str) -> &str {
    match name {
        "mistral" | "mixtral" => "llama",
        "olmo3" => "olmo2",
        "stablelm-12b" => "stablelm",
        other => other,
    }
}

/// Returns the files with numbers of transformers, by architecture.
fn golden() -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for folder in ["parity", "more", "newer", "encoders"] {
        for file in std::fs::read_dir(committed(folder)).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "gguf") && path.with_extension("json").is_file() {
                let bytes = std::fs::read(&path).unwrap();
                let gguf = Gguf::parse(&bytes).unwrap();
                let name = gguf.get("general.architecture").and_then(|value| value.as_str()).unwrap().to_owned();
                let file = path.file_name().unwrap().to_str().unwrap();
                found.entry(name).or_default().push(format!("{folder}/{file}"));
            }
        }
    }
    for folder in ["hf", "families"] {
        let expected = parse_json(&std::fs::read(committed(folder).join("expected.json")).unwrap());
        for name in expected.as_object().unwrap().keys() {
            let mut files = std::fs::read_dir(committed(folder).join(name)).unwrap().map(|file| file.unwrap().path());
            assert!(files.any(|path| path.extension().is_some_and(|extension| extension == "safetensors")), "{name}");
            found.entry(of_folder(name).to_owned()).or_default().push(format!("{folder}/{name}"));
        }
    }
    found.values_mut().for_each(|files| files.sort());
    found
}

#[test]
fn every_architecture_is_tested_by_what_is_committed() {
    let (all, golden) = (architectures(), golden());
    let made: BTreeSet<String> = MADE.iter().map(|name| (*name).to_owned()).collect();
    for name in &all {
        match golden.get(name) {
            Some(files) => println!("{name}: {}", files.join(", ")),
            None if made.contains(name) => println!("{name}: made models against the f64 reference"),
            None => println!("{name}: nothing"),
        }
    }
    let with_files: BTreeSet<String> = golden.into_keys().collect();
    assert_eq!(with_files.difference(&all).collect::<Vec<_>>(), [""; 0], "files of no architecture");
    let missing: Vec<_> = all.iter().filter(|name| !with_files.contains(*name) && !made.contains(*name)).collect();
    assert_eq!(missing, [""; 0], "architectures that nothing committed tests");
    let done: Vec<_> = made.iter().filter(|name| with_files.contains(*name) || !all.contains(*name)).collect();
    assert_eq!(done, [""; 0], "MADE has names that it should not have");
}

/// Each architecture of [`MADE`] has a synthetic model in the tests.
#[test]
fn made_models_are_there() {
    let decoders: BTreeSet<&str> = Architecture::ALL.into_iter().map(|architecture| architecture.name()).collect();
    let encoders = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/encoders.rs")).unwrap();
    for name in MADE {
        let is_made = decoders.contains(name) || encoders.contains(&format!("(\"{name}\""));
        assert!(is_made, "no made model of {name}");
    }
}
