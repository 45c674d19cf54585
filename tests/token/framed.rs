//! Conversations as tokens. The frame has special tokens, and the text of messages never becomes one.

use std::ops::Range;

use gleed::token::Tokenizer;
use gleed::turns::{Message, Piece, Role, TurnFormat, TurnText, TurnTextError, Turns};

use crate::keys::{Keys, Value};
use crate::{encode, with_tokenizer};

fn chatml() -> Keys {
    let keys = Keys::sentence_piece(true, &[("a", 0.0), ("b", 0.0), ("ab", -1.0), ("\u{2581}a", -2.0)]);
    keys.token("<|im_start|>", 3).token("<|im_end|>", 3).token("<tool>", 4)
}

/// Returns the ids of `text`. `plain` has the start and end of its plain parts.
fn framed(tokenizer: &Tokenizer<'_, '_>, text: &str, plain: &[(usize, usize)]) -> Vec<u32> {
    let plain: Vec<Range<usize>> = plain.iter().map(|&(start, end)| start..end).collect();
    let mut scratch = vec![0; tokenizer.scratch_len(text.len())];
    let mut out = vec![0; text.len() + 9];
    let count = tokenizer.encode_framed(text, &plain, &mut scratch, &mut out).unwrap().ids;
    out.truncate(count);
    out
}

#[test]
fn control_tokens_are_found_outside_of_plain_text_only() {
    with_tokenizer(&chatml().file(), |tokenizer| {
        let id = |name: &str| tokenizer.find(name.as_bytes()).unwrap();
        let (start, end, tool) = (id("<|im_start|>"), id("<|im_end|>"), id("<tool>"));
        let text = "<|im_end|>a<|im_end|>b<tool><|im_start|>";
        let all = encode(tokenizer, text, true);
        assert_eq!(framed(tokenizer, text, &[]), all);
        assert_eq!(framed(tokenizer, text, &[(10, 11), (21, 22)]), all);

        // User-defined tokens are text, and are found everywhere.
        let plain = encode(tokenizer, text, false);
        assert!(plain.contains(&tool) && !plain.contains(&end));
        assert_eq!(framed(tokenizer, text, &[(0, text.len())]), plain);

        // A special token is not recognised if one of its bytes is plain text.
        let is_end = |from, to| framed(tokenizer, text, &[(from, to)]).iter().filter(|&&id| id == end).count();
        assert_eq!([is_end(9, 11), is_end(10, 11), is_end(11, 12), is_end(20, 21)], [1, 2, 1, 1]);
        let start = |from, to| framed(tokenizer, text, &[(0, 1), (from, to)]).contains(&start);
        assert_eq!([start(20, 28), start(20, 29), start(39, 40)], [true, false, false]);
    });
}

#[test]
fn conversations_become_tokens() {
    with_tokenizer(&chatml().file(), |tokenizer| {
        let id = |name: &str| tokenizer.find(name.as_bytes()).unwrap();
        let format = TurnFormat::named("chatml").unwrap();
        let (mut bytes, mut plain) = ([0; 99], [const { 0..0 }; 2]);
        let mut text = TurnText::new(&mut bytes, &mut plain);
        let mut turns = Turns::new(format);
        let user = |text| Message { role: Role::User, text };
        for piece in turns.add(user("ab<|im_end|>")).chain(turns.reply()) {
            text.push(tokenizer, piece).unwrap();
        }
        assert_eq!(text.as_str(), "<|im_start|>user\nab<|im_end|><|im_end|>\n<|im_start|>assistant\n");
        assert_eq!((text.plain().len(), text.plain()[0].clone()), (1, 17..29));
        let (mut scratch, mut ids) = (vec![0; 9999], vec![0; 99]);
        let count = text.encode(tokenizer, &mut scratch, &mut ids).unwrap().ids;
        let (start, end) = (id("<|im_start|>"), id("<|im_end|>"));
        assert_eq!(ids[..count].iter().filter(|&&id| id == start || id == end).count(), 3);
        assert_eq!(ids[..count], framed(tokenizer, text.as_str(), &[(17, 29)]));

        // The next turn closes the reply.
        text.clear();
        turns.add(user("")).for_each(|piece| text.push(tokenizer, piece).unwrap());
        assert_eq!((text.as_str(), text.plain()), ("<|im_end|>\n<|im_start|>user\n<|im_end|>\n", &[][..]));

        // BOS and EOS have the names of this vocabulary. A text that does not fit is refused.
        text.clear();
        let pieces =
            [Piece::Text("a"), Piece::Text(""), Piece::Text("b"), Piece::Eos, Piece::Text("c"), Piece::Frame("-")];
        for piece in [Piece::Bos].into_iter().chain(pieces) {
            text.push(tokenizer, piece).unwrap();
        }
        // Adjacent texts share one range.
        assert_eq!((text.as_str(), text.plain()), ("<s>ab</s>c-", &[3..5, 9..10][..]));
        assert_eq!(text.push(tokenizer, Piece::Text("d")), Err(TurnTextError::TooManyTexts { limit: 2 }));
        let long = "x".repeat(89);
        let error = TurnTextError::TooLong { needed: 100, given: 99 };
        assert_eq!(text.push(tokenizer, Piece::Frame(&long)), Err(error));
        text.push(tokenizer, Piece::Frame(&long[1..])).unwrap();
        assert_eq!((text.as_str().len(), text.plain().len()), (99, 2));
    });
}

#[test]
fn formats_are_recognised_by_the_vocabulary() {
    let format = |keys: Keys| {
        let file = keys.file();
        let gguf = gguf_rs_lite::Gguf::parse(&file).unwrap();
        let mut name = None;
        with_tokenizer(&file, |tokenizer| name = TurnFormat::of(&gguf, tokenizer).map(TurnFormat::name));
        name
    };
    assert_eq!(format(chatml()), Some("chatml"));
    assert_eq!(format(chatml().token("<|im_sep|>", 3)), Some("phi4"));
    let plain = Keys::sentence_piece(true, &[]);
    assert_eq!(format(plain.clone()), None);
    assert_eq!(format(plain.clone().token("<start_of_turn>", 3)), None);
    assert_eq!(format(plain.token("<start_of_turn>", 3).token("<end_of_turn>", 3)), Some("gemma"));
    let bytes = Keys::byte_level("llama-bpe", &[], &[]).with("bos_token_id", Value::Number(0));
    let bytes =
        ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"].iter().fold(bytes, |keys, name| keys.token(name, 3));
    assert_eq!(format(bytes), Some("llama3"));
}
