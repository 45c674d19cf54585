//! Reads `tokenizer.model` of SentencePiece, a protocol buffer of which a few fields matter.

use super::{Kind, Token, Vocab};
use common::Result;

/// A field of a message.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    F32(f32),
    Other,
}

/// Number of the BPE model type in `model_type`.
const BPE: u64 = 2;

/// Returns whether a file begins as a model does, with a piece and its text. A `tokenizer.bin` with these bytes would
/// have tokens of thousands of bytes.
pub(super) fn begins(bytes: &[u8]) -> bool {
    const BYTES_OF_FIELD_1: u8 = 1 << 3 | 2;
    matches!(bytes, [BYTES_OF_FIELD_1, len, BYTES_OF_FIELD_1, ..] if *len > 0)
}

/// Reads the pieces, and whether a blank is put before texts.
pub(super) fn read(bytes: &[u8]) -> Result<Vocab> {
    let mut vocab = Vocab { model: "llama", space_prefix: Some(true), ..Vocab::default() };
    // Without the field the type is 1, unigram.
    let mut kind = 1;
    let mut special = [("unknown", Some(0)), ("bos", Some(1)), ("eos", Some(2)), ("padding", None)];
    for field in fields(bytes) {
        match field? {
            (1, Field::Bytes(piece)) => vocab.tokens.push(token(piece)?),
            (2, Field::Bytes(trainer)) => {
                for field in fields(trainer) {
                    match field? {
                        (3, Field::Number(number)) => kind = number,
                        // Ids are i32. -1 means that there is no such token.
                        (number @ 40..=43, Field::Number(id)) => {
                            special[number as usize - 40].1 = u32::try_from(id).ok();
                        }
                        _ => {}
                    }
                }
            }
            (3, Field::Bytes(normalizer)) => {
                for field in fields(normalizer) {
                    if let (3, Field::Number(flag)) = field? {
                        vocab.space_prefix = Some(flag != 0);
                    }
                }
            }
            _ => {}
        }
    }
    if kind != BPE {
        return Err(format!("a model of type {kind} is not supported, only BPE, type {BPE}").into());
    }
    if vocab.tokens.is_empty() {
        return Err("it has no pieces".into());
    }
    let ids = special.into_iter().filter_map(|(name, id)| Some((name, id? as usize)));
    vocab.special = ids.filter(|(_, id)| *id < vocab.tokens.len()).collect();
    Ok(vocab)
}

fn token(piece: &[u8]) -> Result<Token> {
    let mut token = Token { text: String::new(), score: 0.0, kind: Kind::Normal };
    for field in fields(piece) {
        match field? {
            (1, Field::Bytes(text)) => token.text = str::from_utf8(text)?.to_owned(),
            (2, Field::F32(score)) => token.score = score,
            (3, Field::Number(kind)) => token.kind = known_kind(kind)?,
            _ => {}
        }
    }
    Ok(token)
}

fn known_kind(number: u64) -> Result<Kind> {
    let all = [Kind::Normal, Kind::Unknown, Kind::Control, Kind::UserDefined, Kind::Unused, Kind::Byte];
    let found = all.into_iter().find(|&kind| kind as u64 == number);
    found.ok_or_else(|| format!("a piece of type {number} is not supported").into())
}

/// Returns the fields of a message with their numbers. Ends after an error.
fn fields(mut bytes: &[u8]) -> impl Iterator<Item = Result<(u64, Field<'_>)>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let field = next(&mut bytes);
        if field.is_none() {
            bytes = &[];
        }
        Some(field.ok_or_else(|| "it is no SentencePiece model, or cut off".into()))
    })
}

fn next<'a>(bytes: &mut &'a [u8]) -> Option<(u64, Field<'a>)> {
    let key = varint(bytes)?;
    let field = match key & 7 {
        0 => Field::Number(varint(bytes)?),
        1 => take(bytes, 8).map(|_| Field::Other)?,
        2 => {
            let len = usize::try_from(varint(bytes)?).ok()?;
            Field::Bytes(take(bytes, len)?)
        }
        5 => Field::F32(f32::from_le_bytes(take(bytes, 4)?.try_into().ok()?)),
        _ => return None,
    };
    Some((key >> 3, field))
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(taken)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 127) << shift;
        if byte < 128 {
            return Some(value);
        }
    }
    None
}
