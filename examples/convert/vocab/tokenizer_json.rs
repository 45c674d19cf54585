//! `tokenizer.json`: BPE over bytes, and BPE over characters with bytes to fall back to, which is SentencePiece's.

use std::collections::HashMap;

use serde_json::Value as Json;

use super::{Kind, Token, Vocab, is_byte, pre};
use crate::common::Result;

/// Whether it is BPE over bytes that are written as printable characters.
pub(super) fn is_byte_level(json: &Json) -> bool {
    json["model"]["type"] == "BPE" && !has_fallback(json)
}

fn has_fallback(json: &Json) -> bool {
    json["model"]["byte_fallback"].as_bool().unwrap_or(false)
}

/// Reads tokens and merges, or scores that merge in the same order.
pub(super) fn read(json: &Json) -> Result<Vocab> {
    let kind = json["model"]["type"].as_str().unwrap_or("BPE");
    let list = json["model"]["vocab"].as_object();
    let list = list.filter(|_| kind == "BPE").ok_or_else(|| format!("a model of type {kind} is not supported"))?;
    let mut vocab = Vocab::default();
    for (text, id) in list {
        let id = id.as_u64().and_then(|id| usize::try_from(id).ok()).ok_or("an id is no number")?;
        vocab.put(id, Token { text: text.clone(), score: 0.0, kind: Kind::Normal })?;
    }
    let merges = merges(&json["model"]["merges"])?;
    if has_fallback(json) {
        vocab.model = "llama";
        vocab.space_prefix = Some(puts_space(json));
        score(&mut vocab, &merges);
        let unknown = json["model"]["unk_token"].as_str().and_then(|text| vocab.find(text));
        if let Some(id) = unknown {
            vocab.tokens[id].kind = Kind::Unknown;
            vocab.special.push(("unknown", id));
        }
    } else {
        vocab.model = "gpt2";
        vocab.pre = Some(pre::name(json)?);
        vocab.merges = merges.iter().map(|[left, right]| format!("{left} {right}")).collect();
    }
    Ok(vocab)
}

/// Pairs, or texts with a blank between.
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

/// Scores by which tokens merge in the order of the merges.
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

/// Whether a blank is put before texts.
fn puts_space(json: &Json) -> bool {
    let normalizer = &json["normalizer"];
    let list = normalizer["normalizers"].as_array().map_or(std::slice::from_ref(normalizer), Vec::as_slice);
    let scheme = json["pre_tokenizer"]["prepend_scheme"].as_str();
    let metaspace = json["pre_tokenizer"]["type"] == "Metaspace" && scheme != Some("never");
    metaspace || list.iter().any(|step| step["type"] == "Prepend")
}
