//! Measures a turn of a conversation: the time to the first token of the answer.

use std::path::Path;

use crate::engines::{Gleed, Kind, Llama, Peer, llama_backend, llama_model};
use crate::random::Random;
use crate::report::{Metric, Row, Turn};
use crate::sweep::{progress, timed};
use crate::{Args, Result};

/// Number of tokens that the user writes in a turn.
const QUESTION: usize = 48;

/// Number of tokens of an answer.
const ANSWER: usize = 80;

/// Number of tokens of an answer that stay when the answer is changed.
const LEFT: usize = 40;

/// Measures all engines in turn, each with a sequence of its own.
pub(crate) fn turns(args: &Args, path: &Path, threads: usize, rows: &mut Vec<Row>) -> Result<()> {
    let turn = args.turn as usize;
    let before = (turn - 1) * (QUESTION + ANSWER);
    let context = before + QUESTION;
    let backend = llama_backend()?;
    let model = llama_model(&backend, path)?;
    let mut gleed = Gleed::open(path, threads, context, args.level())?;
    let mut random = Random::new(2);
    let vocab = gleed.vocab();
    let (earlier, question) = (random.ids(before, vocab), random.ids(QUESTION, vocab));

    let mut flash = Llama::new(&backend, &model, true, threads, context)?;
    let mut plain = Llama::new(&backend, &model, false, threads, context)?;
    let mut peers: [(Kind, &mut dyn Peer); 3] =
        [(Kind::Llama, &mut plain), (Kind::LlamaFlash, &mut flash), (Kind::Gleed, &mut gleed)];
    for begins in Turn::ALL {
        let metric = Metric::Turn(turn, begins);
        progress(path, threads, &metric.to_string());
        let mut row = Row::new(path, metric, threads);
        for _ in 0..args.repeat {
            for (kind, peer) in &mut peers {
                talk(*peer, &earlier, begins)?;
                let took = timed(|| {
                    if begins != Turn::Appended {
                        peer.go_back(before - ANSWER + LEFT, &earlier)?;
                    }
                    peer.append(&question)
                })?;
                row.add(*kind, 1000.0 * took);
            }
        }
        rows.push(row);
    }
    Ok(())
}

/// Computes the conversation so far. The last answer is computed token by token, as if it were sampled.
fn talk(peer: &mut dyn Peer, earlier: &[u32], begins: Turn) -> Result<()> {
    let (asked, answer) = earlier.split_at(earlier.len() - ANSWER);
    peer.keep(0)?;
    peer.append(asked)?;
    if begins == Turn::EditedWithState {
        peer.keep_state()?;
    }
    answer.iter().try_for_each(|&id| peer.append(&[id]))
}
