//! Automata over bytes that find texts in any text, as Aho and Corasick build them.

use super::dfa::{Builder, Dfa, append, set_highest};
use super::scratch::{Result, Scratch};

/// A text that is to be found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sought {
    pub(super) text: &'static str,
    /// Whether the text is found only at the beginning. A blank in it stands for any white space, or none.
    pub(super) is_first: bool,
}

// The fields of a node: 256 words that say where each byte leads, the node of the longest other beginning of a text
// that ends here, the number of the text that is found here plus 1 or 0, the state of the node, the next node in a
// queue.
const FAIL: u32 = 256;
const FOUND: u32 = 257;
const STATE: u32 = 258;
const QUEUE: u32 = 259;
const WORDS: usize = 260;

/// Returns the automaton that finds these texts, and its state in which no part of a text was found. No text may begin
/// with another one. The automaton ends where a text is found.
pub(super) fn search(scratch: &mut Scratch<'_>, texts: &[Sought]) -> Result<(Dfa, Dfa)> {
    let root = scratch.zeroed(WORDS)?;
    let has_first = texts.iter().any(|sought| sought.is_first);
    let begin = if has_first { scratch.zeroed(WORDS)? } else { root };
    for (sought, number) in texts.iter().zip(1..) {
        insert(scratch, if sought.is_first { begin } else { root }, *sought, number)?;
    }
    link(scratch, root, begin);
    let mut builder = Builder::plain(u32::MAX, 0);
    // The first state is that of the node `begin`.
    let mut node = begin;
    loop {
        let state = builder.push(scratch, (0, 0), 0, scratch.get(node, FOUND))?;
        set_highest(scratch, state, texts.len() as u32);
        scratch.set(node, STATE, state);
        node = following(scratch, node, root, begin);
        if node == 0 {
            break;
        }
    }
    node = begin;
    while node != 0 {
        edges(scratch, node)?;
        node = following(scratch, node, root, begin);
    }
    Ok((builder.first, scratch.get(root, STATE)))
}

/// Returns the node behind another one, in an order in which `begin` is the first.
fn following(scratch: &Scratch<'_>, node: u32, root: u32, begin: u32) -> u32 {
    let next = |node| scratch.get(node, QUEUE);
    match node {
        _ if begin == root => next(node),
        node if node == begin => root,
        node if next(node) == begin => next(begin),
        node => next(node),
    }
}

fn insert(scratch: &mut Scratch<'_>, from: u32, sought: Sought, number: u32) -> Result<()> {
    let mut node = from;
    if sought.is_first {
        let space = b" \t\r\n".map(u32::from);
        space.into_iter().for_each(|byte| scratch.set(node, byte, from));
    }
    for byte in sought.text.bytes() {
        if sought.is_first && byte == b' ' {
            let space = b" \t\r\n".map(u32::from);
            space.into_iter().for_each(|byte| scratch.set(node, byte, node));
            continue;
        }
        let mut child = scratch.get(node, u32::from(byte));
        if child == 0 {
            child = scratch.zeroed(WORDS)?;
            scratch.set(node, u32::from(byte), child);
        }
        node = child;
    }
    scratch.set(node, FOUND, number);
    Ok(())
}

/// Fills in where bytes lead that lead to no node yet: to the node to which they lead from the longest other beginning
/// of a text that ends at this node.
fn link(scratch: &mut Scratch<'_>, root: u32, begin: u32) {
    scratch.set(begin, FAIL, root);
    let (mut node, mut last) = (root, root);
    if begin != root {
        scratch.set(root, QUEUE, begin);
        last = begin;
    }
    while node != 0 {
        for byte in 0..256 {
            let child = scratch.get(node, byte);
            let other = if node == root { root } else { scratch.get(scratch.get(node, FAIL), byte) };
            if child == 0 {
                scratch.set(node, byte, other);
            } else if child != node {
                scratch.set(child, FAIL, other);
                scratch.set(last, QUEUE, child);
                last = child;
            }
        }
        node = scratch.get(node, QUEUE);
    }
}

/// Makes the edges of the state of a node.
fn edges(scratch: &mut Scratch<'_>, node: u32) -> Result<()> {
    if scratch.get(node, FOUND) != 0 {
        return Ok(());
    }
    let (state, mut last) = (scratch.get(node, STATE), 0);
    for byte in 0..256 {
        let target = scratch.get(scratch.get(node, byte), STATE);
        last = append(scratch, state, last, byte, byte, target)?;
    }
    Ok(())
}
