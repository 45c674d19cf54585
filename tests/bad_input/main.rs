//! Bad files, bad limits and bad calls. Each gives a specific error with the wrong number and never a panic. Afterwards
//! the engine is as if the call had not been made.

mod calls;
mod files;
mod limits;
mod metadata;
mod random_calls;
mod values;

use common::Memory;
use common::playback::{Plain, Player, Stage};
use common::synthetic::SyntheticModel;
use gguf_rs_lite::{GgufError, Name};
use gleed::model::ModelError;
use gleed::{Engine, EngineError, KvKind, KvType, Limits, Model, Plan, SeqId, Step};

/// Returns a model whose file has a few kilobytes.
fn tiny() -> SyntheticModel {
    SyntheticModel {
        hidden: 8,
        ffn: 8,
        layers: 2,
        heads: 2,
        kv_heads: 1,
        head_dim: 4,
        vocab: 9,
        ..SyntheticModel::llama()
    }
}

fn tiny_qwen3() -> SyntheticModel {
    SyntheticModel { architecture: SyntheticModel::qwen3().architecture, ..tiny() }
}

fn refused(file: &[u8]) -> ModelError {
    let error = Model::open(file).expect_err("a bad file was opened");
    assert!(!error.to_string().is_empty());
    error
}

fn refused_gguf(file: &[u8]) -> GgufError {
    match refused(file) {
        ModelError::Gguf(error) => error,
        other => panic!("{other:?}"),
    }
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes())
}

/// Opens, plans and runs a model, if it is not too large for a test. Returns whether it could be opened.
fn try_all(file: &[u8]) -> bool {
    let Ok(model) = Model::open(file) else { return false };
    let limits = Limits { context: 16, rows: 4, ..Limits::default() };
    let Ok(plan) = Plan::new(&model, &limits) else { return true };
    if plan.bytes() > 1 << 24 {
        return true;
    }
    let mut memory = Memory::new(plan.bytes());
    let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
    let seq = engine.open().unwrap();
    match engine.prefill(seq, &[1, 0, 2, 3, 1]).map(|logits| logits.iter().all(|x| x.is_finite())) {
        Ok(finite) => assert!(finite),
        Err(EngineError::NonFinite { layer }) => assert!(layer <= model.config().layers),
        Err(EngineError::Token { .. }) => {}
        Err(other) => panic!("{other:?}"),
    }
    true
}

/// Checks that the calls in `wrong` leave an engine as it was: later rows are the plain ones, and no block is lost.
fn unharmed(model: &Model<'_>, limits: Limits, wrong: impl Fn(&mut Player<'_, '_>, SeqId)) {
    let recorded = Stage::new(limits).play(model, |player| {
        let seq = player.open();
        player.append(seq, &[1, 2, 3, 4, 5]);
        let free = free_blocks(&player.engine);
        wrong(player, seq);
        assert_eq!(free_blocks(&player.engine), free);
        assert_eq!(player.engine.seq_len(seq), Ok(5));
        assert!(!player.engine.is_busy());
        assert_eq!(player.engine.step(usize::MAX), Ok(Step::Idle));
        player.append(seq, &[6, 0]);
        let other = player.open();
        player.append(other, &[3; 17]);
    });
    Plain::new(model, limits.kv_type).assert_same(&recorded, &limits);
}

fn free_blocks(engine: &Engine<'_, '_>) -> usize {
    engine.cache().allocator(0).unwrap().free_blocks()
}

fn small_limits() -> impl Iterator<Item = Limits> {
    let limits = Limits { sequences: 2, context: 40, rows: 4, logit_rows: 4, ..Limits::default() };
    let kinds = KvKind::ALL.into_iter().flat_map(|kind| KvType::ALL.map(|element| (kind, element)));
    kinds.map(move |(kv_kind, kv_type)| Limits { kv_kind, kv_type, ..limits })
}
