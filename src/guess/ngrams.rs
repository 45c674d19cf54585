//! Guesses from the sequence's own text: the tokens that followed the last tokens where these occurred before. Known as
//! prompt lookup: A. Saxena, "Prompt Lookup Decoding", 2023. Behind a change, a rewritten text goes on near the place
//! in the old text that it had come to. There a single token is enough to find the place.

use super::{Guess, GuessError, MAX_GUESSES, Text};
use crate::mem::{Arena, MemoryError};
use crate::par::Budget;

/// Number of last tokens that are looked for.
const LENGTH: usize = 3;

/// The most tokens that are compared before a place. The place with the most equal tokens counts, and more than this
/// are no better sign.
const LONGEST: usize = 8;

/// The most places that are compared.
const PLACES: usize = 8;

/// Number of positions, from the place on that the text had come to, at which it may go on.
const NEAR: usize = 16;

/// The most tokens of a text that a call notes, so that its time is bounded.
const NOTED: usize = 1024;

/// Number of tokens that are noted again where a text has become shorter.
const BACK: usize = 64;

/// A table of where tokens occurred in a text, of a fixed size.
///
/// It guesses that what followed the last tokens will follow them again. A call takes the same time for every length of
/// the text: it compares the tokens before eight places and 47 other tokens, and notes at most 1,024 new tokens.
///
/// [Example](crate::guess#example).
#[derive(Debug)]
pub struct NGrams<'a> {
    /// For each hash: the position behind the last three tokens with this hash, or 0 if there are none.
    behind: &'a mut [u32],
    /// For each position, modulo the number of places: the position behind the earlier three tokens with the hash of
    /// the three that end there, or 0.
    before: &'a mut [u32],
    /// Position before which all tokens are noted.
    noted: usize,
    /// Position from which the last guesses were taken, and the length of the text that they were for.
    last: Option<(usize, usize)>,
    /// Position behind the last token that was taken as a guess and was right.
    place: Option<usize>,
}

impl<'a> NGrams<'a> {
    /// Returns the number of bytes of memory of two tables with `places` places each: 4 for each place, rounded up to
    /// [`ALIGN`](crate::mem::ALIGN). In a text of `places` tokens nearly all occurrences are found, in a longer text
    /// the newer ones.
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
    /// [`MemoryError`] if `memory` is too small or not aligned.
    pub fn new(places: usize, memory: &'a mut [u8]) -> Result<Self, MemoryError> {
        let [behind, before] = carve(&mut Arena::new(memory)?, places)?;
        behind.fill(0);
        before.fill(0);
        Ok(Self { behind, before, noted: 0, last: None, place: None })
    }

    /// Notes the tokens of a text up to `end`, at most [`NOTED`] of them.
    fn note(&mut self, text: &Text<'_>, end: usize) {
        // The text has become shorter. The host has gone back and may have written other tokens, or guesses of another
        // source stood behind the text.
        let begin = if self.noted > end { end.saturating_sub(BACK) } else { self.noted };
        let until = end.min(begin.saturating_add(NOTED));
        for position in begin..until {
            let place = hash(text, position).and_then(|hash| place_of(self.behind, hash));
            let Some((place, before)) = place.zip(of_position(self.before, position)) else { continue };
            // Three tokens that are noted again change nothing. A place behind them belongs to tokens that are gone.
            if *place as usize != position.saturating_add(1) {
                *before = if *place as usize > position { 0 } else { *place };
                *place = position.saturating_add(1) as u32;
            }
        }
        self.noted = until;
    }

    /// Finds out how far the text has gone on as it was guessed.
    fn follow(&mut self, text: &Text<'_>) {
        let Some((from, len)) = self.last.take() else { return };
        let is_same = |index: &usize| {
            let token = text.token(len.saturating_add(*index));
            token.is_some() && token == text.token(from.saturating_add(*index))
        };
        let same = (0..MAX_GUESSES).take_while(is_same).count();
        if same > 0 {
            self.place = Some(from.saturating_add(same));
        }
    }

    /// Returns the position behind an occurrence of the last token near the place that the text had come to.
    fn near(&self, text: &Text<'_>) -> Option<usize> {
        let (place, end) = (self.place?, text.len().checked_sub(1)?);
        let last = text.token(end)?;
        let near = place..place.saturating_add(NEAR).min(end);
        near.into_iter().find(|&at| text.token(at) == Some(last)).map(|at| at.saturating_add(1))
    }

    /// Returns the position behind the earlier occurrence of the text's last tokens that has the most equal tokens. Of
    /// several such occurrences it is the last one.
    fn found(&mut self, text: &Text<'_>) -> Option<usize> {
        let last = text.len().checked_sub(1)?;
        let mut behind = *place_of(self.behind, hash(text, last)?)? as usize;
        let (mut best, mut most, mut limit) = (None, LENGTH - 1, text.len());
        for _ in 0..PLACES {
            // Each place is earlier than the one before. A later one is left from a text that was there before.
            let Some(end) = behind.checked_sub(1).filter(|_| behind < limit) else { break };
            // Other tokens can have the same hash, and the host can have written other tokens at the place since.
            let is_same = |back: &usize| {
                let token = end.checked_sub(*back).and_then(|position| text.token(position));
                token.is_some() && token == last.checked_sub(*back).and_then(|position| text.token(position))
            };
            let same = (0..LONGEST).take_while(is_same).count();
            if same > most {
                (best, most) = (Some(behind), same);
            }
            limit = behind;
            behind = of_position(self.before, end).map_or(0, |before| *before as usize);
        }
        best
    }
}

impl Guess for NGrams<'_> {
    fn guess(&mut self, text: &Text<'_>, _: &mut Budget<'_>, out: &mut [u32]) -> Result<Option<usize>, GuessError> {
        // The last three tokens themselves are noted when another token follows them.
        self.note(text, text.len().saturating_sub(1));
        self.follow(text);
        let Some(behind) = self.found(text).or_else(|| self.near(text)) else { return Ok(Some(0)) };
        self.last = Some((behind, text.len()));
        let period = text.len().saturating_sub(behind);
        for index in 0..out.len() {
            let position = behind.saturating_add(index);
            // Behind the end of the text the guesses themselves are read, so that a repetition goes on.
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
    Ok([arena.slice("three tokens", places)?, arena.slice("the same before", places)?])
}

/// Returns a hash of the three tokens that end at a position: FNV-1a of whole tokens. `None` if there are fewer.
fn hash(text: &Text<'_>, end: usize) -> Option<u32> {
    let begin = end.checked_add(1)?.checked_sub(LENGTH)?;
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    for position in begin..=end {
        hash = (hash ^ u64::from(text.token(position)?)).wrapping_mul(0x0000_0100_0000_01B3);
    }
    // The upper bits depend on all bits of all tokens.
    Some((hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32)
}

/// Returns the place of a hash.
fn place_of(places: &mut [u32], hash: u32) -> Option<&mut u32> {
    let index = (u64::from(hash) * places.len() as u64) >> 32;
    places.get_mut(index as usize)
}

/// Returns the place of a position.
fn of_position(places: &mut [u32], position: usize) -> Option<&mut u32> {
    let index = position.checked_rem(places.len())?;
    places.get_mut(index)
}
