//! `perplexity`, `logits` and `bench`, which measure logits.

use gleed::Model;
use gleed::num::Xxh64;
use gleed::token::Tokenizer;

use crate::{DEMO, encode, library_logits, run, scratch, scratch_with};
use common::Memory;
use common::fixtures::parse_json;

#[test]
fn perplexity_is_that_of_the_logits() {
    let text = "Once upon a time there was a dog who liked to run in the big green park. One day he saw a cat.";
    let (path, json) = (scratch_with("perplexity.txt", text.as_bytes()), scratch("perplexity.json"));
    let measure = |flags: &str| {
        let flags: Vec<&str> = flags.split_whitespace().chain(["--text", &path, "--json"]).collect();
        let out = run("perplexity", &[&flags[..], &[json.to_str().unwrap()]].concat()).ok();
        (parse_json(&std::fs::read(&json).unwrap()), out)
    };
    let (full, out) = measure("--ctx 10");
    let model = Model::open(DEMO).unwrap();
    let mut tables = Memory::new(Tokenizer::plan(model.gguf()).unwrap());
    let tokenizer = Tokenizer::new(model.gguf(), tables.bytes()).unwrap();
    let (bos, tokens) = (1, &encode(&tokenizer, text)[1..]);
    let mut sum = 0.0;
    for chunk in tokens.chunks(10) {
        let rows = [&[bos], &chunk[..chunk.len() - 1]].concat();
        let logits = library_logits(&rows);
        let logits: Vec<f32> = logits.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        for (logits, &token) in logits.chunks(1024).zip(chunk) {
            let total: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
            sum += total.ln() - f64::from(logits[token as usize]);
        }
    }
    let nats = sum / tokens.len() as f64;
    let close = |name: &str, expected: f64| (full[name].as_f64().unwrap() / expected - 1.0).abs() < 1e-6;
    assert!(close("nats_per_token", nats) && close("perplexity", nats.exp()), "{full}");
    assert!(close("bits_per_byte", sum / std::f64::consts::LN_2 / text.len() as f64), "{full}");
    assert_eq!((full["tokens"].as_u64(), full["bytes"].as_u64()), (Some(tokens.len() as u64), Some(text.len() as u64)));
    assert!(out.contains("nats/token") && out.contains("bits/byte") && out.contains("tokens/s"), "{out}");
    let nats = |flags: &str| measure(flags).0["nats_per_token"].as_f64().unwrap();
    assert_eq!(nats("--ctx 10 --window 10 --kv off"), full["nats_per_token"].as_f64().unwrap());
    assert_eq!(nats("--window 6 --sinks 1"), nats("--window 6 --sinks 1 --kv basic --threads 2"));
    assert!(nats("--window 3") > nats(""));
    let two = scratch_with("two.txt", format!(" {text}\n###\n{text}\n").as_bytes());
    run("perplexity", &["--text", &two, "--ctx", "10", "--separator", "###", "--json", json.to_str().unwrap()]).ok();
    let twice = parse_json(&std::fs::read(&json).unwrap());
    assert!((twice["bits_per_byte"].as_f64().unwrap() / full["bits_per_byte"].as_f64().unwrap() - 1.0).abs() < 1e-12);
    assert_eq!(twice["tokens"].as_u64(), Some(2 * tokens.len() as u64));
    let refused = |flags: &[&str]| run("perplexity", flags);
    assert!(refused(&["--ctx", "1"]).err.contains("--ctx is 1, it must be 2 to 512"));
    assert!(refused(&["--ctx", "513"]).err.contains("--ctx is 513, it must be 2 to 512"));
    assert!(refused(&["--text", "/nowhere"]).err.contains("/nowhere: "));
    assert!(refused(&["--text", &scratch_with("empty.txt", b"")]).err.contains("there is nothing to score"));
    assert!(refused(&["--text", &scratch_with("bytes.txt", b"\xff")]).err.contains("invalid utf-8"));
}

#[test]
fn logits_have_one_hash() {
    let tokens: Vec<u32> = (0..70).map(|i| 1 + i * 37 % 1000).collect();
    let list = tokens.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let file = scratch("logits.bin");
    let path = file.to_str().unwrap();
    let hash = |flags: &str| {
        let flags: Vec<&str> = flags.split(' ').collect();
        let out = run("logits", &[&["--ids", &list, "--out", path][..], &flags].concat()).ok();
        assert_eq!(out.trim_end(), format!("{:016x}", Xxh64::hash(&std::fs::read(&file).unwrap())));
        out
    };
    let first = hash("--chunk 64 --level scalar");
    assert_eq!(std::fs::read(&file).unwrap(), library_logits(&tokens));
    for flags in [
        "--chunk 1 --kv paged",
        "--chunk 7 --kv basic --threads 2",
        "--chunk 7 --kv off",
        "--chunk 64 --kv off --threads 2",
        "--chunk 7",
        "--kv --threads 2",
    ] {
        assert_eq!(hash(flags), first, "{flags}");
    }
    assert_ne!(hash("--kv-type f32"), first);
}

#[test]
fn bench_measures_the_same_logits_everywhere() {
    let json = scratch("bench.json");
    let bench = |level: &str| {
        let args = "--prompt 20 --gen 3 --depth 9 --sequences 2 --threads 1,2 --repeat 2 --level";
        let mut args: Vec<_> = args.split(' ').collect();
        args.extend([level, "--json", json.to_str().unwrap()]);
        let out = run("bench", &args).ok();
        assert!(out.contains("prefill 20") && out.contains("decode 3 at 9"), "{out}");
        parse_json(&std::fs::read(&json).unwrap())
    };
    let mut hashes = Vec::new();
    for level in gleed::kernels::Level::available() {
        let measured = bench(level.name());
        let runs = measured["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 2);
        for phase in runs.iter().flat_map(|run| [&run["prefill"], &run["decode"]]) {
            assert_eq!(phase["tokens_s"]["all"].as_array().unwrap().len(), 2);
            assert!(phase["tokens_s"]["min"].as_f64().unwrap() > 0.0);
        }
        let hash = |run: &serde_json::Value| ["prefill", "decode"].map(|phase| run[phase]["logits_hash"].to_string());
        hashes.extend(runs.iter().map(hash));
    }
    assert!(hashes.windows(2).all(|pair| pair[0] == pair[1]), "{hashes:?}");
}

/// The plot has a curve for each number of threads, with a point for each depth.
#[test]
fn bench_plots_depths() {
    let (json, plot) = (scratch("bench-depths.json"), scratch("bench-depths.svg"));
    let [json, plot] = [&json, &plot].map(|path| path.to_str().unwrap());
    let args = "--prompt 8 --gen 2 --depth 0,9,20 --threads 1,2 --repeat 1".split(' ');
    let args: Vec<&str> = args.chain(["--json", json, "--plot", plot]).collect();
    run("bench", &args).ok();
    let measured = parse_json(&std::fs::read(json).unwrap());
    let depths = measured
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["depth"].as_u64().unwrap(), one["prompt"].as_u64().unwrap()));
    assert_eq!(depths.collect::<Vec<_>>(), [(0, 8), (9, 0), (20, 0)]);
    let svg = std::fs::read_to_string(plot).unwrap();
    // Two curves, each with a sample in the legend.
    assert_eq!(svg.matches("<polyline").count(), 4, "{svg}");
    assert!(["2 threads", "Gleed Tales (llama", "level ", "load "].iter().all(|part| svg.contains(part)), "{svg}");
}

#[test]
fn a_report_has_everything_and_no_names() {
    let (model, report) = (scratch("report-model.gguf"), scratch("report.json"));
    let [model, report] = [&model, &report].map(|path| path.to_str().unwrap());
    run("make_model", &["--shape", "tiny", "--type", "q4_k_m", "--out", model]).ok();
    let args = ["--report", report, "--prompt", "8", "--gen", "2", "--repeat", "1", "--threads", "1,2", model];
    let out = run("bench", &args).ok();
    assert!(out.contains("streaming read, 2 threads: ") && out.contains("written, after"), "{out}");

    let text = std::fs::read(report).unwrap();
    let value = parse_json(&text);
    for field in ["report", "gleed", "arithmetic", "processor", "os", "architecture", "level", "fetch", "seconds"] {
        assert!(!value[field].is_null(), "{field}");
    }
    // The program makes this call, too.
    let _ = gleed::kernels::Level::allow_amx();
    let levels: Vec<_> = gleed::kernels::Level::available().map(|level| level.name()).collect();
    assert_eq!(value["levels"], serde_json::json!(levels));
    assert_eq!(value["streaming_read"].as_array().unwrap().len(), 2);
    let types = gleed::tensor::Dtype::ALL.len();
    let products = value["products"].as_array().unwrap();
    assert_eq!(products.len(), levels.len() * types * 4);
    assert!(products.iter().all(|product| product["macs_s"].as_f64().unwrap() > 0.0));

    let model = &value["models"][0];
    assert_eq!(model["levels_agree"], true);
    let runs = model["runs"].as_array().unwrap();
    let of = |set: &str| runs.iter().filter(|run| run["set"] == set).collect::<Vec<_>>();
    let threads: Vec<_> = of("whole").iter().map(|run| run["threads"].as_u64().unwrap()).collect();
    assert_eq!(threads, [1, 2]);
    let sequences: Vec<_> = of("sequences").iter().map(|run| run["sequences"].as_u64().unwrap()).collect();
    assert_eq!(sequences, [2, 4, 8]);
    assert_eq!(of("fetch").len(), if cfg!(target_arch = "x86_64") { 2 } else { 0 });
    let hashes: Vec<_> = of("levels").iter().map(|run| &run["decode"]["logits_hash"]).collect();
    assert!(hashes.len() == levels.len() && hashes.iter().all(|hash| *hash == hashes[0]), "{hashes:?}");

    // The folder of the model would reveal a user's name, and often a host's.
    let folder = env!("CARGO_TARGET_TMPDIR");
    assert!(!String::from_utf8(text).unwrap().contains(folder));
    assert_eq!(model["name"], "report-model.gguf");
}
