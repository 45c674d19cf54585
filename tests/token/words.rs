//! BPE on words that white space separates, as in Jina's Chinese encoder.

use gleed::token::{EncodeOptions, Encoded, TokenError};

use crate::keys::{Keys, Value};
use crate::{decode, encode, with_tokenizer};

fn vocabulary() -> serde_json::Value {
    serde_json::from_str(include_str!("../data/words/vocabulary.json")).unwrap()
}

fn keys(file: &serde_json::Value) -> Keys {
    let texts =
        |key: &str| -> Vec<&str> { file[key].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect() };
    Keys::words(&texts("tokens"), &texts("merges"))
}

fn check(keys: &Keys, cases: &serde_json::Value) {
    with_tokenizer(&keys.file(), |tokenizer| {
        let cases = cases.as_array().unwrap();
        assert!(cases.len() >= 60);
        for case in cases {
            let text = case["text"].as_str().unwrap();
            let ids: Vec<u32> = serde_json::from_value(case["ids"].clone()).unwrap();
            assert_eq!(encode(tokenizer, text, false), ids, "{text:?}");
        }
    });
}

/// The ids are those of the library `tokenizers`.
#[test]
fn ids_are_those_of_the_original() {
    let file = vocabulary();
    check(&keys(&file), &file["cased"]);
    check(&keys(&file).with("normalizer.lowercase", Value::Flag(false)), &file["cased"]);
    let lowercase = keys(&file).with("normalizer.lowercase", Value::Flag(true));
    check(&lowercase, &file["lowercase"]);
    check(
        &lowercase.clone().with("model", Value::Text("gpt2")).with("pre", Value::Text("whitespace")),
        &file["lowercase"],
    );
}

#[test]
fn a_small_vocabulary() {
    let keys = Keys::words(&["a", "b", ",", "ab", "\u{2581}"], &["a b"]);
    with_tokenizer(&keys.file(), |tokenizer| {
        let names = |text: &str, options: EncodeOptions| {
            let mut out = [0; 32];
            let count = tokenizer.encode(text, options, &mut [0; 999], &mut out).unwrap().ids;
            let names = out[..count].iter().map(|&id| str::from_utf8(tokenizer.text(id).unwrap()).unwrap());
            names.collect::<Vec<_>>().join(" ")
        };
        let plain = EncodeOptions::default();
        assert_eq!(names("ab,a b \u{3000}\n", plain), "ab , a b");
        assert_eq!(names("\u{2581}a", plain), "\u{2581} a");
        // Every character without a token becomes the unknown token.
        assert_eq!(names("axxA", plain), "a <unk> <unk> <unk>");
        assert_eq!(names("a<mask>b", plain), "a <unk> <unk> a <unk> <unk> <unk> b");
        let all = EncodeOptions { add_special: true, parse_special: true, ..plain };
        assert_eq!(names("a<mask>b", all), "a <mask> b");
        assert_eq!(decode(tokenizer, &encode(tokenizer, "ab, a\u{2581}", false)), "ab,a\u{2581}");
    });
    let framed = keys.with("add_bos_token", Value::Flag(true)).with("add_eos_token", Value::Flag(true));
    with_tokenizer(&framed.file(), |tokenizer| {
        let mut out = [0; 9];
        let options = EncodeOptions { add_special: true, ..EncodeOptions::default() };
        let encoded = tokenizer.encode("b", options, &mut [0; 999], &mut out).unwrap();
        assert_eq!((encoded.ids, &out[..3]), (3, &[0, 6, 2][..]));
    });
}

/// U+130 becomes two characters. If only the second one has no token, the first one still becomes a token.
#[test]
fn bytes_without_a_token_are_counted() {
    let keys = Keys::words(&["a", "i"], &[]).with("normalizer.lowercase", Value::Flag(true));
    with_tokenizer(&keys.file(), |tokenizer| {
        let encode = |text: &str, exact| {
            let options = EncodeOptions { exact, ..EncodeOptions::default() };
            tokenizer.encode(text, options, &mut [0; 999], &mut [0; 9])
        };
        assert_eq!(encode("a \u{e9}A", false), Ok(Encoded { ids: 3, unspelled: 2 }));
        assert_eq!(encode("a \u{e9}A", true), Err(TokenError::NoToken { byte: 0xC3, at: 2 }));
        assert_eq!(encode("\u{130}", false), Ok(Encoded { ids: 2, unspelled: 0 }));
        assert_eq!(encode("\u{10A0}I", false), Ok(Encoded { ids: 2, unspelled: 3 }));
        for text in ["\u{130}".repeat(50), "\u{23A}".repeat(50), "a".repeat(100)] {
            let mut scratch = vec![0; tokenizer.scratch_len(text.len())];
            assert!(tokenizer.encode(&text, EncodeOptions::default(), &mut scratch, &mut [0; 100]).is_ok());
        }
    });
    let nameless = keys.with("unknown_token_id", Value::Number(u32::MAX));
    with_tokenizer(&nameless.file(), |tokenizer| {
        let encoded = tokenizer.encode("xa", EncodeOptions::default(), &mut [0; 999], &mut [0; 9]);
        assert_eq!(encoded, Ok(Encoded { ids: 1, unspelled: 1 }));
    });
}
