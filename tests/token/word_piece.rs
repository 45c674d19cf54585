//! WordPiece, with expectations made by hand. The ids of over 5,000 texts were once compared with those of Hugging
//! Face's `tokenizers`.

use gleed::token::{DecodeOptions, EncodeOptions, Encoded, TokenError};

use crate::keys::{Keys, Value};
use crate::{encode, with_tokenizer};

const TOKENS: [&str; 25] = [
    "un",
    "##aff",
    "##able",
    "##a",
    "hello",
    "world",
    "##s",
    "!",
    ",",
    "cafe",
    "naive",
    "strasse",
    "\u{4e2d}",
    "\u{6587}",
    "\u{1112}",
    "##\u{1161}",
    "##\u{11ab}",
    "a",
    "b",
    "##b",
    "[",
    "]",
    "unk",
    "\u{f1}",
    "h\u{e9}",
];

/// Returns the tokens of a text in BERT's notation.
fn texts(keys: &Keys, text: &str) -> String {
    let mut texts = Vec::new();
    with_tokenizer(&keys.file(), |tokenizer| {
        for id in encode(tokenizer, text, false) {
            let text = str::from_utf8(tokenizer.text(id).unwrap()).unwrap();
            texts.push(match text.strip_prefix('\u{2581}') {
                Some(word) => word.to_owned(),
                None if id < 5 => text.to_owned(),
                None => format!("##{text}"),
            });
        }
    });
    texts.join(" ")
}

#[test]
fn the_longest_tokens_come_first() {
    let keys = Keys::word_piece(&TOKENS);
    for (text, expected) in [
        ("", ""),
        (" \t\n", ""),
        ("unaffable", "un ##aff ##able"),
        ("Hello, WORLDS!", "hello , world ##s !"),
        // If a part of a word is no token, the whole word is unknown, but no other word.
        ("hello worldx hello", "hello [UNK] hello"),
        ("hello!!", "hello ! !"),
        ("caf\u{e9} cafe\u{301} NA\u{cf}VE", "cafe cafe naive"),
        ("Stra\u{df}e", "[UNK]"),
        ("a\u{4e2d}\u{6587}b", "a \u{4e2d} \u{6587} b"),
        ("\u{d55c}", "\u{1112} ##\u{1161} ##\u{11ab}"),
        // Control characters and similar ones are removed. Blanks of all kinds end words.
        ("a\u{0}b a\u{200b}b a\u{feff}b a\u{fffd}b", "a ##b a ##b a ##b a ##b"),
        ("a\u{a0}b\u{3000}a\u{2028}b\tb", "a b a b b"),
        // Names of special tokens are text.
        ("[UNK]", "[ unk ]"),
        // Unassigned characters are text, too.
        ("a\u{378}", "[UNK]"),
    ] {
        assert_eq!(texts(&keys, text), expected, "{text:?}");
    }
}

#[test]
fn keys_say_what_becomes_of_letters() {
    let keys = Keys::word_piece(&TOKENS).with("normalizer.strip_accents", Value::Flag(false));
    assert_eq!(texts(&keys, "H\u{c9} \u{d1} caf\u{e9}"), "h\u{e9} \u{f1} [UNK]");
    let keys = Keys::word_piece(&TOKENS).with("normalizer.lowercase", Value::Flag(false));
    assert_eq!(texts(&keys, "hello Hello h\u{e9}"), "hello [UNK] h\u{e9}");
    let keys = keys.with("normalizer.strip_accents", Value::Flag(true));
    assert_eq!(texts(&keys, "caf\u{e9} Hello"), "cafe [UNK]");
}

#[test]
fn texts_are_framed() {
    let framed = |keys: &Keys, text: &str| {
        let (mut out, mut count) = ([0; 16], 0);
        let options = EncodeOptions { add_special: true, parse_special: true, ..EncodeOptions::default() };
        with_tokenizer(&keys.file(), |tokenizer| {
            count = tokenizer.encode(text, options, &mut [0; 999], &mut out).unwrap().ids;
        });
        out[..count].to_vec()
    };
    let keys = Keys::word_piece(&TOKENS);
    assert_eq!(framed(&keys, "hello"), [2, 9, 3]);
    assert_eq!(framed(&keys, "hello[SEP] world"), [2, 9, 3, 10, 3]);
    let others = keys.clone().with("bos_token_id", Value::Number(4)).with("eos_token_id", Value::Number(0));
    assert_eq!(framed(&others, "hello"), [4, 9, 0]);
    let none = keys.clone().with("add_bos_token", Value::Flag(false)).with("add_eos_token", Value::Flag(false));
    assert_eq!(framed(&none, "hello"), [9]);
    with_tokenizer(&keys.file(), |tokenizer| {
        let mut out = [0; 64];
        let text = tokenizer.decode(&[2, 9, 10, 11, 12, 3], DecodeOptions::default(), &mut out).unwrap();
        assert_eq!(text, "hello worlds !");
    });
    // A small vocabulary without these keys has no such tokens.
    let nameless = keys.without("cls_token_id").without("seperator_token_id");
    assert_eq!(nameless.error().to_string(), "the file has no tokenizer.ggml.bos_token_id");
    let unknown = Keys::word_piece(&TOKENS).with("unknown_token_id", Value::Number(u32::MAX));
    with_tokenizer(&unknown.file(), |tokenizer| {
        let encode = |options| tokenizer.encode("hello \u{e9}x", options, &mut [0; 999], &mut [0; 9]);
        assert_eq!(encode(EncodeOptions::default()), Ok(Encoded { ids: 1, unspelled: 3 }));
        let exact = EncodeOptions { exact: true, ..EncodeOptions::default() };
        assert_eq!(encode(exact), Err(TokenError::NoToken { byte: 0xC3, at: 6 }));
    });
}

#[test]
fn errors_say_what_is_needed() {
    with_tokenizer(&Keys::word_piece(&TOKENS).file(), |tokenizer| {
        // Some characters become three times as many bytes.
        for text in ["hello world hello", &"\u{d55c}".repeat(300), &"a".repeat(5000)] {
            let enough = tokenizer.scratch_len(text.len());
            let ids = encode(tokenizer, text, false);
            let mut out = vec![0; ids.len()];
            let mut scratch = vec![0; enough];
            let Err(TokenError::OutputTooSmall { needed, given: 0 }) =
                tokenizer.encode(text, EncodeOptions::default(), &mut scratch, &mut [])
            else {
                panic!()
            };
            assert_eq!(needed, ids.len());
            let Err(TokenError::ScratchTooSmall { needed, given: 0 }) =
                tokenizer.encode(text, EncodeOptions::default(), &mut [], &mut out)
            else {
                panic!()
            };
            assert!(needed <= enough);
            let encoded = tokenizer.encode(text, EncodeOptions::default(), &mut scratch[..needed], &mut out);
            assert_eq!(encoded.unwrap().ids, ids.len());
            assert_eq!(out, ids);
        }
    });
}
