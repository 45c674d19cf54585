//! Bytes that lead from a frontier to itself, or nowhere, as a walk over tokens has found them: most of those in strings.

/// What is known of a few frontiers.
pub(super) struct Memos {
    memos: [Memo; COUNT],
    /// The number of the newest memo.
    last: u32,
}

const COUNT: usize = 8;

/// Sets of bytes: bit `b % 64` of element `b / 64` for byte `b`.
#[derive(Clone, Copy, Default)]
struct Memo {
    /// Memos are numbered from 1 on.
    number: u32,
    loops: [u64; 4],
    dead: [u64; 4],
    /// In a counted text, a character is allowed up to so many before it.
    most: Option<u32>,
}

/// What is known of a byte.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    Nothing,
    /// It leads nowhere.
    Dead,
    /// It leads to the same frontier.
    Loops,
    /// The same, but a character more was counted, of which there may be so many before it.
    Counts(u32),
}

impl Memos {
    /// `last`: the number of the last memo of the calls before.
    pub(super) fn new(last: u32) -> Self {
        Self { memos: [Memo::default(); COUNT], last }
    }

    /// Returns the number of the newest memo.
    pub(super) fn last(&self) -> u32 {
        self.last
    }

    #[inline]
    pub(super) fn known(&self, number: u32, byte: u8) -> Known {
        let Some(memo) = self.memos.get(number as usize % COUNT).filter(|memo| memo.number == number && number != 0)
        else {
            return Known::Nothing;
        };
        if has(&memo.loops, byte) {
            return memo.most.map_or(Known::Loops, Known::Counts);
        }
        if has(&memo.dead, byte) { Known::Dead } else { Known::Nothing }
    }

    /// Notes that a byte leads from a frontier with this memo, or with none yet, to itself. Returns the memo's number.
    pub(super) fn add_loop(&mut self, number: u32, byte: u8, most: Option<u32>) -> u32 {
        let number = match self.get(number) {
            Some(_) => number,
            None => {
                self.last = self.last.wrapping_add(1).max(1);
                self.last
            }
        };
        if let Some(memo) = self.memos.get_mut(number as usize % COUNT) {
            if memo.number != number {
                *memo = Memo { number, most, ..Memo::default() };
            }
            add(&mut memo.loops, byte);
        }
        number
    }

    /// Notes that a byte leads nowhere, if the frontier has a memo.
    pub(super) fn add_dead(&mut self, number: u32, byte: u8) {
        self.get(number).into_iter().for_each(|memo| add(&mut memo.dead, byte));
    }

    fn get(&mut self, number: u32) -> Option<&mut Memo> {
        self.memos.get_mut(number as usize % COUNT).filter(|memo| memo.number == number && number != 0)
    }
}

#[inline]
fn has(set: &[u64; 4], byte: u8) -> bool {
    set.get(usize::from(byte / 64)).is_some_and(|word| word >> (byte % 64) & 1 == 1)
}

fn add(set: &mut [u64; 4], byte: u8) {
    set.get_mut(usize::from(byte / 64)).into_iter().for_each(|word| *word |= 1 << (byte % 64));
}
