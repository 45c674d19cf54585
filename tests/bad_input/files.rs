//! Files that are cut, damaged or slow to read, and files whose tensors do not fit the model.

use std::time::{Duration, Instant};

use gguf_rs_lite::{GgmlType, GgufError};
use gleed::Model;
use gleed::model::ModelError;
use proptest::prelude::*;

use crate::{name, refused, refused_gguf, tiny, tiny_qwen3, try_all};
use common::gguf_writer::GgufWriter;
use common::random::Rng;
use common::synthetic::SyntheticModel;

#[test]
fn the_tiny_models_are_good() {
    assert!(try_all(&tiny().bytes()) && try_all(&tiny_qwen3().bytes()));
}

#[test]
fn truncated() {
    for synthetic in [tiny(), tiny_qwen3()] {
        let file = synthetic.bytes();
        let model = Model::open(&file).unwrap();
        let end = model.gguf().tensors().map(|info| info.offset() + info.data().len()).max().unwrap();
        assert_eq!(refused_gguf(&[]), GgufError::Empty);
        for len in 1..end {
            match refused_gguf(&file[..len]) {
                GgufError::Truncated { .. } | GgufError::Count { .. } => {}
                GgufError::OutOfFile { len: said, .. } => assert_eq!(said, len),
                other => panic!("{len} bytes: {other:?}"),
            }
        }
        assert!(try_all(&file[..end]));
    }
}

/// Files that could be slow to open: many tensors, many of them twice.
#[test]
fn the_largest_models_open_in_linear_time() {
    let large = SyntheticModel { layers: 256, hidden: 2, ffn: 2, heads: 1, head_dim: 2, ..tiny() };
    let mut writer = large.writer();
    let start = Instant::now();
    assert!(Model::open(&writer.finish()).is_ok());
    writer.tensors.resize(50_000, writer.tensors[0].clone());
    let ModelError::TooMany { count: 50_000, limit } = refused(&writer.finish()) else { panic!("50,000 tensors") };
    writer.tensors.truncate(limit);
    assert!(matches!(refused(&writer.finish()), ModelError::DuplicateTensor { .. }));
    writer.tensors.resize(limit + 1, writer.tensors[0].clone());
    assert_eq!(refused(&writer.finish()), ModelError::TooMany { count: limit + 1, limit });
    assert!((18_000..20_000).contains(&limit), "{limit}");
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

#[test]
fn random_bytes() {
    let mut rng = Rng::new(1);
    for len in (0..400).chain([5000, 100_000]) {
        let mut bytes = vec![0; len];
        rng.fill(&mut bytes);
        assert!(!try_all(&bytes));
        // The same bytes after a correct header.
        let header = [&b"GGUF"[..], &3_u32.to_le_bytes(), &3_u64.to_le_bytes(), &2_u64.to_le_bytes()].concat();
        assert!(!try_all(&[header, bytes].concat()));
    }
}

#[test]
fn counts_that_are_too_large() {
    let file = tiny().bytes();
    for at in [8, 16] {
        for count in [u64::MAX, 1 << 63, 1 << 40, 1 << 20] {
            let mut file = file.clone();
            file[at..at + 8].copy_from_slice(&count.to_le_bytes());
            match refused_gguf(&file) {
                GgufError::Count { count: said, .. } => assert_eq!(said, count),
                other => panic!("{other:?}"),
            }
        }
    }
    let mut writer = tiny().writer();
    writer.set("llama.block_count", 257_u32);
    assert_eq!(refused(&writer.finish()), ModelError::TooMany { count: 257, limit: 256 });
    writer.set("llama.block_count", 256_u32);
    assert_eq!(refused(&writer.finish()), ModelError::MissingTensor { tensor: name("blk.2.attn_norm.weight") });
}

#[test]
fn offsets_of_tensors() {
    let file = tiny().bytes();
    let tensor = "blk.1.ffn_up.weight";
    match refused_gguf(&with_offset(&file, tensor, |offset| offset - 32)) {
        GgufError::Overlap { tensor: said, previous_end, offset } => {
            assert_eq!(said, name(tensor));
            assert!(offset < previous_end);
        }
        other => panic!("{other:?}"),
    }
    match refused_gguf(&with_offset(&file, tensor, |offset| offset + 4)) {
        GgufError::Misaligned { tensor: said, alignment: 32, .. } => assert_eq!(said, name(tensor)),
        other => panic!("{other:?}"),
    }
    for far in [1 << 20, 1 << 62, !31_u64] {
        match refused_gguf(&with_offset(&file, "output_norm.weight", |_| far)) {
            GgufError::OutOfFile { tensor, len, .. } => {
                assert_eq!((tensor, len), (name("output_norm.weight"), file.len()))
            }
            other => panic!("{other:?}"),
        }
    }
    for alignment in [0, 3, 48, u32::MAX] {
        let mut writer = tiny().writer();
        writer.set("general.alignment", alignment);
        assert_eq!(refused_gguf(&writer.finish()), GgufError::Alignment { alignment });
    }
    let mut writer = GgufWriter { alignment: 256, ..tiny().writer() };
    assert!(try_all(&writer.finish()));
    writer.version = 4;
    assert_eq!(refused_gguf(&writer.finish()), GgufError::Version { version: 4 });
}

/// Changes the offset of a tensor's data in a file.
fn with_offset(file: &[u8], tensor: &str, change: impl FnOnce(u64) -> u64) -> Vec<u8> {
    let mut file = file.to_vec();
    let at = file.windows(tensor.len()).position(|bytes| bytes == tensor.as_bytes()).unwrap() + tensor.len();
    let dims = u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let at = at + 4 + 8 * dims + 4;
    let offset = u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    file[at..at + 8].copy_from_slice(&change(offset).to_le_bytes());
    file
}

#[test]
fn every_tensor_is_needed_in_its_shape_and_type() {
    for synthetic in [tiny(), tiny_qwen3()] {
        let writer = synthetic.writer();
        for tensor in &writer.tensors {
            let mut changed = writer.clone();
            changed.remove_tensor(&tensor.name);
            if tensor.name == "output.weight" {
                assert!(try_all(&changed.finish()), "the embedding serves as the output");
            } else {
                assert_eq!(refused(&changed.finish()), ModelError::MissingTensor { tensor: name(&tensor.name) });
            }

            let mut changed = writer.clone();
            changed.tensors.push(tensor.clone());
            assert_eq!(refused(&changed.finish()), ModelError::DuplicateTensor { tensor: name(&tensor.name) });

            // The tensor is shorter by one row or element, or has one dimension more.
            let mut changed = writer.clone();
            let shorter = changed.tensor_mut(&tensor.name);
            *shorter.dims.last_mut().unwrap() -= 1;
            let error = refused(&changed.finish());
            if tensor.name != "token_embd.weight" {
                assert_shape(error, &tensor.name);
            }
            let mut changed = writer.clone();
            let deeper = changed.tensor_mut(&tensor.name);
            deeper.dims.push(2);
            deeper.data.extend(deeper.data.clone());
            assert_shape(refused(&changed.finish()), &tensor.name);

            // A type that no kernel computes with, and F16 for a norm.
            let mut changed = writer.clone();
            changed.tensor_mut(&tensor.name).ggml_type = 24;
            let found = GgmlType::from_number(24).unwrap();
            assert_eq!(refused(&changed.finish()), ModelError::TensorType { tensor: name(&tensor.name), found });
            if tensor.dims.len() == 1 {
                changed.tensor_mut(&tensor.name).ggml_type = 1;
                let found = GgmlType::from_number(1).unwrap();
                assert_eq!(refused(&changed.finish()), ModelError::TensorType { tensor: name(&tensor.name), found });
            }
            changed.tensor_mut(&tensor.name).ggml_type = 999;
            assert_eq!(
                refused_gguf(&changed.finish()),
                GgufError::TensorType { tensor: name(&tensor.name), number: 999 }
            );
        }
        for unknown in
            ["blk.0.attn_qkv.bias", "blk.2.attn_q.weight", "blk.00.attn_q.weight", "position_embd.weight", ""]
        {
            let mut changed = writer.clone();
            changed.add_tensor(unknown, &[4], 0, vec![0; 16]);
            assert_eq!(refused(&changed.finish()), ModelError::UnknownTensor { tensor: name(unknown) });
        }
    }
    // Only qwen3 has this tensor.
    let mut writer = tiny().writer();
    writer.add_tensor("blk.0.attn_q_norm.weight", &[4], 0, vec![0; 16]);
    assert_eq!(refused(&writer.finish()), ModelError::UnknownTensor { tensor: name("blk.0.attn_q_norm.weight") });
}

fn assert_shape(error: ModelError, tensor: &str) {
    match error {
        ModelError::TensorShape { tensor: said, .. } => assert_eq!(said, name(tensor)),
        other => panic!("{tensor}: {other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files(damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20)) {
        let mut file = tiny().bytes();
        let length = Model::open(&file).unwrap().gguf().metadata_bytes().len();
        for (index, value) in damage {
            file[index.index(length)] = value;
        }
        try_all(&file);
    }
}
