//! A window is a mask. A model may also have its own window.

use gleed::cache::LayerGroups;
use gleed::{KvKind, KvType, Limits, Model, Plan, Window};

use crate::{WINDOWS, limits, sees, small, tokens, with_engine};
use common::reference::Reference;
use common::rel_l2;
use common::synthetic::{Architecture, SyntheticModel};

#[test]
fn a_window_is_a_mask() {
    for window in WINDOWS {
        let file = small(SyntheticModel::llama()).bytes();
        assert_masked(&file, window, move |_, position, j| sees(window, position, j));
        // A model with its own window, in layers of one shape.
        let file = small(SyntheticModel::of(Architecture::Gemma4)).bytes();
        assert_masked(&file, window, move |_, position, j| sees(window, position, j));
    }
}

#[test]
fn the_window_of_a_model() {
    let own = |last| Window { sinks: 0, last };
    for (window, last) in [(Window::ALL, 12), (WINDOWS[1], 30), (WINDOWS[4], 7)] {
        let both = move |_: usize, position: usize, j: usize| sees(window, position, j) && sees(own(last), position, j);
        assert_masked(&windowed_file(last, None), window, both);
        let local = move |layer: usize, position: usize, j: usize| {
            both(0, position, j) || layer % 2 == 1 && sees(window, position, j)
        };
        assert_masked(&windowed_file(last, Some(2)), window, local);
    }
    let config = |window, pattern| *Model::open(&windowed_file(window, pattern)).unwrap().config();
    assert_eq!((config(12, Some(2)).layer_groups, config(12, Some(2)).windows), (LayerGroups::alternating(2), [12, 0]));
    assert_eq!((config(12, None).layer_groups, config(12, None).windows), (LayerGroups::ONE, [12, 12]));
    assert_eq!(config(12, Some(1)).windows, [0, 0]);
    assert_eq!(config(0, Some(2)).windows, [0, 0]);
    let file = windowed_file(12, Some(2));
    let model = Model::open(&file).unwrap();
    assert_eq!(model.with_layer_groups(LayerGroups::ONE).config(), model.config());
}

#[test]
fn windows_that_can_not_be() {
    let file = small(SyntheticModel::llama()).bytes();
    let model = Model::open(&file).unwrap();
    for (sinks, last, valid) in [(0, 150, true), (50, 100, true), (51, 100, false), (4, 0, false), (0, 151, false)] {
        let plan = Plan::new(&model, &limits(Window { sinks, last }, KvKind::Paged, 8));
        assert_eq!(plan.is_ok(), valid, "{sinks} {last}");
        if let Err(error) = plan {
            let text = format!("limit window is {last}, it must be 1 to {}", 150 - sinks);
            assert_eq!(error.to_string(), text);
        }
    }
}

/// Returns a file whose layers have a window of their own. Every `pattern`-th layer sees everything.
fn windowed_file(window: usize, pattern: Option<usize>) -> Vec<u8> {
    let mut writer = small(SyntheticModel::llama()).writer();
    writer.set("llama.attention.sliding_window", window as u32);
    if let Some(pattern) = pattern {
        writer.set("llama.attention.sliding_window_pattern", pattern as u32);
    }
    writer.finish()
}

/// Compares the logits of each token with those of the f64 reference with a mask.
fn assert_masked(file: &[u8], window: Window, sees: impl Fn(usize, usize, usize) -> bool + 'static) {
    let model = Model::open(file).unwrap();
    let tokens = tokens(1, 90);
    let mut reference = Reference::open(file);
    reference.sees = Box::new(sees);
    let expected = reference.logits(&tokens);
    let limits = Limits { kv_type: KvType::F32, ..limits(window, KvKind::Paged, 7) };
    with_engine(&model, &limits, |engine| {
        let seq = engine.open().unwrap();
        let mut worst = 0_f64;
        let check = |position: usize, logits: &[f32]| worst = worst.max(rel_l2(logits, expected.row(position)));
        engine.prefill_rows(seq, &tokens, check).unwrap();
        assert!(worst < 1e-4, "{window:?}: {worst}");
    });
}
