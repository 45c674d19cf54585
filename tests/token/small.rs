//! Small vocabularies, with expectations made by hand.

use gguf_rs_lite::Gguf;
use gleed::mem::MemoryError;
use gleed::token::{DecodeOptions, Detokenizer, EncodeOptions, Encoded, TokenError, TokenKind, Tokenizer, VocabError};

use crate::keys::{Keys, Value};
use crate::{Memory, encode, with_tokenizer};

fn small_sentence_piece() -> Keys {
    let tokens = [("\u{2581}", -9.0), ("a", -9.0), ("b", -9.0), ("\u{2581}a", -1.0), ("ab", -2.0), ("ba", -2.0)];
    Keys::sentence_piece(true, &tokens)
}

fn small_byte_level() -> Keys {
    Keys::byte_level("gpt-2", &["\u{120}", "he", "ll", "hell", "\u{120}o"], &["h e", "l l", "he ll", "\u{120} o"])
}

#[test]
fn a_small_sentence_piece_vocabulary() {
    let texts = |text: &str, parse_special| {
        let mut texts = Vec::new();
        with_tokenizer(&small_sentence_piece().file(), |tokenizer| {
            let ids = encode(tokenizer, text, parse_special);
            texts = ids.iter().map(|&id| String::from_utf8(tokenizer.text(id).unwrap().to_vec()).unwrap()).collect();
        });
        texts.join(" ")
    };
    assert_eq!(texts("", false), "");
    assert_eq!(texts("ab", false), "\u{2581}a b");
    assert_eq!(texts("bab", false), "\u{2581} ba b");
    assert_eq!(texts("b  ab", false), "\u{2581} b \u{2581} \u{2581}a b");
    assert_eq!(texts("a\n\u{e9}", false), "\u{2581}a <0x0A> <0xC3> <0xA9>");
    assert_eq!(texts("a</s>a b", true), "\u{2581}a </s> \u{2581}a \u{2581} b");
    assert_eq!(texts("</", true), "\u{2581} <0x3C> <0x2F>");
}

#[test]
fn spellings_of_a_text_are_its_tokens_and_what_the_tokenizer_writes() {
    let spellings = |keys: &Keys, text: &str| {
        let mut found = Vec::new();
        with_tokenizer(&keys.file(), |tokenizer| {
            let mut scratch = vec![0; tokenizer.spellings_scratch_len(text.len())];
            let result = tokenizer.each_spelling(text, &mut scratch, &mut |tokens| {
                let texts = tokens.iter().map(|&id| String::from_utf8_lossy(tokenizer.text(id).unwrap()).into_owned());
                found.push(texts.collect::<Vec<_>>().join(" "));
            });
            result.unwrap();
            let small = tokenizer.each_spelling(text, &mut [], &mut |_| panic!("there is no room"));
            assert_eq!(small.is_err(), !scratch.is_empty());
        });
        found
    };
    // Two tokens can have the same bytes.
    let keys = small_sentence_piece().token("\u{2581}bb", 4);
    assert_eq!(spellings(&keys, "ab"), ["ab"]);
    assert_eq!(spellings(&keys, " a"), ["\u{2581}a"]);
    assert_eq!(spellings(&keys, "aba"), ["ab a"]);
    assert_eq!(spellings(&keys, "\n"), ["<0x0A>"]);
    assert_eq!(spellings(&keys, "</s>").len(), 1, "its characters, not the token that ends a text");
    assert!(spellings(&keys, "</s>")[0].contains(' '));
    let keys = small_byte_level();
    assert_eq!(spellings(&keys, "hell"), ["hell"]);
    assert_eq!(spellings(&keys, " o"), ["\u{120}o"]);
    assert_eq!(spellings(&keys, "hello"), ["hell o"]);
}

#[test]
fn text_does_not_become_control_tokens_by_itself() {
    let keys = small_sentence_piece().token("<s", 1).token("c", 3);
    let keys = keys.token("<", 1).token("s", 1).token(">", 1);
    with_tokenizer(&keys.file(), |tokenizer| {
        let ids = encode(tokenizer, "<s>c", false);
        let names: Vec<_> = ids.iter().map(|&id| str::from_utf8(tokenizer.text(id).unwrap()).unwrap()).collect();
        assert_eq!(names, ["\u{2581}", "<s", ">", "<0x63>"]);
    });
    let keys = Keys::byte_level("llama-bpe", &[], &[]).token("end", 3).with("bos_token_id", Value::Number(0));
    with_tokenizer(&keys.file(), |tokenizer| {
        assert_eq!((encode(tokenizer, "end", false).len(), encode(tokenizer, "end", true)), (3, vec![26]));
    });
}

#[test]
fn bos_eos_and_the_space_prefix_follow_the_keys() {
    let special = EncodeOptions { add_special: true, ..EncodeOptions::default() };
    let ids = |keys: Keys, text: &str, options| {
        let mut out = [0; 16];
        let mut count = 0;
        with_tokenizer(&keys.file(), |tokenizer| {
            count = tokenizer.encode(text, options, &mut [0; 999], &mut out).unwrap().ids;
        });
        out[..count].to_vec()
    };
    let (blank, a, blank_a) = (259, 260, 262);
    assert_eq!(ids(small_sentence_piece(), "a", special), [1, blank_a]);
    assert_eq!(ids(small_sentence_piece(), "", special), [1]);
    assert_eq!(ids(small_sentence_piece(), "a", EncodeOptions::default()), [blank_a]);
    let keys =
        small_sentence_piece().with("add_bos_token", Value::Flag(false)).with("add_eos_token", Value::Flag(true));
    assert_eq!(ids(keys, "  a", special), [blank, blank, blank_a, 2]);
    let keys =
        small_sentence_piece().with("add_space_prefix", Value::Flag(false)).with("bos_token_id", Value::Number(2));
    assert_eq!(ids(keys, "a", special), [2, a]);
    assert_eq!(ids(small_byte_level(), "hello o", special), [29, 14, 30]);
    let keys = small_byte_level().with("bos_token_id", Value::Number(0)).with("add_bos_token", Value::Flag(true));
    assert_eq!(ids(keys, "h", special), [0, 7]);
    // ModernBERT's files have these keys.
    let keys = small_byte_level().with("pre", Value::Text("modern-bert")).with("bos_token_id", Value::Number(25));
    let keys = keys.with("eos_token_id", Value::Number(26)).with("add_bos_token", Value::Flag(true));
    assert_eq!(ids(keys.with("add_eos_token", Value::Flag(true)), "hello o", special), [25, 29, 14, 30, 26]);
    let keys = small_byte_level().with("pre", Value::Text("llama-bpe")).with("bos_token_id", Value::Number(25));
    assert_eq!(ids(keys, "hell", special), [25, 29]);
}

#[test]
fn words_of_the_vocabulary_ignore_the_merges_where_the_pre_tokenizer_says_so() {
    let keys = |pre| Keys::byte_level(pre, &["ab", "abc"], &["a b"]).with("bos_token_id", Value::Number(0));
    with_tokenizer(&keys("llama-bpe").file(), |tokenizer| assert_eq!(encode(tokenizer, "abc", false), [27]));
    with_tokenizer(&keys("qwen2").file(), |tokenizer| assert_eq!(encode(tokenizer, "abc", false), [26, 2]));
}

/// Returns the texts of the tokens of `text`. The vocabulary has letters, then `tokens`, and the given `merges`.
fn pieces(tokens: &[&str], merges: &[&str], text: &str) -> String {
    let mut texts = Vec::new();
    let keys = Keys::byte_level("gpt-2", tokens, merges);
    with_tokenizer(&keys.file(), |tokenizer| {
        let ids = encode(tokenizer, text, false);
        texts = ids.iter().map(|&id| String::from_utf8(tokenizer.text(id).unwrap().to_vec()).unwrap()).collect();
    });
    texts.join(" ")
}

#[test]
fn merges_by_the_rules() {
    let tokens = ["ab", "bc", "abc"];
    // Of equal merges, the first one counts.
    assert_eq!(pieces(&tokens, &["a b", "b c", "a b"], "abc"), "ab c");
    assert_eq!(pieces(&tokens, &["b c", "a b", "b c"], "abc"), "a bc");
    // A token may be made in several ways. A pair without a merge does not count, although its text is a token.
    assert_eq!(pieces(&tokens, &["b c", "ab c", "a b"], "abc"), "a bc");
    assert_eq!(pieces(&tokens, &["b c", "ab c", "a bc", "a b"], "abc"), "abc");
    assert_eq!(pieces(&tokens, &["a b", "a bc", "ab c", "b c"], "abc"), "abc");
    // A merge neither makes nor takes a text that is no token.
    assert_eq!(pieces(&["bc"], &["a b", "b c"], "abc"), "a bc");
    assert_eq!(pieces(&["\u{120}a"], &["\u{120} a"], " a"), "a");
    // Entries that are no merges.
    assert_eq!(pieces(&tokens, &["", " ", "ab", "ab ", " ab", "a  b", "b c"], "abc"), "a bc");
}

/// The lower id wins, even if a merge made the other token before.
#[test]
fn of_two_tokens_with_one_text_the_first_counts() {
    let keys = Keys::byte_level("gpt-2", &["ab", "yz", "ab", "abc"], &["y z", "a b", "ab c"]);
    with_tokenizer(&keys.file(), |tokenizer| {
        assert_eq!(encode(tokenizer, "ab", false), [26]);
        assert_eq!(encode(tokenizer, "abc", false), [29]);
        assert_eq!(tokenizer.find(b"ab"), Some(26));
    });
}

#[test]
fn merges_do_not_make_control_tokens() {
    let keys = Keys::byte_level("gpt-2", &["bc"], &["a b", "b c"]).token("ab", 3);
    with_tokenizer(&keys.file(), |tokenizer| assert_eq!(encode(tokenizer, "abc", false), [0, 26]));
}

#[test]
fn defaults_of_the_pre_tokenizers() {
    let special = EncodeOptions { add_special: true, ..EncodeOptions::default() };
    let whole: [(_, &[u32]); 8] = [
        ("llama-bpe", &[0, 27]),
        ("tekken", &[0, 27]),
        ("glm4", &[27]),
        ("minicpm5", &[27]),
        ("dbrx", &[26, 2]),
        ("gpt-4o", &[26, 2]),
        ("falcon", &[26, 2]),
        ("deepseek-llm", &[26, 2]),
    ];
    for (pre, expected) in whole {
        let keys = Keys::byte_level(pre, &["ab", "abc"], &["a b"]).with("bos_token_id", Value::Number(0));
        with_tokenizer(&keys.file(), |tokenizer| {
            let mut out = [0; 9];
            let count = tokenizer.encode("abc", special, &mut [0; 999], &mut out).unwrap().ids;
            assert_eq!(&out[..count], expected, "{pre}");
        });
    }
}

#[test]
fn kinds_and_ends() {
    let keys = small_sentence_piece().token("<|im_end|>", 4).token("<tool>", 4).token("gone", 5).token("<PRE>", 1);
    let keys = keys.with("eos_token_id", Value::Number(1)).with("eot_token_id", Value::Number(259));
    with_tokenizer(&keys.file(), |tokenizer| {
        let find = |text: &str| tokenizer.find(text.as_bytes()).unwrap();
        let kind = |text| tokenizer.kind(find(text));
        assert_eq!(
            (kind("<unk>"), kind("<s>"), kind("<0x41>")),
            (TokenKind::Unknown, TokenKind::Control, TokenKind::Byte)
        );
        assert_eq!((kind("<|im_end|>"), kind("<tool>")), (TokenKind::Control, TokenKind::UserDefined));
        assert_eq!(
            (kind("gone"), kind("<PRE>"), kind("a")),
            (TokenKind::Unused, TokenKind::Control, TokenKind::Normal)
        );
        assert_eq!(tokenizer.kind(u32::MAX), TokenKind::Undefined);
        let ends: Vec<u32> = (0..tokenizer.vocab().len() as u32 + 9).filter(|&id| tokenizer.is_end(id)).collect();
        assert_eq!(ends, [1, 2, 259, find("<|im_end|>")]);
        assert_eq!(encode(tokenizer, "<tool><PRE>", false)[0], find("<tool>"));
        assert_eq!(encode(tokenizer, "<tool><PRE>", true), [find("<tool>"), find("<PRE>")]);
    });
}

#[test]
fn vocabularies_with_faults_are_refused() {
    let key = |name: &str| format!("the file has no tokenizer.ggml.{name}");
    for name in ["model", "tokens", "scores"] {
        assert_eq!(small_sentence_piece().without(name).error().to_string(), key(name));
    }
    for name in ["pre", "merges"] {
        assert_eq!(small_byte_level().without(name).error().to_string(), key(name));
    }
    assert_eq!(small_byte_level().with("add_bos_token", Value::Flag(true)).error().to_string(), key("bos_token_id"));
    assert_eq!(small_byte_level().with("add_eos_token", Value::Flag(true)).error().to_string(), key("eos_token_id"));
    let error = |name, value| small_sentence_piece().with(name, value).error().to_string();
    let more = if cfg!(feature = "encoder") { ", bert, t5, whitespace" } else { "" };
    let known = format!("llama, gpt2, gemma4{more}");
    assert_eq!(error("model", Value::Text("rwkv")), format!("tokenizer model \"rwkv\" is not supported ({known})"));
    assert_eq!(error("scores", Value::Floats(vec![0.0; 3])), "tokenizer.ggml.scores has 3 elements for 265 tokens");
    assert_eq!(error("token_type", Value::Numbers(vec![1])), "tokenizer.ggml.token_type has 1 elements for 265 tokens");
    assert_eq!(error("tokens", Value::Number(1)), "tokenizer.ggml.tokens has a type that it cannot have");
    assert_eq!(error("tokens", Value::Numbers(vec![1])), "tokenizer.ggml.tokens has a type that it cannot have");
    assert_eq!(error("tokens", Value::Texts(vec![])), "a vocabulary of 0 tokens");
    assert_eq!(error("add_bos_token", Value::Number(1)), "tokenizer.ggml.add_bos_token has a type that it cannot have");
    assert_eq!(
        error("eos_token_id", Value::Number(265)),
        "tokenizer.ggml.eos_token_id is 265, but there are 265 tokens"
    );
    let error = small_byte_level().with("pre", Value::Text("gpt-9")).error();
    assert_eq!(error.to_string(), "pre-tokenizer \"gpt-9\" is not supported");
}

#[test]
fn special_tokens_of_absurd_length_are_refused() {
    let file = small_sentence_piece().token(&"x".repeat(257), 4).file();
    let gguf = Gguf::parse(&file).unwrap();
    let error = Tokenizer::new(&gguf, Memory::new(Tokenizer::plan(&gguf).unwrap()).get()).unwrap_err();
    assert_eq!(error, VocabError::SpecialTooLong { id: 265, bytes: 257, limit: 256 });
}

/// Texts of which only three bytes differ, 64 bits apart, so that their hashes are equal.
#[test]
fn vocabularies_of_equal_hashes_are_refused() {
    let bytes = (1..=255u32).flat_map(|second| (1..=255u32).map(move |third| (second, third)));
    let texts = bytes.filter_map(|(second, third)| {
        let first = u8::try_from(9000u32.checked_sub(8 * second + 64 * third)?).ok()?;
        Some([&[first][..], b"sevenof", &[second as u8], b"sevenof", &[third as u8]].concat())
    });
    let texts: Vec<Vec<u8>> = texts.collect();
    assert!(texts.len() > 500);
    let keys = small_byte_level().with("tokens", Value::Texts(texts[..200].to_vec()));
    with_tokenizer(&keys.file(), |tokenizer| {
        assert!((0..).zip(&texts[..200]).all(|(id, text)| tokenizer.find(text) == Some(id)));
        assert_eq!(tokenizer.find(&texts[200]), None);
    });
    let file = keys.with("tokens", Value::Texts(texts)).file();
    let gguf = Gguf::parse(&file).unwrap();
    let error = Tokenizer::new(&gguf, Memory::new(Tokenizer::plan(&gguf).unwrap()).get()).unwrap_err();
    assert_eq!(error, VocabError::Collisions { key: "tokenizer.ggml.tokens" });
}

#[test]
fn an_id_of_minus_one_is_none() {
    let keys = small_sentence_piece().with("unknown_token_id", Value::Number(u32::MAX));
    with_tokenizer(&keys.file(), |tokenizer| assert_eq!(tokenizer.vocab().unknown(), None));
}

#[test]
fn memory_must_suit_the_plan() {
    let file = small_byte_level().file();
    let gguf = Gguf::parse(&file).unwrap();
    let needed = Tokenizer::plan(&gguf).unwrap();
    let mut memory = Memory::new(needed + 1);
    for given in [0, 1, needed / 2, needed - 1] {
        let error = Tokenizer::new(&gguf, &mut memory.get()[..given]).unwrap_err();
        assert!(matches!(error, VocabError::Memory(MemoryError::TooSmall { .. })), "{error}");
    }
    let error = Tokenizer::new(&gguf, &mut memory.get()[1..]).unwrap_err();
    assert!(matches!(error, VocabError::Memory(MemoryError::Misaligned { .. })), "{error}");
    assert!(Tokenizer::new(&gguf, memory.get()).is_ok());
}

#[test]
fn scratch_and_output_errors_say_what_is_needed() {
    for keys in [small_sentence_piece(), small_byte_level().token("<|end|>", 3), small_byte_level()] {
        with_tokenizer(&keys.file(), |tokenizer| {
            let encode = |scratch: &mut [u32], out: &mut [u32]| {
                tokenizer.encode("hello hellooo o b", EncodeOptions::default(), scratch, out)
            };
            let (mut scratch, mut out) = ([0; 999], [0; 99]);
            let encoded = encode(&mut scratch, &mut out).unwrap();
            let count = encoded.ids;
            let Err(TokenError::ScratchTooSmall { needed, given: 0 }) = encode(&mut [], &mut out) else { panic!() };
            assert!(needed <= tokenizer.scratch_len(17));
            assert_eq!(encode(&mut scratch[..needed], &mut out), Ok(encoded));
            let Err(TokenError::ScratchTooSmall { needed, given: 9 }) = encode(&mut [0; 9], &mut out) else { panic!() };
            assert_eq!(encode(&mut scratch[..needed], &mut out), Ok(encoded));
            let error = TokenError::ScratchTooSmall { needed, given: needed - 1 };
            assert_eq!(encode(&mut scratch[..needed - 1], &mut out), Err(error));
            let error = TokenError::OutputTooSmall { needed: count, given: count - 1 };
            assert_eq!(encode(&mut scratch, &mut out[..count - 1]), Err(error));
            assert_eq!(encode(&mut scratch, &mut out[..count]), Ok(encoded));
        });
    }
}

#[test]
fn what_can_not_be_spelled_is_counted_or_refused() {
    let check = |keys: &Keys, text: &str, ids: &[u32], unspelled: usize, first: Option<(u8, usize)>| {
        with_tokenizer(&keys.file(), |tokenizer| {
            let encode = |exact, out: &mut [u32]| {
                tokenizer.encode(text, EncodeOptions { exact, ..EncodeOptions::default() }, &mut [0; 999], out)
            };
            let mut out = [9; 20];
            let encoded = Encoded { ids: ids.len(), unspelled };
            assert_eq!(encode(false, &mut out), Ok(encoded), "{text:?}");
            assert_eq!(&out[..ids.len()], ids, "{text:?}");
            let exact = first.map_or(Ok(encoded), |(byte, at)| Err(TokenError::NoToken { byte, at }));
            assert_eq!(encode(true, &mut out), exact, "{text:?}");
        });
    };
    // SentencePiece uses the unknown token, or nothing. A merge can make a token of characters that are no tokens.
    let keys = Keys::sentence_piece(false, &[("a", 0.0), ("bc", 0.0)]).with("add_space_prefix", Value::Flag(false));
    check(&keys, "a\u{e9}a", &[3, 0, 3], 2, Some((0xC3, 1)));
    check(&keys, "bca a\u{e9}", &[4, 3, 0, 3, 0], 3, Some((b' ', 3)));
    check(&keys, "bcb", &[4, 0], 1, Some((b'b', 2)));
    let keys = keys.with("unknown_token_id", Value::Number(u32::MAX));
    check(&keys, "a\u{e9}a", &[3, 3], 2, Some((0xC3, 1)));
    check(&keys, "aaa", &[3, 3, 3], 0, None);
    // The blank before a text is not part of the text.
    check(&keys.with("add_space_prefix", Value::Flag(true)), "a", &[3], 0, None);
    // Byte-level BPE always uses nothing, as llama.cpp does.
    let keys = Keys::byte_level("gpt-2", &["ab", "\u{c3}"], &["a b"]).with("unknown_token_id", Value::Number(25));
    check(&keys, "ab\u{e9}b ab", &[26, 27, 1, 26], 2, Some((0xA9, 3)));
    check(&keys.token("<x>", 4), "ab<x>\u{e9} a", &[26, 28, 27, 0], 2, Some((0xA9, 6)));
}

/// A SentencePiece vocabulary swallows white space if the model's name or architecture is Phi-3. A byte-level
/// vocabulary does not.
#[test]
fn special_tokens_of_phi_3_swallow_white_space() {
    let keys = small_sentence_piece().token("<|end|>", 3).token("<|endoftext|>", 3);
    let (blank_a, end, end_of_text, blank, newline) = (262, 265, 266, 259, 3 + 10);
    let ids = |keys: &Keys, text: &str| {
        let mut ids = Vec::new();
        with_tokenizer(&keys.file(), |tokenizer| ids = encode(tokenizer, text, true));
        ids
    };
    let plain = [end, blank, newline, 260, 2, blank, newline];
    assert_eq!(ids(&keys, "<|end|>\na</s>\n"), plain);
    for (key, name) in [("name", "A Phi-3 mini"), ("name", "phi3"), ("architecture", "phi3")] {
        let keys = keys.clone().general(key, name);
        assert_eq!(ids(&keys, "<|end|>\na</s>\n"), [end, blank_a, 2]);
        assert_eq!(ids(&keys, "<|end|> \r\n \t<|end|>\n"), [end, end]);
        assert_eq!(ids(&keys, "<|endoftext|>\na"), [end_of_text, blank, newline, 260]);
    }
    assert_eq!(ids(&keys.general("name", "Phi 2"), "<|end|>\na</s>\n"), plain);
    let keys = Keys::byte_level("gpt-2", &["\u{10a}"], &[]).token("<|end|>", 3).general("architecture", "phi3");
    assert_eq!(ids(&keys, "<|end|>\na"), [27, 26, 0]);
}

#[test]
fn the_detokenizer_holds_back_half_characters() {
    with_tokenizer(&small_sentence_piece().token("<|im_end|>", 3).file(), |tokenizer| {
        let find = |text: &str| tokenizer.find(text.as_bytes()).unwrap();
        let stream = |options, names: &[&str]| {
            let mut state = Detokenizer::new(tokenizer, options);
            let mut texts = Vec::new();
            for name in names {
                let mut out = vec![0; tokenizer.max_push()];
                texts.push(state.push(tokenizer, find(name), &mut out).unwrap().to_owned());
            }
            texts.push(state.finish().to_owned());
            texts.join("|")
        };
        let options = DecodeOptions::default();
        assert_eq!(stream(options, &["\u{2581}a", "\u{2581}a", "b"]), "a| a|b|");
        assert_eq!(stream(options, &["<s>", "\u{2581}a", "<|im_end|>"]), "|a||");
        assert_eq!(stream(options, &["<0xF0>", "<0x9F>", "<0x98>", "<0x80>"]), "|||\u{1f600}|");
        assert_eq!(stream(options, &["<0xF0>", "<0x9F>"]), "||\u{fffd}");
        assert_eq!(
            stream(options, &["<0xF0>", "a", "<0xFF>", "<0xC3>", "<0xC3>"]),
            "|\u{fffd}a|\u{fffd}||\u{fffd}|\u{fffd}"
        );
        let options = DecodeOptions { render_special: true, starts_text: false };
        assert_eq!(stream(options, &["\u{2581}a", "</s>", "\u{2581}a"]), " a|</s>|a|");
    });
}

#[test]
fn decoding_errors_change_nothing() {
    with_tokenizer(&small_sentence_piece().file(), |tokenizer| {
        let mut state = Detokenizer::new(tokenizer, DecodeOptions::default());
        let byte = |byte: usize| 3 + byte as u32;
        let mut out = [0; 8];
        assert_eq!(state.push(tokenizer, byte(0xC3), &mut []), Ok(""));
        let error = TokenError::OutputTooSmall { needed: 2, given: 1 };
        assert_eq!(state.push(tokenizer, byte(0xA9), &mut out[..1]), Err(error));
        assert_eq!(state.push(tokenizer, 265, &mut out), Err(TokenError::UnknownId { id: 265, tokens: 265 }));
        assert_eq!(state.push(tokenizer, byte(0xA9), &mut out), Ok("\u{e9}"));
        assert_eq!(tokenizer.decode(&[262, 262], DecodeOptions::default(), &mut out), Ok("a a"));
        let error = TokenError::OutputTooSmall { needed: 3, given: 2 };
        assert_eq!(tokenizer.decode(&[262, 262], DecodeOptions::default(), &mut out[..2]), Err(error));
        assert_eq!(tokenizer.piece(byte(0xC3), &mut out), Ok(1));
        assert_eq!(out[0], 0xC3);
    });
}

#[test]
fn byte_level_tokens_decode_to_their_bytes() {
    let keys = small_byte_level().token("<|end|>", 3).token("\u{c3}", 1).token("\u{a9}\u{10a}\u{4e00}", 1);
    with_tokenizer(&keys.file(), |tokenizer| {
        let options = DecodeOptions { render_special: true, starts_text: true };
        assert_eq!(tokenizer.decode(&[30, 31, 32, 33], options, &mut [0; 64]), Ok(" o<|end|>\u{e9}\n\u{4e00}"));
    });
}
