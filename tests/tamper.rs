//! Tests of the equality tests: they notice one changed key, one changed value, and rows that are shifted by one
//! position.

use common::playback::{Plain, Stage};
use common::random::Rng;
use common::synthetic::{Architecture, SyntheticModel};
use gleed::{KvKind, KvType, Limits, Model};

/// Keys and values of each layer, packed `[tokens, kv_width]`.
type Cached = Vec<(Vec<f32>, Vec<f32>)>;

const TOKENS: usize = 37;

struct Check<'m> {
    model: Model<'m>,
    limits: Limits,
    prompt: Vec<u32>,
    cached: Cached,
    plain: Plain<'m>,
}

impl<'m> Check<'m> {
    fn new(model: &Model<'m>, kv_kind: KvKind, kv_type: KvType) -> Self {
        let prompt = Rng::new(1).tokens(TOKENS, model.config().vocab);
        let limits = Limits { context: 64, kv_kind, kv_type, ..Limits::default() };
        let mut cached = Vec::new();
        Stage::new(Limits { logit_rows: 64, ..limits }).play(model, |player| {
            let seq = player.open();
            player.append(seq, &prompt);
            let cache = player.engine.cache();
            for layer in 0..cache.num_layers() {
                let len = TOKENS * cache.geometry().kv_width(layer);
                let (mut k, mut v) = (vec![0.0; len], vec![0.0; len]);
                cache.materialize(seq, layer, &mut k, &mut v).unwrap();
                cached.push((k, v));
            }
        });
        Self { model: *model, limits, prompt, cached, plain: Plain::new(model, kv_type) }
    }

    /// Returns whether the equality check passes for tokens that follow these keys and values.
    fn passes(&mut self, cached: &Cached) -> bool {
        let recorded = Stage::new(self.limits).play(&self.model, |player| {
            let seq = player.open();
            let cache = player.engine.cache_mut().unwrap();
            for (layer, (k, v)) in cached.iter().enumerate() {
                cache.set_prefill(seq, layer, k, v).unwrap();
            }
            *player.tokens(seq) = self.prompt.clone();
            [3, 4, 5].iter().for_each(|token| player.append(seq, &[*token]));
        });
        self.plain.difference(&recorded).is_none()
    }
}

fn with_each(mut test: impl FnMut(Check<'_>)) {
    // Layers of two shapes, of which some have no keys and values of their own.
    let gemma4 = SyntheticModel::of(Architecture::Gemma4).with("attention.sliding_window", 200u32);
    for model in [SyntheticModel::llama(), SyntheticModel::qwen3(), gemma4] {
        let file = SyntheticModel { hidden: 32, ffn: 32, vocab: 40, head_dim: 8, ..model }.bytes();
        let model = Model::open(&file).unwrap();
        for kv_type in KvType::ALL {
            for kind in [KvKind::Basic, KvKind::Paged] {
                test(Check::new(&model, kind, kv_type));
            }
        }
    }
}

#[test]
fn what_was_materialized_and_set_back_is_the_same() {
    with_each(|mut check| {
        let cached = check.cached.clone();
        assert!(check.passes(&cached));
    });
}

#[test]
fn one_corrupt_element_is_noticed() {
    with_each(|mut check| {
        let config = *check.model.config();
        for layer in 0..check.cached.len() {
            let shape = config.layer(layer).kv;
            for head in 0..shape.heads {
                for position in [0, 15, 16, TOKENS - 1] {
                    let at = position * shape.width() + head * shape.head_dim + 3;
                    let mut keys = check.cached.clone();
                    keys[layer].0[at] += 0.25;
                    assert!(!check.passes(&keys), "key of layer {layer}, head {head}, position {position}");
                    let mut values = check.cached.clone();
                    values[layer].1[at] += 0.25;
                    assert!(!check.passes(&values), "value of layer {layer}, head {head}, position {position}");
                }
            }
        }
    });
}

#[test]
fn rows_one_position_too_far_are_noticed() {
    with_each(|mut check| {
        for layer in 0..check.cached.len() {
            let width = check.model.config().layer(layer).kv.width();
            let mut cached = check.cached.clone();
            let (k, v) = &mut cached[layer];
            for rows in [k, v] {
                rows.rotate_right(width);
            }
            assert!(!check.passes(&cached), "layer {layer}");
        }
    });
}
