//! SentencePiece unigram.

use gleed::token::{DecodeOptions, EncodeOptions, Encoded, TokenError, VocabError};
use proptest::prelude::*;
use serde_json::Value as Json;

use crate::keys::{Keys, Value};
use crate::{decode, encode, with_tokenizer};

/// Returns a small vocabulary: the unknown token, EOS, then `tokens`. It has no rules.
fn small(tokens: &[(&str, f32)]) -> Keys {
    let special = [("<unk>", 0.0, 2), ("</s>", 0.0, 3)];
    let tokens: Vec<_> = special.into_iter().chain(tokens.iter().map(|&(text, score)| (text, score, 1))).collect();
    Keys::unigram(&tokens, &[])
}

/// Returns the vocabularies of `vocabulary.json` and their cases. A vocabulary without tokens has those of the one
/// before it.
fn vocabularies() -> Vec<(Keys, Json)> {
    let all: Json = serde_json::from_str(include_str!("../data/unigram/vocabulary.json")).unwrap();
    let (mut found, mut base) = (Vec::new(), Keys::unigram(&[], &[]));
    for one in all.as_array().unwrap() {
        if let Some(tokens) = one["tokens"].as_array() {
            let tokens = tokens.iter().zip(one["scores"].as_array().unwrap()).zip(one["kinds"].as_array().unwrap());
            let tokens: Vec<_> = tokens
                .map(|((text, score), kind)| {
                    (text.as_str().unwrap(), score.as_f64().unwrap() as f32, kind.as_i64().unwrap() as i32)
                })
                .collect();
            let hex = one["charsmap"].as_str().unwrap();
            let charsmap = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap());
            let id = |kind, name| tokens.iter().position(|&(text, _, k)| k == kind || text == name).unwrap() as u32;
            base = Keys::unigram(&tokens, &charsmap.collect::<Vec<_>>())
                .with("unknown_token_id", Value::Number(id(2, "<unk>")))
                .with("eos_token_id", Value::Number(id(3, "</s>")));
        }
        let flag = |key: &str| Value::Flag(one[key].as_bool().unwrap());
        let keys = base.clone().with("add_space_prefix", flag("prefix"));
        found.push((keys.with("remove_extra_whitespaces", flag("merge")), one["cases"].clone()));
    }
    found
}

/// The ids are those of the library `sentencepiece`: see `make.py` beside the file.
#[test]
fn ids_are_those_of_the_original() {
    let mut count = 0;
    for (keys, cases) in vocabularies() {
        with_tokenizer(&keys.file(), |tokenizer| {
            for case in cases.as_array().unwrap() {
                let text = case["text"].as_str().unwrap();
                let ids: Vec<u32> = serde_json::from_value(case["ids"].clone()).unwrap();
                assert_eq!(encode(tokenizer, text, false), ids, "{text:?}");
                count += 1;
            }
        });
    }
    assert!(count > 150, "{count}");
}

#[test]
fn the_highest_sum_counts() {
    let keys = small(&[("\u{2581}", -4.0), ("a", -3.0), ("b", -3.0), ("ab", -5.0), ("\u{2581}a", -5.0), ("bb", -7.0)]);
    with_tokenizer(&keys.file(), |tokenizer| {
        let names = |text: &str| {
            let ids = encode(tokenizer, text, false);
            let names = ids.iter().map(|&id| String::from_utf8(tokenizer.text(id).unwrap().to_vec()).unwrap());
            names.collect::<Vec<_>>().join(" ").replace('\u{2581}', "_")
        };
        for (text, expected) in [
            ("", ""),
            ("  ", ""),
            ("a", "_a"),
            // -5 - 3 is more than -4 - 5.
            ("ab", "_a b"),
            ("bab", "_ b ab"),
            ("bb", "_ b b"),
            (" a   b ", "_a _ b"),
            ("axyb", "_a <unk> b"),
            ("x\u{e9}y a\u{4e00}", "_ <unk> _a <unk>"),
            ("</s>", "_ <unk>"),
        ] {
            assert_eq!(names(text), expected, "{text:?}");
        }
        assert_eq!(decode(tokenizer, &encode(tokenizer, " a  bab", false)), "a bab");
        let options = EncodeOptions { add_special: true, parse_special: true, ..EncodeOptions::default() };
        let mut out = [9; 8];
        let encoded = tokenizer.encode("a</s>a", options, &mut [0; 999], &mut out);
        assert_eq!((encoded, out[..4].to_vec()), (Ok(Encoded { ids: 4, unspelled: 0 }), vec![6, 1, 6, 1]));
        let text = tokenizer.decode(&[6, 1], DecodeOptions::default(), &mut out_bytes()).map(str::to_owned);
        assert_eq!(text, Ok("a".to_owned()));
    });
}

fn out_bytes() -> [u8; 64] {
    [0; 64]
}

#[test]
fn what_has_no_token_is_counted_or_refused() {
    let keys = small(&[("\u{2581}", -4.0), ("a", -3.0)]);
    let encode = |keys: &Keys, text: &str, exact| {
        let mut found = Err(TokenError::UnknownId { id: 0, tokens: 0 });
        with_tokenizer(&keys.file(), |tokenizer| {
            let options = EncodeOptions { exact, ..EncodeOptions::default() };
            found = tokenizer.encode(text, options, &mut [0; 9999], &mut [0; 99]);
        });
        found
    };
    assert_eq!(encode(&keys, "a \u{e9}x a", false), Ok(Encoded { ids: 6, unspelled: 3 }));
    assert_eq!(encode(&keys, "a \u{e9}x a", true), Err(TokenError::NoToken { byte: 0xC3, at: 2 }));
    assert_eq!(encode(&keys, "a a", true), Ok(Encoded { ids: 4, unspelled: 0 }));
    // There is no token for the blank. The blank before a text is not part of the text.
    let bare = small(&[("a", -3.0), ("b", -3.0)]);
    assert_eq!(encode(&bare, "a", true), Ok(Encoded { ids: 2, unspelled: 0 }));
    assert_eq!(encode(&bare, "a  b", false), Ok(Encoded { ids: 4, unspelled: 1 }));
    let bytes: Vec<(String, f32, i32)> = (0..=255).map(|byte| (format!("<0x{byte:02X}>"), 0.0, 6)).collect();
    let tokens = [("<unk>", 0.0, 2), ("</s>", 0.0, 3), ("\u{2581}", -2.0, 1)];
    let bytes: Vec<_> = bytes.iter().map(|(text, score, kind)| (text.as_str(), *score, *kind)).collect();
    let fallback = Keys::unigram(&[&tokens[..], &bytes].concat(), &[]);
    with_tokenizer(&fallback.file(), |tokenizer| {
        assert_eq!(crate::encode(tokenizer, "\u{e9}", false), [2, 3 + 0xC3, 3 + 0xA9]);
        assert_eq!(decode(tokenizer, &[2, 3 + 0xC3, 3 + 0xA9]), "\u{e9}");
    });
}

#[test]
fn damaged_rules_are_refused() {
    let with = |charsmap: &[u8]| small(&[("a", 0.0)]).with("precompiled_charsmap", Value::Bytes(charsmap.to_vec()));
    let damaged = VocabError::Damaged("tokenizer.ggml.precompiled_charsmap");
    let long = [&[4, 0, 0, 0, 0, 0, 0, 0][..], &[b'x'; 2000], &[0]].concat();
    for charsmap in [
        &[1][..],
        &[8, 0, 0, 0, 0, 0, 0, 0],
        &[255, 255, 255, 255, 0],
        &[3, 0, 0, 0, 0, 0, 0],
        &[4, 0, 0, 0, 0, 0, 0, 0, b'a'],
        &[4, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0],
        &long,
    ] {
        assert_eq!(with(charsmap).error(), damaged);
    }
    assert_eq!(damaged.to_string(), "tokenizer.ggml.precompiled_charsmap is damaged");
    let short = small(&[("a", 0.0)]).with("scores", Value::Floats(vec![0.0]));
    assert!(matches!(short.error(), VocabError::WrongLength { needed: 3, found: 1, .. }));
    let text = small(&[("a", 0.0)]).with("precompiled_charsmap", Value::Text("abc"));
    assert_eq!(text.error(), VocabError::WrongType("tokenizer.ggml.precompiled_charsmap"));
}

/// Returns the best sum of a text by trying all cuts. It goes backwards: at each offset it takes a token, or a
/// character without a token, and the best sum of the rest.
fn slow_best(text: &str, tokens: &[(String, f32)]) -> f64 {
    let least = tokens.iter().map(|token| token.1).fold(0.0, f32::min);
    let mut best = vec![f64::NEG_INFINITY; text.len() + 1];
    best[text.len()] = 0.0;
    for (at, c) in text.char_indices().rev() {
        let rest = &text[at..];
        let single = tokens.iter().any(|(token, _)| token.as_str() == &rest[..c.len_utf8()]);
        let fitting = tokens.iter().filter(|(token, _)| rest.starts_with(token.as_str()));
        let ways = fitting.map(|(token, score)| f64::from(*score) + best[at + token.len()]);
        let unknown = f64::from(least - 10.0) + best[at + c.len_utf8()];
        best[at] = ways.chain((!single).then_some(unknown)).fold(f64::NEG_INFINITY, f64::max);
    }
    best[0]
}

fn pieces() -> impl Strategy<Value = Vec<(String, f32)>> {
    let piece = prop::collection::vec(prop::sample::select(vec!['a', 'b', '\u{e9}', '\u{2581}']), 1..5);
    let scores = (-40i32..0).prop_map(|score| score as f32 / 4.0);
    let pieces = prop::collection::btree_map(piece.prop_map(String::from_iter), scores, 1..20);
    pieces.prop_map(|pieces| pieces.into_iter().collect())
}

proptest! {
    #[test]
    fn sums_are_those_of_a_search(
        tokens in pieces(),
        text in prop::collection::vec(prop::sample::select(vec!['a', 'b', '\u{e9}', 'x', ' ']), 0..30).prop_map(String::from_iter),
    ) {
        let keys: Vec<(&str, f32)> = tokens.iter().map(|(text, score)| (text.as_str(), *score)).collect();
        let keys = small(&keys).with("remove_extra_whitespaces", Value::Flag(false));
        let spelled = if text.is_empty() { String::new() } else { format!("\u{2581}{}", text.replace(' ', "\u{2581}")) };
        let least = tokens.iter().map(|token| token.1).fold(0.0, f32::min);
        let mut found = (0.0, 0);
        with_tokenizer(&keys.file(), |tokenizer| {
            // An unknown token stands for all characters between its neighbours.
            let ids = encode(tokenizer, &text, false);
            let mut rest = spelled.as_str();
            for (at, &id) in ids.iter().enumerate() {
                if id != 0 {
                    let token = str::from_utf8(tokenizer.text(id).unwrap()).unwrap();
                    found.0 += f64::from(tokens.iter().find(|other| other.0 == token).unwrap().1);
                    rest = rest.strip_prefix(token).unwrap();
                    continue;
                }
                let left: Vec<usize> = ids[at + 1..].iter().filter(|&&id| id != 0).map(|&id| tokenizer.text(id).unwrap().len()).collect();
                found.1 += 1;
                // The end of an unknown token is not known, so a text with another one behind it is skipped.
                if ids[at + 1..].contains(&0) {
                    found.1 = usize::MAX;
                    return;
                }
                let (lost, after) = rest.split_at(rest.len() - left.iter().sum::<usize>());
                found.0 += lost.chars().count() as f64 * f64::from(least - 10.0);
                rest = after;
            }
        });
        if found.1 != usize::MAX {
            prop_assert_eq!(found.0, slow_best(&spelled, &tokens));
        }
    }

    /// Any rules are read without a panic, and the promised scratch suffices.
    #[test]
    fn any_rules_are_read(units in prop::collection::vec(any::<u32>(), 1..300), texts in "[a \u{e9}]{0,20}", text in ".{0,60}") {
        let bytes = units.iter().flat_map(|unit| unit.to_le_bytes());
        let charsmap: Vec<u8> = (4 * units.len() as u32).to_le_bytes().into_iter().chain(bytes).chain(texts.bytes()).chain([0]).collect();
        let keys = small(&[("\u{2581}", -1.0), ("a", -2.0)]).with("precompiled_charsmap", Value::Bytes(charsmap));
        with_tokenizer(&keys.file(), |tokenizer| {
            let mut scratch = vec![0; tokenizer.scratch_len(text.len())];
            let mut out = vec![0; 60 * text.len() + 9];
            assert!(tokenizer.encode(&text, EncodeOptions::default(), &mut scratch, &mut out).is_ok());
        });
    }
}
