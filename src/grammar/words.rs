//! Words that are written or read one after the other.

/// Words that are written one after the other. Words that do not fit are left out.
pub(super) struct Out<'o> {
    words: &'o mut [u32],
    used: usize,
}

impl<'o> Out<'o> {
    pub(super) fn new(words: &'o mut [u32], used: usize) -> Self {
        Self { words, used }
    }

    pub(super) fn used(&self) -> usize {
        self.used
    }

    pub(super) fn push<const N: usize>(&mut self, words: [u32; N]) {
        let places = self.words.get_mut(self.used..).unwrap_or(&mut []);
        places.iter_mut().zip(words).for_each(|(place, word)| *place = word);
        self.used = self.used.saturating_add(N);
    }
}

/// Words that are read one after the other, wherever they are. `get` returns the word at an index.
pub(super) struct In<G> {
    get: G,
    pub(super) at: usize,
}

impl<G: Fn(usize) -> u32> In<G> {
    pub(super) fn new(get: G) -> Self {
        Self { get, at: 0 }
    }

    pub(super) fn next<const N: usize>(&mut self) -> [u32; N] {
        let at = self.at;
        self.at = at.saturating_add(N);
        core::array::from_fn(|index| (self.get)(at.saturating_add(index)))
    }
}
