//! Tiny models, adapters for them, and limits.

use std::sync::LazyLock;

use common::gguf_writer::GgufWriter;
use common::random::Rng;
use common::synthetic::{Architecture, SyntheticModel, encode_f32};
use gleed::kernels::Level;
use gleed::{KvElement, KvType, Limits};

/// The default limits and all levels of this machine, computed once. Asking the processor takes a millisecond on a
/// virtual machine, longer than most inputs.
static USUAL: LazyLock<Limits> = LazyLock::new(Limits::default);
pub static LEVELS: LazyLock<Vec<Level>> = LazyLock::new(|| Level::available().collect());

pub fn usual() -> Limits {
    *USUAL
}

/// Element types of keys and values.
pub const ELEMENTS: [KvElement; 4] = [KvElement::F16, KvElement::F32, KvElement::Q8_0, KvElement::Q4_0];

pub fn kv_type(bytes: &mut super::Bytes<'_>) -> KvType {
    KvType { k: *bytes.pick(&ELEMENTS), v: *bytes.pick(&ELEMENTS) }
}

/// Returns a tiny model of an architecture.
pub fn tiny(architecture: Architecture) -> SyntheticModel {
    let usual = SyntheticModel::of(architecture);
    SyntheticModel {
        hidden: 16,
        ffn: 16,
        layers: 2,
        heads: 2,
        kv_heads: 1,
        head_dim: 8,
        vocab: 11,
        context: 80,
        ..usual
    }
}

/// Returns an adapter of rank `rank` for the matrices in the model's layers whose names contain one of `targets`.
pub fn adapter(model: &SyntheticModel, targets: &[&str], rank: u64) -> GgufWriter {
    let mut rng = Rng::new(77);
    let mut writer = GgufWriter::default();
    writer.set("general.type", "adapter").set("adapter.type", "lora").set("adapter.lora.alpha", 4f32);
    writer.set("general.architecture", model.architecture.name());
    for tensor in model.writer().tensors {
        let is_target = targets.iter().any(|target| tensor.name.contains(target));
        let [cols, rows] = tensor.dims[..] else { continue };
        if !is_target || !tensor.name.starts_with("blk.") {
            continue;
        }
        let mut matrix = |len: u64| encode_f32(&(0..len).map(|_| rng.normal() * 0.2).collect::<Vec<f32>>());
        let (a, b) = (matrix(cols * rank), matrix(rows * rank));
        writer.add_tensor(&format!("{}.lora_a", tensor.name), &[cols, rank], 0, a);
        writer.add_tensor(&format!("{}.lora_b", tensor.name), &[rank, rows], 0, b);
    }
    writer
}
