//! Random calls. Contents stay correct, and no block is lost.

use gleed::cache::{CacheError, KvCache, KvGeometry, LayerGroups, SeqId, SnapshotError, SnapshotOptions};
use gleed::{KvKind, KvType};
use proptest::prelude::*;

use crate::{LAYERS, append, append_rows, assert_holds, geometry, push_row, row, set_prefill, with_cache};

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_calls_lose_no_block(
        calls in prop::collection::vec(call(), 1..60),
        kind in 0..3_usize,
        two_groups: bool,
        blocks in 4..24_usize,
    ) {
        let groups = if two_groups { LayerGroups::alternating(2) } else { LayerGroups::ONE };
        let geometry = KvGeometry { blocks, ..geometry(KvKind::ALL[kind], KvType::F32, groups) };
        with_cache(geometry, |cache| {
            let mut wanted = Vec::new();
            let mut closed = Vec::new();
            for (time, call) in calls.iter().enumerate() {
                play(cache, &mut wanted, &mut closed, call, time as u32 * 1000);
                assert_consistent(cache, &wanted, &closed);
                assert_eq!(cache.check(), Ok(()));
            }
            wanted.drain(..).for_each(|want| cache.close(want.seq).unwrap());
            for group in 0..groups.count() {
                let allocator = cache.allocator(group).unwrap();
                assert_eq!(allocator.free_blocks(), allocator.len());
            }
        });
    }
}

#[derive(Clone, Debug)]
enum Call {
    Open,
    Append(usize, usize),
    Prefill(usize, usize),
    Rows(usize, usize),
    Push(usize),
    Fork(usize, usize),
    Rewind(usize, usize),
    Reserve(usize, usize, usize),
    Release(usize),
    Commit(usize),
    Clear(usize),
    Close(usize),
    Stale(usize),
    Copy(usize, usize, bool),
}

fn call() -> impl Strategy<Value = Call> {
    let which = 0..5_usize;
    prop_oneof![
        2 => Just(Call::Open),
        6 => (which.clone(), 1..40_usize).prop_map(|(s, n)| Call::Append(s, n)),
        2 => (which.clone(), 0..40_usize).prop_map(|(s, n)| Call::Prefill(s, n)),
        2 => (which.clone(), 0..40_usize).prop_map(|(s, n)| Call::Rows(s, n)),
        3 => which.clone().prop_map(Call::Push),
        5 => (which.clone(), 0..80_usize).prop_map(|(s, n)| Call::Fork(s, n)),
        4 => (which.clone(), 0..80_usize).prop_map(|(s, n)| Call::Rewind(s, n)),
        3 => (which.clone(), 0..40_usize, 0..5_usize).prop_map(|(s, n, c)| Call::Reserve(s, n, c)),
        2 => which.clone().prop_map(Call::Release),
        2 => which.clone().prop_map(Call::Commit),
        1 => which.clone().prop_map(Call::Clear),
        2 => which.clone().prop_map(Call::Close),
        1 => which.clone().prop_map(Call::Stale),
        3 => (which, 0..5_usize, any::<bool>()).prop_map(|(s, blocks, good)| Call::Copy(s, blocks, good)),
    ]
}

/// The expected state of a sequence: its tokens, and its reserved tokens.
struct Want {
    seq: SeqId,
    tokens: Vec<u32>,
    reserved: Vec<u32>,
}

fn play(cache: &mut KvCache<'_>, wanted: &mut Vec<Want>, closed: &mut Vec<SeqId>, call: &Call, first: u32) {
    let Some(index) = call.sequence() else {
        match cache.open() {
            Ok(seq) => wanted.push(Want { seq, tokens: Vec::new(), reserved: Vec::new() }),
            Err(error) => assert_eq!(error, CacheError::NoFreeSequence { sequences: wanted.len() }),
        }
        return;
    };
    let open = wanted.len();
    let Some(want) = wanted.get_mut(index) else { return };
    match *call {
        Call::Fork(..) | Call::Copy(..) => {
            let twin = branch(cache, want, call, open);
            wanted.extend(twin);
        }
        Call::Close(_) => {
            cache.close(want.seq).unwrap();
            closed.push(wanted.remove(index).seq);
        }
        Call::Stale(s) => {
            let Some(&seq) = closed.get(s) else { return };
            assert_eq!(cache.close(seq), Err(CacheError::UnknownSequence { sequence: seq.to_bits() }));
        }
        _ => change(cache, want, call, first),
    }
}

impl Call {
    /// Returns the index of the sequence that the call is for.
    fn sequence(&self) -> Option<usize> {
        match *self {
            Call::Open => None,
            Call::Append(s, _)
            | Call::Prefill(s, _)
            | Call::Rows(s, _)
            | Call::Push(s)
            | Call::Fork(s, _)
            | Call::Rewind(s, _)
            | Call::Reserve(s, ..)
            | Call::Release(s)
            | Call::Commit(s)
            | Call::Clear(s)
            | Call::Close(s)
            | Call::Stale(s)
            | Call::Copy(s, ..) => Some(s),
        }
    }
}

/// Makes a call that changes its own sequence.
fn change(cache: &mut KvCache<'_>, want: &mut Want, call: &Call, first: u32) {
    let new = |len: usize| (first..).take(len).collect::<Vec<u32>>();
    let (seq, length) = (want.seq, want.tokens.len());
    let busy = !want.reserved.is_empty();
    match *call {
        Call::Append(_, len) => match append(cache, seq, &new(len)) {
            Ok(()) => want.tokens.extend(new(len)),
            Err(error) => assert_refused(cache, error, busy, length, len),
        },
        Call::Prefill(_, len) => match set_prefill(cache, seq, &new(len)) {
            Ok(()) => want.tokens = new(len),
            Err(error) => assert_refused(cache, error, busy, 0, len),
        },
        Call::Rows(_, len) => match append_rows(cache, &[seq], &new(len)) {
            Ok(()) => want.tokens.extend(new(len)),
            Err(error) => assert_refused(cache, error, busy, length, len),
        },
        Call::Push(_) => match push_row(cache, seq, first) {
            Ok(()) => want.tokens.push(first),
            Err(error) => assert_refused(cache, error, busy, length, 1),
        },
        Call::Rewind(_, keep) => match cache.rewind(seq, keep) {
            Ok(()) => want.tokens.truncate(keep),
            Err(CacheError::TooShort { .. }) => assert!(keep > length),
            Err(error) => assert_refused(cache, error, busy, 0, 0),
        },
        Call::Reserve(_, len, copies) => match cache.reserve(seq, new(len).into_iter()) {
            Ok(()) => {
                want.reserved = new(len);
                for _ in 0..copies {
                    cache.copy_unit(seq).unwrap();
                }
            }
            Err(error) => assert_refused(cache, error, busy, length, len),
        },
        Call::Commit(_) => {
            while cache.copy_unit(seq).unwrap() {}
            for (position, &token) in (length..).zip(&want.reserved) {
                for layer in 0..LAYERS {
                    cache.write_row(seq, layer, position, &row(token, layer, false), &row(token, layer, true)).unwrap();
                }
            }
            let reserved = std::mem::take(&mut want.reserved);
            cache.commit(seq, reserved.len()).unwrap();
            want.tokens.extend(reserved);
        }
        Call::Release(_) => {
            cache.release(seq).unwrap();
            want.reserved.clear();
        }
        Call::Clear(_) => {
            cache.clear(seq).unwrap();
            want.tokens.clear();
            want.reserved.clear();
        }
        _ => panic!("{call:?}"),
    }
}

/// Makes a call that makes another sequence, and returns that sequence. `open` sequences exist before the call.
fn branch(cache: &mut KvCache<'_>, want: &Want, call: &Call, open: usize) -> Option<Want> {
    let (seq, length) = (want.seq, want.tokens.len());
    let busy = !want.reserved.is_empty();
    match *call {
        Call::Fork(_, keep) => match cache.fork(seq, keep) {
            Ok(fork) => {
                let tokens = want.tokens[..keep].to_vec();
                return Some(Want { seq: fork, tokens, reserved: Vec::new() });
            }
            Err(CacheError::TooShort { .. }) => assert!(keep > length),
            Err(CacheError::NoFreeSequence { .. }) => assert_eq!(open, 4),
            Err(error) => assert_refused(cache, error, busy, 0, keep),
        },
        Call::Copy(_, blocks, good) => match copy(cache, seq, blocks * 16, good) {
            Ok(copy) => {
                let tokens = want.tokens.clone();
                return Some(Want { seq: copy, tokens, reserved: Vec::new() });
            }
            Err(SnapshotError::BasePosition { .. }) => assert!(blocks * 16 > length),
            Err(SnapshotError::Checksum { .. }) => assert!(!good),
            Err(SnapshotError::Cache(CacheError::NoFreeSequence { .. })) => assert_eq!(open, 4),
            Err(SnapshotError::Cache(error)) => assert_refused(cache, error, busy, 0, length),
            Err(other) => panic!("{other:?}"),
        },
        _ => panic!("{call:?}"),
    }
    None
}

/// Writes a snapshot of a sequence and reads it as another one. If `good` is false, the last byte is wrong.
fn copy(cache: &mut KvCache<'_>, seq: SeqId, base: usize, good: bool) -> Result<SeqId, SnapshotError> {
    let mut bytes = Vec::new();
    let options = SnapshotOptions { base, ..SnapshotOptions::default() };
    cache.write_snapshot(seq, 7, &options, &mut |piece| {
        bytes.extend_from_slice(piece);
        true
    })?;
    *bytes.last_mut().unwrap() ^= u8::from(!good);
    let mut rest = &bytes[..];
    let mut source = |place: &mut [u8]| {
        let (given, after) = rest.split_at(place.len().min(rest.len()));
        place[..given.len()].copy_from_slice(given);
        rest = after;
        Some(given.len())
    };
    Ok(cache.read_snapshot(7, usize::MAX, Some(seq), &mut source)?.0)
}

/// Checks that an error fits the state of the cache.
fn assert_refused(cache: &KvCache<'_>, error: CacheError, busy: bool, length: usize, len: usize) {
    match error {
        CacheError::Busy { .. } => assert!(busy),
        CacheError::NotKept => assert_eq!(cache.kind(), KvKind::Off),
        CacheError::ContextFull { needed, context } => {
            assert!(needed == length + len && needed > context && context == 70);
        }
        CacheError::OutOfBlocks { needed, free } => {
            assert!(needed > free && cache.kind() != KvKind::Basic);
            assert!(needed <= len.div_ceil(16) + 2);
        }
        other => panic!("{other:?}"),
    }
}

/// Checks the contents, and that the references of every block are the tables that list it, plus copies of
/// reservations.
fn assert_consistent(cache: &KvCache<'_>, wanted: &[Want], closed: &[SeqId]) {
    for want in wanted {
        assert_eq!(cache.seq_len(want.seq), Ok(want.tokens.len()));
        if want.reserved.is_empty() {
            assert_holds(cache, want.seq, &want.tokens);
        } else {
            // Its last block may be an unfinished copy.
            let busy = CacheError::Busy { sequence: want.seq.to_bits() };
            assert_eq!(cache.materialize(want.seq, 0, &mut [], &mut []), Err(busy));
        }
        for (position, &token) in (want.tokens.len()..).zip(&want.reserved) {
            assert_eq!(cache.token(want.seq, position), Some(token));
        }
    }
    closed.iter().for_each(|&seq| assert!(cache.seq_len(seq).is_err()));
    for group in 0..cache.geometry().groups.count() {
        let allocator = cache.allocator(group).unwrap();
        let mut references = vec![0; allocator.len()];
        let mut copying = 0;
        for want in wanted {
            let blocks = cache.block_table(want.seq, group).unwrap().blocks();
            assert_eq!(blocks.len(), (want.tokens.len() + want.reserved.len()).div_ceil(16));
            blocks.iter().for_each(|&block| references[block as usize] += 1);
            // A reservation holds the original of a copied block until its tokens are committed.
            copying += usize::from(!want.reserved.is_empty());
        }
        let counted: Vec<u32> = (0..allocator.len() as u32).map(|b| allocator.meta(b).unwrap().ref_count()).collect();
        let extra: u32 = counted.iter().zip(&references).map(|(&counted, &seen)| counted - seen).sum();
        assert!(extra as usize <= copying, "group {group}");
        let used = counted.iter().filter(|&&count| count > 0).count();
        assert_eq!(allocator.free_blocks() + used, allocator.len());
    }
}
