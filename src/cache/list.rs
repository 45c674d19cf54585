//! Doubly linked lists through the elements of a slice. Every operation is O(1), and a list has no memory of its own.

use bytemuck::{Pod, Zeroable};

/// No element: an end of a list.
pub(super) const NOBODY: u32 = u32::MAX;

/// The neighbours of an element. They are meaningless while the element is in no list.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Links {
    pub(super) previous: u32,
    pub(super) next: u32,
}

/// An element that can be in one list at a time.
pub(super) trait Linked {
    fn links(&mut self) -> &mut Links;
}

/// A list of elements of one slice, by index. The caller knows which list an element is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct List {
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) len: usize,
}

impl List {
    pub(super) const EMPTY: Self = Self { first: NOBODY, last: NOBODY, len: 0 };

    pub(super) fn push_front(&mut self, elements: &mut [impl Linked], index: u32) {
        let next = self.first;
        self.link(elements, index, Links { previous: NOBODY, next });
    }

    pub(super) fn push_back(&mut self, elements: &mut [impl Linked], index: u32) {
        let previous = self.last;
        self.link(elements, index, Links { previous, next: NOBODY });
    }

    /// Takes out an element, which must be in this list.
    pub(super) fn remove(&mut self, elements: &mut [impl Linked], index: u32) {
        let Some(element) = elements.get_mut(index as usize) else { return };
        let Links { previous, next } = *element.links();
        self.join(elements, previous, next);
        self.join_back(elements, previous, next);
        self.len = self.len.saturating_sub(1);
    }

    fn link(&mut self, elements: &mut [impl Linked], index: u32, links: Links) {
        let Some(element) = elements.get_mut(index as usize) else { return };
        *element.links() = links;
        self.join(elements, links.previous, index);
        self.join_back(elements, index, links.next);
        self.len += 1;
    }

    /// Makes `next` the element after `previous`.
    fn join(&mut self, elements: &mut [impl Linked], previous: u32, next: u32) {
        match elements.get_mut(previous as usize) {
            Some(element) => element.links().next = next,
            None => self.first = next,
        }
    }

    /// Makes `previous` the element before `next`.
    fn join_back(&mut self, elements: &mut [impl Linked], previous: u32, next: u32) {
        match elements.get_mut(next as usize) {
            Some(element) => element.links().previous = previous,
            None => self.last = previous,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Linked for Links {
        fn links(&mut self) -> &mut Links {
            self
        }
    }

    fn forwards(list: &List, elements: &[Links]) -> std::vec::Vec<u32> {
        let next = |&index: &u32| elements.get(index as usize).map(|links| links.next);
        std::iter::successors(Some(list.first), next).take_while(|&index| index != NOBODY).collect()
    }

    fn backwards(list: &List, elements: &[Links]) -> std::vec::Vec<u32> {
        let previous = |&index: &u32| elements.get(index as usize).map(|links| links.previous);
        std::iter::successors(Some(list.last), previous).take_while(|&index| index != NOBODY).collect()
    }

    #[test]
    fn random_use_keeps_both_directions() {
        let mut elements = [Links::zeroed(); 9];
        let (mut list, mut wanted) = (List::EMPTY, std::vec::Vec::new());
        let mut state = 1u32;
        for _ in 0..5_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let index = (state >> 8) % 9;
            if let Some(at) = wanted.iter().position(|&held| held == index) {
                wanted.remove(at);
                list.remove(&mut elements, index);
            } else if state >> 31 == 0 {
                wanted.insert(0, index);
                list.push_front(&mut elements, index);
            } else {
                wanted.push(index);
                list.push_back(&mut elements, index);
            }
            assert_eq!(forwards(&list, &elements), wanted);
            assert_eq!(backwards(&list, &elements), wanted.iter().rev().copied().collect::<std::vec::Vec<_>>());
            assert_eq!(list.len, wanted.len());
        }
    }
}
