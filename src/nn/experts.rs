//! The choice of the experts that a token goes through.

use bytemuck::{Pod, Zeroable};

use crate::num::{settle, settled_of, sigmoid, softmax};

/// An expert that a token goes through, and the weight of its result.
///
/// [Example](crate::nn#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Choice {
    /// Index of the expert.
    pub expert: u32,
    /// Weight of the expert's result, settled.
    pub weight: f32,
}

/// How experts are chosen and weighted.
///
/// [Example](crate::nn#example).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Routing {
    /// How scores are computed from the router's logits.
    pub scores: RouterScores,
    /// Whether weights are divided by their sum.
    pub normalized: bool,
    /// Number that is added to the sum of the weights.
    pub epsilon: f32,
    /// Factor of the weights, applied last.
    pub scale: f32,
    /// Factor of the router's logits, applied first.
    pub logit_scale: f32,
    /// Number of groups of experts, 1 to 64. Groups are equally large and lie one after the other.
    pub groups: u32,
    /// Number of groups that are chosen first: the ones whose two largest sums of score and bias have the largest
    /// total. Experts of other groups are not chosen. (DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, section
    /// 2.1.2.)
    pub groups_used: u32,
}

/// How scores are computed from the router's logits.
///
/// [Example](crate::nn#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouterScores {
    /// The logits. The weights are the softmax of the chosen logits.
    SoftmaxOfChosen,
    /// The softmax of all logits. The weights are the scores of the chosen experts.
    Softmax,
    /// The sigmoid of each logit. The weights are the scores of the chosen experts.
    Sigmoid,
}

impl Routing {
    /// Routing with the softmax of the chosen logits as weights. (Jiang et al., "Mixtral of Experts", 2024, section
    /// 2.1.)
    pub const SOFTMAX_OF_CHOSEN: Self = Self {
        scores: RouterScores::SoftmaxOfChosen,
        normalized: false,
        epsilon: 0.0,
        scale: 1.0,
        logit_scale: 1.0,
        groups: 1,
        groups_used: 1,
    };

    /// The largest number of groups.
    pub const MAX_GROUPS: u32 = u64::BITS;

    /// Chooses as many experts as `out` has elements: the ones with the largest sums of score and bias, in descending
    /// order, the lower index first among equals. The biases do not enter the weights. If there are several groups,
    /// some of them are chosen first, in the same order.
    ///
    /// `logits` and `scores`, which is filled, are `[experts]`. The biases are `[experts]`, little-endian f32, or
    /// empty. Returns `None` if a logit is not a number, or if sizes do not fit.
    pub fn choose(&self, logits: &[f32], biases: &[[u8; 4]], scores: &mut [f32], out: &mut [Choice]) -> Option<()> {
        let fits = scores.len() == logits.len() && (biases.is_empty() || biases.len() == logits.len());
        if !fits || logits.iter().any(|logit| logit.is_nan()) {
            return None;
        }
        self.score(logits, scores);
        let biases = biases.iter().map(|&bias| settled_of(bias)).chain(core::iter::repeat(0.0));
        let ranks = || scores.iter().zip(biases.clone()).zip(0..).map(|((score, bias), expert)| (score + bias, expert));
        let of_group = u32::try_from(scores.len()).ok()?.checked_div(self.groups).filter(|&size| size > 0)?;
        let groups = self.choose_groups(|group| {
            let first = group.saturating_mul(of_group);
            let of_it = ranks().skip(first as usize).take(of_group as usize);
            of_it.fold((f32::NEG_INFINITY, f32::NEG_INFINITY), |(most, next), (rank, _)| match rank > most {
                true => (rank, most),
                false => (most, if rank > next { rank } else { next }),
            })
        })?;
        for place in 0..out.len() {
            let (chosen, _) = out.split_at_mut_checked(place)?;
            let free = ranks().filter(|&(_, expert)| chosen.iter().all(|choice| choice.expert != expert));
            let (_, expert) = largest(free.filter(|&(_, expert)| has(groups, expert.checked_div(of_group))))?;
            *out.get_mut(place)? = Choice { expert, weight: *scores.get(expert as usize)? };
        }
        self.weigh(scores, out)
    }

    /// Returns the chosen groups as a set of bits. `two` returns the two largest ranks of a group.
    fn choose_groups(&self, two: impl Fn(u32) -> (f32, f32)) -> Option<u64> {
        if self.groups == 1 {
            return Some(u64::MAX);
        }
        (0..self.groups_used.min(self.groups)).try_fold(0_u64, |chosen, _| {
            let free = (0..self.groups.min(Self::MAX_GROUPS)).filter(|&group| !has(chosen, Some(group)));
            let ranks = free.map(|group| {
                let (most, next) = two(group);
                (most + next, group)
            });
            largest(ranks).map(|(_, group)| chosen | 1_u64.checked_shl(group).unwrap_or(0))
        })
    }

    fn score(&self, logits: &[f32], scores: &mut [f32]) {
        scores.iter_mut().zip(logits).for_each(|(score, &logit)| *score = settle(logit * self.logit_scale));
        match self.scores {
            RouterScores::SoftmaxOfChosen => {}
            RouterScores::Softmax => softmax(scores),
            RouterScores::Sigmoid => scores.iter_mut().for_each(|score| *score = sigmoid(*score)),
        }
    }

    /// Computes the weights of the chosen experts from their scores. Returns `None` if no expert is chosen.
    fn weigh(&self, scratch: &mut [f32], chosen: &mut [Choice]) -> Option<()> {
        chosen.first()?;
        if self.scores == RouterScores::SoftmaxOfChosen {
            let among = scratch.get_mut(..chosen.len())?;
            among.iter_mut().zip(&*chosen).for_each(|(weight, choice)| *weight = choice.weight);
            softmax(among);
            chosen.iter_mut().zip(&*among).for_each(|(choice, &weight)| choice.weight = weight);
        }
        if self.normalized {
            let sum = chosen.iter().fold(0.0, |sum, choice| sum + choice.weight) + self.epsilon;
            chosen.iter_mut().for_each(|choice| choice.weight /= sum);
        }
        chosen.iter_mut().for_each(|choice| choice.weight = settle(choice.weight * self.scale));
        Some(())
    }
}

/// Returns whether a bit of a set is 1.
fn has(set: u64, bit: Option<u32>) -> bool {
    bit.and_then(|bit| set.checked_shr(bit)).is_some_and(|rest| rest & 1 == 1)
}

/// Returns the pair with the largest first number, and the first such pair among equals.
fn largest(ranks: impl Iterator<Item = (f32, u32)>) -> Option<(f32, u32)> {
    ranks.fold(None, |best, (rank, of)| match best {
        Some((largest, _)) if rank <= largest => best,
        _ => Some((rank, of)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 5] = [1.0, 3.0, 2.0, 3.0, -1.0];

    fn choose<const N: usize>(routing: Routing, biases: &[f32]) -> [Choice; N] {
        let biases: Vec<_> = biases.iter().map(|bias| bias.to_le_bytes()).collect();
        let mut chosen = [Choice::default(); N];
        routing.choose(&LOGITS, &biases, &mut [0.0; 5], &mut chosen).unwrap();
        chosen
    }

    fn assert_weights(chosen: &[Choice], weights: &[f64]) {
        assert_eq!(chosen.len(), weights.len());
        for (choice, weight) in chosen.iter().zip(weights) {
            assert!((f64::from(choice.weight) - weight).abs() < 1e-6, "{chosen:?} instead of {weights:?}");
        }
    }

    #[test]
    fn the_largest_are_chosen_and_weighted() {
        let chosen = choose::<3>(Routing::SOFTMAX_OF_CHOSEN, &[]);
        assert_eq!(chosen.map(|choice| choice.expert), [1, 3, 2]);
        let sum = 2.0 + (-1f64).exp();
        assert_weights(&chosen, &[1.0 / sum, 1.0 / sum, (-1f64).exp() / sum]);
    }

    #[test]
    fn weights_of_all_and_of_each() {
        let softmax = Routing { scores: RouterScores::Softmax, ..Routing::SOFTMAX_OF_CHOSEN };
        let sum: f64 = LOGITS.iter().map(|&logit| f64::from(logit - 3.0).exp()).sum();
        assert_weights(&choose::<2>(softmax, &[]), &[1.0 / sum, 1.0 / sum]);
        let cooled = Routing { logit_scale: 0.5, ..Routing::SOFTMAX_OF_CHOSEN };
        let sum = 2.0 + (-0.5f64).exp();
        assert_weights(&choose::<3>(cooled, &[]), &[1.0 / sum, 1.0 / sum, (-0.5f64).exp() / sum]);
        let sum: f64 = LOGITS.iter().map(|&logit| f64::from(logit - 3.0).exp()).sum();
        let normalized = Routing { normalized: true, epsilon: 0.5, scale: 3.0, ..softmax };
        assert_weights(&choose::<2>(normalized, &[]), &[3.0 / (2.0 + 0.5 * sum); 2]);
        let sigmoid = Routing { scores: RouterScores::Sigmoid, ..softmax };
        assert_weights(&choose::<1>(sigmoid, &[]), &[1.0 / (1.0 + (-3f64).exp())]);
    }

    /// Biases change the choice and not the weights.
    #[test]
    fn biases_choose_only() {
        let sigmoid = Routing { scores: RouterScores::Sigmoid, ..Routing::SOFTMAX_OF_CHOSEN };
        let chosen = choose::<2>(sigmoid, &[0.0, 0.0, 0.0, 0.25, 1.0]);
        assert_eq!(chosen.map(|choice| choice.expert), [4, 3]);
        let of = |logit: f64| 1.0 / (1.0 + (-logit).exp());
        assert_weights(&chosen, &[of(-1.0), of(3.0)]);
        let normalized = choose::<2>(Routing { normalized: true, ..sigmoid }, &[0.0, 0.0, 0.0, 0.25, 1.0]);
        assert_weights(&normalized, &[of(-1.0) / (of(-1.0) + of(3.0)), of(3.0) / (of(-1.0) + of(3.0))]);
    }

    /// The expert with the largest logit is in a group whose two largest logits do not have the largest sum.
    #[test]
    fn groups_are_chosen_first() {
        let logits = [5.0, -4.0, 0.5, 1.0, 2.0, 1.5, 0.0, 1.0];
        let choose = |groups_used: u32, biases: &[f32]| {
            let routing = Routing { groups: 4, groups_used, ..Routing::SOFTMAX_OF_CHOSEN };
            let biases: Vec<_> = biases.iter().map(|bias| bias.to_le_bytes()).collect();
            let mut chosen = [Choice::default(); 2];
            routing.choose(&logits, &biases, &mut [0.0; 8], &mut chosen).unwrap();
            chosen.map(|choice| choice.expert)
        };
        assert_eq!(choose(1, &[]), [4, 5]);
        // Two groups with the same sum, 1.5 and 1: the sums count.
        assert_eq!(choose(2, &[]), [4, 5]);
        assert_eq!(choose(3, &[]), [0, 4]);
        assert_eq!(choose(4, &[]), [0, 4]);
        assert_eq!(choose(1, &[0.0, 9.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]), [0, 1]);
        // A group of one expert has one rank.
        let alone = Routing { groups: 8, groups_used: 2, ..Routing::SOFTMAX_OF_CHOSEN };
        assert_eq!(alone.choose(&logits, &[], &mut [0.0; 8], &mut [Choice::default(); 3]), None);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let routing = Routing::SOFTMAX_OF_CHOSEN;
        let mut chosen = [Choice::default(); 3];
        assert_eq!(routing.choose(&[1.0, f32::NAN, 2.0], &[], &mut [0.0; 3], &mut chosen[..1]), None);
        assert_eq!(routing.choose(&[1.0, 2.0], &[], &mut [0.0; 2], &mut chosen), None);
        assert_eq!(routing.choose(&[1.0], &[], &mut [0.0], &mut []), None);
        assert_eq!(routing.choose(&[1.0], &[[0; 4]; 2], &mut [0.0], &mut chosen[..1]), None);
        assert_eq!(routing.choose(&[1.0], &[], &mut [0.0; 2], &mut chosen[..1]), None);
    }
}
