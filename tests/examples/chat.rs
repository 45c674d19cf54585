//! `chat`: conversations in a pipe.

use crate::{greedy_story, refused, run_with_input, scratch, scratch_with};

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

    // The conversation goes on alike after /load, in a fork, and where the fork began.
    let loaded = chat(&format!("/load {path}\n/fork\nThe end.\n/switch 1\n/stats\nThe end.\n")).ok();
    let expected = format!("[{tokens} tokens loaded]\n[branch 2 of 2]\n{second}\n* branch 1: {tokens} tokens\n");
    assert!(loaded.starts_with(&expected), "{loaded}");
    assert!(loaded.contains("1 own, 1 shared"), "{loaded}");
    assert_eq!(loaded.lines().last(), Some(second), "{loaded}");

    assert_eq!(chat("/load\n/fork\n/fork\n/x\n/switch 7\n/close\n/close\n").err.lines().count(), 5);
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
    // The template's format, and its name; another one.
    let template = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/templates/qwen2.jinja");
    let by_file = say(&["--template", template], b"Once\nand\n/stats\n").ok();
    let by_name = say(&["--template", "qwen2"], b"Once\nand\n/stats\n").ok();
    let tokens = |out: &str| -> usize {
        let stats = out.lines().find(|line| line.starts_with("branch 1 of 1: ")).unwrap();
        stats["branch 1 of 1: ".len()..].split(' ').next().unwrap().parse().unwrap()
    };
    // By name alone the vocabulary says whether there is BOS; a template says it itself.
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
    if !cfg!(feature = "jinja") {
        let out = chat(b"Once upon a time\n");
        assert!(out.err.contains("built with --features jinja"), "{}", out.err);
        assert!(out.ok().starts_with(&text));
        return;
    }
    let out = chat(b"Once upon a time\nThe end.\n/fork\nOnce</s>\n/switch 1\nOnce</s>\n/load x\n");
    assert_eq!(out.err, "error: a template in Jinja needs the messages, which the file does not have\n");
    let out = out.ok();
    let replies: Vec<&str> = out.lines().filter(|line| line.ends_with("[cut after -n tokens]")).collect();
    assert_eq!(replies[0], format!("{text} [cut after -n tokens]"));
    // The same conversation in the branch and in the one that it was branched from.
    assert_eq!((replies.len(), replies[2]), (4, replies[3]), "{out}");

    let broken = scratch_with("broken.jinja", b"\n{% for %}");
    refused("chat", &["--template", &broken], "chat template, line 2: ");
}

#[test]
fn chat_with_a_full_context() {
    let input = b"Once upon a time\nmore\n/reset\nOnce upon a time\n";
    let full = run_with_input("chat", &["--temp", "0", "--context", "40"], input);
    assert_eq!(full.err.lines().count(), 1);
    assert!(full.err.contains("would have 42 tokens, the limit is 40 (/reset starts over)"), "{}", full.err);
    let out = full.ok();
    let full = "[the context is full: /reset starts over]";
    assert_eq!(out.matches(full).count(), 2, "{out}");
    let (before, after) = out.split_once("[a new conversation]\n").unwrap();
    assert_eq!(before, after);
}
