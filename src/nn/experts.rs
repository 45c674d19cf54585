//! Which experts a token goes through.

use bytemuck::{Pod, Zeroable};

use crate::num::exp;

/// An expert that a token goes through, and the weight of its result.
///
/// [Example](crate::nn#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Choice {
    /// Its number.
    pub expert: u32,
    /// The weight; those of a token sum to 1.
    pub weight: f32,
}

/// Chooses the experts with the largest logits, `[experts]`, as many as there are places in `out`: in descending order,
/// the lower number first among equals. Their weights are the softmax of their logits. (Jiang et al., "Mixtral of
/// Experts", 2024, section 2.1.) `None` where a logit is not a number, or where there are fewer.
pub fn choose_experts(logits: &[f32], out: &mut [Choice]) -> Option<()> {
    for place in 0..out.len() {
        let (chosen, _) = out.split_at_mut_checked(place)?;
        let free = logits.iter().zip(0..).filter(|&(_, expert)| chosen.iter().all(|choice| choice.expert != expert));
        let best = free.fold(None, |best, (&logit, expert)| match best {
            Some((largest, _)) if logit <= largest => best,
            _ => Some((logit, expert)),
        });
        let (logit, expert) = best?;
        *out.get_mut(place)? = Choice { expert, weight: logit };
    }
    let max = out.first()?.weight;
    let mut sum = 0.0;
    for choice in out.iter_mut() {
        choice.weight = exp(choice.weight - max);
        sum += choice.weight;
    }
    out.iter_mut().for_each(|choice| choice.weight /= sum);
    logits.iter().all(|logit| !logit.is_nan()).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_chosen_and_weighted() {
        let mut chosen = [Choice::default(); 3];
        choose_experts(&[1.0, 3.0, 2.0, 3.0, -1.0], &mut chosen).unwrap();
        assert_eq!(chosen.map(|choice| choice.expert), [1, 3, 2]);
        let sum = 2.0 + (-1f64).exp();
        for (choice, weight) in chosen.iter().zip([1.0 / sum, 1.0 / sum, (-1f64).exp() / sum]) {
            assert!((f64::from(choice.weight) - weight).abs() < 1e-7, "{choice:?}");
        }
        assert_eq!(choose_experts(&[1.0, f32::NAN, 2.0], &mut chosen[..1]), None);
        assert_eq!(choose_experts(&[1.0, 2.0], &mut chosen), None);
        assert_eq!(choose_experts(&[1.0], &mut []), None);
    }
}
