//! Guesses from the sequence's own text: what followed the last tokens where they occurred before. Known as prompt lookup:
//! A. Saxena, "Prompt Lookup Decoding", 2023.

use super::{Guess, GuessError, Text};
use crate::mem::{Arena, MemoryError};
use crate::par::Budget;

/// The tokens that are looked for, the longer first: it is the better sign.
const LENGTHS: [usize; 2] = [5, 3];

/// Tokens of a text that a call notes at most, so that its time is bounded.
const NOTED: usize = 1024;

/// Tokens that are noted again where a text has become shorter.
const BACK: usize = 64;

/// A table of where tokens occurred in a text, of a fixed size.
///
/// It guesses that what followed the last tokens will follow them again. A call takes the same time for every length of
/// the text: it looks up two places, and notes at most 1,024 tokens that are new.
///
/// [Example](crate::guess#example).
#[derive(Debug)]
pub struct NGrams<'a> {
    /// By hash: the position behind the last five, or three, tokens with it; 0 where there are none.
    behind: [&'a mut [u32]; 2],
    /// The tokens that end before this position are noted.
    noted: usize,
}

impl<'a> NGrams<'a> {
    /// Returns the bytes of memory of tables with so many places each: 4 for each place of two tables, rounded up to
    /// [`ALIGN`](crate::mem::ALIGN). A text of as many tokens finds nearly all of what it has, a longer one the newer part.
    ///
    /// # Errors
    /// [`MemoryError::TooLarge`].
    pub fn plan(places: usize) -> Result<usize, MemoryError> {
        let mut arena = Arena::measuring();
        carve(&mut arena, places)?;
        Ok(arena.used())
    }

    /// Returns tables that know no text. `memory` starts at a multiple of [`ALIGN`](crate::mem::ALIGN).
    ///
    /// # Errors
    /// [`MemoryError`]: too small, or not aligned.
    pub fn new(places: usize, memory: &'a mut [u8]) -> Result<Self, MemoryError> {
        let mut behind = carve(&mut Arena::new(memory)?, places)?;
        behind.iter_mut().for_each(|places| places.fill(0));
        Ok(Self { behind, noted: 0 })
    }

    /// Notes the tokens of a text up to `end`, at most [`NOTED`] of them.
    fn note(&mut self, text: &Text<'_>, end: usize) {
        // The host has gone back, and may have written something else. So do guesses that others have put behind the text.
        let begin = if self.noted > end { end.saturating_sub(BACK) } else { self.noted };
        let until = end.min(begin.saturating_add(NOTED));
        for position in begin..until {
            for (places, length) in self.behind.iter_mut().zip(LENGTHS) {
                let place = hash(text, position, length).and_then(|hash| place_of(places, hash));
                place.into_iter().for_each(|place| *place = position.saturating_add(1) as u32);
            }
        }
        self.noted = until;
    }

    /// Returns the position behind the last place where the tokens that end the text occurred before.
    fn found(&mut self, text: &Text<'_>) -> Option<usize> {
        let last = text.len().checked_sub(1)?;
        self.behind.iter_mut().zip(LENGTHS).find_map(|(places, length)| {
            let behind = *place_of(places, hash(text, last, length)?)? as usize;
            // Other tokens can have the same hash, and a host can have written other ones there since.
            let before = behind.checked_sub(1).filter(|before| *before < last)?;
            let is_same = |back| {
                let token = before.checked_sub(back).and_then(|position| text.token(position));
                token.is_some() && token == last.checked_sub(back).and_then(|position| text.token(position))
            };
            (0..length).all(is_same).then_some(behind)
        })
    }
}

impl Guess for NGrams<'_> {
    fn guess(&mut self, text: &Text<'_>, _: &mut Budget<'_>, out: &mut [u32]) -> Result<Option<usize>, GuessError> {
        // The last tokens themselves are noted when others follow them.
        self.note(text, text.len().saturating_sub(1));
        let Some(behind) = self.found(text) else { return Ok(Some(0)) };
        let period = text.len().saturating_sub(behind);
        for index in 0..out.len() {
            let position = behind.saturating_add(index);
            // Behind the text come the guesses: what repeats itself goes on so.
            let known = match index.checked_sub(period) {
                Some(before) => out.get(before).copied(),
                None => text.token(position),
            };
            let (Some(token), Some(place)) = (known, out.get_mut(index)) else { return Ok(Some(index)) };
            *place = token;
        }
        Ok(Some(out.len()))
    }
}

fn carve<'a>(arena: &mut Arena<'a>, places: usize) -> Result<[&'a mut [u32]; 2], MemoryError> {
    Ok([arena.slice("five tokens", places)?, arena.slice("three tokens", places)?])
}

/// A hash of the tokens that end at a position: FNV-1a of whole tokens. `None` where there are fewer.
fn hash(text: &Text<'_>, end: usize, length: usize) -> Option<u32> {
    let begin = end.checked_add(1)?.checked_sub(length)?;
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    for position in begin..=end {
        hash = (hash ^ u64::from(text.token(position)?)).wrapping_mul(0x0000_0100_0000_01B3);
    }
    // The upper bits depend on all bits of all tokens.
    Some((hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32)
}

/// The place of a hash.
fn place_of(places: &mut [u32], hash: u32) -> Option<&mut u32> {
    let index = (u64::from(hash) * places.len() as u64) >> 32;
    places.get_mut(index as usize)
}
