//! Simulates what guesses gain with given costs of batches and given texts. It has all decisions of
//! [`Guessing`](super::Guessing), but no model.
//!
//! The texts are those of the example `guess`, with several beginnings and seeds.

use std::vec::Vec;

use super::pace::Pace;
use super::{Guess, NGrams, Text};
use crate::mem::ALIGN;

const WORDS: &str = include_str!("../../docs/kv.md");

/// Number of tokens of a prompt, and also of an answer.
const COUNT: usize = 160;

/// The most guesses at a time.
const MOST: usize = 15;

/// Number of rows of a batch, and what the batch costs in times of one row: Qwen3 0.6B Q4_K_M, level `avx512`, 1 thread
/// of an AMD Zen 5.
const COSTS: [(usize, f64); 8] = [(1, 1.0), (2, 1.07), (3, 1.47), (4, 1.88), (5, 2.2), (8, 2.7), (12, 3.4), (16, 4.05)];

fn cost(rows: usize) -> f64 {
    let above = COSTS.iter().position(|&(known, _)| known >= rows).unwrap();
    let (high, cost) = COSTS[above];
    if high == rows {
        return cost;
    }
    let (low, less) = COSTS[above - 1];
    less + (cost - less) * (rows - low) as f64 / (high - low) as f64
}

/// SplitMix64.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Returns the prompt that begins at word `begin`, and the words that follow it.
fn words(begin: usize) -> (Vec<u32>, Vec<u32>) {
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let number = |word: &&str| words.iter().position(|other| other == word).unwrap() as u32;
    let ids: Vec<u32> = words.iter().cycle().skip(begin).take(2 * COUNT).map(number).collect();
    (ids[..COUNT].to_vec(), ids[COUNT..].to_vec())
}

/// Returns the prompt with runs that stay and new words between them. The array has the least length and the number of
/// lengths, of runs and of new words.
fn rewritten(prompt: &[u32], [kept, kept_more, new, new_more]: [usize; 4], seed: u64) -> Vec<u32> {
    let (mut answer, mut at, mut next, mut state) = (Vec::new(), 0, 1 << 20, seed);
    while at < COUNT {
        let mut below = |end: usize| (draw(&mut state) % end as u64) as usize;
        let (kept, new) = (kept + below(kept_more), new + below(new_more));
        answer.extend(prompt.iter().skip(at).take(kept));
        answer.extend((next..).take(new));
        (at, next) = (at + kept + new, next + new as u32);
    }
    answer.truncate(COUNT);
    answer
}

/// Returns how many times as fast the answer is, the number of guesses that were made, and the number of right ones.
fn gain(prompt: &[u32], answer: &[u32]) -> (f64, usize, usize) {
    let mut memory = std::vec![0; NGrams::plan(2 * COUNT).unwrap() + ALIGN];
    let start = memory.as_ptr().align_offset(ALIGN);
    let mut source = NGrams::new(2 * COUNT, &mut memory[start..]).unwrap();
    let (mut pace, mut costs, mut made, mut right) = (Pace::NEW, 0.0, 0, 0);
    let all = [prompt, answer].concat();
    let mut len = COUNT + 1;
    while len < all.len() {
        let mut guesses = std::vec![0; pace.next(MOST)];
        let token = |at: usize| if at < len { Some(all[at]) } else { None };
        let text = Text::new(len, &token);
        let count = match guesses.is_empty() {
            true => 0,
            false => source.guess(&text, &mut usize::MAX.into(), &mut guesses).unwrap().unwrap(),
        };
        costs += cost(count + 1);
        pace.took(count + 1, (cost(count + 1) * 2e7) as u32);
        let same = guesses[..count].iter().zip(&all[len..]).take_while(|(guess, token)| guess == token).count();
        pace.checked(count, same);
        (made, right) = (made + count, right + same);
        len += same + 1;
    }
    ((COUNT - 1) as f64 / costs, made, right)
}

#[test]
fn rewriting_pays_and_new_text_costs_nothing() {
    let tasks = [("runs of 16", Some([8, 17, 2, 5])), ("runs of 40", Some([30, 21, 8, 5])), ("no repetition", None)];
    let least = [(1.8, 1.45), (2.0, 1.7), (1.0, 0.97)];
    for ((name, runs), (mean, each)) in tasks.into_iter().zip(least) {
        let mut gains = Vec::new();
        let (mut made, mut right) = (0, 0);
        for begin in (0..2000).step_by(125) {
            let (prompt, follows) = words(begin);
            let answer = runs.map_or(follows, |runs| rewritten(&prompt, runs, begin as u64 + 1));
            let (gain, made_here, right_here) = gain(&prompt, &answer);
            gains.push(gain);
            (made, right) = (made + made_here, right + right_here);
        }
        let all = gains.iter().sum::<f64>() / gains.len() as f64;
        let worst = gains.iter().copied().fold(f64::INFINITY, f64::min);
        std::println!("{name}: {all:.2} times as fast, at least {worst:.2}; {right} of {made} guesses right");
        assert!(all >= mean && worst >= each, "{name}: {all} {worst}");
    }
}
