//! `generate` and `frame_budget`: text from a prompt.

use std::process::Command;

use crate::{greedy_story, refused, run, run_with_input, scratch, scratch_with, shared_path, start};
use common::fixtures::{ids, parse_json};
use common::shared_file;
use common::synthetic::{Architecture, predictor};

#[test]
fn generate_gives_what_the_library_gives() {
    let (prompt_ids, story, text) = greedy_story("Once upon a time", 70);
    let file = scratch("generate.json");
    let path = file.to_str().unwrap();
    let flags = ["-n", "70", "--temp", "0", "--json", path, "--verbose"];
    for prompt in [&["Once upon a time"][..], &["--prompt", "Once upon a time"], &["--ids", "1,414,435,261,385"]] {
        let result = run("generate", &[&flags[..], prompt].concat());
        let json = parse_json(&std::fs::read(&file).unwrap());
        assert_eq!(ids(&json["prompt_ids"]), prompt_ids);
        assert_eq!(ids(&json["ids"]), story);
        assert_eq!(json["text"], text);
        assert_eq!(json["forward_ms"].as_array().unwrap().len(), 70);
        assert!(json["ttft_ms"].as_f64().unwrap() > 0.0 && json["decode_tok_s"].as_f64().unwrap() > 0.0);
        let lines = |phase| result.err.lines().filter(|line| line.starts_with(phase)).count();
        assert_eq!((lines("prefill"), lines("decode")), (prompt_ids.len(), 70));
        assert!(result.err.contains("time to first token") && result.err.contains("tokens/s"));
        assert_eq!(result.ok(), format!("{text}\n"));
    }
}

/// Reads a prompt from a file and from standard input. The line break at the end is not part of it.
#[test]
fn generate_reads_its_prompt() {
    let flags = ["-n", "20", "--temp", "0"];
    let told = run("generate", &[&flags[..], &["Once upon a time"]].concat()).ok();
    for (name, text) in [("prompt.txt", "Once upon a time"), ("prompt-lines.txt", "Once upon a time\r\n")] {
        let file = scratch_with(name, text.as_bytes());
        for from_file in [["-f", &file], ["--file", &file]] {
            assert_eq!(run("generate", &[&flags[..], &from_file].concat()).ok(), told);
        }
        for input in [&[][..], &["-"]] {
            assert_eq!(run_with_input("generate", &[&flags[..], input].concat(), text.as_bytes()).ok(), told);
        }
    }
    // With a given text, standard input is not read. --prompt may be a dash.
    assert_eq!(run_with_input("generate", &[&flags[..], &["Once upon a time"]].concat(), b"other").ok(), told);
    assert_ne!(run_with_input("generate", &[&flags[..], &["--prompt", "-"]].concat(), b"Once upon a time").ok(), told);
    assert_ne!(run_with_input("generate", &flags, b"Once upon a time\n\n").ok(), told);
    assert_eq!(run_with_input("generate", &flags, b"\n").err, "error: the prompt is empty\n");
    assert_eq!(run_with_input("generate", &flags, b"a\xff").err, "error: standard input: byte 1 is no UTF-8\n");
}

#[test]
fn sampling_is_reproducible_and_seeded() {
    let tell = |seed| run("generate", &["-n", "40", "--seed", seed, "--top-k", "50", "--top-p", "0.9", "The dog"]).ok();
    assert_eq!(tell("1"), tell("1"));
    assert_ne!(tell("1"), tell("2"));
}

/// Guesses change batches, but neither tokens nor the text that a grammar forces.
#[test]
#[cfg(feature = "grammar")]
fn guesses_change_no_text() {
    let file = scratch("guesses.json");
    let told = |guess: &str, flags: &[&str]| {
        let all = [&["-n", "60", "--guess", guess, "--json", file.to_str().unwrap()], flags].concat();
        run("generate", &all).ok();
        parse_json(&std::fs::read(&file).unwrap())
    };
    let regex = r"((The|the) (dog|cat) (ran|sat)[.!] [a-z]{2,6} and ){5}";
    for flags in [
        &["--temp", "0", "The dog ran. The cat ran. The dog ran. The cat"][..],
        &["--temp", "0.7", "--seed", "3", "--window", "40", "The dog ran. The dog ran."],
        &["--temp", "0.7", "--regex", regex, "The dog"],
        &["--temp", "0.7", "--regex", regex, "--no-jump", "The dog"],
    ] {
        let plain = told("off", flags);
        assert_eq!((plain["proposed"].as_u64(), plain["accepted"].as_u64()), (Some(0), Some(0)));
        for guess in ["ngram", "auto"] {
            let guessed = told(guess, flags);
            for key in ["ids", "text", "forced", "complete"] {
                assert_eq!(guessed[key], plain[key], "{guess} {flags:?}");
            }
            let [proposed, accepted] = ["proposed", "accepted"].map(|key| guessed[key].as_u64().unwrap());
            assert!(accepted <= proposed, "{proposed} {accepted}");
            let batches = |json: &serde_json::Value| json["forward_ms"].as_array().unwrap().len() as u64;
            // At a guess that was right, a text can end or be forced to continue.
            let [took, most] = [batches(&guessed), batches(&plain)];
            assert!(took <= most && took + accepted >= most, "{guess} {flags:?}: {took} of {most}, {accepted}");
        }
    }
    let refused = run("generate", &["--guess", "maybe", "The dog"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains("off, ngram, nextn, auto"), "{}", refused.err);
}

/// A layer of the file that predicts tokens makes guesses, and the text stays the same.
#[test]
fn layers_that_predict_guess() {
    for architecture in [Architecture::Qwen35, Architecture::Qwen35Moe, Architecture::Glm4Moe] {
        let [model, file] = ["gguf", "json"].map(|end| scratch(&format!("nextn-{}.{end}", architecture.name())));
        std::fs::write(&model, predictor::file(architecture, true, predictor::Own::Norm).finish()).unwrap();
        let told = |guess: &str| {
            let paths = [&model, &file].map(|path| path.to_str().unwrap());
            let flags =
                ["--model", paths[0], "--json", paths[1], "-n", "40", "--temp", "0.5", "--seed", "3", "The dog"];
            run("generate", &[&["--guess", guess][..], &flags].concat()).ok();
            parse_json(&std::fs::read(&file).unwrap())
        };
        let plain = told("off");
        for guess in ["nextn", "auto"] {
            let guessed = told(guess);
            assert_eq!((&guessed["ids"], &guessed["text"]), (&plain["ids"], &plain["text"]), "{guess}");
            assert!(guessed["proposed"].as_u64() > Some(0), "{guess}");
        }
    }
    refused("generate", &["--guess", "nextn", "The dog"], "--guess nextn wants a file with a layer");
}

#[test]
fn generate_says_why_it_stopped() {
    let ended = run("generate", &["--temp", "0.6", "Once upon a time"]);
    assert!(ended.err.contains("stopped: the model ended the text"), "{}", ended.err);
    assert!(run("generate", &["-n", "3", "Once"]).err.contains("stopped: -n tokens generated"));
    // 500 of the 512 tokens are in the context at the beginning.
    let ids = vec!["300"; 500].join(",");
    let full = run("generate", &["--ids", &ids, "--temp", "0", "-n", "50"]);
    assert!(full.err.contains("stopped: the context of 512 tokens is full"), "{}", full.err);
    assert!(full.err.contains("generated: 13 tokens"), "{}", full.err);
    full.ok();
}

#[test]
fn generate_ends_at_a_string() {
    let (_, _, text) = greedy_story("Once upon a time", 70);
    let tell = |stop: &[&str]| run("generate", &[&["-n", "70", "--temp", "0", "Once upon a time"], stop].concat());
    // The stop string reaches from the middle of a word to the middle of another one.
    let (before, rest) = text.split_at(text.len() / 2);
    let stop = &rest[..9];
    let ended = tell(&["--stop", "zebra", "--stop", stop]);
    assert!(ended.err.contains(&format!("stopped: the text came to {stop:?}")), "{}", ended.err);
    let first = text.find(stop).unwrap();
    assert!(first <= before.len());
    assert_eq!(ended.ok(), format!("{}\n", &text[..first]));
    // A beginning of the stop string that is held back at the end is written as text.
    let last = format!("{}zebra", &text[text.len() - 4..]);
    assert_eq!(tell(&["--stop", &last]).ok(), format!("{text}\n"));
    let wrong = tell(&["--stop", ""]);
    assert_eq!(wrong.err, "error: --stop: stop string 0 has 0 bytes, it must have from 1 to 256\n");
}

#[test]
fn generate_follows_a_grammar() {
    let tell = |flags: &[&str]| {
        let most: &[&str] = if flags.contains(&"-n") { &[] } else { &["-n", "200"] };
        run("generate", &[&["Once upon a time"], flags, most].concat())
    };
    for seed in ["1", "2", "3"] {
        let out = tell(&["--seed", seed, "--regex", " (the|a) (dog|cat|[a-z]{2,9}) (ran|sat)\\."]).ok();
        let words: Vec<&str> = out.trim().split(' ').collect();
        assert!(words.len() == 3 && ["the", "a"].contains(&words[0]) && ["ran.", "sat."].contains(&words[2]), "{out}");
    }
    let schema =
        br#"{"type":"object","properties":{"name":{"type":"string","maxLength":12},"age":{"type":"integer","minimum":0,"maximum":150}},
        "required":["name","age"],"additionalProperties":false}"#;
    let schema = scratch_with("schema.json", schema);
    for whitespace in ["compact", "bounded"] {
        let text = tell(&["--json-schema", &schema, "--whitespace", whitespace, "--temp", "1"]).ok();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert!(value["name"].as_str().is_some_and(|name| name.chars().count() <= 12), "{text}");
        assert!(value["age"].as_u64().is_some_and(|age| age <= 150), "{text}");
    }
    // Forced tokens are not chosen. Near the limit the text is brought to its end.
    let file = scratch("forced.json");
    let told = |flags: &[&str]| {
        let flags = [&["--json-schema", &schema, "--whitespace", "compact", "--json", file.to_str().unwrap()], flags];
        let out = tell(&flags.concat());
        (out.err.clone(), parse_json(&std::fs::read(&file).unwrap()))
    };
    let (err, json) = told(&[]);
    let forced = json["forced"].as_u64().unwrap();
    assert!(forced > 4 && err.contains(&format!("{forced} of them forced")), "{err}");
    assert_eq!(json["complete"], true);
    assert_eq!(told(&["--no-jump"]).1["forced"], 0);
    for n in ["20", "24", "30"] {
        let (_, json) = told(&["-n", n, "--close", "--temp", "1.5"]);
        assert_eq!(json["complete"], true, "{json}");
        serde_json::from_str::<serde_json::Value>(json["text"].as_str().unwrap()).unwrap();
    }
    let (err, json) = told(&["-n", "6"]);
    assert!(err.contains("-n tokens generated, the text is not complete") && json["complete"] == false, "{err}");

    let grammar = scratch_with("lists.gbnf", b"root ::= \"- \" [a-z]{2,8} \"\\n- \" [a-z]{2,8} \"!\"");
    let list = tell(&["--grammar", &grammar]);
    assert!(
        list.err.contains("stopped: nothing may follow the text") || list.err.contains("ended the text"),
        "{}",
        list.err
    );
    assert_eq!(list.ok().lines().filter(|line| line.starts_with("- ")).count(), 2);

    let refused = tell(&["--regex", "a(b"]);
    assert!(refused.err.starts_with("error: --regex: "), "{}", refused.err);
    let unsupported = scratch_with("not.json", br#"{"not":{}}"#);
    assert!(tell(&["--json-schema", &unsupported]).err.ends_with("not.json: not at byte 1 is not supported\n"));
    assert!(tell(&["--grammar", "nowhere.gbnf"]).err.starts_with("error: nowhere.gbnf: "));
}

#[test]
fn generate_goes_on_without_end() {
    let file = scratch("endless.json");
    let story = |flags: &str, n: &str| {
        let flags: Vec<&str> = flags.split_whitespace().chain(["--ignore-end", "-n", n]).collect();
        run("generate", &[&flags[..], &["--json", file.to_str().unwrap(), "Once upon a time"]].concat()).ok();
        ids(&parse_json(&std::fs::read(&file).unwrap())["ids"])
    };
    // The context has 512 tokens.
    let paged = story("--window 60 --sinks 4", "600");
    assert_eq!(paged.len(), 600);
    assert_eq!(story("--window 60 --sinks 4 --kv basic --threads 2", "600"), paged);
    assert_eq!(story("--window 60 --sinks 4 --kv off", "80"), paged[..80]);
    assert_eq!(story("--window 512", "90"), story("", "90"));
    assert_ne!(story("--window 9", "90"), paged[..90]);
    let refused = |flags: &[&str]| run("generate", &[flags, &["Once"]].concat());
    assert!(refused(&["--sinks", "4"]).err.contains("--window"));
    assert!(refused(&["--window", "0"]).err.contains("--window is 0, it must be at least 1"));
    assert!(refused(&["--window", "600"]).err.contains("--window is 600, it must be 1 to 512"));
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_generate_with_its_statistics() {
    use std::io::Read;
    // Without a cache, a long text takes long.
    let mut child = start("generate", &["--kv", "off", "--temp", "1.5", "-n", "500", "--ids", "1"]);
    let mut first = [0];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("stopped: interrupted") && err.contains("time to first token"), "{err}");
    assert_eq!(output.status.code(), Some(130));
}

#[test]
fn stories_260k() {
    let Some(model) = shared_path("models/stories260K/stories260K.gguf") else { return };
    let expected = parse_json(&shared_file("models/stories260K/EXPECTED.json").unwrap());
    let expected = &ids(&expected["greedy_ids"])[..60];
    let file = scratch("stories260K.json");
    for kv in ["off", "basic", "paged"] {
        let flags = ["--model", &model, "--ids", "1", "-n", "60", "--temp", "0", "--kv-type", "f32", "--kv", kv];
        run("generate", &[&flags[..], &["--json", file.to_str().unwrap()]].concat()).ok();
        assert_eq!(ids(&parse_json(&std::fs::read(&file).unwrap())["ids"]), expected, "{kv}");
    }
}

#[test]
fn the_readme_shows_what_generate_prints() {
    let readme = include_str!("../../README.md");
    let shown = readme.split_once("```text\n").unwrap().1.split_once("…\n```").unwrap().0;
    let story = run("generate", &["Once upon a time"]).ok();
    assert!(shown.len() > 200 && format!("Once upon a time{story}").starts_with(shown), "{story}");
}

/// The text does not depend on the budget, however small.
#[test]
fn frame_budget_gives_the_text_in_pieces() {
    let (_, _, text) = greedy_story("Once upon a time", 12);
    let svg = scratch("overshoot.svg");
    let plot = ["--svg", svg.to_str().unwrap()];
    for flags in [&["--ms", "0"][..], &["--ms", "0.2", "--threads", "2"], &["--units", "30", "--ms", "50"], &plot] {
        let out = run("frame_budget", &[&["--tokens", "12", "--no-sleep"], flags].concat()).ok();
        assert!(out.starts_with(&format!("Once upon a time{text}\n")), "{out}");
        assert!(out.contains("overshoot: p50") && out.ends_with("without a budget\n"), "{out}");
    }
    assert!(std::fs::read_to_string(&svg).unwrap().contains("microseconds"));
    assert_eq!(run("frame_budget", &["--units", "0"]).code, Some(1));
}

/// All characters answer in the schema, with any share of a frame.
#[test]
#[cfg(feature = "grammar")]
fn npc_dialogue_answers_in_its_schema() {
    let out = run("npc_dialogue", &["--ms", "1"]).ok();
    let answers = |out: &str| out.split_once("\n\n").unwrap().1.to_owned();
    let mut names = std::collections::BTreeSet::new();
    for line in answers(&out).lines() {
        let (name, answer) = line.split_once(": ").unwrap();
        names.insert(name.to_owned());
        let value: serde_json::Value = serde_json::from_str(answer).unwrap_or_else(|error| panic!("{answer}: {error}"));
        let members: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(members, ["action", "emotion", "line"], "{answer}");
        assert!(["calm", "happy", "angry", "afraid", "sad"].contains(&value["emotion"].as_str().unwrap()), "{answer}");
        assert!(["wait", "walk", "wave", "run", "hide"].contains(&value["action"].as_str().unwrap()), "{answer}");
        assert!((1..=60).contains(&value["line"].as_str().unwrap().chars().count()), "{answer}");
    }
    assert_eq!(names.len(), 32);
    let frames: usize = out.lines().nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(frames > 10 && out.contains("overshoot: p50 "), "{out}");
    // The answers do not depend on the share of a frame.
    assert_eq!(answers(&run("npc_dialogue", &["--ms", "20"]).ok()), answers(&out));
    assert_eq!(run("npc_dialogue", &["--characters", "33"]).code, Some(1));
}

/// `simd` is a name of the best level, and `parallel` means as many threads as there are processors.
#[test]
fn simd_and_parallel_are_names() {
    let story =
        |flags: &[&str]| run("generate", &[&["--temp", "0", "-n", "8", "Once upon a time"], flags].concat()).ok();
    assert_eq!(story(&["--level", "simd", "--threads", "parallel"]), story(&["--level", "scalar", "--threads", "1"]));
}
