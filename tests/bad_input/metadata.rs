//! Keys that are missing or have wrong values.

use std::time::{Duration, Instant};

use gleed::Model;
use gleed::model::ModelError;

use crate::{name, refused, tiny, tiny_qwen3, try_all};
use common::gguf_writer::{GgufWriter, Meta};
use common::synthetic::{Architecture, SyntheticModel};

#[test]
fn keys() {
    let writer = tiny().writer();
    let missing = |key: &str| {
        let mut changed = writer.clone();
        changed.remove(key);
        Model::open(&changed.finish()).map(drop)
    };
    let needed = [
        "general.architecture",
        "llama.block_count",
        "llama.context_length",
        "llama.embedding_length",
        "llama.feed_forward_length",
        "llama.attention.head_count",
        "llama.attention.layer_norm_rms_epsilon",
    ];
    for (key, _) in &writer.metadata {
        match missing(key) {
            Err(ModelError::MissingKey { key: said }) => {
                assert_eq!(said, name(key));
                assert!(needed.contains(&key.as_str()), "{key}");
            }
            Err(ModelError::TensorShape { .. }) => assert_eq!(key, "llama.attention.head_count_kv"),
            Err(other) => panic!("{key}: {other:?}"),
            Ok(()) => assert!(!needed.contains(&key.as_str()), "{key}"),
        }
    }
    let mut changed = writer.clone();
    changed.set("general.architecture", "mamba");
    assert_eq!(refused(&changed.finish()), ModelError::Architecture { name: name("mamba") });
    changed.set("general.architecture", 3_u32);
    assert_eq!(refused(&changed.finish()), ModelError::BadValue { key: name("general.architecture") });
}

#[test]
fn hyperparameters() {
    let writer = tiny().writer();
    wrong_sizes(&writer);
    wrong_floats(&writer);
    let unsupported = [
        ("rope.scaling.type", Meta::from("su")),
        ("expert_shared_count", Meta::from(1_u32)),
        ("expert_shared_feed_forward_length", Meta::from(8_u32)),
        ("leading_dense_block_count", Meta::from(1_u32)),
        ("expert_gating_func", Meta::from(4_u32)),
        ("attention.temperature_scale", Meta::from(0.1_f32)),
        ("logit_scale", Meta::from(2.0_f32)),
        ("attention.causal", Meta::from(false)),
        ("attention.sliding_window_pattern", Meta::from("every second")),
    ];
    for (key, value) in unsupported {
        let mut changed = writer.clone();
        let key = format!("llama.{key}");
        changed.set(&key, value).set("llama.attention.sliding_window", 9_u32);
        assert_eq!(refused(&changed.finish()), ModelError::Unsupported { key: name(&key) });
    }
    let mut changed = writer.clone();
    changed.set("llama.expert_count", 4_u32);
    assert_eq!(refused(&changed.finish()), ModelError::MissingKey { key: name("llama.expert_used_count") });
    changed.set("llama.expert_used_count", 5_u32);
    assert_eq!(refused(&changed.finish()), ModelError::BadValue { key: name("llama.expert_used_count") });
    changed.set("llama.expert_used_count", 2_u32);
    assert!(matches!(refused(&changed.finish()), ModelError::UnknownTensor { .. }));
    let mut changed = writer.clone();
    changed.set("llama.rope.scaling.type", "linear").set("llama.rope.scaling.factor", 0.0_f32);
    assert_eq!(refused(&changed.finish()), ModelError::BadValue { key: name("llama.rope.scaling.factor") });
    changed.set("llama.rope.scaling.type", "yarn").set("llama.rope.scaling.factor", 4.0_f32);
    changed.set("llama.rope.scaling.yarn_log_multiplier", 0.7_f32);
    let key = name("llama.rope.scaling.yarn_log_multiplier");
    assert_eq!(refused(&changed.finish()), ModelError::Unsupported { key });
}

/// Wrong values of keys that only some architectures read.
#[test]
fn hyperparameters_of_newer_families() {
    let experts = SyntheticModel::of(Architecture::Ernie45Moe).writer();
    let with = |key: &str, value: u32| {
        let mut changed = experts.clone();
        changed.set(key, value);
        refused(&changed.finish())
    };
    let step = "ernie4_5-moe.interleave_moe_layer_step";
    assert_eq!(with(step, 2), ModelError::Unsupported { key: name(step) });
    let dense = "ernie4_5-moe.leading_dense_block_count";
    assert_eq!(with(dense, 4), ModelError::BadValue { key: name(dense) });
    assert!(matches!(with(dense, 2), ModelError::UnknownTensor { .. } | ModelError::MissingTensor { .. }));
    let mut changed = SyntheticModel::of(Architecture::Mistral3).writer();
    changed.remove("mistral3.rope.scaling.original_context_length");
    let original = name("mistral3.rope.scaling.original_context_length");
    assert_eq!(refused(&changed.finish()), ModelError::MissingKey { key: original });
}

/// Checks values that are no whole numbers, and sizes that no model has.
fn wrong_sizes(writer: &GgufWriter) {
    let sizes = [
        "block_count",
        "context_length",
        "embedding_length",
        "feed_forward_length",
        "attention.head_count",
        "attention.head_count_kv",
        "attention.key_length",
        "attention.value_length",
        "rope.dimension_count",
    ];
    let wrong: Vec<Meta> = vec![
        0_u32.into(),
        (-3_i32).into(),
        u64::MAX.into(),
        (1_u64 << 32).into(),
        f32::NAN.into(),
        1.5_f32.into(),
        "8".into(),
        true.into(),
        vec![8_u32, 4].into(),
    ];
    for key in sizes {
        let key = format!("llama.{key}");
        for value in &wrong {
            let mut changed = writer.clone();
            changed.set(&key, value.clone());
            match refused(&changed.finish()) {
                ModelError::BadValue { key: said } => assert_eq!(said, name(&key), "{value:?}"),
                // For some keys, a value per layer is a valid form that is not supported.
                ModelError::Unsupported { key: said } if matches!(value, Meta::Array(..)) => {
                    assert_eq!(said, name(&key));
                }
                // The metadata has layers of two widths, but all tensors have one.
                ModelError::TensorShape { expected: [4, _], .. } if key == "llama.feed_forward_length" => {}
                other => panic!("{key} = {value:?}: {other:?}"),
            }
        }
        // Values that are possible, but do not fit the rest, or are larger than in any model.
        for value in [3_u32, 5, 77, 1 << 20, 1 << 25, u32::MAX] {
            let mut changed = writer.clone();
            changed.set(&key, value);
            let file = changed.finish();
            assert_eq!(try_all(&file), key == "llama.context_length", "{key} = {value}");
        }
    }
}

/// Checks real numbers outside of 2^-64 to 2^64.
fn wrong_floats(writer: &GgufWriter) {
    let floats = ["attention.layer_norm_rms_epsilon", "rope.freq_base"];
    for key in floats {
        let key = format!("llama.{key}");
        let (least, largest) = (2.0_f32.powi(-64), 2.0_f32.powi(64));
        let beyond = [f32::MAX, f32::MIN_POSITIVE, 1e-45, least.next_down(), largest.next_up()];
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, -1e-5].into_iter().chain(beyond) {
            let mut changed = writer.clone();
            changed.set(&key, value);
            assert_eq!(refused(&changed.finish()), ModelError::BadValue { key: name(&key) }, "{value}");
        }
        for value in [least, 1e-12, largest] {
            let mut changed = writer.clone();
            changed.set(&key, value);
            assert!(try_all(&changed.finish()));
        }
        let mut changed = writer.clone();
        changed.set(&key, 1e300_f64);
        assert_eq!(refused(&changed.finish()), ModelError::BadValue { key: name(&key) });
    }
}

/// Flips every bit before the tensors' data, one at a time.
#[test]
fn flipped_bits_of_the_metadata() {
    for synthetic in [tiny(), tiny_qwen3()] {
        let mut file = SyntheticModel { layers: 1, ..synthetic }.bytes();
        let length = Model::open(&file).unwrap().gguf().metadata_bytes().len();
        let mut opened = 0;
        for bit in 0..length * 8 {
            file[bit / 8] ^= 1 << (bit % 8);
            let start = Instant::now();
            opened += usize::from(try_all(&file));
            assert!(start.elapsed() < Duration::from_secs(5), "bit {bit}");
            file[bit / 8] ^= 1 << (bit % 8);
        }
        // Many bits are in the vocabulary, which only the tokenizer reads.
        assert!(opened > 0 && opened < length * 8, "{opened} of {}", length * 8);
    }
}
