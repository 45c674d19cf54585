//! The logits that the plainest engine computes: with one sequence, scalar code and nothing shared.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use gleed::kernels::Level;
use gleed::model::Adapter;
use gleed::{Engine, KvKind, Limits, Model, Plan};
use xxhash_rust::xxh64::xxh64;

use super::RANK;
use crate::support::{Exact, allowed, usual};

/// A token, and the bits of the adapter's scale with which it was computed.
pub type Scaled = (u32, u32);

/// Hashes of the logits of all runs so far. The key is a hash of the tokens and of everything else that decides about
/// bits.
static KNOWN: LazyLock<Mutex<HashMap<u64, u64>>> = LazyLock::new(Mutex::default);
const MOST_KNOWN: usize = 2_000_000;

pub struct Oracle<'m> {
    pub model: Model<'m>,
    pub adapter: Option<Adapter<'m>>,
    limits: Limits,
    salt: u64,
}

pub fn hash(logits: &[f32]) -> u64 {
    xxh64(bytemuck::cast_slice(logits), 1)
}

impl<'m> Oracle<'m> {
    pub fn new(which: usize, model: Model<'m>, adapter: Option<Adapter<'m>>, limits: &Limits) -> Self {
        let decides = format!("{which} {} {:?} {:?}", adapter.is_some(), limits.kv_type, limits.window);
        Self { model, adapter, limits: *limits, salt: xxh64(decides.as_bytes(), 0) }
    }

    /// Returns the hash of the logits behind these tokens. With a window, all tokens must have one scale.
    pub fn row(&self, tokens: &[Scaled]) -> u64 {
        allowed(|| {
            let known = KNOWN.lock().expect("no run has panicked").get(&self.key(tokens)).copied();
            known.unwrap_or_else(|| {
                self.compute(tokens);
                KNOWN.lock().expect("no run has panicked")[&self.key(tokens)]
            })
        })
    }

    fn key(&self, tokens: &[Scaled]) -> u64 {
        let flat: Vec<u32> = tokens.iter().flat_map(|&(token, scale)| [token, scale]).collect();
        xxh64(bytemuck::cast_slice(&flat), self.salt)
    }

    fn compute(&self, tokens: &[Scaled]) {
        let window = self.limits.window;
        let limits = Limits {
            context: tokens.len().max(window.sinks + window.last),
            window,
            rows: 7,
            logit_rows: 7,
            // With a window, only this kind keeps all tokens.
            kv_kind: if window.is_all() { KvKind::Basic } else { KvKind::Off },
            kv_type: self.limits.kv_type,
            level: Level::SCALAR,
            adapters: usize::from(self.adapter.is_some()),
            adapter_rank: RANK,
            ..usual()
        };
        let plan = Plan::new(&self.model, &limits).expect("limits that are possible");
        let mut memory = Exact::new(plan.bytes(), 0);
        let mut engine = Engine::new(&self.model, &plan, memory.bytes()).expect("memory of the plan");
        if let Some(adapter) = &self.adapter {
            engine.load_adapter(adapter).expect("an adapter that fits");
        }
        let seq = engine.open().expect("the only one");
        let mut known = KNOWN.lock().expect("no run has panicked");
        if known.len() > MOST_KNOWN {
            known.clear();
        }
        for part in tokens.chunk_by(|a, b| a.1 == b.1) {
            if self.adapter.is_some() {
                engine.set_adapter(seq, 0, f32::from_bits(part[0].1)).expect("a scale that was taken before");
            }
            let ids: Vec<u32> = part.iter().map(|&(token, _)| token).collect();
            let row = |position: usize, logits: &[f32]| {
                known.insert(self.key(&tokens[..=position]), hash(logits));
            };
            engine.prefill_rows(seq, &ids, row).expect("tokens that were taken before");
        }
    }
}
