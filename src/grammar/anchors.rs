//! The anchors of an expression that is a whole text: `^` stands at its beginning and `$` at its end, so they change
//! nothing. Elsewhere they are refused.

/// What was read so far. Each set has a bit for each open group, and one for the whole expression.
#[derive(Clone, Copy, Default)]
pub(super) struct Anchors {
    /// Number of open groups.
    depth: u32,
    /// Groups whose present alternative already has a part.
    begun: u128,
    /// Groups whose present alternative already has a `$`.
    ended: u128,
    /// Groups of which an earlier alternative has a `$`.
    ends: u128,
    /// Groups that have an anchor.
    anchored: u128,
    /// Whether the last part is an anchor, or a group that has one.
    is_last: bool,
}

impl Anchors {
    /// Notes a part that is no anchor. Returns whether it can stand here.
    pub(super) fn part(&mut self) -> bool {
        self.begun |= self.bit();
        self.is_last = false;
        self.ended & self.open_groups() == 0
    }

    /// Notes a `^`. Returns whether it can stand here.
    pub(super) fn begin(&mut self) -> bool {
        self.anchored |= self.bit();
        self.is_last = true;
        (self.begun | self.ended) & self.open_groups() == 0
    }

    /// Notes a `$`, behind which nothing can stand.
    pub(super) fn end(&mut self) {
        self.anchored |= self.bit();
        self.ended |= self.bit();
        self.is_last = true;
    }

    /// Notes the beginning of a group.
    pub(super) fn open(&mut self) {
        self.depth = self.depth.saturating_add(1);
        let others = !self.bit();
        for set in [&mut self.begun, &mut self.ended, &mut self.ends, &mut self.anchored] {
            *set &= others;
        }
    }

    /// Notes the beginning of another alternative.
    pub(super) fn bar(&mut self) {
        let bit = self.bit();
        self.ends |= self.ended & bit;
        self.ended &= !bit;
        self.begun &= !bit;
    }

    /// Notes the end of a group.
    pub(super) fn close(&mut self) {
        let has = |set: u128| u128::from(set & self.bit() != 0);
        let (ends, anchored) = (has(self.ended | self.ends), has(self.anchored));
        self.depth = self.depth.saturating_sub(1);
        self.begun |= self.bit();
        self.ended |= ends << self.depth.min(127);
        self.anchored |= anchored << self.depth.min(127);
        self.is_last = anchored != 0;
    }

    /// Returns whether the last part can be repeated. A part with anchors cannot, because they would stand behind each
    /// other.
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
