//! The rows of a batch in the order of their experts.

use crate::nn::Choice;

/// Pairs of a row and one of its experts, numbered by rows, and their places in the order of the experts. In this order
/// the rows of an expert follow each other, and its weights are read once for all of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Groups<'g> {
    /// Number of the pair at each place.
    pairs: &'g [u32],
    /// Place of each pair.
    places: &'g [u32],
}

impl<'g> Groups<'g> {
    /// Fills [`group_words`](super::buffers::group_words) words: orders pairs by their experts, and pairs of one expert
    /// by their numbers (a counting sort). Returns `None` on a mismatch of sizes.
    pub(super) fn sort(choices: &[Choice], words: &mut [u32]) -> Option<()> {
        let (pairs, words) = words.split_at_mut_checked(choices.len())?;
        let (places, next) = words.split_at_mut_checked(choices.len())?;
        next.fill(0);
        for choice in choices {
            *next.get_mut(choice.expert as usize)? += 1;
        }
        // `next` becomes the place of the first pair of each expert, and then of each next pair.
        let mut before = 0;
        for next in next.iter_mut() {
            (*next, before) = (before, before + *next);
        }
        for ((choice, place), pair) in choices.iter().zip(places).zip(0..) {
            let next = next.get_mut(choice.expert as usize)?;
            *pairs.get_mut(*next as usize)? = pair;
            *place = *next;
            *next += 1;
        }
        Some(())
    }

    /// Returns the groups that [`Groups::sort`] made of `choices` choices.
    pub(super) fn new(words: &'g [u32], choices: usize) -> Option<Self> {
        let (pairs, words) = words.split_at_checked(choices)?;
        Some(Self { pairs, places: words.get(..choices)? })
    }

    /// Returns the pair at a place.
    pub(super) fn pair(&self, place: usize) -> Option<usize> {
        self.pairs.get(place).map(|&pair| pair as usize)
    }

    /// Returns the place of a pair.
    pub(super) fn place(&self, pair: usize) -> Option<usize> {
        self.places.get(pair).map(|&place| place as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::buffers::group_words;

    #[test]
    fn pairs_are_sorted_by_expert() {
        let choices: Vec<_> = [3, 0, 1, 3, 0, 3].map(|expert| Choice { expert, weight: 0.0 }).into();
        let mut words = vec![9; group_words(6, 5).unwrap()];
        Groups::sort(&choices, &mut words).unwrap();
        let groups = Groups::new(&words, 6).unwrap();
        let pairs: Vec<_> = (0..6).filter_map(|place| groups.pair(place)).collect();
        assert_eq!(pairs, [1, 4, 2, 0, 3, 5]);
        assert!(pairs.iter().enumerate().all(|(place, &pair)| groups.place(pair) == Some(place)));
        assert_eq!((groups.pair(6), groups.place(6)), (None, None));
        // An expert that does not exist, and too little room.
        assert_eq!(Groups::sort(&choices, &mut words[..15]), None);
        assert_eq!(Groups::sort(&choices, &mut words[..11]), None);
        assert!(Groups::new(&words[..11], 6).is_none());
        assert_eq!(group_words(0, 5), Some(0));
    }
}
