//! `--device gpu` gives the same text and the same logits. Mesa's driver, which computes on the CPU, is slow, but also
//! right.

use gleed::tensor::Dtype;

use crate::{Run, run, run_with_input, scratch};
use common::fixtures::parse_json;
use common::synthetic::SyntheticModel;

const BUILT_WITHOUT: &str = "this program was built without it";

/// Runs an example with a GPU. Prints a line and returns `None` on machines without one, and if the examples are built
/// without GPU support. (`cargo test --workspace` builds them with it.) With `GLEED_REQUIRE_GPU=1` a GPU is required.
fn on_gpu(example: &str, args: &[&str], input: &str) -> Option<Run> {
    let result = run_with_input(example, &[args, &["--device", "gpu"]].concat(), input.as_bytes());
    if !["there is no GPU", BUILT_WITHOUT].iter().any(|reason| result.err.contains(reason)) {
        return Some(result);
    }
    assert!(std::env::var("GLEED_REQUIRE_GPU").as_deref() != Ok("1"), "{}", result.err);
    println!("skipped: {}", result.err);
    None
}

#[test]
fn a_gpu_tells_the_same_story() {
    let args = ["-n", "24", "--temp", "0.8", "--seed", "3", "Once upon a time"];
    let Some(there) = on_gpu("generate", &args, "") else { return };
    assert!(there.err.lines().any(|line| line.starts_with("device: ")), "{}", there.err);
    assert_eq!(there.ok(), run("generate", &args).ok());
}

/// Covers short replies, whose tokens are chosen one by one, and longer ones, whose tokens the device chooses. With
/// temperature 0 the first reply ends at once, among tokens that the device chose together.
#[test]
fn a_gpu_says_the_same_in_a_conversation() {
    let talk = "And they never forgot the lesson. The end\n/stats\nOnce upon a time\n";
    let told = |out: String| -> Vec<String> {
        let is_same = |line: &&str| !line.contains("tokens/s") && !line.starts_with("memory:");
        out.lines().filter(is_same).map(str::to_owned).collect()
    };
    for args in ["-n 20 --temp 0", "-n 20 --temp 0.8 --seed 3", "-n 6 --temp 1 --repetition-penalty 1.2"] {
        let args: Vec<&str> = ["--template", "none"].into_iter().chain(args.split(' ')).collect();
        let Some(there) = on_gpu("chat", &args, talk) else { return };
        assert_eq!(told(there.ok()), told(run_with_input("chat", &args, talk.as_bytes()).ok()), "{args:?}");
    }
}

#[test]
fn a_gpu_has_the_same_logits() {
    let (file, json) = (scratch("device.bin"), scratch("device.json"));
    let args = ["--ids", "1,414,435,261,385,300,301,302,303,304", "--out", file.to_str().unwrap()];
    let Some(there) = on_gpu("logits", &args, "") else { return };
    assert_eq!(there.ok(), run("logits", &args).ok());
    let args = "--prompt 12 --gen 3 --repeat 1 --sequences 2 --json".split(' ').chain(json.to_str());
    let args: Vec<_> = args.collect();
    let mut hashes = Vec::new();
    for result in [on_gpu("bench", &args, "").unwrap(), run("bench", &args)] {
        result.ok();
        let value = parse_json(&std::fs::read(&json).unwrap());
        let run = &value["runs"][0];
        hashes.push(["prefill", "decode"].map(|phase| run[phase]["logits_hash"].to_string()));
        assert_eq!(run["device"] == "CPU", run["device_bytes"] == 0);
        assert_eq!(run["device"] == "CPU", run["decode"]["ratio"].is_number());
    }
    assert_eq!(hashes[0], hashes[1]);
    // With one sequence the GPU also chooses tokens: eight together, then three.
    let args = "--prompt 0 --gen 11 --repeat 2 --json".split(' ').chain(json.to_str());
    let args: Vec<_> = args.collect();
    let there = on_gpu("bench", &args, "").unwrap().ok();
    assert!(there.contains("chosen 11"), "{there}");
    let value = parse_json(&std::fs::read(&json).unwrap());
    let chosen = &value["runs"][0]["chosen"];
    assert_eq!(chosen["tokens_s"]["all"].as_array().map(Vec::len), Some(2));
    assert_eq!(chosen["metrics"]["decode"]["rows"], 22);
    assert!(!run("bench", &args).ok().contains("chosen"));
}

#[test]
fn what_a_gpu_does_not_have_is_refused() {
    let text = ["-n", "2", "--temp", "0", "Once upon a time"];
    let with = |flags: &[&str]| run("generate", &[&text[..], flags].concat());
    let refused = |flags: &[&str], words: &str| {
        let result = with(flags);
        assert!(result.code != Some(0) && result.err.contains(words), "{flags:?}: {}", result.err);
    };
    refused(&["--device", "tpu"], "[possible values: cpu, gpu, auto]");
    refused(&["--backend", "vulkan"], "--backend needs --device gpu or auto");
    let Some(_) = on_gpu("generate", &text, "") else { return };
    refused(&["--device", "gpu", "--backend", "glide"], "\"glide\" is none of vulkan, metal, dx12");
    refused(&["--device", "gpu", "--kv", "basic"], "a cache of another kind than paged");
    // Apple has no Vulkan of its own, and the others have no Metal. With `auto` the CPU computes.
    let absent = if cfg!(target_vendor = "apple") { "vulkan" } else { "metal" };
    refused(&["--device", "gpu", "--backend", absent], "there is no");
    let auto = with(&["--device", "auto", "--backend", absent]);
    assert!(auto.err.contains("device: the CPU (there is no"), "{}", auto.err);
    assert_eq!(auto.ok(), with(&[]).ok());
    let file = scratch("q5_0.gguf");
    std::fs::write(&file, SyntheticModel { weights: Dtype::Q5_0, ..SyntheticModel::llama() }.bytes()).unwrap();
    let out = scratch("q5_0.bin");
    let args = ["--ids", "1,2,3", "--model", file.to_str().unwrap(), "--out", out.to_str().unwrap()];
    if let Some(result) = on_gpu("logits", &args, "") {
        assert!(result.err.contains("this does not run on a GPU: Q5_0"), "{}", result.err);
        assert_eq!(result.code, Some(1));
    }
}
