//! The text of a schema as a tree of records.

use super::error::{ErrorKind, GrammarError};
use super::json::{Chars, Event, Pull, syntax};
use super::scratch::{Result, Scratch, mix};

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    False,
    True,
    Number,
    String,
    Array,
    Object,
}

// The fields of a node.
const KIND: u32 = 0;
const START: u32 = 1;
const END: u32 = 2;
const CHILD: u32 = 3;
const NEXT: u32 = 4;
/// Where the member's name begins and ends, and its hash.
const NAME: u32 = 5;
const NAME_END: u32 = 6;
const HASH: u32 = 7;
const COUNT: u32 = 8;
/// While the text is read: the last child. Afterwards: the last round in which the node was met (see [`Dom::meet`]).
const LAST: u32 = 9;
/// Of an object: the table that finds its members by their names, or 0.
const TABLE: u32 = 10;
const WORDS: usize = 11;

/// A value of the text, by the number of its record.
pub(super) type Node = u32;

/// A text that is read into records, in as many pieces as one likes.
pub(super) struct Reading<'t> {
    text: &'t [u8],
    pull: Pull<'t>,
    /// A node above the root, so that the root has a parent, too. The `END` of a container is its parent until it is
    /// closed.
    top: Node,
    parent: Node,
    name: (usize, usize),
}

impl<'t> Reading<'t> {
    pub(super) fn new(scratch: &mut Scratch<'_>, text: &'t [u8]) -> Result<Self> {
        let top = scratch.zeroed(WORDS)?;
        Ok(Self { text, pull: Pull::new(text), top, parent: top, name: (0, 0) })
    }

    /// Goes on. Returns the root when all is read.
    pub(super) fn go_on(&mut self, scratch: &mut Scratch<'_>) -> Result<Option<Node>> {
        while !scratch.is_spent() {
            let from = self.pull.at();
            let event = self.pull.next()?;
            scratch.spend(self.pull.at().saturating_sub(from) / 16);
            if event == Event::End {
                return Ok(Some(scratch.get(self.top, CHILD)));
            }
            self.take(scratch, event)?;
        }
        Ok(None)
    }

    fn take(&mut self, scratch: &mut Scratch<'_>, event: Event) -> Result<()> {
        let end = self.pull.at();
        let (kind, start, end) = match event {
            Event::End => return Ok(()),
            Event::Name(start, end) => {
                self.name = (start, end);
                return Ok(());
            }
            Event::EndArray | Event::EndObject => {
                check_names(self.text, scratch, self.parent)?;
                let above = scratch.get(self.parent, END);
                scratch.set(self.parent, END, end as u32);
                scratch.set(self.parent, LAST, 0);
                self.parent = above;
                return Ok(());
            }
            Event::Null => (Kind::Null, end.saturating_sub(4), end),
            Event::False => (Kind::False, end.saturating_sub(5), end),
            Event::True => (Kind::True, end.saturating_sub(4), end),
            Event::Number(start, end) => (Kind::Number, start, end),
            Event::String(start, end) => (Kind::String, start, end),
            Event::BeginArray => (Kind::Array, end.saturating_sub(1), self.parent as usize),
            Event::BeginObject => (Kind::Object, end.saturating_sub(1), self.parent as usize),
        };
        let (from, to) = core::mem::take(&mut self.name);
        let hash = hash(self.text.get(from..to).unwrap_or(&[]));
        let node =
            scratch.record([kind as u32, start as u32, end as u32, 0, 0, from as u32, to as u32, hash, 0, 0, 0])?;
        append(scratch, self.parent, node);
        if matches!(kind, Kind::Array | Kind::Object) {
            self.parent = node;
        }
        Ok(())
    }
}

fn append(scratch: &mut Scratch<'_>, parent: Node, node: Node) {
    match scratch.get(parent, LAST) {
        0 => scratch.set(parent, CHILD, node),
        last => scratch.set(last, NEXT, node),
    }
    scratch.set(parent, LAST, node);
    scratch.set(parent, COUNT, scratch.get(parent, COUNT).saturating_add(1));
}

fn hash(name: &[u8]) -> u32 {
    Chars(name).fold(0, mix)
}

/// Refuses an object that has a name twice.
fn check_names(text: &[u8], scratch: &mut Scratch<'_>, object: Node) -> Result<()> {
    let count = scratch.get(object, COUNT);
    if scratch.get(object, KIND) != Kind::Object as u32 || count < 2 {
        return Ok(());
    }
    let mark = scratch.mark();
    let slots = slots(count);
    let table = scratch.zeroed(slots as usize)?;
    let mut node = scratch.get(object, CHILD);
    while node != 0 {
        let mut slot = scratch.get(node, HASH) & (slots - 1);
        while let other @ 1.. = scratch.get(table, slot) {
            let same = scratch.get(other, HASH) == scratch.get(node, HASH);
            if same && name(text, scratch, other).eq(name(text, scratch, node)) {
                return syntax("a name that is there already", scratch.get(node, NAME) as usize);
            }
            slot = slot.wrapping_add(1) & (slots - 1);
        }
        scratch.set(table, slot, node);
        scratch.spend(1);
        node = scratch.get(node, NEXT);
    }
    if count < MANY {
        scratch.release(mark);
    } else {
        scratch.set(object, TABLE, table);
    }
    Ok(())
}

/// An object with at least this many members keeps a table of them.
const MANY: u32 = 16;

/// Returns the number of slots of a table of `count` members.
pub(super) fn slots(count: u32) -> u32 {
    count.min(1 << 28).saturating_mul(2).next_power_of_two()
}

/// Returns the characters of the name of a member.
pub(super) fn name<'t>(text: &'t [u8], scratch: &Scratch<'_>, node: Node) -> Chars<'t> {
    let (start, end) = (scratch.get(node, NAME) as usize, scratch.get(node, NAME_END) as usize);
    Chars(text.get(start..end).unwrap_or(&[]))
}

/// The tree of a text, with the text.
#[derive(Clone, Copy)]
pub(super) struct Dom<'t> {
    pub(super) text: &'t [u8],
}

impl<'t> Dom<'t> {
    pub(super) fn kind(self, scratch: &Scratch<'_>, node: Node) -> Kind {
        match scratch.get(node, KIND) {
            0 => Kind::Null,
            1 => Kind::False,
            2 => Kind::True,
            3 => Kind::Number,
            4 => Kind::String,
            5 => Kind::Array,
            _ => Kind::Object,
        }
    }

    /// Returns where a value begins in the text.
    pub(super) fn at(self, scratch: &Scratch<'_>, node: Node) -> usize {
        scratch.get(node, START) as usize
    }

    /// Returns where the name of a member begins in the text, with its quote.
    pub(super) fn name_at(self, scratch: &Scratch<'_>, node: Node) -> usize {
        (scratch.get(node, NAME) as usize).saturating_sub(1)
    }

    /// Returns where a value begins and ends in the text. The quotes of a string are left out.
    pub(super) fn range(self, scratch: &Scratch<'_>, node: Node) -> (u32, u32) {
        (scratch.get(node, START), scratch.get(node, END))
    }

    /// Returns where the name of a member begins and ends in the text, without its quotes.
    pub(super) fn name_range(self, scratch: &Scratch<'_>, node: Node) -> (u32, u32) {
        (scratch.get(node, NAME), scratch.get(node, NAME_END))
    }

    /// Returns the bytes of a number, or of a string without its quotes.
    pub(super) fn bytes(self, scratch: &Scratch<'_>, node: Node) -> &'t [u8] {
        let (start, end) = (scratch.get(node, START) as usize, scratch.get(node, END) as usize);
        self.text.get(start..end).unwrap_or(&[])
    }

    /// Returns the characters of a string.
    pub(super) fn chars(self, scratch: &Scratch<'_>, node: Node) -> Chars<'t> {
        Chars(self.bytes(scratch, node))
    }

    pub(super) fn name(self, scratch: &Scratch<'_>, node: Node) -> Chars<'t> {
        name(self.text, scratch, node)
    }

    pub(super) fn child(self, scratch: &Scratch<'_>, node: Node) -> Node {
        match self.kind(scratch, node) {
            Kind::Array | Kind::Object => scratch.get(node, CHILD),
            _ => 0,
        }
    }

    pub(super) fn next(self, scratch: &Scratch<'_>, node: Node) -> Node {
        scratch.get(node, NEXT)
    }

    /// Notes that a container was met in a round. Returns whether it is the first time in this round.
    pub(super) fn meet(self, scratch: &mut Scratch<'_>, node: Node, round: u32) -> bool {
        let is_first = scratch.get(node, LAST) != round;
        scratch.set(node, LAST, round);
        is_first
    }

    /// Returns the number of elements or members.
    pub(super) fn count(self, scratch: &Scratch<'_>, node: Node) -> u32 {
        scratch.get(node, COUNT)
    }

    /// Returns the member of an object with this name, or 0.
    pub(super) fn member(self, scratch: &Scratch<'_>, object: Node, wanted: &str) -> Node {
        self.find(scratch, object, wanted.chars().map(u32::from))
    }

    /// Returns the member of an object with a name of these characters, or 0.
    pub(super) fn find(self, scratch: &Scratch<'_>, object: Node, wanted: impl Iterator<Item = u32> + Clone) -> Node {
        if object == 0 || self.kind(scratch, object) != Kind::Object {
            return 0;
        }
        let hash = wanted.clone().fold(0, mix);
        let is = |node| scratch.get(node, HASH) == hash && self.name(scratch, node).eq(wanted.clone());
        let table = scratch.get(object, TABLE);
        if table != 0 {
            let last = slots(self.count(scratch, object)).wrapping_sub(1);
            let mut slot = hash & last;
            while let node @ 1.. = scratch.get(table, slot) {
                if is(node) {
                    return node;
                }
                slot = slot.wrapping_add(1) & last;
            }
            return 0;
        }
        let mut node = self.child(scratch, object);
        while node != 0 {
            if is(node) {
                return node;
            }
            node = self.next(scratch, node);
        }
        0
    }

    /// Returns the number of elements that an integer such as `minItems` says.
    pub(super) fn size(self, scratch: &Scratch<'_>, node: Node, keyword: &'static str) -> Result<u32> {
        let error = GrammarError { kind: ErrorKind::Value(keyword), at: self.at(scratch, node) };
        if self.kind(scratch, node) != Kind::Number {
            return Err(error);
        }
        let decimal = super::decimal::Decimal::read(self.bytes(scratch, node)).ok_or(error)?;
        decimal.size().ok_or(error)
    }
}
