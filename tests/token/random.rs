//! Random vocabularies and texts, compared with slow encoders. Nothing may panic.

use gguf_rs_lite::Gguf;
use gleed::token::{DecodeOptions, Detokenizer, EncodeOptions, TokenError, Tokenizer};
use proptest::prelude::*;

use crate::keys::{Keys, Value};
use crate::{Memory, decode, encode, with_tokenizer};

/// A slow SentencePiece encoder for text that starts after a special token.
fn slow_sentence_piece(vocabulary: &[(&str, f32)], text: &str) -> Vec<String> {
    let spelled = format!(" {text}").replace(' ', "\u{2581}");
    let mut symbols: Vec<String> = spelled.chars().map(String::from).collect();
    loop {
        let mut best: Option<(f32, usize)> = None;
        for i in 1..symbols.len() {
            let pair = symbols[i - 1].clone() + &symbols[i];
            if let Some(&(_, score)) = vocabulary.iter().find(|(text, _)| *text == pair)
                && best.is_none_or(|(other, _)| score > other)
            {
                best = Some((score, i - 1));
            }
        }
        let Some((_, left)) = best else { return symbols };
        let right = symbols.remove(left + 1);
        symbols[left].push_str(&right);
    }
}

/// A slow encoder of byte-level BPE, for text of letters.
fn slow_byte_level(tokens: &[String], merges: &[(String, String)], text: &str) -> Vec<String> {
    let is_token = |text: &String| text.len() == 1 || tokens.contains(text);
    let mut symbols: Vec<String> = text.chars().map(String::from).collect();
    loop {
        let rank = |i: usize| {
            let (left, right) = (&symbols[i - 1], &symbols[i]);
            let rank = merges.iter().position(|merge| (&merge.0, &merge.1) == (left, right))?;
            is_token(&format!("{left}{right}")).then_some((rank, i))
        };
        let Some((_, at)) = (1..symbols.len()).filter_map(rank).min() else { return symbols };
        let right = symbols.remove(at);
        symbols[at - 1].push_str(&right);
    }
}

/// Cuts the longest names out of the text first, then the next shorter ones. Returns the parts, and whether each is a
/// name.
fn slow_special<'t>(names: &[&str], text: &'t str) -> Vec<(bool, &'t str)> {
    let mut lengths: Vec<usize> = names.iter().map(|name| name.len()).collect();
    lengths.sort_by(|a, b| b.cmp(a));
    lengths.dedup();
    let mut parts = vec![(false, text)];
    for length in lengths {
        let mut next = Vec::new();
        for (is_special, part) in parts {
            let mut rest = part;
            let is_name = |at: &usize| rest.get(*at..at + length).is_some_and(|piece| names.contains(&piece));
            let mut found = if is_special { None } else { (0..rest.len()).find(is_name) };
            while let Some(at) = found {
                next.extend([(false, &rest[..at]), (true, &rest[at..at + length])]);
                rest = &rest[at + length..];
                let is_name = |at: &usize| rest.get(*at..at + length).is_some_and(|piece| names.contains(&piece));
                found = (0..rest.len()).find(is_name);
            }
            next.push((is_special, rest));
        }
        parts = next;
    }
    parts.retain(|(_, part)| !part.is_empty());
    parts
}

const PIECES: [&str; 14] = [
    "\u{2581}",
    "a",
    "b",
    "\u{e9}",
    "ab",
    "ba",
    "aa",
    "\u{2581}a",
    "\u{2581}\u{2581}",
    "a\u{2581}b",
    "abab",
    "aab",
    "b\u{e9}",
    "\u{2581}ab",
];

proptest! {
    /// Covers tokens and merges of all lengths, in any order, with repeats, and words of few and of many symbols.
    #[test]
    fn byte_level_merges_as_a_search_would(
        tokens in prop::collection::vec("[ab]{2,5}|a{2,40}", 1..30),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..90),
        text in "[ab]{1,60}|a{1,60}",
    ) {
        let pairs = [("a", "a"), ("b", "a"), ("aa", "aa")].map(|(left, right)| (left.to_owned(), right.to_owned()));
        let merges: Vec<(String, String)> = cuts.iter().map(|(token, cut)| {
            let token = token.get(&tokens);
            let (left, right) = token.split_at(1 + cut.index(token.len() - 1));
            (left.to_owned(), right.to_owned())
        }).chain(pairs).collect();
        let listed: Vec<String> = merges.iter().map(|(left, right)| format!("{left} {right}")).collect();
        let keys = Keys::byte_level(
            "gpt-2",
            &tokens.iter().map(String::as_str).collect::<Vec<_>>(),
            &listed.iter().map(String::as_str).collect::<Vec<_>>(),
        );
        with_tokenizer(&keys.file(), |tokenizer| {
            let expected: Vec<_> = slow_byte_level(&tokens, &merges, &text)
                .iter().map(|text| tokenizer.find(text.as_bytes()).unwrap()).collect();
            assert_eq!(encode(tokenizer, &text, false), expected);
        });
    }

    #[test]
    fn sentence_piece_merges_as_a_search_would(
        text in "[ab \u{e9}]{1,24}",
        scores in prop::array::uniform14(-3i8..0),
        with in prop::array::uniform14(any::<bool>()),
    ) {
        let vocabulary: Vec<(&str, f32)> = PIECES.iter().zip(scores).zip(with).enumerate()
            .filter(|&(i, (_, with))| i < 4 || with)
            .map(|(_, ((&text, score), _))| (text, f32::from(score)))
            .collect();
        with_tokenizer(&Keys::sentence_piece(true, &vocabulary).file(), |tokenizer| {
            let ids = encode(tokenizer, &text, false);
            let found: Vec<_> = ids.iter().map(|&id| tokenizer.text(id).unwrap()).collect();
            assert_eq!(found, slow_sentence_piece(&vocabulary, &text).iter().map(|text| text.as_bytes()).collect::<Vec<_>>());
            assert_eq!(decode(tokenizer, &ids), text);
        });
    }

    #[test]
    fn special_tokens_are_cut_out_longest_first(
        text in "[abc]{0,24}",
        names in prop::collection::btree_set("[abc]{2,6}", 0..8),
    ) {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let keys = names.iter().fold(Keys::byte_level("gpt-2", &[], &[]), |keys, name| keys.token(name, 4));
        with_tokenizer(&keys.file(), |tokenizer| {
            let find = |text: &str| tokenizer.find(text.as_bytes()).unwrap();
            let expected: Vec<u32> = slow_special(&names, &text).iter().flat_map(|&(is_special, part)| {
                let letters = part.char_indices().map(|(at, c)| find(&part[at..at + c.len_utf8()]));
                if is_special { vec![find(part)] } else { letters.collect() }
            }).collect();
            assert_eq!(encode(tokenizer, &text, false), expected);
        });
    }

    /// Any vocabulary gives an error or ids, and never a panic. The reported needs suffice.
    #[test]
    fn random_vocabularies(
        tokens in prop::collection::vec(prop::collection::vec(prop::sample::select(b" ab\xe2\x96\x81\xc4\xa0<>\xff".as_slice()), 0..6), 1..40),
        kinds in prop::collection::vec(-1i32..9, 40),
        scores in prop::collection::vec(any::<f32>(), 40),
        merges in prop::collection::vec(prop::collection::vec(prop::sample::select(b" ab\xc4\xa0".as_slice()), 0..6), 0..20),
        model in prop::sample::select(&["llama", "gpt2"]),
        text in "[ab <>\u{2581}\u{e9}\u{1f600}]{0,30}",
        parse_special: bool,
        given in 0usize..60,
        ids in prop::collection::vec(0u32..50, 0..30),
    ) {
        let count = tokens.len();
        let keys = Keys::byte_level("qwen2", &[], &[])
            .with("model", Value::Text(model))
            .with("tokens", Value::Texts(tokens))
            .with("token_type", Value::Numbers(kinds[..count].to_vec()))
            .with("scores", Value::Floats(scores[..count].to_vec()))
            .with("merges", Value::Texts(merges));
        let file = keys.file();
        let gguf = Gguf::parse(&file).unwrap();
        let Ok(bytes) = Tokenizer::plan(&gguf) else { return Ok(()) };
        let mut memory = Memory::new(bytes);
        let tokenizer = Tokenizer::new(&gguf, memory.get()).unwrap();
        let options = EncodeOptions { add_special: true, parse_special, ..EncodeOptions::default() };
        let mut out = [0; 999];
        let mut scratch = vec![0; tokenizer.scratch_len(text.len())];
        let result = tokenizer.encode(&text, options, &mut scratch, &mut out);
        if let Ok(encoded) = result {
            prop_assert!(out[..encoded.ids].iter().all(|&id| (id as usize) < tokenizer.vocab().len()));
        }
        let few = given.min(scratch.len());
        let again = tokenizer.encode(&text, options, &mut scratch[..few], &mut out);
        if let Err(TokenError::ScratchTooSmall { needed, .. }) = again {
            prop_assert_eq!(tokenizer.encode(&text, options, &mut scratch[..needed], &mut out), result);
        }
        let mut state = Detokenizer::new(&tokenizer, DecodeOptions { render_special: true, starts_text: true });
        let mut streamed = String::new();
        let mut bytes = vec![0; tokenizer.max_push()];
        for &id in &ids {
            match state.push(&tokenizer, id, &mut bytes) {
                Ok(text) => streamed.push_str(text),
                Err(error) => {
                    prop_assert_eq!(error, TokenError::UnknownId { id, tokens: count });
                    return Ok(());
                }
            }
        }
        streamed.push_str(state.finish());
        prop_assert_eq!(streamed, decode(&tokenizer, &ids));
    }
}
