//! A plain SentencePiece BPE encoder, quadratic in the length of the text. It is the oracle of the library's encoder.

use std::collections::HashMap;

use gguf_rs_lite::Gguf;

/// Returns the ids of `text` with BOS in front.
///
/// A blank goes before the text, and blanks become U+2581. Then the neighbours that make the piece with the best score
/// merge, the leftmost first, until no neighbours make a piece. A rest that is no piece becomes byte tokens.
pub fn encode(gguf: &Gguf<'_>, text: &str) -> Vec<u32> {
    let array = |key: &str| gguf.get(key).and_then(|value| value.as_array()).expect("an array");
    let tokens: Vec<String> =
        array("tokenizer.ggml.tokens").iter().map(|value| value.as_str().expect("UTF-8").to_string()).collect();
    let scores: Vec<f64> =
        array("tokenizer.ggml.scores").iter().map(|value| value.as_f64().expect("a score")).collect();
    let kinds = array("tokenizer.ggml.token_type").iter().map(|value| value.as_i64().expect("a type"));
    let normal: HashMap<&str, usize> =
        kinds.zip(&tokens).enumerate().filter(|(_, (kind, _))| *kind == 1).map(|(id, (_, t))| (&t[..], id)).collect();

    let mut pieces: Vec<String> = format!(" {text}").replace(' ', "\u{2581}").chars().map(String::from).collect();
    loop {
        let mut best: Option<(usize, usize)> = None;
        for at in 0..pieces.len() - 1 {
            let merged = normal.get(&*(pieces[at].clone() + &pieces[at + 1]));
            best = match (best, merged) {
                (Some((_, old)), Some(&new)) if scores[new] > scores[old] => Some((at, new)),
                (None, Some(&new)) => Some((at, new)),
                _ => best,
            };
        }
        let Some((at, id)) = best else { break };
        pieces[at] = tokens[id].clone();
        pieces.remove(at + 1);
    }
    let byte = |byte: u8| tokens.iter().position(|token| *token == format!("<0x{byte:02X}>")).expect("a byte token");
    let ids = pieces.iter().flat_map(|piece| match normal.get(&piece[..]) {
        Some(&id) => vec![id],
        None => piece.bytes().map(byte).collect(),
    });
    std::iter::once(1).chain(ids.map(|id| id as u32)).collect()
}
