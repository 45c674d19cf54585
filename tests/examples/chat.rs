//! `chat`: conversations through a pipe.

use crate::{greedy_story, refused, run_with_input, scratch, scratch_with};
use common::gguf_writer::{GgufWriter, Meta};

#[test]
fn chat_in_a_pipe() {
    let file = scratch("chat.gleed");
    let path = file.to_str().unwrap();
    let chat = |input: &str| run_with_input("chat", &["--temp", "0", "-n", "12", "--branches", "2"], input.as_bytes());
    let (_, story, text) = greedy_story("Once upon a time", 12);
    let begun = format!("{text} [cut after -n tokens]\n");
    let tokens = 5 + story.len();

    let saved = chat(&format!("Once upon a time\n/save {path}\nThe end.\n/stats\n")).ok();
    assert!(saved.starts_with(&format!("{begun}[{tokens} tokens saved, ")), "{saved}");
    assert!(saved.contains("branch 1 of 1: 32 of 512") && saved.contains("2 own, 0 shared"), "{saved}");
    let second = saved.lines().nth(2).unwrap();

    // The conversation continues in the same way after /load, in a fork, and in the original branch.
    let loaded = chat(&format!("/load {path}\n/fork\nThe end.\n/switch 1\n/stats\nThe end.\n")).ok();
    let expected = format!("[{tokens} tokens loaded]\n[branch 2 of 2]\n{second}\n* branch 1: {tokens} tokens\n");
    assert!(loaded.starts_with(&expected), "{loaded}");
    assert!(loaded.contains("1 own, 1 shared"), "{loaded}");
    assert_eq!(loaded.lines().last(), Some(second), "{loaded}");

    let wrong = "/load\n/fork\n/fork\n/x\n/switch 7\n/close\n/close\n/edit 1 a\n/edit x\n/regenerate\n/save\n";
    assert_eq!(chat(wrong).err.lines().count(), 9);
    assert!(chat("/help\n/quit\nnever said\n").ok().ends_with("Ctrl-C stops a reply.\n"));
    let damaged = scratch_with("damaged.gleed", &std::fs::read(path).unwrap()[..1000]);
    let after = chat(&format!("/load {damaged}\nOnce upon a time\n"));
    assert_eq!((after.err.lines().count(), after.ok()), (1, begun));
}

#[test]
fn chat_in_a_turn_format() {
    let say = |flags: &[&str], input: &[u8]| {
        let flags = [&["--temp", "0", "-n", "4"], flags].concat();
        run_with_input("chat", &flags, input)
    };
    // A template and the name of its format give the same turns. Then another format.
    let template = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/templates/qwen2.jinja");
    let by_file = say(&["--template", template], b"Once\nand\n/stats\n").ok();
    let by_name = say(&["--template", "qwen2"], b"Once\nand\n/stats\n").ok();
    let tokens = |out: &str| -> usize {
        let stats = out.lines().find(|line| line.starts_with("branch 1 of 1: ")).unwrap();
        stats["branch 1 of 1: ".len()..].split(' ').next().unwrap().parse().unwrap()
    };
    // With a name alone, the vocabulary says whether the text begins with BOS. A template says it itself.
    assert_eq!(tokens(&by_file) + 1, tokens(&by_name));
    let system = say(&["--template", "llama2", "--system", "Be brief."], b"Once\n/stats\n").ok();
    let plain = say(&["--template", "llama2"], b"Once\n/stats\n").ok();
    assert!(tokens(&system) > tokens(&plain) + 8, "{system}{plain}");

    let unknown = say(&["--template", "zebra"], b"");
    assert!(unknown.err.contains("zebra is neither a file nor one of: none, phi4, "), "{}", unknown.err);
    assert!(say(&["--jinja"], b"").err.contains("--jinja"));
}

#[test]
fn chat_by_a_template() {
    let (_, _, text) = greedy_story("Once upon a time", 12);
    let template = "{{ bos_token }}{% for message in messages %}{{ message.content }}{% endfor %}";
    let template = scratch_with("chat.jinja", template.as_bytes());
    let flags = ["--temp", "0", "-n", "12", "--template", &template];
    let chat = |input: &[u8]| run_with_input("chat", &flags, input);
    let file = scratch("chat_by_a_template.gleed");
    let file = file.to_str().unwrap();
    let input = format!("Once upon a time\nThe end.\n/save {file}\n/fork\nOnce</s>\n/load {file}\nOnce</s>\n");
    let out = chat(input.as_bytes()).ok();
    let replies: Vec<&str> = out.lines().filter(|line| line.ends_with("[cut after -n tokens]")).collect();
    assert_eq!(replies[0], format!("{text} [cut after -n tokens]"));
    // The conversation is the same in a branch and after loading.
    assert_eq!((replies.len(), replies[2]), (4, replies[3]), "{out}");

    let broken = scratch_with("broken.jinja", b"\n{% for %}");
    refused("chat", &["--template", &broken], "chat template, line 2: ");
}

#[test]
fn chat_with_a_full_context() {
    let input = b"Once upon a time\nmore\n/list\n/reset\nOnce upon a time\nmore\n/list\n";
    let out = run_with_input("chat", &["--temp", "0", "--context", "40"], input).ok();
    let (before, after) = out.split_once("[a new conversation]\n").unwrap();
    assert_eq!(before, after);
    assert!(out.contains(" [the context is full]\n[the context is full: 2 messages are left out]\n"), "{out}");
    assert!(out.contains("\n1: Once upon a time\nassistant: ") && out.contains("\n2: more\nassistant: "), "{out}");

    let keep = |flags: &[&str]| run_with_input("chat", &[&["--temp", "0", "--context", "40"], flags].concat(), input);
    let full = keep(&["--keep-last", "2"]);
    assert!(full.err.contains(" tokens or more, the context has 40 (/reset starts over)"), "{}", full.err);
    assert_eq!(full.code, Some(1));
    assert_eq!(keep(&["--keep-first", "1"]).err.lines().count(), 2);

    // With a window, the conversation continues beyond the context.
    let flags = ["--temp", "0", "--context", "40", "--window", "32", "--sinks", "4", "-n", "60"];
    let out = run_with_input("chat", &flags, b"Once upon a time\nmore\n/stats\n").ok();
    assert_eq!(out.matches("[cut after -n tokens]").count(), 2, "{out}");
    assert!(out.contains("branch 1 of 1: 12") && !out.contains("left out"), "{out}");
}

#[test]
fn chat_says_it_again() {
    let (_, _, text) = greedy_story("Once upon a time", 12);
    let chat = |flags: &[&str], input: &[u8]| {
        run_with_input("chat", &[&["--temp", "0", "-n", "12"], flags].concat(), input).ok()
    };
    let begun = format!("{text} [cut after -n tokens]\n");
    assert_eq!(chat(&["-m", "Once upon a time"], b"never said\n"), begun);
    let out = chat(&[], b"Once upon a time\n/regenerate\nmore\n/edit 1 Once upon a time\n/list\n");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!([lines[0], lines[1], lines[3]], [begun.trim_end(); 3], "{out}");
    assert_eq!(lines[4..], ["1: Once upon a time".to_owned(), format!("assistant: {text}")], "{out}");
    assert!(chat(&[], b"//a\n/list\n").contains("\n1: /a\n"));
    // Other random numbers give another text.
    let out = run_with_input("chat", &["--temp", "1", "-n", "12"], b"Once upon a time\n/regenerate\n").ok();
    assert_ne!(out.lines().next(), out.lines().nth(1));
    refused("chat", &["--window", "0"], "--window is 0");
    refused("chat", &["--branches", "0"], "--branches is 0, it must be at least 1");
}

#[test]
fn chat_with_tools() {
    // The model answers each turn with one call, and makes another call after the result.
    let call = r#"{"name": "dice", "arguments": {"count": 2, "sides": 6}}"#;
    let model = chain(&["<0x0A>", "Hm. ", "<tool_call>", call, "</tool_call>", "<|im_end|>"]);
    let model = scratch_with("calls.gguf", &model);
    let flags = ["--model", &model, "--template", "qwen3", "--temp", "0", "--context", "4096"];
    let chat = |more: &[&str], input: &[u8]| run_with_input("chat", &[&flags, more].concat(), input);
    let rolled = |out: &str| out.matches(r#"[dice {"count": 2, "sides": 6} -> "#).count();
    let out = chat(&["--tools", "builtin", "--rounds", "2"], b"Roll.\nAgain.\n").ok();
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0] == "Hm. " && lines[1].starts_with("[dice ") && lines.len() == 12, "{out}");
    assert_eq!((rolled(&out), lines[6], lines[11]), (4, "Hm. ", " [more calls than --rounds]"), "{out}");
    assert_eq!(rolled(&chat(&["--tools", "builtin", "--rounds", "0"], b"Roll.\n").ok()), 0);

    // The program reads the result of a tool that it does not have. A call of an unlisted tool is an error.
    let list = |json: &str| scratch_with("tools.json", json.as_bytes());
    let other = list(r#"[{"name": "calculator"}]"#);
    let out = chat(&["--tools", &other, "--rounds", "1", "--free-calls"], b"Roll.\n").ok();
    assert!(out.contains("[a call that is none -> error: no tool has the name dice, at byte 4]"), "{out}");
    let model = scratch_with("asks.gguf", &chain(&["<0x0A>", "<tool_call>", r#"{"name": "ask"}"#, "<|im_end|>"]));
    let own = list(r#"[{"name": "ask", "parameters": {"type": "object"}}]"#);
    let flags = ["--model", &model, "--template", "qwen3", "--temp", "0", "--tools", &own, "--rounds", "1"];
    let free = [&flags[..], &["--free-calls"]].concat();
    let out = run_with_input("chat", &free, b"Ask.\nthe result\n").ok();
    assert!(out.starts_with("[ask {}: its result, in a line?]\n[ask {} -> the result]\n"), "{out}");
    // Without --free-calls, the model can write neither an invalid call nor one without its arguments.
    assert!(!chat(&["--tools", &other, "-n", "20"], b"Roll.\n").ok().contains("call"));
    assert!(!run_with_input("chat", &flags, b"Ask.\nthe result\n").ok().contains("its result"));
}

#[test]
fn generate_with_tools() {
    let call = r#"{"name": "dice", "arguments": {"count": 2, "sides": 6}}"#;
    let model = chain(&["<0x0A>", "Hm. ", "<tool_call>", call, "</tool_call>", "<|im_end|>"]);
    let model = scratch_with("generate-calls.gguf", &model);
    let file = crate::scratch("generate-calls.json");
    let flags = ["--model", &model, "--template", "qwen3", "--temp", "0", "--json", file.to_str().unwrap(), "Roll."];
    let told = |more: &[&str]| {
        let out = crate::run("generate", &[&flags, more].concat()).ok();
        (out, common::fixtures::parse_json(&std::fs::read(&file).unwrap()))
    };
    let (out, json) = told(&["--tools", "builtin"]);
    assert_eq!(out, format!("Hm. <tool_call>{call}</tool_call>\n[dice {{\"count\": 2, \"sides\": 6}}]\n"));
    let expected = serde_json::json!([{"name": "dice", "id": null, "arguments": {"count": 2, "sides": 6}}]);
    assert_eq!((&json["calls"], &json["complete"]), (&expected, &serde_json::json!(true)));
    // A call of an unlisted tool is an error with --free-calls, and cannot be written without it.
    let other = scratch_with("generate-tools.json", br#"[{"name": "calculator"}]"#);
    let (out, json) = told(&["--tools", &other, "--free-calls"]);
    assert!(out.ends_with("[a call that is none -> error: no tool has the name dice, at byte 4]\n"), "{out}");
    assert!(json["calls"][0]["error"].as_str().is_some() && json["complete"].is_null(), "{json}");
    assert!(!told(&["--tools", &other, "-n", "20"]).0.contains("dice"));
    // A required call comes without text before it. Without offered tools there is no call.
    let out = told(&["--tools", "builtin", "--tool-choice", "required", "-n", "8"]).0;
    assert!(!out.contains("Hm") && !out.contains("[dice"), "{out}");
    let (out, json) = told(&["--tools", "builtin", "--tool-choice", "none"]);
    assert_eq!((out, &json["calls"]), (format!("Hm. <tool_call>{call}</tool_call>\n"), &serde_json::json!([])));
    refused("generate", &["Roll.", "--tools", "builtin"], "--tools needs a turn format that has tools");
    refused("generate", &["Roll.", "--free-calls"], "--free-calls and --think need --tools");
    refused(
        "generate",
        &["Roll.", "--tools", "builtin", "--regex", "a"],
        "--tools and another grammar exclude each other",
    );
    refused("generate", &["--ids", "1,2", "--tools", "builtin"], "--tools needs a text, not ids");
    refused(
        "generate",
        &["Roll.", "--tools", "builtin", "--template", "qwen3", "--tool-choice", "walk"],
        "tool_choice",
    );
}

#[test]
fn chat_with_thoughts() {
    let model = chain(&["<0x0A>", "<think>", "Why?", "</think>", " Because.", "<|im_end|>"]);
    let model = scratch_with("thinks.gguf", &model);
    let chat = |flags: &[&str]| {
        run_with_input(
            "chat",
            &[&["--model", &model, "--template", "qwen3", "--temp", "0"], flags].concat(),
            b"Well?\n",
        )
    };
    assert_eq!(chat(&[]).ok(), "[thinks: Why?]\nBecause.\n");
    let flags = |name: &str, flag: &str| refused("chat", &["--template", name, "--think", flag], "does not know that");
    flags("chatml", "on");
    flags("deepseek-r1", "off");
    refused(
        "chat",
        &["--template", "gemma", "--tools", "builtin"],
        "how the turn format gemma offers tools is not known",
    );
    refused("chat", &["--tools", "builtin"], "--tools needs a turn format that has tools");
    refused("chat", &["--template", "qwen3", "--tools", "nowhere.json"], "--tools nowhere.json: ");
    let broken = scratch_with("broken.json", b"[{\"name\": 3}]");
    refused("chat", &["--template", "qwen3", "--tools", &broken], "at byte 1 of the list of tools is no function");
}

/// Returns a model that follows each of these tokens with the next one. It has one layer, which adds nothing, and the
/// embedding of each token has a direction of its own.
pub(crate) fn chain(tokens: &[&str]) -> Vec<u8> {
    const WIDTH: usize = 288;
    let bytes = (0..256).map(|byte| (format!("<0x{byte:02X}>"), 6));
    let names = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"].map(|name| (name.to_owned(), 3));
    let own = tokens.iter().filter(|name| !name.starts_with("<0x") && **name != "<|im_end|>");
    let vocab: Vec<(String, i32)> =
        names.into_iter().chain(bytes).chain(own.map(|name| (name.to_string(), 4))).collect();
    let id = |name: &str| vocab.iter().position(|(other, _)| other == name).unwrap();
    let matrix = |rows: usize, columns: usize, ones: &[(usize, usize)]| {
        let mut values = vec![0.0_f32; rows * columns];
        ones.iter().for_each(|(row, column)| values[row * columns + column] = 1.0);
        values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>()
    };
    let mut writer = GgufWriter::default();
    writer.set("general.architecture", "llama").set("llama.block_count", 1_u32).set("llama.context_length", 4096_u32);
    writer.set("llama.embedding_length", WIDTH as u32).set("llama.feed_forward_length", 32_u32);
    writer.set("llama.attention.head_count", 9_u32).set("llama.rope.dimension_count", 32_u32);
    writer.set("llama.attention.layer_norm_rms_epsilon", 1e-5_f32).set("tokenizer.ggml.model", "llama");
    let (names, types): (Vec<String>, Vec<i32>) = vocab.iter().cloned().unzip();
    writer.set("tokenizer.ggml.tokens", names).set("tokenizer.ggml.token_type", types);
    writer
        .set("tokenizer.ggml.scores", vec![0.0_f32; vocab.len()])
        .set("tokenizer.ggml.add_bos_token", Meta::Bool(false));
    writer.set("tokenizer.ggml.add_space_prefix", false).set("tokenizer.ggml.bos_token_id", 1_u32);
    writer.set("tokenizer.ggml.eos_token_id", 2_u32);
    let width = WIDTH as u64;
    let own: Vec<(usize, usize)> = (0..vocab.len()).map(|id| (id, id)).collect();
    let next: Vec<(usize, usize)> = tokens.windows(2).map(|pair| (id(pair[1]), id(pair[0]))).collect();
    let wide = [width, vocab.len() as u64];
    writer.add_tensor("token_embd.weight", &wide, 0, matrix(vocab.len(), WIDTH, &own));
    writer.add_tensor("output.weight", &wide, 0, matrix(vocab.len(), WIDTH, &next));
    let ones: Vec<(usize, usize)> = (0..WIDTH).map(|column| (0, column)).collect();
    for name in ["output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"] {
        writer.add_tensor(&format!("{name}.weight"), &[width], 0, matrix(1, WIDTH, &ones));
    }
    for name in ["attn_q", "attn_k", "attn_v", "attn_output"] {
        writer.add_tensor(&format!("blk.0.{name}.weight"), &[width, width], 0, matrix(WIDTH, WIDTH, &[]));
    }
    for (name, from, to) in [("ffn_gate", WIDTH, 32), ("ffn_up", WIDTH, 32), ("ffn_down", 32, WIDTH)] {
        writer.add_tensor(&format!("blk.0.{name}.weight"), &[from as u64, to as u64], 0, matrix(to, from, &[]));
    }
    writer.finish()
}
