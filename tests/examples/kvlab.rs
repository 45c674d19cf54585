//! `kvlab`: reports, tables and plots.

use gleed::KvType;

use crate::{run, scratch};
use common::fixtures::parse_json;

#[test]
fn kvlab_curve() {
    let report = kvlab("curve", &["curve-forward.svg", "curve-speed.svg", "curve-append.svg"], &[]);
    assert_eq!(column(&report, 0, "prompt"), [Some(32.0), Some(64.0)]);
    assert_eq!(column(&report, 1, "token").last(), Some(&Some(256.0)));
    for (table, name) in [(0, "off ms"), (0, "basic ms"), (0, "paged tok/s"), (1, "concatenating us"), (1, "paged us")]
    {
        assert!(column(&report, table, name).iter().all(|value| value.unwrap() > 0.0), "{name}");
    }
}

#[test]
fn kvlab_memory() {
    let report = kvlab("memory", &["memory.svg"], &["--budget", "1MiB"]);
    let measured = column(&report, 0, "measured bytes");
    assert_eq!(measured.len(), KvType::ALL.len() * 4);
    // Measured sizes are whole blocks, exactly as the formula says.
    for (tokens, ratio) in column(&report, 0, "tokens").iter().zip(column(&report, 0, "measured / formula")) {
        let whole = (tokens.unwrap() / 16.0).ceil() * 16.0 / tokens.unwrap();
        assert!((ratio.unwrap() - whole).abs() < 1e-9, "{tokens:?}: {ratio:?}");
    }
    for (formula, pool) in column(&report, 1, "formula tokens").iter().zip(column(&report, 1, "pool tokens")) {
        assert!((0.0..16.0).contains(&(formula.unwrap() - pool.unwrap())), "{formula:?} {pool:?}");
    }
}

#[test]
fn kvlab_break() {
    let report = kvlab("break", &["break.svg"], &["--layer", "1", "--head", "2", "--threads", "2"]);
    let largest = column(&report, 0, "largest error");
    assert_eq!((largest[0], column(&report, 0, "first other token")[0]), (Some(0.0), None));
    assert!(largest.len() == 5 && largest[1..].iter().all(|error| error.unwrap() > 1e-3), "{largest:?}");
}

/// Without flags: a text of at least 100 tokens, and the key of layer 3, head 0, position 57.
#[test]
fn kvlab_break_by_default() {
    let report = kvlab_in("break", "break-default", &["break.svg"], &[]);
    let title = report["tables"][0]["title"].as_str().unwrap();
    assert!(title.contains("layer 3, head 0, position 57, random with seed 0, or times -4"), "{title}");
    let prompt: usize = title.split_once(' ').unwrap().0.parse().unwrap();
    assert!(prompt >= 100, "{title}");
    let largest = column(&report, 0, "largest error");
    assert!(largest[0] == Some(0.0) && largest[1..].iter().all(|error| error.unwrap() > 0.0), "{largest:?}");
}

#[test]
fn kvlab_pool() {
    let report = kvlab("pool", &["pool.svg"], &[]);
    let columns = ["used", "shared", "finalized", "cached", "free"].map(|name| column(&report, 0, name));
    let steps: Vec<[f64; 5]> = (0..6).map(|step| columns.each_ref().map(|column| column[step].unwrap())).collect();
    // The prompt has two blocks and a half, and two forks.
    assert_eq!(steps[..2], [[3.0, 0.0, 2.0, 0.0, 13.0], [3.0, 3.0, 3.0, 0.0, 13.0]]);
    // Each has a copy of the last block, and continues to 80, 47 or 60 tokens.
    assert_eq!(steps[2][..2], [8.0, 2.0]);
    // A block that nobody holds is free or a cached prefix.
    assert!(steps.iter().all(|[used, _, _, cached, free]| used + cached + free == 16.0), "{steps:?}");
    assert!(steps[3][0] < steps[2][0] && steps[3][3] > 0.0, "{steps:?}");
    assert_eq!(steps[4][1], 0.0, "{steps:?}");
    // The prompt's two full blocks are found in the prefix cache.
    assert_eq!((steps[5][1], steps[5][0]), (2.0, steps[4][0] + 1.0), "{steps:?}");
}

#[test]
fn kvlab_share() {
    let plots = ["share-memory.svg", "share-time.svg"];
    let report = kvlab("share", &plots, &["--system", "50", "--own", "14"]);
    assert_eq!(column(&report, 0, "characters"), [Some(1.0), Some(2.0), Some(4.0)]);
    // 50 tokens are 3 full blocks and a partial one. Each character has its own copy of the partial block.
    assert_eq!(column(&report, 0, "shared blocks"), [Some(3.0); 3]);
    assert_eq!(column(&report, 0, "own blocks"), [Some(1.0); 3]);
    let block = 4.0 * 2.0 * 128.0 * 2.0 * 16.0;
    assert_eq!(column(&report, 0, "pool bytes"), [5.0, 6.0, 8.0].map(|blocks| Some(blocks * block)));
    assert_eq!(column(&report, 1, "others"), [Some(1.0), Some(4.0)]);
    // A requested number is measured, even in the quick form.
    let report = kvlab_in("share", "share-more", &plots, &["--characters", "6", "--own", "2"]);
    assert_eq!(column(&report, 0, "characters").last(), Some(&Some(6.0)));
}

#[test]
fn kvlab_window() {
    let report = kvlab("window", &["window.svg"], &["--sinks", "4"]);
    let perplexity = column(&report, 0, "perplexity");
    assert_eq!(column(&report, 0, "last"), [None, Some(64.0), Some(60.0), Some(32.0), Some(28.0)]);
    assert!(perplexity.iter().all(|value| (1.0..1000.0).contains(&value.unwrap())), "{perplexity:?}");
    assert!(perplexity[3] > perplexity[0], "{perplexity:?}");
    // Each text is scored by itself.
    let title = report["tables"][0]["title"].as_str().unwrap();
    assert!(title.starts_with("200 tokens in 1 sequences of at most 200"), "{title}");
    let bytes = column(&report, 0, "pool bytes");
    assert!(bytes[3] < bytes[0], "{bytes:?}");
}

/// A window raises the perplexity if texts are scored by themselves.
#[test]
fn kvlab_window_of_each_text() {
    let folder = scratch("kvlab-window-texts");
    let (file, json) = (scratch("kvlab-texts.txt"), scratch("kvlab-texts.json"));
    let text = include_str!("../../examples/assets/stories.txt");
    std::fs::write(&file, text.replace("<|endoftext|>", "=====")).unwrap();
    let [folder, file, json] = [&folder, &file, &json].map(|path| path.to_str().unwrap());
    let flags = ["window", "--sinks", "0", "--out", folder, "--json", json, "--text", file, "--separator", "====="];
    run("kvlab", &flags).ok();
    let report = parse_json(&std::fs::read(json).unwrap());
    let title = report["tables"][0]["title"].as_str().unwrap();
    assert!(title.contains("tokens in 6 sequences"), "{title}");
    // No window, then a window of 256, which hides little, then ever shorter windows.
    assert_eq!(column(&report, 0, "last"), [None, Some(256.0), Some(128.0), Some(64.0), Some(32.0)]);
    let price = column(&report, 0, "perplexity");
    assert!(price[0] < price[2] && price[2] < price[3] && price[3] < price[4], "{price:?}");
}

/// Runs a subcommand of `kvlab` in its quick form. Checks its tables and plots, and returns its report.
fn kvlab(command: &str, plots: &[&str], flags: &[&str]) -> serde_json::Value {
    kvlab_in(command, command, plots, flags)
}

/// Does the same with outputs of the name `name`.
fn kvlab_in(command: &str, name: &str, plots: &[&str], flags: &[&str]) -> serde_json::Value {
    let folder = scratch(&format!("kvlab-{name}"));
    let json = scratch(&format!("kvlab-{name}.json"));
    let _ = std::fs::remove_dir_all(&folder);
    let outputs = ["--quick", "--out", folder.to_str().unwrap(), "--json", json.to_str().unwrap()];
    let out = run("kvlab", &[&[command][..], &outputs, flags].concat()).ok();
    let report = parse_json(&std::fs::read(&json).unwrap());
    for table in report["tables"].as_array().unwrap() {
        assert!(out.contains(table["title"].as_str().unwrap()), "{out}");
        assert!(!table["rows"].as_array().unwrap().is_empty(), "{out}");
    }
    for plot in plots {
        let svg = std::fs::read_to_string(folder.join(plot)).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{plot}");
        assert!(svg.contains("<polyline") || *plot == "pool.svg", "{plot}");
        if *plot != "pool.svg" {
            look(&svg);
        }
        assert!(out.contains(plot), "{out}");
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), plots.len());
    report
}

/// Checks that a plot says where it was made, fits light and dark pages, and has its legend above the data.
fn look(svg: &str) {
    for part in ["Gleed Tales (llama, ", "level ", "KV ", "load ", "prefers-color-scheme: dark"] {
        assert!(svg.contains(part), "no {part:?} in {svg}");
    }
    let number = |line: &str, name: &str| -> Option<f64> {
        line.split_once(&format!(" {name}=\""))?.1.split('"').next()?.parse().ok()
    };
    let lowest = svg.lines().filter(|line| line.contains("text legend")).filter_map(|line| number(line, "y"));
    let highest = svg.lines().filter(|line| line.contains("\"grid\"")).filter_map(|line| number(line, "y1"));
    let (lowest, highest) = (lowest.fold(0.0, f64::max), highest.fold(f64::INFINITY, f64::min));
    assert!(lowest < highest, "the legend ends at {lowest}, the data begins at {highest}");
    // No two curves have the same dashes.
    let curves = svg.lines().filter(|line| line.starts_with("<polyline"));
    let dashes: Vec<_> = curves.map(|line| line.split_once("stroke-dasharray").map(|(_, dash)| dash)).collect();
    // Each dash pattern is once in the legend and once in the data.
    let different: std::collections::BTreeSet<_> = dashes.iter().collect();
    assert_eq!(dashes.len(), 2 * different.len(), "{dashes:?}");
}

/// Returns the values of a column of a table.
fn column(report: &serde_json::Value, table: usize, name: &str) -> Vec<Option<f64>> {
    let rows = report["tables"][table]["rows"].as_array().unwrap();
    rows.iter().map(|row| row.get(name).expect("a column of this name").as_f64()).collect()
}
