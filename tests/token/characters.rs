//! BPE on characters, as in Gemma 4.

use gleed::token::{EncodeOptions, Encoded, TokenKind};

use crate::keys::{Keys, Value};
use crate::{decode, encode, with_tokenizer};

/// The ids are those of the library `tokenizers`, in whose format Gemma 4's tokenizer was published.
#[test]
fn ids_are_those_of_the_original() {
    let file = include_str!("../data/characters/vocabulary.json");
    let file: serde_json::Value = serde_json::from_str(file).unwrap();
    let texts =
        |key: &str| -> Vec<&str> { file[key].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect() };
    with_tokenizer(&Keys::characters(&texts("tokens"), &texts("merges")).file(), |tokenizer| {
        let cases = file["cases"].as_array().unwrap();
        assert!(cases.len() > 100);
        for case in cases {
            let text = case["text"].as_str().unwrap();
            let ids: Vec<u32> = serde_json::from_value(case["ids"].clone()).unwrap();
            assert_eq!(encode(tokenizer, text, false), ids, "{text:?}");
            assert_eq!(decode(tokenizer, &ids), text.replace('\u{2581}', " "));
        }
    });
}

#[test]
fn a_small_vocabulary() {
    let tokens =
        ["a", "b", "\u{2581}", "\n", "ab", "\u{2581}a", "\n\n\n", "\u{2581}\u{2581}", "</s>", "<|tool_response>"];
    let merges = ["a b", "\u{2581} a", "\u{2581} \u{2581}"];
    let keys = Keys::characters(&tokens, &merges).with("add_bos_token", Value::Flag(false));
    with_tokenizer(&keys.file(), |tokenizer| {
        let names = |text: &str| {
            let ids = encode(tokenizer, text, true);
            let names = ids.iter().map(|&id| String::from_utf8(tokenizer.text(id).unwrap().to_vec()).unwrap());
            names.collect::<Vec<_>>().join(" ")
        };
        // Merges apply in the order of the list, and nothing is put before a text.
        assert_eq!(names("ab ab"), "ab \u{2581} ab");
        assert_eq!(names("b   a"), "b \u{2581}\u{2581} \u{2581}a");
        // A run of line ends that is a token becomes that token without merges. Other runs do not.
        assert_eq!(names("a\n\n\nb\n\n"), "a \n\n\n b \n \n");
        assert_eq!(names("c\u{e9}<bos>"), "<0x63> <0xC3> <0xA9> <bos>");
        // `</s>` is a tag of HTML here, and does not end a text. BOS is put in front, whatever the file says.
        let (tag, turn) = (tokenizer.find(b"</s>").unwrap(), tokenizer.find(b"<|tool_response>").unwrap());
        assert_eq!((tokenizer.is_end(tag), tokenizer.kind(tag)), (false, TokenKind::Normal));
        assert!(tokenizer.is_end(turn) && tokenizer.vocab().adds_bos());
    });
}

/// Tokens may reach over blanks within a line.
#[test]
fn words_need_not_be_apart() {
    let keys = Keys::characters(&["a", "b", "\u{2581}", "a\u{2581}", "a\u{2581}b"], &["a \u{2581}", "a\u{2581} b"]);
    with_tokenizer(&keys.file(), |tokenizer| {
        assert_eq!(encode(tokenizer, "a b", false), [264]);
        assert_eq!(decode(tokenizer, &[264]), "a b");
    });
}

#[test]
fn the_name_of_the_pre_tokenizer_will_do() {
    let rows = [
        ("gemma4", true, vec![260]),
        ("granite-embed-multi-311m", false, vec![260]),
        ("sarvam-moe", false, vec![14, 14]),
    ];
    for (pre, adds_bos, newlines) in rows {
        let keys = Keys::characters(&["\n\n"], &[]).with("model", Value::Text("gpt2")).with("pre", Value::Text(pre));
        with_tokenizer(&keys.file(), |tokenizer| {
            assert_eq!(tokenizer.vocab().adds_bos(), adds_bos);
            assert_eq!(encode(tokenizer, "\n\n", false), newlines);
        });
    }
}

/// In mmBERT's vocabulary a blank begins every word, and several blanks do, too.
#[test]
fn blanks_begin_words() {
    let tokens = ["a", "b", "\u{2581}", "\n", "\u{2581}a", "\u{2581}\u{2581}", "ab", "a\u{2581}", "\n\n"];
    let merges = ["\u{2581} a", "\u{2581} \u{2581}", "a b", "a \u{2581}"];
    let keys = Keys::characters(&tokens, &merges).with("model", Value::Text("gpt2")).with("pre", Value::Text("mmbert"));
    with_tokenizer(&keys.file(), |tokenizer| {
        let names = |text: &str| {
            let ids = encode(tokenizer, text, false);
            let names = ids.iter().map(|&id| String::from_utf8(tokenizer.text(id).unwrap().to_vec()).unwrap());
            names.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names("a"), "\u{2581}a");
        assert_eq!(names(" a"), "\u{2581}a");
        assert_eq!(names("\u{2581}a"), "\u{2581}a");
        assert_eq!(names("bab a"), "\u{2581} b ab \u{2581}a");
        // Neither two blanks nor a letter and a blank are in one word.
        assert_eq!(names("a   a "), "\u{2581}a \u{2581} \u{2581} \u{2581}a \u{2581}");
        assert_eq!(names("a\n\na\nb"), "\u{2581}a \n\n \u{2581}a \n \u{2581} b");
        assert_eq!(names(""), "");
    });
}

#[test]
fn bytes_without_a_token_are_left_out() {
    let keys = Keys::characters(&["a"], &[]);
    let Some(Value::Texts(mut texts)) = keys.get("tokens") else { panic!() };
    for byte in [0xA9, 0x96] {
        texts[4 + byte] = format!("gone {byte}").into_bytes();
    }
    with_tokenizer(&keys.with("tokens", Value::Texts(texts)).file(), |tokenizer| {
        let encode = |exact, out: &mut [u32]| {
            tokenizer.encode("a\u{e9} a", EncodeOptions { exact, ..EncodeOptions::default() }, &mut [0; 999], out)
        };
        let mut out = [0; 9];
        assert_eq!(encode(false, &mut out), Ok(Encoded { ids: 5, unspelled: 2 }));
        assert_eq!(out[..5], [260, 4 + 0xC3, 4 + 0xE2, 4 + 0x81, 260]);
        let error = encode(true, &mut out).unwrap_err();
        assert_eq!(error.to_string(), "the vocabulary has no token for byte 0xa9 at 2");
        assert_eq!(tokenizer.unspelled("a a", EncodeOptions::default(), &mut [0; 999]), Ok(1));
    });
}
