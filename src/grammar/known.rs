//! The part of a walk over tokens that needs no items: it goes from row to row, as long as rows say where bytes lead.

use super::error::MatchError;
use super::matcher::Matcher;
use super::seen::{Content, DEAD, NOTHING, Seen};
use super::tables::{Item, Saved, Tables};
use super::trie::{Node, Part, TokenTrie, set};

impl Matcher<'_, '_> {
    /// Goes on from node `at` up to node `end`, as long as rows say where bytes lead, and sets the bits of tokens.
    /// Returns the node at which it stops.
    pub(super) fn walk_known(
        &mut self,
        trie: &TokenTrie<'_>,
        part: Part,
        [at, end]: [usize; 2],
        mask: &mut [u32],
    ) -> usize {
        let room = Room { nodes: self.limits.nodes as u32, items: self.tables.items.len() as u32 };
        let nodes = trie.nodes(part);
        let Tables { seen, walk, .. } = &mut self.tables;
        match part {
            Part::All | Part::Rest => {
                let mut set_token = |node: Node| node.token().into_iter().for_each(|id| set(mask, id));
                seen.walk(nodes, [at, end], walk, room, &mut set_token)
            }
            Part::Closing(_) => {
                let mut set_tokens = |node: Node| trie.allow(part, node, mask);
                seen.walk(nodes, [at, end], walk, room, &mut set_tokens)
            }
        }
    }

    /// Writes the items of those frontiers on the way to a node that are so far known by their numbers only.
    pub(super) fn settle(&mut self, depth: usize) {
        let tables = &mut self.tables;
        for saved in tables.walk.iter_mut().take(depth).filter(|saved| saved.elsewhere != 0) {
            saved.elsewhere = 0;
            let places = tables.items.get_mut(saved.start as usize..).unwrap_or_default();
            tables.seen.content(saved.number).into_iter().for_each(|(content, _)| content.write(places, saved.chars));
        }
    }

    /// Returns a frontier that was seen before, behind another one in the table. `None`: a counted text may not have so
    /// many characters.
    pub(super) fn seen_again(&mut self, from: Saved, number: u32) -> Result<Option<Saved>, MatchError> {
        let (Some((content, _)), Some((other, _))) =
            (self.tables.seen.content(number), self.tables.seen.content(from.number))
        else {
            return Ok(None);
        };
        let Some(chars) = content.chars_behind(other, from.chars) else { return Ok(None) };
        if number == from.number && !content.is_counted() {
            return Ok(Some(from));
        }
        let [nodes, returns] = self.on_path(from, self.tables.seen.most(content.can_grow(other)))?;
        let start = from.start.wrapping_add(from.count);
        let end = (start as usize).saturating_add(content.count as usize);
        let error = MatchError::TooAmbiguous { limit: self.limits.items };
        content.write(self.tables.items.get_mut(start as usize..end).ok_or(error)?, chars);
        let Content { count, accepting, .. } = *content;
        Ok(Some(Saved { start, count, number, nodes, returns, accepting, chars, elsewhere: 0 }))
    }

    /// Returns the items of a frontier.
    pub(super) fn items(&self, from: Saved) -> &[Item] {
        let start = from.start as usize;
        self.tables.items.get(start..start.saturating_add(from.count as usize)).unwrap_or_default()
    }
}

/// The number of nodes and of items for which there is room.
#[derive(Clone, Copy)]
struct Room {
    nodes: u32,
    items: u32,
}

impl Seen<'_> {
    fn walk(
        &self,
        nodes: &[Node],
        [mut at, end]: [usize; 2],
        saved: &mut [Saved],
        room: Room,
        allow: &mut impl FnMut(Node),
    ) -> usize {
        while let Some(node) = nodes.get(at).filter(|_| at < end) {
            let depth = node.depth();
            let Some(&from) = saved.get(depth.wrapping_sub(1)) else { break };
            let Some((content, own)) = self.content(from.number) else { break };
            let to = content.next.get(usize::from(node.byte())).copied().unwrap_or(NOTHING);
            if to == own {
                let before = at;
                at = Same::new(content, own, from, depth, room).along(nodes, [at, end], allow);
                let deepest = nodes.get(at).map_or(0, |node| node.depth());
                let between = saved.get_mut(depth..deepest).unwrap_or_default();
                between.iter_mut().zip(1..).for_each(|(place, more)| *place = content.same(from, more));
                if at == before {
                    break;
                }
                continue;
            }
            let (other, number) = match self.at(to) {
                _ if to == DEAD => {
                    at += node.nodes().max(1) as usize;
                    continue;
                }
                Some(other) => other,
                None => break,
            };
            let Some(chars) = other.chars_behind(content, from.chars) else {
                at += node.nodes().max(1) as usize;
                continue;
            };
            let Some(next) = self.behind(from, other, self.most(other.can_grow(content)), room) else { break };
            let next = Saved { number, chars, ..next };
            saved.get_mut(depth).into_iter().for_each(|place| *place = next);
            allow(*node);
            at += 1;
        }
        at
    }

    /// Returns a frontier behind another one in the table of items, if there is room for it.
    #[inline]
    fn behind(&self, from: Saved, content: &Content, [nodes, returns]: [u32; 2], room: Room) -> Option<Saved> {
        let (nodes, returns) = (from.nodes.saturating_add(nodes), from.returns.saturating_add(returns));
        let start = from.start.wrapping_add(from.count);
        let Content { count, accepting, .. } = *content;
        let is_room = nodes.max(returns) <= room.nodes && start.saturating_add(count) <= room.items;
        is_room.then_some(Saved { start, count, nodes, returns, accepting, elsewhere: 1, ..from })
    }
}

impl Content {
    /// Returns the frontier `bytes` bytes behind `from`, if each of these bytes leads to the same frontier again.
    fn same(&self, from: Saved, bytes: u32) -> Saved {
        if self.is_counted() {
            let (start, chars) = (from.start.saturating_add(bytes), from.chars.saturating_add(bytes));
            Saved { start, chars, elsewhere: 1, ..from }
        } else {
            from
        }
    }
}

/// A frontier from which some bytes lead back to it.
struct Same<'c> {
    row: &'c [u8; 256],
    own: u8,
    depth: usize,
    /// The least and the greatest depth of the nodes at which a counted text has a number of characters that it may
    /// have.
    bounds: [usize; 2],
    /// The greatest depth of a node for which there is room.
    deepest: usize,
}

impl<'c> Same<'c> {
    fn new(content: &'c Content, own: u8, from: Saved, depth: usize, room: Room) -> Self {
        let (mut bounds, mut deepest) = ([0, usize::MAX], usize::MAX);
        if content.is_counted() {
            // The first byte brings the text to one character more.
            let chars = from.chars as usize + 1;
            bounds = content.bounds.map(|bound| (bound as usize).saturating_add(depth).saturating_sub(chars));
            deepest = (room.items.saturating_sub(from.start) as usize).saturating_add(depth).saturating_sub(2);
        }
        Self { row: &content.next, own, depth, bounds, deepest }
    }

    /// Goes on from a node, as long as nodes lie at least as deep as the first one and their bytes lead to the same
    /// frontier again or nowhere. Returns the node at which it stops.
    #[inline]
    fn along(&self, nodes: &[Node], [mut at, end]: [usize; 2], allow: &mut impl FnMut(Node)) -> usize {
        let [least, most] = self.bounds;
        while let Some(node) = nodes.get(at).filter(|node| at < end && node.depth() >= self.depth) {
            match self.row.get(usize::from(node.byte())) {
                Some(&to) if to == self.own && (least..=most).contains(&node.depth()) => {
                    if node.depth() > self.deepest {
                        break;
                    }
                    allow(*node);
                    at += 1;
                }
                Some(&to) if to == self.own || to == DEAD => at += node.nodes().max(1) as usize,
                _ => break,
            }
        }
        at
    }
}
