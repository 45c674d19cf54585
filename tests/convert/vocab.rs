//! Vocabularies: from `tokenizer.json`, from SentencePiece's `tokenizer.model`, and from llama2.c.

use std::collections::HashMap;

use gguf_rs_lite::Gguf;
use gleed::token::{EncodeOptions, Tokenizer};
use serde_json::{Value as Json, json};

use crate::{convert, converted, folder, greedy, scratch};
use common::fixtures::ids;
use common::{Memory, shared_file};

fn encode(file: &[u8], text: &str, add_special: bool) -> Vec<u32> {
    let gguf = Gguf::parse(file).unwrap();
    let mut tables = Memory::new(Tokenizer::plan(&gguf).unwrap());
    let tokenizer = Tokenizer::new(&gguf, tables.bytes()).unwrap();
    let (mut scratch, mut ids) = (vec![0; tokenizer.scratch_len(text.len())], vec![0; 4 * text.len() + 3]);
    let options = EncodeOptions { add_special, parse_special: true, ..EncodeOptions::default() };
    let count = tokenizer.encode(text, options, &mut scratch, &mut ids).unwrap().ids;
    ids.truncate(count);
    ids
}

fn text<'g>(gguf: &Gguf<'g>, key: &str) -> Option<&'g str> {
    gguf.get(&format!("tokenizer.{key}")).and_then(|value| value.as_str())
}

fn number(gguf: &Gguf<'_>, key: &str) -> Option<u64> {
    gguf.get(&format!("tokenizer.ggml.{key}")).and_then(|value| value.as_u64())
}

fn flag(gguf: &Gguf<'_>, key: &str) -> Option<bool> {
    gguf.get(&format!("tokenizer.ggml.{key}")).and_then(|value| value.as_bool())
}

fn texts(gguf: &Gguf<'_>, key: &str) -> Vec<String> {
    let array = gguf.get(&format!("tokenizer.ggml.{key}")).and_then(|value| value.as_array()).unwrap();
    array.iter().map(|value| value.as_str().unwrap().to_owned()).collect()
}

fn kinds(gguf: &Gguf<'_>) -> Vec<i64> {
    let array = gguf.get("tokenizer.ggml.token_type").and_then(|value| value.as_array()).unwrap();
    array.iter().map(|value| value.as_i64().unwrap()).collect()
}

fn added(id: usize, content: &str, special: bool) -> Json {
    json!({"id": id, "content": content, "special": special})
}

/// Returns a byte-level tokenizer whose tokens are the characters of the 256 bytes, then `words`.
fn byte_level(words: &[&str], merges: Json, pre_tokenizer: Json) -> Json {
    let shown = |byte: &u32| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let hidden = (0..256).filter(|byte| !shown(byte)).count() as u32;
    let characters = (0..256).filter(shown).chain(256..256 + hidden).filter_map(char::from_u32);
    let tokens = characters.map(String::from).chain(words.iter().map(|word| (*word).to_owned()));
    let vocab: serde_json::Map<_, _> = tokens.enumerate().map(|(id, token)| (token, json!(id))).collect();
    json!({"added_tokens": [added(259, "<|end|>", true), added(260, "<think>", false)], "pre_tokenizer": pre_tokenizer,
        "model": {"type": "BPE", "vocab": vocab, "merges": merges}})
}

const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Covers merges as texts and as pairs, names of pre-tokenizers, and special tokens from all files that can have them.
#[test]
fn byte_level_bpe() {
    let byte_level_step = |regex: bool| json!({"type": "ByteLevel", "add_prefix_space": false, "use_regex": regex});
    let split = |regex: &str| json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated"});
    let sequence = |steps: Json| json!({"type": "Sequence", "pretokenizers": steps});
    let qwen2 = LLAMA3.replace("{1,3}", "");
    let cases = [
        ("gpt-2", byte_level_step(true)),
        ("smollm", sequence(json!([{"type": "Digits", "individual_digits": true}, byte_level_step(true)]))),
        ("qwen2", sequence(json!([split(&qwen2), byte_level_step(false)]))),
    ];
    for (name, pre_tokenizer) in cases {
        for merges in [json!(["h e", "l l", "he ll"]), json!([["h", "e"], ["l", "l"], ["he", "ll"]])] {
            let mut tokenizer = byte_level(&["he", "ll", "hell"], merges, pre_tokenizer.clone());
            tokenizer["post_processor"] = json!({"type": "TemplateProcessing", "single": [
                {"SpecialToken": {"id": "<|end|>"}}, {"Sequence": {"id": "A"}}]});
            let config = json!({"bos_token": "<|end|>", "eos_token": {"content": "<|end|>"},
                "chat_template": [{"name": "tools", "template": "t"}, {"name": "default", "template": "{{ x }}"}]});
            let generation = json!({"eos_token_id": [259, 260]});
            let files = [
                ("tokenizer.json", tokenizer),
                ("tokenizer_config.json", config),
                ("generation_config.json", generation),
            ];
            let file = converted(&folder(&format!("bytes-{name}"), 264, &files), &[]);
            let gguf = Gguf::parse(&file).unwrap();
            assert_eq!((text(&gguf, "ggml.model"), text(&gguf, "ggml.pre")), (Some("gpt2"), Some(name)));
            assert_eq!(texts(&gguf, "merges"), ["h e", "l l", "he ll"]);
            assert_eq!(
                texts(&gguf, "tokens")[258..],
                ["hell", "<|end|>", "<think>", "[PAD261]", "[PAD262]", "[PAD263]"]
            );
            assert_eq!(kinds(&gguf)[257..], [1, 1, 3, 4, 5, 5, 5]);
            let special = ["bos_token_id", "eos_token_id", "eot_token_id"].map(|key| number(&gguf, key));
            assert_eq!(special, [Some(259), Some(259), Some(260)]);
            assert_eq!((flag(&gguf, "add_bos_token"), flag(&gguf, "add_eos_token")), (Some(true), Some(false)));
            assert_eq!(text(&gguf, "chat_template"), Some("{{ x }}"));
            assert_eq!(encode(&file, "hello<|end|>", true), [259, 258, u32::from(b'o') - 0x21, 259]);
            greedy(&file, &[5, 6], 2);
        }
    }
}

/// Returns the parts of a SentencePiece vocabulary: unknown, BOS, EOS, the bytes, and words.
fn pieces() -> Vec<(String, f32, u8)> {
    let mut pieces = vec![("<unk>".into(), 0.0, 2), ("<s>".into(), 0.0, 3), ("</s>".into(), 0.0, 3)];
    pieces.extend((0..256).map(|byte| (format!("<0x{byte:02X}>"), 0.0, 6)));
    let words = ["\u{2581}", "a", "b", "c", "ab", "bc", "\u{2581}ab", "abc"];
    pieces.extend((0_u8..).zip(words).map(|(rank, word)| (word.into(), -f32::from(rank), 1)));
    pieces
}

/// Returns a `tokenizer.model` with these pieces.
pub(crate) fn sentence_piece(model_type: u8) -> Vec<u8> {
    let field = |number: u8, bytes: &[u8]| [&[number << 3 | 2, bytes.len() as u8], bytes].concat();
    let mut file = Vec::new();
    for (text, score, kind) in pieces() {
        let piece = [&field(1, text.as_bytes())[..], &[2 << 3 | 5], &score.to_le_bytes(), &[3 << 3, kind]].concat();
        file.extend(field(1, &piece));
    }
    // The pad id is -1, which takes ten bytes.
    let minus_one = [&[0xff; 9][..], &[1]].concat();
    let trainer = [&[3 << 3, model_type, 0xc0, 2, 0, 0xc8, 2, 1, 0xd0, 2, 2, 0xd8, 2][..], &minus_one].concat();
    file.extend(field(2, &trainer));
    file.extend(field(3, &[&field(1, b"identity")[..], &[3 << 3, 0]].concat()));
    file
}

/// Pieces with scores give ids, and the merges that other tools make of the pieces give the same ids.
#[test]
fn sentence_piece_and_its_merges() {
    let config =
        json!({"added_tokens_decoder": {"267": {"content": "<turn>", "special": true}}, "pad_token": "<turn>"});
    let with_pieces = folder("pieces", 270, &[("tokenizer_config.json", config)]);
    std::fs::write(with_pieces.join("tokenizer.model"), sentence_piece(2)).unwrap();
    let from_pieces = converted(&with_pieces, &[]);
    let gguf = Gguf::parse(&from_pieces).unwrap();
    assert_eq!((text(&gguf, "ggml.model"), number(&gguf, "padding_token_id")), (Some("llama"), Some(267)));
    assert_eq!((flag(&gguf, "add_bos_token"), flag(&gguf, "add_space_prefix")), (Some(true), Some(false)));
    let special = ["bos_token_id", "eos_token_id", "unknown_token_id"].map(|key| number(&gguf, key));
    assert_eq!(special, [Some(1), Some(2), Some(0)]);
    assert_eq!(kinds(&gguf)[..4], [2, 3, 3, 6]);
    assert_eq!(kinds(&gguf)[266..], [1, 3, 5, 5]);
    let scores = gguf.get("tokenizer.ggml.scores").and_then(|value| value.as_array()).unwrap();
    assert_eq!(scores.get(266).and_then(|score| score.as_f32()), Some(-7.0));

    let vocab: serde_json::Map<_, _> =
        pieces().into_iter().enumerate().map(|(id, (text, ..))| (text, json!(id))).collect();
    let merges = json!([["a", "b"], ["b", "c"], ["\u{2581}", "ab"], ["a", "bc"], ["ab", "c"]]);
    let names = [added(0, "<unk>", true), added(1, "<s>", true), added(2, "</s>", true), added(267, "<turn>", true)];
    let normalizer = json!({"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"});
    let tokenizer = json!({"added_tokens": names, "normalizer": normalizer, "model": {"type": "BPE", "vocab": vocab,
        "merges": merges, "byte_fallback": true, "unk_token": "<unk>"}});
    let config = json!({"bos_token": "<s>", "eos_token": "</s>"});
    let files = [("tokenizer.json", tokenizer), ("tokenizer_config.json", config)];
    let from_merges = converted(&folder("merges", 270, &files), &[]);
    let other = Gguf::parse(&from_merges).unwrap();
    for key in ["tokens", "token_type", "add_bos_token", "add_space_prefix", "bos_token_id", "unknown_token_id"] {
        let key = format!("tokenizer.ggml.{key}");
        assert_eq!(other.get(&key), gguf.get(&key), "{key}");
    }
    for text in ["abc ab bca<turn>c", "  aabbcc", "\u{e9}ab", ""] {
        let ids = encode(&from_pieces, text, true);
        assert_eq!(encode(&from_merges, text, true), ids, "{text:?}");
    }
    assert_eq!(encode(&from_pieces, " ab<turn>", true), [1, 265, 267]);
}

/// BPE on words that white space separates.
#[test]
fn words() {
    let tokens =
        ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "a", "b", "\u{6a21}", "\u{578b}", "ab", "\u{6a21}\u{578b}"];
    let vocab: serde_json::Map<_, _> =
        tokens.iter().enumerate().map(|(id, text)| ((*text).into(), json!(id))).collect();
    let names: Vec<Json> = (0..5).map(|id| added(id, tokens[id], true)).collect();
    let tokenizer = json!({"added_tokens": names, "pre_tokenizer": {"type": "Whitespace"},
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]},
        "post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]},
        "model": {"type": "BPE", "vocab": vocab, "merges": [["a", "b"], ["\u{6a21}", "\u{578b}"]], "unk_token": "<unk>"}});
    let config = json!({"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"});
    let files = [("tokenizer.json", tokenizer), ("tokenizer_config.json", config)];
    let file = converted(&folder("words", 12, &files), &[]);
    let gguf = Gguf::parse(&file).unwrap();
    assert_eq!((text(&gguf, "ggml.model"), text(&gguf, "ggml.pre")), (Some("whitespace"), Some("whitespace")));
    assert_eq!((kinds(&gguf)[3], flag(&gguf, "normalizer.lowercase")), (2, Some(true)));
    assert_eq!(encode(&file, "AB \u{6a21}\u{578b}\n,b", true), [0, 9, 10, 3, 6, 2]);
}

/// Returns a llama2.c model and its vocabulary, made in the test.
fn llama2c(vocab: &[(String, f32, u8)]) -> (Vec<u8>, Vec<u8>) {
    let (hidden, ffn, layers, heads, kv_heads, context) = (16_usize, 24_usize, 2_usize, 4_usize, 2_usize, 32_usize);
    let sizes = [hidden, ffn, layers, heads, kv_heads, vocab.len(), context];
    let mut model: Vec<u8> = sizes.iter().flat_map(|&size| (size as i32).to_le_bytes()).collect();
    let mut rng = common::random::Rng::new(5);
    let matrices = hidden * hidden * 2 + 2 * hidden * (hidden / heads * kv_heads) + 3 * hidden * ffn + 2 * hidden;
    let floats = vocab.len() * hidden + layers * matrices + hidden + context * (hidden / heads);
    model.extend((0..floats).flat_map(|_| (0.3 * rng.normal()).to_le_bytes()));
    let mut tokenizer = 7_i32.to_le_bytes().to_vec();
    for (id, (text, score, _)) in vocab.iter().enumerate() {
        let text = if id == 1 { "\n<s>\n".into() } else { text.replace('\u{2581}', " ") };
        tokenizer.extend(score.to_le_bytes());
        tokenizer.extend((text.len() as i32).to_le_bytes());
        tokenizer.extend(text.as_bytes());
    }
    (model, tokenizer)
}

#[test]
fn llama2c_models() {
    let vocab = pieces();
    let (model, tokenizer) = llama2c(&vocab);
    let (path, words) = (scratch("made.bin"), scratch("made-tokenizer.bin"));
    std::fs::write(&path, &model).unwrap();
    std::fs::write(&words, &tokenizer).unwrap();
    let file = converted(&path, &["--tokenizer", words.to_str().unwrap()]);
    let gguf = Gguf::parse(&file).unwrap();
    // The file groups weights by kind: the weights of layer 1 follow those of layer 0 of the same kind.
    let (embedding, norms) = (28, 28 + 4 * 16 * vocab.len());
    assert!(gguf.tensor("token_embd.weight").unwrap().data() == &model[embedding..norms]);
    assert!(gguf.tensor("blk.1.attn_norm.weight").unwrap().data() == &model[norms + 64..norms + 128]);
    assert!(gguf.tensor("blk.0.attn_q.weight").unwrap().data() == &model[norms + 128..norms + 128 + 1024]);
    let left = 4 * (16 + 32 * 4);
    assert!(gguf.tensor("output_norm.weight").unwrap().data() == &model[model.len() - left..][..64]);
    assert_eq!(texts(&gguf, "tokens"), vocab.iter().map(|(text, ..)| text.clone()).collect::<Vec<_>>());
    assert_eq!(kinds(&gguf), vocab.iter().map(|(.., kind)| i64::from(*kind)).collect::<Vec<_>>());
    assert_eq!(encode(&file, "abc", true)[0], 1);
    assert_eq!(greedy(&file, &[1, 260, 261], 4).len(), 4);
}

/// The SentencePiece model of the vocabulary works as well as `tokenizer.bin`. It states that no blank is put in front.
#[test]
fn llama2c_models_with_a_sentence_piece_vocabulary() {
    let (model, tokenizer) = llama2c(&pieces());
    let paths = ["pieces.bin", "pieces-tokenizer.bin", "pieces-tokenizer.model", "pieces-wrong.model"].map(scratch);
    let [path, words, pieces, wrong] = &paths;
    let write = |path: &std::path::Path, bytes: &[u8]| std::fs::write(path, bytes).unwrap();
    let file = sentence_piece(2);
    write(path, &model);
    write(words, &tokenizer);
    write(pieces, &file);
    let from_words = converted(path, &["--tokenizer", words.to_str().unwrap()]);
    let from_pieces = converted(path, &["--tokenizer", pieces.to_str().unwrap()]);
    let (one, other) = (Gguf::parse(&from_words).unwrap(), Gguf::parse(&from_pieces).unwrap());
    for key in ["tokens", "scores", "token_type", "add_bos_token", "add_eos_token", "bos_token_id", "eos_token_id"] {
        let key = format!("tokenizer.ggml.{key}");
        assert!(one.get(&key).is_some());
        assert_eq!(one.get(&key), other.get(&key), "{key}");
    }
    assert_eq!((flag(&one, "add_space_prefix"), flag(&other, "add_space_prefix")), (Some(true), Some(false)));
    assert_eq!(encode(&from_words, "ab abc", true), encode(&from_pieces, " ab abc", true));

    let out = scratch("pieces-wrong.gguf");
    let refused = |bytes: &[u8], message: &str| {
        write(wrong, bytes);
        let error = convert(path, &out, &["--tokenizer", wrong.to_str().unwrap()]).unwrap_err();
        assert!(error.contains(message), "{error}");
    };
    refused(&file[..file.len() - 1], "pieces-wrong.model: it is no SentencePiece model, or cut off");
    refused(&sentence_piece(1), "pieces-wrong.model: a model of type 1 is not supported");
    refused(&[&file[..], &file[..file.len() / 2]].concat(), "pieces-wrong.model: ");
}

/// The vocabularies of released models, taken apart in the form of Hugging Face, give the known ids.
#[test]
fn released_vocabularies() {
    for (name, expression, ignore_merges) in [
        ("gpt-2", None, false),
        ("llama-bpe", Some(LLAMA3.to_owned()), true),
        ("qwen2", Some(LLAMA3.replace("{1,3}", "")), false),
    ] {
        let Some(known) = shared_file(&format!("fixtures/tokenizers/vocab/ggml-vocab-{name}.gguf")) else { return };
        let known = Gguf::parse(&known).unwrap();
        let (tokens, kinds) = (texts(&known, "tokens"), kinds(&known));
        let special: Vec<Json> =
            (0..tokens.len()).filter(|&id| kinds[id] != 1).map(|id| added(id, &tokens[id], kinds[id] == 3)).collect();
        let vocab: serde_json::Map<_, _> = tokens
            .iter()
            .enumerate()
            .filter(|(id, _)| kinds[*id] == 1)
            .map(|(id, text)| (text.clone(), json!(id)))
            .collect();
        let merges: Vec<Json> =
            texts(&known, "merges").iter().map(|pair| json!(pair.split_once(' ').unwrap())).collect();
        let pre_tokenizer = match expression {
            None => json!({"type": "ByteLevel", "use_regex": true}),
            Some(regex) => json!({"type": "Sequence", "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": regex}}, {"type": "ByteLevel", "use_regex": false}]}),
        };
        let tokenizer = json!({"added_tokens": special, "pre_tokenizer": pre_tokenizer,
            "model": {"type": "BPE", "vocab": vocab, "merges": merges, "ignore_merges": ignore_merges}});
        let folder = folder(name, tokens.len(), &[("tokenizer.json", tokenizer)]);
        let file = converted(&folder, &[]);
        let gguf = Gguf::parse(&file).unwrap();
        for key in ["tokens", "token_type", "merges", "pre"] {
            let key = format!("tokenizer.ggml.{key}");
            assert!(gguf.get(&key) == known.get(&key), "{name}: {key}");
        }
        check_ids(&file, name);
        std::fs::remove_dir_all(folder).unwrap();
    }
}

/// Checks some of the texts with known ids.
fn check_ids(file: &[u8], name: &str) {
    let lines = |path: &str| -> Vec<Json> {
        let file = shared_file(path).unwrap();
        let lines = file.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        lines.step_by(97).map(|line| serde_json::from_slice(line).unwrap()).collect()
    };
    let (texts, pairs) =
        (lines("fixtures/tokenizers/texts.jsonl"), lines(&format!("fixtures/tokenizers/pairs/{name}.jsonl")));
    for (text, pair) in texts.iter().zip(&pairs) {
        let wanted = if pair["ids_special"].is_null() { &pair["ids"] } else { &pair["ids_special"] };
        let text = text["text"].as_str().unwrap();
        assert_eq!(encode(file, text, false), ids(wanted), "{name}: {text:?}");
    }
}

/// The merges that Hugging Face makes of Llama 2's pieces give the ids of the pieces.
#[test]
fn released_merges() {
    let Some(known) = shared_file("fixtures/tokenizers/vocab/ggml-vocab-llama-spm.gguf") else { return };
    let known = Gguf::parse(&known).unwrap();
    let (tokens, kinds) = (texts(&known, "tokens"), kinds(&known));
    let places: HashMap<&str, usize> = tokens.iter().enumerate().map(|(id, text)| (&text[..], id)).collect();
    let scores = known.get("tokenizer.ggml.scores").and_then(|value| value.as_array()).unwrap();
    let scores: Vec<f32> = scores.iter().map(|score| score.as_f32().unwrap()).collect();
    let mut normal: Vec<usize> = (0..tokens.len()).filter(|&id| kinds[id] == 1).collect();
    normal.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    let merges = normal.into_iter().flat_map(|id| {
        let text = &tokens[id];
        let halves = text.char_indices().skip(1).map(|(at, _)| text.split_at(at));
        let mut pairs: Vec<_> =
            halves.filter_map(|(left, right)| Some((*places.get(left)?, *places.get(right)?, left, right))).collect();
        pairs.sort();
        pairs.into_iter().map(|(_, _, left, right)| json!([left, right]))
    });
    let special: Vec<Json> =
        (0..tokens.len()).filter(|&id| matches!(kinds[id], 2 | 3)).map(|id| added(id, &tokens[id], true)).collect();
    let vocab: serde_json::Map<_, _> = tokens.iter().enumerate().map(|(id, text)| (text.clone(), json!(id))).collect();
    let normalizer = json!({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u{2581}"}]});
    let tokenizer = json!({"added_tokens": special, "normalizer": normalizer, "model": {"type": "BPE", "vocab": vocab,
        "merges": merges.collect::<Vec<_>>(), "byte_fallback": true, "unk_token": "<unk>"}});
    let folder = folder("llama-spm", tokens.len(), &[("tokenizer.json", tokenizer)]);
    let file = converted(&folder, &[]);
    let gguf = Gguf::parse(&file).unwrap();
    assert_eq!((text(&gguf, "ggml.model"), flag(&gguf, "add_space_prefix")), (Some("llama"), Some(true)));
    assert!(self::kinds(&gguf) == kinds);
    check_ids(&file, "llama-spm");
    std::fs::remove_dir_all(folder).unwrap();
}
