//! Stores keys and values in blocks, and computes attention over them.

use std::ops::Range;

use gleed::cache::{BLOCK_TOKENS, KvElement};
use gleed::device::{AttendView, Row, StoreView};
use gleed::kernels::{CHUNK, ElementsMut, KvTileMut};
use gleed::num::{exp, settle, short, tree16};

use super::ScalarDevice;
use crate::math::LEVEL;

impl ScalarDevice<'_> {
    /// Returns the range of words of a head's K and V tiles, in one layer, in the block that holds a position.
    fn tile(&self, group: usize, layer: usize, head: usize, row: Row, position: usize) -> Range<usize> {
        let layout = &self.layouts[group];
        let block = self.tables[&(group, row.slot())][layout.entry(position / BLOCK_TOKENS)] as usize;
        assert!(block < layout.blocks);
        let start = block * layout.block_bytes / 4 + layout.tile(layer, head);
        start..start + (layout.k_bytes + layout.v_bytes) / 4
    }

    pub(super) fn store(&mut self, view: &StoreView, row: Row, index: usize) -> Option<()> {
        let Some(to) = view.to else { return Some(()) };
        let (layout, slot) = (self.layouts[to.group], row.position as usize % BLOCK_TOKENS);
        let (mut stored, width) = (Some(()), view.heads * view.head_dim);
        for head in 0..view.heads {
            let words = self.tile(to.group, to.layer, head, row, row.position as usize);
            let words = &mut self.pools[to.group][words];
            if slot == 0 {
                words.fill(0);
            }
            let (k, v) = words.split_at_mut(layout.k_bytes / 4);
            let k = ElementsMut::new(layout.element.k, k).unwrap();
            let v = ElementsMut::new(layout.element.v, v).unwrap();
            let start = view.first + head * view.head_dim;
            let part = |start: usize| &self.buffers[index].heads[start..start + view.head_dim];
            let tokens = [[part(start), part(start + width)]];
            stored = stored.and(LEVEL.store(KvTileMut { k, v }, slot, &tokens).ok());
        }
        stored
    }

    pub(super) fn attend(&self, view: &AttendView, row: Row, heads: &[f32]) -> Vec<(Vec<f32>, f32, f32)> {
        let (group, position) = (view.from.group, row.position as usize);
        let layout = &self.layouts[group];
        assert_eq!(heads.len(), view.stride);
        let seen = view.visibility.at(position);
        (0..view.heads)
            .map(|head| {
                let kv_head = head / (view.heads / view.kv_heads);
                let half = |element: KvElement| element == KvElement::F16;
                let q = &heads[head * view.head_dim..][..view.head_dim];
                let round = if half(layout.element.k) { short } else { settle };
                let q: Vec<_> = q.iter().map(|&x| round(x)).collect();
                let (mut values, mut max, mut sum) = (vec![0.0; view.head_dim], f32::NEG_INFINITY, 0.0);
                for chunk in 0..=position / CHUNK {
                    let positions = chunk * CHUNK..((chunk + 1) * CHUNK).min(position + 1);
                    let positions: Vec<_> = positions.filter(|&j| seen.touch(j, j + 1)).collect();
                    if positions.is_empty() {
                        continue;
                    }
                    let tile = |j| {
                        bytemuck::cast_slice::<u32, u8>(
                            &self.pools[group][self.tile(group, view.from.layer, kv_head, row, j)],
                        )
                    };
                    let mut scores: Vec<_> = positions
                        .iter()
                        .map(|&j| {
                            let (tile, element) = (tile(j), layout.element.k);
                            let key =
                                |i| element.key(&tile[..layout.k_bytes], view.head_dim, i, j % BLOCK_TOKENS).unwrap();
                            q.iter().enumerate().fold(0.0, |sum, (i, q)| sum + q * key(i)) * view.scale
                        })
                        .collect();
                    if view.soft_cap > 0.0 {
                        LEVEL.soft_cap(view.soft_cap, &mut scores);
                    }
                    if let Some(slopes) = view.slopes {
                        let slope = slopes.get(head);
                        for (score, &j) in scores.iter_mut().zip(&positions) {
                            *score += slope * (j as f32 - position as f32);
                        }
                    }
                    let peak = scores.iter().fold(f32::NEG_INFINITY, |max, &x| if x > max { x } else { max });
                    let (mut lanes, mut sums) = ([0.0; 16], vec![0.0; view.head_dim]);
                    for (score, &j) in scores.iter().zip(&positions) {
                        let mut p = if score - peak < -27.5 { 0.0 } else { exp(score - peak) };
                        if half(layout.element.v) {
                            p = short(p);
                        }
                        lanes[j % 16] += p;
                        let (tile, element) = (tile(j), layout.element.v);
                        for (i, sum) in sums.iter_mut().enumerate() {
                            *sum +=
                                p * element.value(&tile[layout.k_bytes..], view.head_dim, i, j % BLOCK_TOKENS).unwrap();
                        }
                    }
                    let next = if peak > max { peak } else { max };
                    let (old, new) = (exp(max - next), exp(peak - next));
                    sum = sum * old + tree16(lanes) * new;
                    for (value, sum) in values.iter_mut().zip(sums) {
                        *value = settle(*value * old) + settle(sum * new);
                    }
                    max = next;
                }
                (values, max, sum)
            })
            .collect()
    }
}
