//! A cache audits itself.

use super::block::{BLOCK_TOKENS, BlockId, BlockMeta, NO_BLOCK};
use super::group::Group;
use super::kv_cache::KvCache;
use super::list::List;
use super::prefix::{Chain, SALT};

impl KvCache<'_> {
    /// Verifies all bookkeeping: reference counts, lists, the table of cached prefixes, and the numbers that
    /// [`KvCache::stats`] returns. Only a defect of this library makes it fail.
    ///
    /// For tests: the time is proportional to the number of blocks times the number of blocks of all sequences.
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn check(&self) -> Result<(), &'static str> {
        let open = self.sequences.iter().filter(|sequence| sequence.open == 1).count();
        let mut slot = self.recency.first;
        let mut listed = 0;
        while let Some(sequence) = self.sequences.get(slot as usize) {
            ensure(sequence.open == 1 && listed < open, "only open sequences are in the order of use")?;
            (slot, listed) = (sequence.links.next, listed + 1);
        }
        ensure(listed == open && self.recency.len == open, "all open sequences are in the order of use")?;
        for group in &self.groups {
            self.check_group(group)?;
        }
        ensure(self.states.check(), "references to states are counted")
    }

    fn check_group(&self, group: &Group<'_>) -> Result<(), &'static str> {
        let allocator = &group.allocator;
        let (free, reclaimable, cached) = allocator.audit();
        let stats = allocator.stats();
        let (mut used, mut pinned, mut entered) = (0, 0, 0);
        for id in 0..allocator.len() as BlockId {
            let Some(meta) = allocator.meta(id) else { return Err("every block has metadata") };
            let tables = (0..self.sequences.len()).flat_map(|slot| group.held(slot)).filter(|&block| block == id);
            ensure(meta.ref_count() as usize == tables.count() + meta.pins() as usize, "references are counted")?;
            used += usize::from(meta.ref_count() > 0);
            pinned += usize::from(meta.pins() > 0);
            let places = cached.blocks().filter(|&block| block == id).count();
            ensure(places == usize::from(meta.is_cached()), "the table has every cached block once, and no other")?;
            if meta.is_cached() {
                entered += 1;
                check_cached(group, id, meta)?;
            }
        }
        check_list(group, free, false)?;
        check_list(group, reclaimable, true)?;
        ensure(cached.blocks().count() == entered, "the table has blocks that exist")?;
        ensure(used + free.len + reclaimable.len == allocator.len(), "a block is used, free, or reclaimable")?;
        ensure(stats.used == used && stats.pinned == pinned, "the statistics are a recount")?;
        ensure(used <= stats.high_water && stats.high_water <= stats.total, "the high-water mark is at the top")?;
        (0..self.sequences.len()).try_for_each(|slot| check_chain(group, slot))
    }
}

fn ensure(holds: bool, rule: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(rule) }
}

/// Checks that a list holds blocks of its kind, as many as it says, linked both ways.
fn check_list(group: &Group<'_>, list: List, cached: bool) -> Result<(), &'static str> {
    let (mut block, mut before, mut count) = (list.first, NO_BLOCK, 0);
    while let Some(meta) = group.allocator.meta(block) {
        ensure(count < list.len, "lists are as long as they say")?;
        ensure(meta.ref_count() == 0 && meta.is_cached() == cached, "lists hold blocks of their kind")?;
        ensure(meta.links.previous == before, "lists are linked both ways")?;
        (before, block, count) = (block, meta.links.next, count + 1);
    }
    ensure(count == list.len && before == list.last, "lists are as long as they say")
}

/// Checks that a cached block is full, and that its own tokens find it.
fn check_cached(group: &Group<'_>, id: BlockId, meta: &BlockMeta) -> Result<(), &'static str> {
    ensure(meta.finalized() && meta.num_tokens() == BLOCK_TOKENS, "cached blocks are finalized")?;
    let chain = Chain { parent: meta.parent, index: meta.index };
    ensure(meta.hash == chain.hash(&meta.tokens), "cached blocks are where their hash says")?;
    ensure(group.allocator.find(chain, &meta.tokens) == Some(id), "cached blocks are found")
}

/// Checks that each cached block in a table follows the cached block before it.
fn check_chain(group: &Group<'_>, slot: usize) -> Result<(), &'static str> {
    let mut chain = Some(Chain::root(SALT));
    for &block in group.table(slot).blocks() {
        let Some(meta) = group.allocator.meta(block) else { continue };
        if meta.is_cached() {
            ensure(chain == Some(Chain { parent: meta.parent, index: meta.index }), "cached blocks are chained")?;
        }
        chain = Chain::after(meta);
    }
    Ok(())
}
