//! Snapshots: the format of `docs/snapshot.md` byte by byte, and deltas. Wrong bytes, failing callbacks of the host and
//! missing room give a specific error and change nothing.

mod bytes;
mod deltas;
mod format;
mod host;
mod room;
mod shapes;

use common::playback::{Plain, Player, Stage, hash};
use common::random::Rng;
use common::synthetic::SyntheticModel;
use gleed::cache::{BlockMeta, SnapshotError, SnapshotOptions};
use gleed::{Engine, EngineError, KvKind, KvType, Limits, Model, SeqId};
use xxhash_rust::xxh64::xxh64;

const VOCAB: u32 = 9;
const LAYERS: usize = 2;
const HEAD_DIM: usize = 4;

/// Returns a model whose tokens have 16 elements of keys and 16 of values.
fn tiny() -> SyntheticModel {
    SyntheticModel {
        hidden: 8,
        ffn: 8,
        layers: LAYERS,
        heads: 2,
        kv_heads: 1,
        head_dim: HEAD_DIM,
        vocab: VOCAB as usize,
        ..SyntheticModel::llama()
    }
}

fn limits(kv_kind: KvKind, kv_type: KvType) -> Limits {
    Limits { sequences: 4, context: 80, rows: 16, logit_rows: 16, kv_kind, kv_type, ..Limits::default() }
}

fn each_limits() -> impl Iterator<Item = Limits> {
    KvKind::ALL.into_iter().flat_map(|kind| KvType::ALL.map(|element| limits(kind, element)))
}

fn tokens(seed: u64, len: usize) -> Vec<u32> {
    let mut rng = Rng::new(seed);
    (0..len).map(|_| rng.below(VOCAB as usize) as u32).collect()
}

fn snapshot(engine: &Engine<'_, '_>, seq: SeqId, options: &SnapshotOptions<'_>) -> Vec<u8> {
    let mut bytes = vec![0; engine.snapshot_len_with(seq, options).unwrap()];
    assert_eq!(engine.snapshot_with(seq, options, &mut bytes), Ok(bytes.len()));
    // The streamed snapshot has the same bytes. Its pieces are neither empty nor larger than promised.
    let mut streamed = Vec::new();
    let geometry = engine.cache().geometry();
    let widest = (0..geometry.layers).map(|layer| geometry.kv_width(layer)).max().unwrap();
    let written = engine.write_snapshot(seq, options, |piece| {
        assert!((1..=256.max(16 * widest * 2 * 4)).contains(&piece.len()));
        streamed.extend_from_slice(piece);
        Ok::<(), ()>(())
    });
    assert_eq!((written, &streamed), (Ok(bytes.len() as u64), &bytes));
    bytes
}

fn delta(base: usize) -> SnapshotOptions<'static> {
    SnapshotOptions { base, ..SnapshotOptions::default() }
}

/// Returns a snapshot of these tokens, made by an engine of its own.
fn snapshot_of(model: &Model<'_>, limits: Limits, tokens: &[u32], options: &SnapshotOptions<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    Stage::new(limits).play(model, |player| {
        let seq = player.open();
        player.append(seq, tokens);
        bytes = snapshot(&player.engine, seq, options);
    });
    bytes
}

/// For each sequence: tokens, blocks, keys and values. For each block: references, number of tokens, and whether it is
/// finalized. Then the number of free blocks.
type Seen = (Vec<(Vec<Option<u32>>, Vec<u32>, Vec<f32>)>, Vec<(u32, usize, bool)>, usize);

fn see(player: &Player<'_, '_>) -> Seen {
    let cache = player.engine.cache();
    let of_sequence = |&(seq, _): &(SeqId, Vec<u32>)| {
        let len = cache.seq_len(seq).unwrap();
        let mut kv = vec![0.0; 2 * LAYERS * len * HEAD_DIM];
        for (layer, kv) in kv.chunks_mut((2 * len * HEAD_DIM).max(1)).enumerate() {
            let (k, v) = kv.split_at_mut(len * HEAD_DIM);
            cache.materialize(seq, layer, k, v).unwrap();
        }
        let blocks = cache.block_table(seq, 0).unwrap().blocks().to_vec();
        ((0..len).map(|position| cache.token(seq, position)).collect(), blocks, kv)
    };
    let blocks = cache.allocator(0).unwrap();
    let meta = (0..blocks.len() as u32).map(|block| blocks.meta(block).unwrap());
    // The metadata of a free block does not matter.
    let used = |meta: &BlockMeta| (meta.ref_count(), meta.num_tokens(), meta.finalized());
    let meta = meta.map(|meta| if meta.ref_count() > 0 { used(meta) } else { (0, 0, false) });
    (player.sequences.iter().map(of_sequence).collect(), meta.collect(), blocks.free_blocks())
}

/// Makes an engine with a sequence and a fork of it. Every call of `wrong` must be refused and change nothing. `wrong`
/// gets the number of the call, and returns false if it has no more calls.
fn each_refused(model: &Model<'_>, limits: Limits, mut wrong: impl FnMut(&mut Engine<'_, '_>, usize) -> bool) {
    let recorded = Stage::new(limits).play(model, |player| {
        let seq = player.open();
        player.append(seq, &tokens(1, 20));
        player.fork(seq, 18);
        let mut before = see(player);
        let logits = hash(player.engine.logits(seq).unwrap());
        for call in 0.. {
            let more = wrong(&mut player.engine, call);
            assert!(see(player) == before, "call {call}");
            assert_eq!(hash(player.engine.logits(seq).unwrap()), logits);
            if !more {
                break;
            }
            // From time to time, check that later tokens are computed correctly, too.
            if call % 512 == 0 {
                let fork = player.fork(seq, 17);
                player.append(fork, &tokens(1, 20)[17..]);
                player.close(fork);
                let new = player.open();
                player.append(new, &tokens(call as u64, 17));
                player.close(new);
                player.rewind(seq, 19);
                player.append(seq, &tokens(1, 20)[19..]);
                before = see(player);
            }
        }
        player.sequences.clone().iter().for_each(|&(seq, _)| player.append(seq, &[5, 6]));
    });
    Plain::new(model, limits.kv_type).assert_same(&recorded, &limits);
}

fn refusal<T: std::fmt::Debug>(result: Result<T, EngineError>) -> SnapshotError {
    match result {
        Err(EngineError::Snapshot(error)) => {
            assert!(!error.to_string().is_empty());
            error
        }
        result => panic!("{result:?}"),
    }
}

/// Corrects all checksums of a snapshot of [`tiny`] with changed bytes.
fn seal(bytes: &mut [u8]) {
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let seal = |bytes: &mut [u8]| {
        let (content, checksum) = bytes.split_last_chunk_mut::<8>().unwrap();
        *checksum = xxh64(content, 0).to_le_bytes();
        *checksum
    };
    // Returns the bytes of the keys or values of a layer, for an element type by its number.
    let of_layer = |number: usize, tokens: usize| match number {
        0 => 8 * HEAD_DIM * tokens,
        1 => 4 * HEAD_DIM * tokens,
        8 => 2 * (HEAD_DIM + 2) * tokens,
        _ => (HEAD_DIM / 2 + 2) * tokens + HEAD_DIM * tokens.div_ceil(2) + 2 * tokens,
    };
    let (header, number) = (word(bytes, 12), word(bytes, 36));
    let (mut left, mut at) = (word(bytes, 72) - word(bytes, 76), header);
    let mut whole = seal(&mut bytes[..header]).to_vec();
    while left > 0 {
        let tokens = left.min(16);
        let len = tokens * 4 + LAYERS * of_layer(number, tokens) + 8;
        whole.extend(seal(&mut bytes[at..at + len]));
        (left, at) = (left - tokens, at + len);
    }
    bytes[at..].copy_from_slice(&xxh64(&whole, 0).to_le_bytes());
}
