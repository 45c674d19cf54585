//! Repetition, frequency and presence penalties.

use super::candidates::Candidates;
use super::{SampleError, SamplerParams};

/// The largest number of tokens that the penalties can count.
pub const MAX_WINDOW: usize = 256;

/// The last tokens that were accepted.
#[derive(Clone, Debug)]
pub(super) struct History {
    ring: [u32; MAX_WINDOW],
    /// The index of the next token in the ring. It wraps around.
    next: u8,
    len: usize,
}

impl History {
    pub(super) const fn new() -> Self {
        Self { ring: [0; MAX_WINDOW], next: 0, len: 0 }
    }

    pub(super) fn push(&mut self, token: u32) {
        if let Some(slot) = self.ring.get_mut(usize::from(self.next)) {
            *slot = token;
        }
        self.next = self.next.wrapping_add(1);
        self.len = MAX_WINDOW.min(self.len + 1);
    }

    /// Returns the last `count` tokens, or all tokens if there are fewer, the newest first.
    pub(super) fn newest(&self, count: usize) -> impl Iterator<Item = u32> {
        let (after, before) = self.ring.split_at_checked(usize::from(self.next)).unwrap_or_default();
        after.iter().rev().chain(before.iter().rev()).copied().take(count.min(self.len))
    }
}

/// Returns whether the penalties lower no logit.
pub(super) fn are_off(params: &SamplerParams) -> bool {
    (params.repetition_penalty, params.frequency_penalty, params.presence_penalty) == (1.0, 0.0, 0.0)
}

/// Lowers the logit of each token that occurs n > 0 times among the last `penalty_window` tokens. A positive logit is
/// divided by the repetition penalty, and another one is multiplied by it (Keskar et al., "CTRL", 2019, section 4.1).
/// Then n · frequency penalty is subtracted, then the presence penalty.
pub(super) fn apply(
    candidates: &mut Candidates<'_>,
    history: &History,
    params: &SamplerParams,
) -> Result<(), SampleError> {
    let SamplerParams { repetition_penalty, frequency_penalty, presence_penalty, penalty_window, .. } = *params;
    if are_off(params) {
        return Ok(());
    }
    for (i, token) in history.newest(penalty_window).enumerate() {
        if history.newest(i).any(|newer| newer == token) {
            continue;
        }
        let count = history.newest(penalty_window).filter(|&other| other == token).count();
        candidates.adjust(token, |logit| {
            let logit = if logit > 0.0 { logit / repetition_penalty } else { logit * repetition_penalty };
            (logit - count as f32 * frequency_penalty) - presence_penalty
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_gives_the_newest_first() {
        let mut history = History::new();
        assert_eq!(history.newest(9).count(), 0);
        for token in 0..600 {
            history.push(token);
            let newest: Vec<u32> = history.newest(MAX_WINDOW).collect();
            let want: Vec<u32> = (0..=token).rev().take(MAX_WINDOW).collect();
            assert_eq!(newest, want);
            assert_eq!(history.newest(3).count(), 3.min(token as usize + 1));
        }
    }
}
