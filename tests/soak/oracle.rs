//! Computes a text again with a fresh engine: one sequence, scalar code, no threads, and memory of its own.

use gleed::kernels::Level;
use gleed::model::Adapter;
use gleed::{Engine, KvKind, KvType, Limits, Model, Plan, Window};

use crate::WINDOW;
use common::Memory;

pub(crate) struct Oracle {
    memory: Memory,
    context: usize,
}

impl Oracle {
    /// Returns an oracle with enough memory for each of the models.
    pub(crate) fn new(models: &[&Model<'_>], context: usize) -> Self {
        let kinds = [KvType::F32, KvType::F16, KvType::Q8_0, KvType::Q4_0];
        let bytes = |model: &&Model<'_>| {
            let all = kinds.into_iter().flat_map(|kind| [(kind, Window::ALL), (kind, WINDOW)]);
            all.map(|(kind, window)| Plan::new(model, &limits(kind, window, context)).unwrap().bytes())
                .max()
                .unwrap_or(0)
        };
        Self { memory: Memory::new(models.iter().map(bytes).max().unwrap_or(0)), context }
    }

    /// Returns whether these are the logits behind the tokens.
    pub(crate) fn agrees(
        &mut self,
        (model, adapter, scale): (&Model<'_>, &Adapter<'_>, f32),
        (kv_type, window): (KvType, Window),
        tokens: &[u32],
        logits: &[f32],
    ) -> bool {
        let plan = Plan::new(model, &limits(kv_type, window, self.context)).unwrap();
        let mut engine = Engine::new(model, &plan, self.memory.bytes()).unwrap();
        engine.load_adapter(adapter).unwrap();
        let seq = engine.open().unwrap();
        engine.set_adapter(seq, 0, scale).unwrap();
        let expected = engine.prefill(seq, tokens).unwrap();
        expected.iter().zip(logits).all(|(a, b)| a.to_bits() == b.to_bits()) && expected.len() == logits.len()
    }
}

fn limits(kv_type: KvType, window: Window, context: usize) -> Limits {
    Limits {
        context,
        window,
        rows: 7,
        // With a window, only this kind keeps all tokens.
        kv_kind: if window.is_all() { KvKind::Basic } else { KvKind::Off },
        kv_type,
        level: Level::SCALAR,
        adapters: 1,
        adapter_rank: 2,
        ..Limits::default()
    }
}
