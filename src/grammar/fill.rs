//! The second half of making a vocabulary's tables: they are filled.

use super::build::{Tables, TrieBuild, Which};
use super::sorted::{InString, Texts, in_string, is_plain, shared};
use super::trie::{FIRSTS, NONE, Node, SHORT, chars, set};

/// The tables of a codec before they are filled.
#[derive(Default)]
pub(super) struct StringTables<'m> {
    pub(super) within: &'m mut [u32],
    pub(super) ends: &'m mut [Node],
    pub(super) tokens: &'m mut [u32],
}

impl<'m> Tables<'m> {
    /// Returns the tables of a codec.
    pub(super) fn codec(&mut self, codec: u32) -> Option<&mut StringTables<'m>> {
        self.strings.get_mut((codec as usize).wrapping_sub(1))
    }
}

impl TrieBuild<'_, '_> {
    /// Makes the nodes of a choice of tokens.
    pub(super) fn fill(&mut self, which: Which, left: &mut usize) -> bool {
        let Some(tables) = &mut self.tables else { return true };
        let texts = Texts::new(self.ends, self.bytes, None);
        let list: &[u32] =
            if which == 0 { self.ids } else { self.others.get(..self.counts.others).unwrap_or_default() };
        let len = list.len();
        let Some(nodes) = tables.nodes.get_mut(which) else { return true };
        for (before, id) in texts.pairs(list, self.at).take(*left) {
            let text = texts.of(id);
            self.written += put(nodes, self.written, before, text, id);
            if which > 0 {
                continue;
            }
            self.longest = self.longest.max(text.len() as u32);
            if texts.is_too_long(id) {
                self.first = NONE;
            } else if text.is_empty() {
                self.has_silent = true;
                continue;
            } else if text != before {
                self.first = id;
                continue;
            }
            tables.alike.get_mut(self.pairs).into_iter().for_each(|pair| *pair = [self.first, id]);
            self.pairs += 1;
        }
        self.walked(len, left)
    }

    /// Makes the nodes of the tokens in which a string ends, and their list.
    pub(super) fn fill_closing(&mut self, codec: u32, left: &mut usize) -> bool {
        let Some(tables) = self.tables.as_mut().and_then(|tables| tables.codec(codec)) else { return true };
        let texts = Texts::new(self.ends, self.bytes, Some(codec));
        let list = self.closing.get(..self.counts.closing).unwrap_or_default();
        let following = list.get(self.at.saturating_add(1)..).unwrap_or_default();
        let following = following.iter().map(|&id| texts.of(id)).chain([&[][..]]);
        let numbered = texts.pairs(list, self.at).zip(self.at..).zip(following).take(*left);
        for (((before, id), number), next) in numbered {
            let text = texts.of(id);
            self.written += put(tables.ends, self.written, before, text, number as u32);
            let place = tables.tokens.get_mut(number);
            place.into_iter().for_each(|place| *place = id | u32::from(text == next) << 31);
        }
        let len = list.len();
        self.walked(len, left)
    }

    /// Notes in each node where its subtree ends, from the last node to the first. So the ends of its children's
    /// subtrees are known.
    pub(super) fn link(
        &mut self,
        left: &mut usize,
        nodes: impl for<'t, 'n> FnOnce(&'t mut Tables<'n>) -> Option<&'t mut [Node]>,
    ) -> bool {
        let Some(nodes) = self.tables.as_mut().and_then(nodes) else { return true };
        let len = nodes.len();
        for index in (0..len.saturating_sub(self.at)).rev().take(*left) {
            let Some(node) = nodes.get(index).copied() else { continue };
            let mut next = index + 1;
            while let Some(child) = nodes.get(next).filter(|child| child.depth() > node.depth()) {
                next += child.nodes().max(1) as usize;
            }
            nodes.get_mut(index).into_iter().for_each(|node| node.set_nodes(next - index));
        }
        self.walked(len, left)
    }

    pub(super) fn clear(&mut self, left: &mut usize) -> bool {
        let Some(tables) = &mut self.tables else { return true };
        tables.plain.iter_mut().skip(self.at).take(*left).for_each(|word| *word = 0);
        let len = tables.plain.len();
        self.walked(len, left)
    }

    /// Notes which tokens are plain, and how many characters they have.
    pub(super) fn plain(&mut self, left: &mut usize) -> bool {
        let Some(tables) = &mut self.tables else { return true };
        let texts = Texts::new(self.ends, self.bytes, None);
        let mask_len = self.ids.len().div_ceil(32);
        let ids = self.ids.iter().skip(self.at).take(*left).map(|&id| (id, texts.of(id)));
        for (id, text) in ids.filter(|(_, text)| !text.is_empty() && is_plain(text)) {
            let chars = chars(text);
            for slice in core::iter::once(0).chain(chars..=SHORT) {
                set(tables.plain.get_mut((slice as usize).saturating_mul(mask_len)..).unwrap_or_default(), id);
            }
            if chars > SHORT {
                tables.long.get_mut(self.written).into_iter().for_each(|place| *place = [chars, id]);
                self.written += 1;
            }
        }
        let len = self.ids.len();
        self.walked(len, left)
    }

    /// Notes that plain tokens stand in strings of a codec, as they do in all strings.
    pub(super) fn within(&mut self, codec: u32, left: &mut usize) -> bool {
        let Some(tables) = &mut self.tables else { return true };
        let plain = tables.plain.get(self.at..).unwrap_or_default();
        let Some(strings) = tables.strings.get_mut((codec as usize).wrapping_sub(1)) else { return true };
        let words = strings.within.get_mut(self.at..).unwrap_or_default();
        words.iter_mut().zip(plain).take(*left).for_each(|(word, bits)| *word = *bits);
        let len = strings.within.len();
        self.walked(len, left)
    }

    /// Notes which other tokens stand in strings of a codec.
    pub(super) fn strings(&mut self, codec: u32, left: &mut usize) -> bool {
        let Some(tables) = self.tables.as_mut().and_then(|tables| tables.codec(codec)) else { return true };
        let texts = Texts::new(self.ends, self.bytes, None);
        let others = self.others.get(..self.counts.others).unwrap_or_default();
        for &id in others.iter().skip(self.at).take(*left) {
            if in_string(codec, texts.of(id)) == InString::Within {
                set(tables.within, id);
            }
        }
        let len = others.len();
        self.walked(len, left)
    }
}

/// Notes for each byte where the first token lies that begins with this byte or a later one: among all tokens, and
/// among those that are not plain.
pub(super) fn note_firsts(of: [&[Node]; 2], firsts: &mut [u32]) {
    firsts.fill(NONE);
    for (nodes, firsts) in of.into_iter().zip(firsts.as_chunks_mut::<FIRSTS>().0) {
        let mut at = 0;
        while let Some(node) = nodes.get(at) {
            firsts.get_mut(usize::from(node.byte())).into_iter().for_each(|place| *place = at as u32);
            at = at.saturating_add(node.nodes().max(1) as usize);
        }
        let mut next = nodes.len() as u32;
        for place in firsts.iter_mut().rev() {
            if *place == NONE {
                *place = next;
            }
            next = *place;
        }
    }
}

/// Writes the nodes of a text behind the nodes of the text before it. Returns the number of nodes.
fn put(nodes: &mut [Node], at: usize, before: &[u8], text: &[u8], number: u32) -> usize {
    let shared = shared(before, text);
    let places = nodes.get_mut(at..).unwrap_or_default();
    for (place, (&byte, depth)) in places.iter_mut().zip(text.iter().zip(1..).skip(shared)) {
        *place = Node::new(byte, depth, (depth == text.len()).then_some(number));
    }
    text.len().saturating_sub(shared)
}
