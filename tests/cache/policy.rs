//! A host's own policy. Whatever it answers, no block is lost and a refused call changes nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};

use gleed::cache::{
    BlockChoice, BlockId, CacheError, HostPolicy, IdleSequences, KvCache, KvGeometry, LayerGroups, SeqId,
};
use gleed::mem::Arena;
use gleed::{KvKind, KvType};

use crate::{LAYERS, append, append_rows, assert_holds, geometry, row, see, set_prefill};
use common::Memory;
use common::random::Rng;

fn with_policy<R>(
    geometry: KvGeometry,
    policy: Option<&mut dyn HostPolicy>,
    test: impl FnOnce(&mut KvCache<'_>) -> R,
) -> R {
    let mut measuring = Arena::measuring();
    KvCache::carve(&mut measuring, geometry).unwrap();
    let mut memory = Memory::new(measuring.used());
    let mut cache = KvCache::carve(&mut Arena::new(memory.bytes()).unwrap(), geometry).unwrap();
    if let Some(policy) = policy {
        cache.set_host_policy(Some(policy));
    }
    test(&mut cache)
}

fn paged(groups: LayerGroups, blocks: usize) -> KvGeometry {
    KvGeometry { blocks, prefix_cache: true, ..geometry(KvKind::Paged, KvType::F32, groups) }
}

/// Appends tokens as if the model computed them, so that their blocks become cached prefixes.
fn compute(cache: &mut KvCache<'_>, seq: SeqId, tokens: &[u32]) -> Result<(), CacheError> {
    cache.reserve(seq, tokens.iter().copied())?;
    while cache.copy_unit(seq)? {}
    let length = cache.seq_len(seq)?;
    for (position, &token) in (length..).zip(tokens) {
        for layer in 0..LAYERS {
            cache.write_row(seq, layer, position, &row(token, layer, false), &row(token, layer, true))?;
        }
    }
    cache.commit_computed(seq, tokens.len())
}

/// A policy that answers at random, and sometimes with a valid answer.
struct Hostile {
    rng: Rng,
    last: BlockId,
    last_seq: Option<SeqId>,
    asked: [usize; 3],
}

impl Hostile {
    fn block(&mut self, choice: &BlockChoice<'_>) -> BlockId {
        let all: Vec<BlockId> = choice
            .iter()
            .map(|(block, meta)| {
                assert_eq!(meta.ref_count(), 0);
                block
            })
            .collect();
        assert!(!all.is_empty() && choice.default() == all[0]);
        let answer = match self.rng.below(40) {
            0 => u32::MAX,
            1 => u32::MAX - 1,
            2 => self.rng.below(40) as u32,
            3 => self.last,
            4..20 => choice.default(),
            _ => all[self.rng.below(all.len())],
        };
        self.last = answer;
        answer
    }
}

impl HostPolicy for Hostile {
    fn close(&mut self, idle: &IdleSequences<'_, '_>) -> Option<SeqId> {
        self.asked[0] += 1;
        let all: Vec<SeqId> = idle.iter().collect();
        for &seq in &all {
            let blocks = idle.stats(seq).unwrap().total();
            assert!(seq != idle.wanted() && blocks.own + blocks.shared > 0);
        }
        let answer = match self.rng.below(12) {
            0 => None,
            1 => Some(SeqId::from_bits(self.rng.below(1 << 20) as u32)),
            2 => Some(idle.wanted()),
            3 => self.last_seq,
            4 => idle.default(),
            _ => Some(all[self.rng.below(all.len())]),
        };
        self.last_seq = answer.or(self.last_seq);
        answer
    }

    fn evict(&mut self, choice: &BlockChoice<'_>) -> BlockId {
        self.asked[1] += 1;
        assert!(choice.iter().all(|(_, meta)| meta.is_cached() && meta.index().is_some()));
        self.block(choice)
    }

    fn hand_out(&mut self, choice: &BlockChoice<'_>) -> BlockId {
        self.asked[2] += 1;
        assert!(choice.iter().all(|(_, meta)| !meta.is_cached() && meta.index().is_none()));
        self.block(choice)
    }
}

/// A sequence and its tokens.
type Live = (SeqId, Vec<u32>);

/// Makes one random call. An error leaves everything as it was, except that a replacement which the policy spoils
/// leaves an empty sequence.
fn random_call(cache: &mut KvCache<'_>, live: &mut Vec<Live>, rng: &mut Rng) -> Result<(), CacheError> {
    if live.is_empty() || rng.below(6) == 0 {
        let seq = cache.open()?;
        live.push((seq, Vec::new()));
        return Ok(());
    }
    let index = rng.below(live.len());
    let seq = live[index].0;
    // There are only few texts, so that prefixes are found again.
    let story = rng.below(3) as u32 * 100;
    let new = |from: usize, count: usize| (from..from + count).map(|at| story + at as u32).collect::<Vec<u32>>();
    let tokens = new(live[index].1.len(), 1 + rng.below(36));
    match rng.below(9) {
        0..3 => {
            compute(cache, seq, &tokens)?;
            live[index].1.extend(tokens);
        }
        3 => {
            append_rows(cache, &[seq], &tokens)?;
            live[index].1.extend(tokens);
        }
        4 => match set_prefill(cache, seq, &tokens) {
            Ok(()) => live[index].1 = tokens,
            Err(error) => {
                if matches!(error, CacheError::PolicyBlock { .. }) {
                    live[index].1.clear();
                }
                return Err(error);
            }
        },
        5 => {
            let keep = rng.below(live[index].1.len() + 1);
            let fork = cache.fork(seq, keep)?;
            let text = live[index].1[..keep].to_vec();
            live.push((fork, text));
        }
        6 => {
            cache.close(seq)?;
            live.remove(index);
        }
        7 => {
            let text = new(0, 1 + rng.below(60));
            let seq = cache.open()?;
            let found = cache.reuse(seq, &text)?;
            live.push((seq, text[..found].to_vec()));
        }
        _ => {
            let rows = 1 + rng.below(60);
            cache.make_room(seq, rows, &mut |_, _| rng.below(4) > 0)?;
            live.retain(|&(seq, _)| cache.seq_len(seq).is_ok());
            assert_eq!(cache.can_extend(seq, rows), Ok(()));
        }
    }
    Ok(())
}

#[test]
fn a_hostile_policy_loses_no_block() {
    let (mut refused, mut closed, mut asked) = (0, 0, [0; 3]);
    for seed in 0..160 {
        let groups = [LayerGroups::ONE, LayerGroups::alternating(2)][seed % 2];
        let mut policy = Hostile { rng: Rng::new(seed as u64), last: 0, last_seq: None, asked: [0; 3] };
        with_policy(paged(groups, 4 + seed % 17), Some(&mut policy), |cache| {
            let (mut live, mut rng) = (Vec::new(), Rng::new(1000 + seed as u64));
            for _ in 0..80 {
                let seqs: Vec<SeqId> = live.iter().map(|&(seq, _): &Live| seq).collect();
                let (before, stats) = (see(cache, &seqs), cache.stats());
                let result = random_call(cache, &mut live, &mut rng);
                assert_eq!(cache.check(), Ok(()), "{result:?}");
                live.iter().for_each(|(seq, tokens)| assert_holds(cache, *seq, tokens));
                match result {
                    Ok(()) => closed += seqs.len().saturating_sub(live.len()),
                    Err(CacheError::PolicySequence { .. }) => {
                        assert!(see(cache, &seqs) == before && cache.stats() == stats);
                    }
                    Err(CacheError::PolicyBlock { .. }) => {
                        refused += 1;
                        // If no replacement was spoiled, nothing has changed, not even cached blocks.
                        let same = seqs.iter().all(|&seq| cache.seq_len(seq) != Ok(0)) || before == see(cache, &seqs);
                        assert!(!same || (see(cache, &seqs) == before && cache.stats() == stats));
                    }
                    Err(_) => {}
                }
            }
            for (seq, _) in live {
                cache.close(seq).unwrap();
            }
            assert_eq!(cache.stats().pools[0].used, 0);
        });
        asked = std::array::from_fn(|i| asked[i] + policy.asked[i]);
    }
    assert!(refused > 150 && closed > 30 && asked.iter().all(|&asked| asked > 150), "{refused} {closed} {asked:?}");
}

/// A policy that answers as the cache would.
struct Same;

impl HostPolicy for Same {}

#[test]
fn the_default_answers_are_the_caches_own() {
    let play = |policy: Option<&mut dyn HostPolicy>, seed: u64| {
        with_policy(paged(LayerGroups::alternating(2), 5 + seed as usize % 13), policy, |cache| {
            let (mut live, mut rng, mut seen) = (Vec::new(), Rng::new(seed), Vec::new());
            for _ in 0..60 {
                let result = random_call(cache, &mut live, &mut rng);
                let seqs: Vec<SeqId> = live.iter().map(|&(seq, _): &Live| seq).collect();
                seen.push((result, see(cache, &seqs), cache.stats()));
            }
            seen
        })
    };
    for seed in 0..60 {
        let (own, same) = (play(None, seed), play(Some(&mut Same), seed));
        let other = own.iter().zip(&same).position(|(a, b)| a != b);
        assert_eq!(other, None, "seed {seed}");
    }
}

/// A policy that hands out the last block, evicts the end of the longest prefix and closes the longest sequence.
struct Reversed;

impl HostPolicy for Reversed {
    fn close(&mut self, idle: &IdleSequences<'_, '_>) -> Option<SeqId> {
        idle.iter().max_by_key(|&seq| idle.stats(seq).map(|stats| stats.tokens))
    }

    fn evict(&mut self, choice: &BlockChoice<'_>) -> BlockId {
        choice.iter().max_by_key(|(_, meta)| meta.index()).map_or(choice.default(), |(block, _)| block)
    }

    fn hand_out(&mut self, choice: &BlockChoice<'_>) -> BlockId {
        assert_eq!(choice.group(), 0);
        choice.iter().map(|(block, _)| block).max().unwrap()
    }
}

#[test]
fn a_policy_decides() {
    let mut policy = Reversed;
    with_policy(paged(LayerGroups::ONE, 6), Some(&mut policy), |cache| {
        let [a, b] = [(); 2].map(|()| cache.open().unwrap());
        compute(cache, a, &(0..32).collect::<Vec<u32>>()).unwrap();
        compute(cache, b, &(100..148).collect::<Vec<u32>>()).unwrap();
        assert_eq!(cache.block_table(a, 0).unwrap().blocks(), [5, 4]);
        assert_eq!(cache.block_table(b, 0).unwrap().blocks(), [3, 2, 1]);
        // The policy closes the longer sequence, although the other one was used before it.
        let c = cache.open().unwrap();
        assert_eq!(cache.make_room(c, 17, &mut |_, _| true), Ok(1));
        assert!(cache.seq_len(a).is_ok() && cache.seq_len(b).is_err());
        // Block 0 is free. Then the policy evicts the end of the prefix of b, not its beginning.
        compute(cache, c, &(200..220).collect::<Vec<u32>>()).unwrap();
        assert_eq!(cache.block_table(c, 0).unwrap().blocks(), [0, 1]);
        let again = cache.open().unwrap();
        assert_eq!(cache.reuse(again, &(100..148).collect::<Vec<u32>>()), Ok(32));
        assert_eq!(cache.check(), Ok(()));
        cache.set_host_policy(None);
        cache.close(c).unwrap();
        compute(cache, again, &[7]).unwrap();
        assert_eq!(cache.check(), Ok(()));
    });
}

/// A policy that panics at every third question.
struct Panicking(usize);

impl HostPolicy for Panicking {
    fn hand_out(&mut self, choice: &BlockChoice<'_>) -> BlockId {
        self.0 += 1;
        assert!(!self.0.is_multiple_of(3), "a policy that panics");
        choice.iter().last().map_or(0, |(block, _)| block)
    }
}

#[test]
fn a_policy_that_panics_leaves_the_cache_as_it_was() {
    let mut policy = Panicking(0);
    with_policy(paged(LayerGroups::alternating(2), 8), Some(&mut policy), |cache| {
        let seq = cache.open().unwrap();
        let before = see(cache, &[seq]);
        // This needs two blocks in each of two groups.
        let panicked = catch_unwind(AssertUnwindSafe(|| append(cache, seq, &[1; 20])));
        assert!(panicked.is_err());
        assert!(see(cache, &[seq]) == before);
        assert_eq!(cache.check(), Ok(()));
        append(cache, seq, &[1; 5]).unwrap();
        assert_holds(cache, seq, &[1; 5]);
        let other = cache.open().unwrap();
        assert_eq!(cache.make_room(other, 1, &mut |_, _| true), Ok(0));
        cache.set_host_policy(None);
        append(cache, seq, &[1; 60]).unwrap();
        assert_eq!(cache.check(), Ok(()));
    });
}

/// A policy that panics at one of its calls, or answers it with something that is no candidate.
struct FailsAt {
    left: usize,
    dies: bool,
}

impl FailsAt {
    /// Counts a call, and panics or returns true if it is the one that fails.
    fn fails(&mut self) -> bool {
        let is_this = self.left == 0;
        self.left = self.left.wrapping_sub(1);
        assert!(!(is_this && self.dies), "the host dies");
        is_this
    }
}

impl HostPolicy for FailsAt {
    fn close(&mut self, idle: &IdleSequences<'_, '_>) -> Option<SeqId> {
        if self.fails() { Some(idle.wanted()) } else { idle.default() }
    }

    fn evict(&mut self, choice: &BlockChoice<'_>) -> BlockId {
        if self.fails() { u32::MAX } else { choice.default() }
    }

    fn hand_out(&mut self, choice: &BlockChoice<'_>) -> BlockId {
        if self.fails() { u32::MAX } else { choice.default() }
    }
}

/// For every n up to the number of calls: the cache call in which the n-th policy call fails changes nothing, and later
/// calls work.
#[test]
fn a_policy_that_fails_at_every_call() {
    for dies in [true, false] {
        let mut at = 0;
        while fails_in_story(FailsAt { left: at, dies }) {
            at += 1;
        }
        // Blocks are handed out and evicted, and a sequence is closed.
        assert!(at > 6, "{at} calls");
    }
}

/// Fills a cache, with prefixes, until blocks are evicted and a sequence is closed. Returns whether the policy has
/// failed.
fn fails_in_story(mut policy: FailsAt) -> bool {
    with_policy(paged(LayerGroups::ONE, 6), Some(&mut policy), |cache| {
        let [one, two] = [cache.open().unwrap(), cache.open().unwrap()];
        let mut failed = 0;
        let mut attempt = |cache: &mut KvCache<'_>, call: &mut dyn FnMut(&mut KvCache<'_>) -> bool| {
            let before = see(cache, &[one, two]);
            if !catch_unwind(AssertUnwindSafe(|| call(cache))).unwrap_or(false) {
                failed += 1;
                assert!(see(cache, &[one, two]) == before, "a call that failed has changed something");
                assert!(call(cache), "the same call without a fault");
            }
            assert_eq!(cache.check(), Ok(()));
        };
        attempt(cache, &mut |cache| compute(cache, one, &[1; 60]).is_ok());
        attempt(cache, &mut |cache| cache.rewind(one, 20).is_ok());
        attempt(cache, &mut |cache| compute(cache, two, &[2; 60]).is_ok());
        attempt(cache, &mut |cache| cache.make_room(two, 10, &mut |_, _| true) == Ok(1));
        attempt(cache, &mut |cache| cache.seq_len(one).is_err() && compute(cache, two, &[3; 10]).is_ok());
        assert_holds(cache, two, &[[2; 60].as_slice(), &[3; 10]].concat());
        failed > 0
    })
}
