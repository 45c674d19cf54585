//! Layers of several shapes that share keys and values: the last layer for the rows of a prompt, and the shapes that a
//! host sees.

use common::Memory;
use common::random::Rng;
use common::synthetic::{Architecture, SyntheticModel};
use gleed::program::Part;
use gleed::{Engine, KvKind, Limits, Logits, Model, Plan, Step};

/// Returns the file that `tests/cross` computes on other machines. It has two shapes, experts beside a feed-forward
/// part, inputs of layers, and two layers that read keys and values of other layers.
fn committed() -> Vec<u8> {
    let all = SyntheticModel::all();
    let (_, model) = all.iter().find(|(name, _)| *name == "gemma4, all").expect("a model of this name");
    let small = SyntheticModel { hidden: 16, ffn: 16, layers: 5, head_dim: 6, experts: 3, vocab: 40, ..model.clone() };
    small.with("attention.sliding_window", 16u32).bytes()
}

#[test]
fn the_committed_model_is_the_made_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/shapes/gemma4.gguf");
    if std::env::var_os("GLEED_WRITE_FIXTURES").is_some() {
        std::fs::write(path, committed()).unwrap();
    }
    assert!(std::fs::read(path).is_ok_and(|bytes| bytes == committed()), "{path}");
}

/// Returns the units of every layer while `tokens` tokens are computed after `cached` others, in batches of 64 rows.
fn units(file: &[u8], kv_kind: KvKind, cached: usize, tokens: usize, logits: Logits) -> Vec<usize> {
    let model = Model::open(file).unwrap();
    let limits = Limits { context: 128, rows: 64, logit_rows: 64, kv_kind, ..Limits::default() };
    let plan = Plan::new(&model, &limits).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
    let seq = engine.open().unwrap();
    let ids = Rng::new(1).tokens(cached + tokens, model.config().vocab);
    if cached > 0 {
        engine.prefill(seq, &ids[..cached]).unwrap();
    }
    let mut units = vec![0; model.config().layers];
    engine.queue(seq, cached, &ids[cached..], logits).unwrap();
    while engine.is_busy() {
        let next = engine.next_step();
        let _: Step = engine.step(1).unwrap();
        if let Some(Part::Layer(layer)) = next.map(|step| step.part) {
            units[layer] += 1;
        }
    }
    units
}

/// In the layers that keep no keys and values, a prompt costs as much as its last token.
#[test]
fn the_rows_of_a_prompt_stop_after_the_last_layer_that_keeps_something() {
    let sharing = SyntheticModel::of(Architecture::Gemma4);
    let own = sharing.layers - sharing.shared_kv();
    assert_eq!((own, sharing.layers), (3, 6));
    let all = SyntheticModel::all();
    let (_, keeping) = all.iter().find(|(name, _)| *name == "gemma4, dense").expect("a model of this name");
    for kv_kind in [KvKind::Basic, KvKind::Paged] {
        for (model, last_keeping) in [(&sharing, own - 1), (keeping, keeping.layers - 1)] {
            // The window is longer than the prompt.
            let file = model.clone().with("attention.sliding_window", 200u32).bytes();
            let last_token = units(&file, kv_kind, 99, 1, Logits::Last);
            let prompt = units(&file, kv_kind, 0, 100, Logits::Last);
            let all_rows = units(&file, kv_kind, 0, 100, Logits::All);
            for layer in 0..model.layers {
                let (prompt, last_token, all_rows) = (prompt[layer], last_token[layer], all_rows[layer]);
                if layer > last_keeping {
                    assert_eq!(prompt, last_token, "layer {layer}");
                } else {
                    assert!(prompt > 2 * last_token, "layer {layer}: {prompt} {last_token}");
                }
                assert!(all_rows > 2 * last_token, "layer {layer}: {all_rows} {last_token}");
                // In earlier layers, it makes no difference which rows are wanted.
                assert_eq!(prompt == all_rows, layer < last_keeping, "layer {layer}");
            }
        }
    }
}
