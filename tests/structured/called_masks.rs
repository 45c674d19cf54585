//! Masks of replies that call tools, with the vocabulary of Qwen 2: with any budget, from copies, and in states after a
//! rewind or a restore.

use gleed::grammar::{
    Calls, Grammar, Limits, Mark, MatchError, Matcher, Options, Source, TokenTrie, ToolChoice, Vocabulary, Whitespace,
};
use gleed::token::{EncodeOptions, Tokenizer};
use gleed::tools::{CallFormat, ThoughtMarks};

use super::Compiled;
use super::masks::{allows, mask_of, text_of, with_tokens};
use common::random::Rng;
use common::{Memory, shared_file};

const TOOLS: &[u8] = r#"[{"name": "weather", "description": "x", "parameters": {"type": "object", "properties": {
    "city": {"type": "string", "minLength": 1, "maxLength": 30}, "days": {"type": "integer", "minimum": 1, "maximum": 14},
    "unit": {"enum": ["celsius", "fahrenheit"]}, "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3}},
    "required": ["city"]}}, {"name": "web_search", "parameters": {"type": "object", "properties": {
    "query": {"type": "string"}, "when": {"type": "string", "format": "date"}}, "required": ["query"],
    "additionalProperties": false}}]"#
    .as_bytes();

const THOUGHT: &str = "<think>\nA <tool_call> or a {\"name\"? Grüße, 東京 😀.\n</think>\n\n";

/// A reply with calls for each of these formats.
const REPLIES: &[(CallFormat, &str)] = &[
    (
        CallFormat::Hermes,
        "Well, let me see.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"São \\\"Paulo\\\"\", \"days\": 12, \"unit\": \"celsius\", \
         \"tags\": [\"a b\", \"東京\"]}}\n</tool_call>\n<tool_call>\n{\"name\": \"web_search\", \"arguments\": {\"query\": \"😀 \\\\ rain\", \
         \"when\": \"2026-02-28\"}}\n</tool_call>",
    ),
    (CallFormat::Llama3, "{\"name\": \"weather\", \"parameters\": {\"city\": \"Zürich\", \"tags\": []}}"),
    (
        CallFormat::Qwen3_5,
        "Ok.\n<tool_call>\n<function=weather>\n<parameter=city>\nSão Paulo\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
    ),
    (
        CallFormat::Glm4_5,
        "Ok.\n<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>São Paulo</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
    ),
    (CallFormat::MistralV13, "[TOOL_CALLS]web_search[ARGS]{\"query\": \"rain in Rome\"}"),
    (CallFormat::Gemma4, "Ok<|tool_call>call:weather{city:<|\"|>Rom<|\"|>,days:3}<tool_call|>"),
];

fn saved(matcher: &Matcher<'_, '_>) -> Vec<u8> {
    let mut bytes = vec![0; matcher.snapshot_len()];
    matcher.snapshot(&mut bytes).unwrap();
    bytes
}

/// Returns the mask, made in one call.
fn mask(matcher: &mut Matcher<'_, '_>, trie: &TokenTrie<'_>) -> Vec<u32> {
    let mut mask = vec![u32::MAX; trie.mask_len()];
    assert_eq!(matcher.mask(trie, usize::MAX, &mut mask), Ok(true));
    mask
}

/// Takes the tokens of a reply and compares the masks of each state. Returns the number of states.
fn compare(
    grammar: &Grammar<'_>,
    (tokenizer, trie): (&Tokenizer<'_, '_>, &TokenTrie<'_>),
    (reply, ids): (&str, &[u32]),
    random: &mut Rng,
) -> usize {
    let limits = Limits::default();
    let bytes = Matcher::plan(limits).unwrap();
    let (mut memory, mut other) = (Memory::new(bytes), Memory::new(bytes));
    let mut matcher = Matcher::new(grammar, limits, memory.bytes()).unwrap();
    for (index, &id) in ids.iter().enumerate() {
        let place = || format!("{reply:?}, token {index}, {:?}", String::from_utf8_lossy(&text_of(tokenizer, id)));
        let before = saved(&matcher);
        let whole = mask(&mut matcher, trie);
        assert!(allows(&whole, id), "{}", place());
        let again = match index % 4 {
            0 => mask_of(&mut matcher, trie, 1 + random.below(9)),
            1 => mask_of(&mut matcher.fork(other.bytes()).unwrap(), trie, 1),
            2 => {
                let back = random.below(matcher.rewindable() + 1);
                matcher.rewind(back).unwrap();
                for &id in &ids[index - back..index] {
                    assert_eq!(matcher.accept(tokenizer, id), Ok(true), "{}", place());
                }
                mask_of(&mut matcher, trie, 7)
            }
            _ => {
                let mut restored = Matcher::new(grammar, limits, other.bytes()).unwrap();
                restored.restore(&before).unwrap();
                mask_of(&mut restored, trie, 3)
            }
        };
        assert!(again == whole, "{}", place());
        // An unfinished mask does not change the state.
        let mut rest = vec![0; trie.mask_len()];
        let _is_begun = matcher.mask(trie, 1, &mut rest).unwrap();
        assert_eq!(saved(&matcher), before, "{}", place());
        for _ in 0..40 {
            let other = random.below(tokenizer.tokens() as usize) as u32;
            let accepted = matcher.accept(tokenizer, other);
            assert_eq!(accepted, Ok(allows(&whole, other)), "{}: {:?}", place(), text_of(tokenizer, other));
            if accepted == Ok(true) {
                matcher.rewind(1).or_else(|_: MatchError| matcher.restore(&before)).unwrap();
            }
        }
        assert_eq!(matcher.accept(tokenizer, id), Ok(true), "{}", place());
    }
    assert!(matcher.may_end(), "{reply:?}");
    ids.len()
}

#[test]
fn masks_of_replies_with_calls_are_the_same_in_any_steps() {
    let Some(file) = shared_file("fixtures/tokenizers/vocab/ggml-vocab-qwen2.gguf") else { return };
    let mut random = Rng::new(23);
    with_tokens(&file, |tokenizer, trie| {
        assert!(tokenizer.tokens() > 150_000);
        let mut states = 0;
        // Marks are text, or tokens without bytes.
        let own = [("<tool_call>", "<|im_start|>"), ("</tool_call>", "<|im_end|>")];
        let own = own.map(|(text, name)| (name, Mark { text, token: tokenizer.find(name.as_bytes()).unwrap() }));
        for (&(format, call), is_silent) in REPLIES.iter().flat_map(|reply| [(reply, false), (reply, true)]) {
            if is_silent && !call.contains("<tool_call>") {
                continue;
            }
            for thoughts in [None, Some(ThoughtMarks::THINK)] {
                let marks = if is_silent { own.map(|(_, mark)| mark).to_vec() } else { vec![] };
                for choice in [ToolChoice::Auto, ToolChoice::Required] {
                    let calls = Calls { thoughts, choice, marks: &marks, ..Calls::new(TOOLS, format) };
                    let source = Source::Tools(calls);
                    let options = Options { whitespace: Whitespace::Spaced, ..Options::default() };
                    let mut compiled = Compiled::new(source, &options).unwrap();
                    // If a call is required, no text comes before it.
                    let begin = calls_at(call);
                    let call = if choice == ToolChoice::Auto { call } else { &call[begin..] };
                    // Within a thought, a mark is text.
                    let named = |text: String, (name, mark): &(&str, Mark)| text.replace(mark.text, name);
                    let call = if is_silent { own.iter().fold(call.to_owned(), named) } else { call.to_owned() };
                    let reply = format!("{}{call}", thoughts.map_or("", |_| THOUGHT));
                    let options = EncodeOptions { parse_special: true, continues: true, ..EncodeOptions::default() };
                    let (mut ids, mut scratch) = (vec![0; reply.len()], vec![0; tokenizer.scratch_len(reply.len())]);
                    let count = tokenizer.encode(&reply, options, &mut scratch, &mut ids).unwrap().ids;
                    states += compiled.with(
                        source,
                        &Options { whitespace: Whitespace::Spaced, ..Options::default() },
                        |grammar| compare(grammar, (tokenizer, trie), (&reply, &ids[..count]), &mut random),
                    );
                }
            }
        }
        println!("{states} states");
        assert!(states > 500);
    });
}

/// Returns the offset of the mark in a reply.
fn calls_at(reply: &str) -> usize {
    ["<tool_call>", "<|tool_call>", "[TOOL_CALLS]", "{"].iter().filter_map(|mark| reply.find(mark)).min().unwrap_or(0)
}
