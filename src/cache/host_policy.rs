//! Choices of a host: which sequence is closed, which block is evicted, and which block is handed out.

use core::fmt;

use super::block::{BlockId, BlockMeta};
use super::error::CacheError;
use super::group::Group;
use super::kind::KvKind;
use super::kv_cache::KvCache;
use super::sequence::{SeqId, Sequence};
use super::stats::SequenceStats;

/// A host's own choices where a cache has several candidates. They never change a bit of any logits. They only decide
/// what stays when memory runs short, and where it lies.
///
/// Every method has the cache's own choice as its default. An answer that is not one of the candidates is an error of
/// the call that asked, [`CacheError::PolicyBlock`] or [`CacheError::PolicySequence`], and that call changes nothing.
///
/// [Example](crate::cache#policy).
pub trait HostPolicy: Send + Sync {
    /// Returns the idle sequence that [`KvCache::make_room`] considers closing next, or `None` if no other one may be
    /// closed. The default is the sequence that was not used for longest.
    fn close(&mut self, idle: &IdleSequences<'_, '_>) -> Option<SeqId> {
        idle.default()
    }

    /// Returns the block of a cached prefix that is evicted, because no block is free. The default is the block that
    /// was given back first. A block may be evicted before the blocks that follow it. These are then no longer found,
    /// and are evicted in their turn.
    fn evict(&mut self, choice: &BlockChoice<'_>) -> BlockId {
        choice.default()
    }

    /// Returns the free block that is handed out. The default is the block that was given back last.
    fn hand_out(&mut self, choice: &BlockChoice<'_>) -> BlockId {
        choice.default()
    }
}

/// Idle sequences that could be closed: they have no unfinished work, and they hold blocks.
///
/// [Example](crate::cache#policy).
#[derive(Debug)]
pub struct IdleSequences<'c, 'a> {
    pub(super) sequences: &'c [Sequence],
    pub(super) groups: &'c [Group<'a>],
    /// Slot of the first sequence that may be a candidate, in the order of use.
    pub(super) first: u32,
    /// Sequence that needs room.
    pub(super) wanted: SeqId,
}

impl IdleSequences<'_, '_> {
    /// Returns the sequence that needs room.
    pub fn wanted(&self) -> SeqId {
        self.wanted
    }

    /// Returns the cache's own choice, the first of [`IdleSequences::iter`].
    pub fn default(&self) -> Option<SeqId> {
        self.iter().next()
    }

    /// Returns the sequences, the least recently used first.
    pub fn iter(&self) -> impl Iterator<Item = SeqId> {
        let after = |&slot: &u32| self.sequences.get(slot as usize).map(|sequence| sequence.links.next);
        let slots = core::iter::successors(Some(self.first), after).take(self.sequences.len());
        slots.filter_map(|slot| self.at(slot))
    }

    /// Returns the statistics of one of these sequences, or `None` for any other sequence.
    pub fn stats(&self, seq: SeqId) -> Option<SequenceStats> {
        self.at(seq.slot() as u32).filter(|&found| found == seq)?;
        let tokens = self.sequences.get(seq.slot())?.len as usize;
        Some(stats_of(self.groups, seq.slot(), tokens))
    }

    /// Returns the sequence in a slot, if it is a candidate.
    pub(super) fn at(&self, slot: u32) -> Option<SeqId> {
        let sequence = self.sequences.get(slot as usize)?;
        let seq = SeqId::new(slot as usize, sequence.generation);
        let idle = sequence.open == 1 && sequence.is_idle() && sequence.marked == 0;
        let holds = || self.groups.iter().any(|group| group.held(slot as usize).next().is_some());
        (idle && seq != self.wanted && holds()).then_some(seq)
    }
}

/// Returns the statistics of the sequence in a slot, which has `tokens` tokens.
pub(super) fn stats_of(groups: &[Group<'_>], slot: usize, tokens: usize) -> SequenceStats {
    let mut stats = SequenceStats { tokens, ..SequenceStats::default() };
    for (blocks, group) in stats.blocks.iter_mut().zip(groups) {
        *blocks = group.count(slot);
        let bytes = |blocks: usize| blocks.saturating_mul(group.pool.block_bytes());
        stats.own_bytes = stats.own_bytes.saturating_add(bytes(blocks.own));
        stats.shared_bytes = stats.shared_bytes.saturating_add(bytes(blocks.shared));
    }
    stats
}

/// Candidates of which one block is wanted: free blocks, or cached prefixes that nobody holds.
///
/// [Example](crate::cache#policy).
#[derive(Clone, Copy, Debug)]
pub struct BlockChoice<'c> {
    blocks: &'c [BlockMeta],
    first: BlockId,
    seq: SeqId,
    group: usize,
}

impl<'c> BlockChoice<'c> {
    /// Returns the sequence that gets the block.
    pub fn seq(&self) -> SeqId {
        self.seq
    }

    /// Returns the layer group whose pool the blocks are in.
    pub fn group(&self) -> usize {
        self.group
    }

    /// Returns the cache's own choice, the first of [`BlockChoice::iter`].
    pub fn default(&self) -> BlockId {
        self.iter().next().map_or(BlockId::MAX, |(block, _)| block)
    }

    /// Returns the candidates. Cached blocks come in the order in which they were given back, free blocks in the
    /// reverse order.
    pub fn iter(&self) -> impl Iterator<Item = (BlockId, &'c BlockMeta)> {
        let blocks = self.blocks;
        let after = move |&block: &BlockId| blocks.get(block as usize).map(|meta| meta.links.next);
        let ids = core::iter::successors(Some(self.first), after).take(blocks.len().saturating_add(1));
        let metas = ids.filter_map(move |block| Some((block, blocks.get(block as usize)?)));
        metas.filter(|(_, meta)| meta.marked == 0)
    }
}

/// The policy of a host, if the cache has one.
pub(super) struct Hosted<'a>(pub(super) Option<&'a mut dyn HostPolicy>);

impl fmt::Debug for Hosted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "a policy of the host" } else { "no policy of the host" })
    }
}

impl<'a> KvCache<'a> {
    /// Lets a host choose; `None` brings the cache's own choices back. In a cache of the kind `basic` every block has
    /// its place, so only [`HostPolicy::close`] is asked.
    pub fn set_host_policy(&mut self, policy: Option<&'a mut dyn HostPolicy>) {
        self.hosted = Hosted(policy);
    }

    /// Forgets all chosen blocks, such as those of a call that a panic of the host's policy has ended.
    pub(super) fn begin_choice(&mut self) {
        self.groups.iter_mut().for_each(|group| group.allocator.choose_none());
    }

    /// Lets the host's policy choose blocks for a sequence, as many of each group as `needed` says. They are taken
    /// after the blocks that are chosen already. After a wrong answer no blocks are chosen at all.
    pub(super) fn choose_blocks(&mut self, seq: SeqId, needed: impl Fn(&Group<'_>) -> usize) -> Result<(), CacheError> {
        let places_are_given = self.kind() == KvKind::Basic;
        let Some(policy) = self.hosted.0.as_deref_mut().filter(|_| !places_are_given) else { return Ok(()) };
        let mut wrong = None;
        for (index, group) in self.groups.iter_mut().enumerate() {
            for _ in 0..needed(group) {
                let mut answer = BlockId::MAX;
                let chosen = group.allocator.choose(|blocks, first, evict| {
                    let choice = BlockChoice { blocks, first, seq, group: index };
                    answer = if evict { policy.evict(&choice) } else { policy.hand_out(&choice) };
                    answer
                });
                if chosen.is_err() {
                    wrong = wrong.or(Some(CacheError::PolicyBlock { block: answer }));
                    break;
                }
            }
        }
        let Some(error) = wrong else { return Ok(()) };
        self.begin_choice();
        Err(error)
    }
}
