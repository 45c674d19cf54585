//! Texts of any characters, short and long, with each kind of vocabulary. The needs that errors report are exact, and a
//! stream gives the same text as decoding all ids at once.

use std::ops::Range;
use std::sync::LazyLock;

use gguf_rs_lite::Gguf;
use gleed::token::{DecodeOptions, Detokenizer, EncodeOptions, TokenError, Tokenizer};

use crate::support::{Bytes, Exact, each_part, forbidden, tried};
use common::gguf_writer::GgufWriter;
use common::synthetic::SyntheticModel;

/// Vocabularies: SentencePiece with and without byte tokens, and byte-level ones of several pre-tokenizers.
pub static TOKENIZERS: LazyLock<Vec<Tokenizer<'static, 'static>>> = LazyLock::new(|| {
    let mut files: Vec<Vec<u8>> =
        [40, 700].map(|vocab| SyntheticModel { vocab, ..SyntheticModel::llama() }.bytes()).into();
    let pres = ["gpt-2", "llama-bpe", "qwen2", "deepseek-llm", "falcon", "bloom", "gpt-4o", "tekken", "deepseek-v3"];
    files.extend(pres.map(byte_level));
    files.into_iter().map(open).collect()
});

fn open(file: Vec<u8>) -> Tokenizer<'static, 'static> {
    let gguf = Gguf::parse(file.leak()).expect("a file that was made");
    let bytes = Tokenizer::plan(&gguf).expect("a vocabulary that was made");
    let memory: &'static mut Exact = Box::leak(Box::new(Exact::new(bytes, 9)));
    Tokenizer::new(&gguf, memory.bytes()).expect("planned before")
}

/// Returns a vocabulary of all bytes, a few merges and a few special tokens.
fn byte_level(pre: &str) -> Vec<u8> {
    // Printable bytes stand for themselves, the others for characters from U+0100 on.
    let is_printable = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let others = (0..=255).filter(|byte| !is_printable(byte)).zip('\u{100}'..);
    let alphabet = (0..=255).filter(is_printable).map(|byte| (byte, char::from(byte))).chain(others);
    let mut tokens: Vec<String> = alphabet.map(|(_, letter)| letter.to_string()).collect();
    let merges = [
        "t h",
        "th e",
        "\u{120} t",
        "\u{120}t he",
        "i n",
        "a a",
        "aa aa",
        "aaaa aaaa",
        "\u{c3} \u{a9}",
        "1 2",
        "\u{10a} \u{10a}",
    ];
    tokens.extend(merges.iter().map(|merge| merge.replace(' ', "")));
    let mut kinds = vec![1i32; tokens.len()];
    for special in ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "[INST]", "<|x|><|y|>"] {
        tokens.push(special.to_owned());
        kinds.push(3);
    }
    let bos = tokens.len() as u32 - 6;
    let mut writer = GgufWriter::default();
    writer.set("general.architecture", "gpt2").set("tokenizer.ggml.model", "gpt2").set("tokenizer.ggml.pre", pre);
    writer.set("tokenizer.ggml.tokens", tokens).set("tokenizer.ggml.token_type", kinds);
    writer.set("tokenizer.ggml.merges", merges.map(str::to_owned).to_vec());
    writer.set("tokenizer.ggml.bos_token_id", bos).set("tokenizer.ggml.eos_token_id", bos + 1);
    writer.finish()
}

pub fn run(data: &[u8]) {
    one(data);
    // Parts do not repeat their text many times: only whole inputs make long texts.
    each_part::<8>(data, |head| head[7] &= !1, one);
}

fn one(data: &[u8]) {
    tried();
    let mut bytes = Bytes::new(data);
    let tokenizer = bytes.pick(&TOKENIZERS);
    let options = EncodeOptions {
        add_special: bytes.bool(),
        parse_special: bytes.bool(),
        exact: bytes.once_in(4),
        continues: bytes.bool(),
    };
    let (cut, short) = (bytes.u8(), bytes.u8());
    let text = text(&mut bytes);
    let mut scratch = vec![0xdead_beef; tokenizer.scratch_len(text.len())].into_boxed_slice();
    let mut out = vec![0; text.len() * 4 + 16].into_boxed_slice();
    let count = match forbidden(|| tokenizer.encode(&text, options, &mut scratch, &mut out)) {
        Ok(encoded) => encoded.ids,
        Err(TokenError::ScratchTooSmall { .. } | TokenError::OutputTooSmall { .. }) => {
            panic!("as much as any text needs")
        }
        Err(error) => return assert!(options.exact && !error.to_string().is_empty(), "{error:?}"),
    };
    let ids = &out[..count];
    needs(tokenizer, &text, options, ids, (usize::from(cut) * 7, count * usize::from(short) / 256));
    framed(tokenizer, &text, (cut.into(), short.into()));
    stream(tokenizer, ids, options.parse_special);
}

/// Returns bytes as text or as any characters, sometimes repeated many times.
fn text(bytes: &mut Bytes<'_>) -> String {
    let kind = bytes.u8();
    let times = if kind % 16 == 15 { 1 + 8 * usize::from(bytes.u8()) } else { 1 };
    let raw = bytes.rest();
    let any = |byte: u8| char::from_u32(u32::from(byte) * 1117 % 0x11_0000).unwrap_or('\u{2581}');
    let text =
        if kind & 2 == 2 { raw.iter().copied().map(any).collect() } else { String::from_utf8_lossy(raw).into_owned() };
    text.repeat(if text.len() * times > 1 << 16 { 1 } else { times })
}

/// Checks that an encoding with too little scratch or room is refused, and that the needs in the error suffice.
fn needs(tokenizer: &Tokenizer<'_, '_>, text: &str, options: EncodeOptions, ids: &[u32], (few, short): (usize, usize)) {
    let mut scratch = vec![1; tokenizer.scratch_len(text.len())].into_boxed_slice();
    if short < ids.len() {
        let mut out = vec![0; short].into_boxed_slice();
        let refused = forbidden(|| tokenizer.encode(text, options, &mut scratch, &mut out));
        assert_eq!(refused, Err(TokenError::OutputTooSmall { needed: ids.len(), given: short }));
    }
    if few >= scratch.len() {
        return;
    }
    let mut out = vec![0; ids.len()].into_boxed_slice();
    let mut little = vec![2; few].into_boxed_slice();
    match forbidden(|| tokenizer.encode(text, options, &mut little, &mut out)) {
        Ok(_) => {}
        Err(TokenError::ScratchTooSmall { needed, given }) => {
            assert!(given == few && needed > few && needed <= scratch.len(), "{needed} words are needed");
            let mut enough = vec![3; needed].into_boxed_slice();
            assert!(forbidden(|| tokenizer.encode(text, options, &mut enough, &mut out)).is_ok());
        }
        Err(error) => panic!("{error}"),
    }
    assert_eq!(*out, *ids, "the same ids with little scratch");
}

/// Checks that invalid ranges are refused or ignored.
fn framed(tokenizer: &Tokenizer<'_, '_>, text: &str, (cut, short): (usize, usize)) {
    let (mut scratch, mut out) = (vec![0; tokenizer.scratch_len(text.len())], vec![0; text.len() * 4 + 16]);
    let backwards = Range { start: 3, end: 2 };
    for plain in [&[0..text.len()][..], &[cut..short, backwards, text.len()..usize::MAX, 0..usize::MAX]] {
        if let Err(error) = forbidden(|| tokenizer.encode_framed(text, plain, &mut scratch, &mut out)) {
            assert!(!error.to_string().is_empty());
        }
    }
}

/// Checks that decoding one id after the other gives the same text as decoding all of them.
fn stream(tokenizer: &Tokenizer<'_, '_>, ids: &[u32], render_special: bool) {
    let mut text = vec![0; (ids.len() + 1) * tokenizer.max_push()].into_boxed_slice();
    let mut piece = vec![0; tokenizer.max_push()].into_boxed_slice();
    for starts_text in [true, false] {
        let options = DecodeOptions { render_special, starts_text };
        let whole = forbidden(|| tokenizer.decode(ids, options, &mut text)).expect("room for all").to_owned();
        let (mut state, mut parts) = (Detokenizer::new(tokenizer, options), String::new());
        for &id in ids {
            let pushed = forbidden(|| state.push(tokenizer, id, &mut piece));
            parts.push_str(pushed.expect("room for a token"));
        }
        parts.push_str(state.finish());
        assert_eq!(whole, parts);
    }
}
