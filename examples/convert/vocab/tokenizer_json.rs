//! Reads `tokenizer.json`: BPE over bytes, SentencePiece's BPE over characters with bytes as a fallback, WordPiece, and
//! unigram.

use std::collections::HashMap;

use serde_json::Value as Json;

use super::{Kind, Token, Vocab, is_byte, pre};
use common::Result;

/// Returns whether it is BPE over bytes that are written as printable characters.
pub(super) fn is_byte_level(json: &Json) -> bool {
    json["model"]["type"] == "BPE" && !has_fallback(json)
}

fn has_fallback(json: &Json) -> bool {
    json["model"]["byte_fallback"].as_bool().unwrap_or(false)
}

/// Reads the tokens, with merges for BPE over bytes, and with scores that merge in the same order for SentencePiece's
/// BPE.
pub(super) fn read(json: &Json) -> Result<Vocab> {
    let kind = json["model"]["type"].as_str().unwrap_or("BPE");
    if kind == "Unigram" {
        return unigram(json);
    }
    let list = json["model"]["vocab"].as_object();
    let list = list
        .filter(|_| kind == "BPE" || kind == "WordPiece")
        .ok_or_else(|| format!("a model of type {kind} is not supported"))?;
    let mut vocab = Vocab::default();
    for (text, id) in list {
        let id = id.as_u64().and_then(|id| usize::try_from(id).ok()).ok_or("an id is no number")?;
        vocab.put(id, Token { text: text.clone(), score: 0.0, kind: Kind::Normal })?;
    }
    if kind == "WordPiece" {
        vocab.model = "bert";
        let normalizer = &json["normalizer"];
        vocab.lowercase = normalizer["lowercase"].as_bool();
        // If it is null, it has the value of `lowercase`.
        vocab.strip_accents = normalizer["strip_accents"].as_bool();
        mark_unknown(&mut vocab, &json["model"]["unk_token"]);
        return Ok(vocab);
    }
    let merges = merges(&json["model"]["merges"])?;
    if has_fallback(json) {
        vocab.model = "llama";
        vocab.space_prefix = Some(puts_space(json));
        score(&mut vocab, &merges);
        mark_unknown(&mut vocab, &json["model"]["unk_token"]);
    } else {
        vocab.model = "gpt2";
        vocab.pre = Some(pre::name(json)?);
        if vocab.pre == Some("whitespace") {
            // Characters stand for themselves, not for bytes.
            vocab.model = "whitespace";
            vocab.lowercase = steps(&json["normalizer"]).any(|step| step["type"] == "Lowercase").then_some(true);
            mark_unknown(&mut vocab, &json["model"]["unk_token"]);
        }
        vocab.merges = merges.iter().map(|[left, right]| format!("{left} {right}")).collect();
    }
    Ok(vocab)
}

/// Marks the token for text that cannot be spelled.
fn mark_unknown(vocab: &mut Vocab, name: &Json) {
    if let Some(id) = name.as_str().and_then(|text| vocab.find(text)) {
        vocab.tokens[id].kind = Kind::Unknown;
        vocab.special.push(("unknown", id));
    }
}

/// Reads SentencePiece's unigram: pieces with scores.
fn unigram(json: &Json) -> Result<Vocab> {
    let list = json["model"]["vocab"].as_array().ok_or("it has no vocabulary")?;
    let mut vocab = Vocab { model: "t5", space_prefix: Some(puts_space(json)), ..Vocab::default() };
    for (id, piece) in list.iter().enumerate() {
        let (text, score) = piece[0].as_str().zip(piece[1].as_f64()).ok_or("a piece is no text with a score")?;
        let kind = if is_byte(text) { Kind::Byte } else { Kind::Normal };
        vocab.put(id, Token { text: text.to_owned(), score: score as f32, kind })?;
    }
    let unknown = json["model"]["unk_id"].as_u64().and_then(|id| usize::try_from(id).ok());
    if let Some(id) = unknown.filter(|&id| id < vocab.tokens.len()) {
        vocab.tokens[id].kind = Kind::Unknown;
        vocab.special.push(("unknown", id));
    }
    for step in steps(&json["normalizer"]) {
        match step["type"].as_str().unwrap_or_default() {
            "Precompiled" => vocab.charsmap = base64(step["precompiled_charsmap"].as_str().unwrap_or_default())?,
            "Replace" if step["pattern"]["Regex"] == " {2,}" => vocab.merge_blanks = Some(true),
            "Strip" | "Nmt" | "" => {}
            other => return Err(format!("the normalizer {other} is not supported").into()),
        }
    }
    // If the pre-tokenizer leaves white space out, runs of blanks become one.
    let split = steps(&json["pre_tokenizer"]).any(|step| step["type"] == "WhitespaceSplit");
    vocab.merge_blanks = vocab.merge_blanks.or(Some(split));
    Ok(vocab)
}

/// Returns the steps of a normalizer or pre-tokenizer.
fn steps(json: &Json) -> impl Iterator<Item = &Json> {
    let list = json["normalizers"].as_array().or(json["pretokenizers"].as_array());
    list.map_or(std::slice::from_ref(json), Vec::as_slice).iter()
}

/// Decodes base64.
fn base64(text: &str) -> Result<Vec<u8>> {
    let (mut bytes, mut bits, mut count) = (Vec::with_capacity(text.len() / 4 * 3), 0_u32, 0);
    for digit in text.trim_end_matches('=').bytes() {
        let digit = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return Err("its precompiled_charsmap is no base64".into()),
        };
        (bits, count) = (bits << 6 | u32::from(digit), count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Ok(bytes)
}

/// Spells a piece of WordPiece as GGUF files do: with U+2581 before pieces that begin a word, and nothing before
/// others.
pub(super) fn respell(token: &mut Token) {
    token.text = match token.text.strip_prefix("##") {
        Some(rest) => rest.to_owned(),
        None => format!("\u{2581}{}", token.text),
    };
}

/// Reads the merges: pairs, or texts with a blank between the two parts.
fn merges(json: &Json) -> Result<Vec<[&str; 2]>> {
    let list = json.as_array().ok_or("it has no merges")?;
    list.iter().map(|merge| pair(merge).ok_or_else(|| format!("the merge {merge} is no pair").into())).collect()
}

fn pair(merge: &Json) -> Option<[&str; 2]> {
    match merge {
        Json::String(text) => text.split_once(' ').map(|(left, right)| [left, right]),
        other => Some([other[0].as_str()?, other[1].as_str()?]),
    }
}

/// Gives tokens scores with which they merge in the order of the merges.
fn score(vocab: &mut Vocab, merges: &[[&str; 2]]) {
    let mut ranks: HashMap<String, usize> = HashMap::new();
    for (rank, pair) in merges.iter().enumerate() {
        ranks.entry(pair.concat()).or_insert(rank);
    }
    for token in &mut vocab.tokens {
        let rank = ranks.get(&token.text).copied().unwrap_or(merges.len());
        token.score = -(rank as f32);
        if is_byte(&token.text) {
            (token.kind, token.score) = (Kind::Byte, 0.0);
        }
    }
}

/// Returns whether a blank is put before texts.
fn puts_space(json: &Json) -> bool {
    let normalizer = &json["normalizer"];
    let list = normalizer["normalizers"].as_array().map_or(std::slice::from_ref(normalizer), Vec::as_slice);
    let metaspace = |step: &Json| {
        step["type"] == "Metaspace"
            && step["prepend_scheme"] != "never"
            && step["add_prefix_space"].as_bool().unwrap_or(true)
    };
    steps(&json["pre_tokenizer"]).any(metaspace) || list.iter().any(|step| step["type"] == "Prepend")
}
