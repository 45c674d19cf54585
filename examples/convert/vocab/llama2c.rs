//! Reads `tokenizer.bin` of llama2.c: the length of the longest token, then score, length and bytes of each token.

use super::{Kind, Token, Vocab, is_byte};
use common::Result;

/// Reads `size` tokens.
pub(super) fn read(file: &[u8], size: usize) -> Result<Vocab> {
    let mut rest = file.get(4..).ok_or("it is too short")?;
    let mut vocab = Vocab { model: "llama", space_prefix: Some(true), add_bos: Some(true), ..Vocab::default() };
    for id in 0..size {
        let (token, after) = token(rest, id).ok_or_else(|| format!("token {id} of {size} is cut off or no text"))?;
        vocab.tokens.push(token);
        rest = after;
    }
    if !rest.is_empty() {
        return Err(format!("it has more tokens than the model, which has {size}").into());
    }
    vocab.add_eos = Some(false);
    vocab.special = [("unknown", 0), ("bos", 1), ("eos", 2)].into_iter().filter(|(_, id)| *id < size).collect();
    Ok(vocab)
}

fn token(bytes: &[u8], id: usize) -> Option<(Token, &[u8])> {
    let (score, rest) = bytes.split_first_chunk::<4>()?;
    let (len, rest) = rest.split_first_chunk::<4>()?;
    let (text, rest) = rest.split_at_checked(usize::try_from(i32::from_le_bytes(*len)).ok()?)?;
    let text = str::from_utf8(text).ok()?;
    let (text, kind) = match id {
        // The file has the names of the first three tokens between line breaks, or not at all.
        0 => ("<unk>".to_owned(), Kind::Unknown),
        1 => ("<s>".to_owned(), Kind::Control),
        2 => ("</s>".to_owned(), Kind::Control),
        _ if is_byte(text) => (text.to_owned(), Kind::Byte),
        _ => (text.replace(' ', "\u{2581}"), Kind::Normal),
    };
    Some((Token { text, score: f32::from_le_bytes(*score), kind }, rest))
}
