//! The anchors of an expression that is a whole text: `^` stands at its begin and `$` at its end, so they change
//! nothing. Elsewhere they are refused.

/// What was read: a bit for each group that is open, and one for the whole.
#[derive(Clone, Copy, Default)]
pub(super) struct Anchors {
    /// How many groups are open.
    depth: u32,
    /// There is a part before, in the alternative of the group.
    begun: u128,
    /// There is a `$` before, in the alternative.
    ended: u128,
    /// There is one in another alternative.
    ends: u128,
    /// There is an anchor in the group.
    anchored: u128,
    /// Whether the last part is an anchor, or a group that has one.
    is_last: bool,
}

impl Anchors {
    /// A part is read that is no anchor. Returns whether it can stand here.
    pub(super) fn part(&mut self) -> bool {
        self.begun |= self.bit();
        self.is_last = false;
        self.ended & self.open_groups() == 0
    }

    /// `^` is read. Returns whether it can stand here.
    pub(super) fn begin(&mut self) -> bool {
        self.anchored |= self.bit();
        self.is_last = true;
        (self.begun | self.ended) & self.open_groups() == 0
    }

    /// `$` is read, behind which nothing can stand.
    pub(super) fn end(&mut self) {
        self.anchored |= self.bit();
        self.ended |= self.bit();
        self.is_last = true;
    }

    /// A group begins.
    pub(super) fn open(&mut self) {
        self.depth = self.depth.saturating_add(1);
        let others = !self.bit();
        for set in [&mut self.begun, &mut self.ended, &mut self.ends, &mut self.anchored] {
            *set &= others;
        }
    }

    /// Another alternative begins.
    pub(super) fn bar(&mut self) {
        let bit = self.bit();
        self.ends |= self.ended & bit;
        self.ended &= !bit;
        self.begun &= !bit;
    }

    /// A group ends.
    pub(super) fn close(&mut self) {
        let has = |set: u128| u128::from(set & self.bit() != 0);
        let (ends, anchored) = (has(self.ended | self.ends), has(self.anchored));
        self.depth = self.depth.saturating_sub(1);
        self.begun |= self.bit();
        self.ended |= ends << self.depth.min(127);
        self.anchored |= anchored << self.depth.min(127);
        self.is_last = anchored != 0;
    }

    /// Whether the last part can be repeated: not if its anchors would stand behind each other.
    pub(super) fn can_repeat(&self) -> bool {
        !self.is_last
    }

    fn bit(&self) -> u128 {
        1 << self.depth.min(127)
    }

    fn open_groups(&self) -> u128 {
        self.bit() | self.bit().wrapping_sub(1)
    }
}
