//! Checks after each call: contents, books and statistics.

use gleed::cache::CacheStats;

use crate::{LAYERS, Live, WIDTH, World};

impl World<'_, '_> {
    /// Checks the books, the contents and the statistics.
    pub(crate) fn verify(&self) {
        assert_eq!(self.cache.check(), Ok(()));
        let stats = self.cache.stats();
        assert_eq!(stats.sequences, self.live.len());
        let mut own = [0; 2];
        for live in &self.live {
            let found = self.cache.sequence_stats(live.seq).unwrap();
            assert_eq!(found.tokens, live.rows.len());
            let tables = (live.rows.len() + live.reserved.len()).div_ceil(16);
            for (own, blocks) in own.iter_mut().zip(&found.blocks[..self.groups()]) {
                // The sequence also holds the original of a pending copy.
                assert!((tables..=tables + 1).contains(&(blocks.own + blocks.shared)));
                *own += blocks.own;
            }
            self.verify_contents(live);
        }
        for (group, pool) in stats.pools.iter().enumerate().take(self.groups()) {
            assert_eq!(pool.total, pool.used + pool.free + pool.reclaimable);
            assert!(own[group] <= pool.used && pool.pinned <= pool.used);
            assert_eq!(pool.free, self.cache.allocator(group).unwrap().free_blocks());
        }
    }

    /// Closes and unpins everything. Then every block must be available.
    pub(crate) fn finish(&mut self) {
        while !self.live.is_empty() {
            self.close(0).unwrap();
        }
        while !self.pinned.is_empty() {
            self.unpin().unwrap();
        }
        self.verify();
        for group in 0..self.groups() {
            let allocator = self.cache.allocator(group).unwrap();
            assert_eq!(allocator.available_blocks(), allocator.len());
        }
        assert!(self.cache.stats().pools.iter().all(|pool| pool.used == 0 && pool.pinned == 0));
    }

    pub(crate) fn see(&self) -> Seen {
        let (mut tables, mut blocks) = (Vec::new(), Vec::new());
        for group in 0..self.groups() {
            let allocator = self.cache.allocator(group).unwrap();
            for live in &self.live {
                tables.push(self.cache.block_table(live.seq, group).unwrap().blocks().to_vec());
            }
            for block in 0..allocator.len() as u32 {
                let meta = allocator.meta(block).unwrap();
                let num_tokens = meta.num_tokens();
                blocks.push((meta.ref_count(), meta.pins(), num_tokens, meta.finalized(), meta.is_cached()));
            }
        }
        let lengths = self.live.iter().map(|live| self.cache.seq_len(live.seq).unwrap()).collect();
        Seen { stats: self.cache.stats(), tables, blocks, lengths }
    }

    pub(crate) fn available(&self) -> Vec<usize> {
        (0..self.groups()).map(|group| self.cache.allocator(group).unwrap().available_blocks()).collect()
    }

    fn verify_contents(&self, live: &Live) {
        assert_eq!(self.cache.seq_len(live.seq), Ok(live.rows.len()));
        if !live.reserved.is_empty() {
            // Its last block may be an unfinished copy.
            return;
        }
        for layer in 0..LAYERS {
            let len = live.rows.len() * WIDTH;
            let (mut k, mut v) = (vec![f32::NAN; len], vec![f32::NAN; len]);
            self.cache.materialize(live.seq, layer, &mut k, &mut v).unwrap();
            for (row, (k, v)) in live.rows.iter().zip(k.chunks(WIDTH).zip(v.chunks(WIDTH))) {
                let [wanted_k, wanted_v] = row.k_and_v(layer);
                assert!(wanted_k == k && wanted_v == v, "layer {layer}");
            }
        }
    }
}

/// Everything that a caller can see of the books.
#[derive(Debug, PartialEq)]
pub(crate) struct Seen {
    stats: CacheStats,
    tables: Vec<Vec<u32>>,
    /// References, pins, number of tokens, whether the block is finalized, and whether it is in the prefix cache.
    blocks: Vec<(u32, u32, usize, bool, bool)>,
    lengths: Vec<usize>,
}
