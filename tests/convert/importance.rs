//! Importance matrices: both forms of the file, files that are written with them, and refusals.

use std::path::{Path, PathBuf};

use gguf_rs_lite::{Gguf, TensorInfo};
use gleed::Model;
use gleed::tensor::Dtype;

use crate::quantize::quantize;
use crate::refused::refused;
use crate::{convert, converted, scratch};
use common::gguf_writer::GgufWriter;
use common::random::Rng;
use common::synthetic::SyntheticModel;

/// Importance of a matrix: its name, its number of experts, and the importance of the columns of all experts.
type Entry = (String, usize, Vec<f32>);

/// Returns an entry for each matrix in a layer, as `llama-imatrix` makes them.
pub(crate) fn entries(model: &[u8]) -> Vec<Entry> {
    let mut rng = Rng::new(31);
    let gguf = Gguf::parse(model).unwrap();
    let in_layers = |info: &TensorInfo<'_>| info.name().starts_with("blk.") && info.dims().len() > 1;
    let entry = |info: TensorInfo<'_>| {
        let experts = info.dims().get(2).map_or(1, |&experts| experts as usize);
        let importance = (0..info.dims()[0] as usize * experts).map(|_| rng.uniform().powi(4)).collect();
        (info.name().to_owned(), experts, importance)
    };
    gguf.tensors().filter(in_layers).map(entry).collect()
}

/// Returns the GGUF form of the file, with 4 tokens per expert.
pub(crate) fn gguf(entries: &[Entry]) -> GgufWriter {
    let mut writer = GgufWriter::default();
    writer.set("general.type", "imatrix").set("imatrix.datasets", vec!["texts.txt".to_owned()]);
    writer.set("imatrix.chunk_count", 7_u32).set("imatrix.chunk_size", 512_u32);
    for (name, experts, importance) in entries {
        let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let sums: Vec<f32> = importance.iter().map(|value| 4.0 * value).collect();
        let (cols, rows) = ((importance.len() / experts) as u64, *experts as u64);
        writer.add_tensor(&format!("{name}.in_sum2"), &[cols, rows], 0, bytes(&sums));
        writer.add_tensor(&format!("{name}.counts"), &[1, rows], 0, bytes(&vec![4.0; *experts]));
    }
    writer
}

/// Returns the older form of the file, with 8 calls.
fn dat(entries: &[Entry]) -> Vec<u8> {
    let int = |number: usize| (number as i32).to_le_bytes();
    let mut out = int(entries.len()).to_vec();
    for (name, _, importance) in entries {
        out.extend(int(name.len()));
        out.extend(name.as_bytes());
        out.extend(int(8));
        out.extend(int(importance.len()));
        importance.iter().for_each(|value| out.extend((8.0 * value).to_le_bytes()));
    }
    out.extend(int(7));
    out.extend(int(9));
    out.extend(b"texts.txt");
    out
}

fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = scratch(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Runs `convert` with an importance matrix. Returns the file and the messages.
pub(crate) fn with(input: &Path, kind: &str, imatrix: &Path) -> (Vec<u8>, String) {
    let out = scratch("important.gguf");
    let said = convert(input, &out, &["--type", kind, "--imatrix", imatrix.to_str().unwrap()]).unwrap();
    let file = std::fs::read(&out).unwrap();
    std::fs::remove_file(out).unwrap();
    (file, said)
}

/// Each row of all matrices, including experts, is what the quantizer writes with the row's importance.
#[test]
fn rows_have_the_importance_of_their_expert() {
    let model = SyntheticModel { layers: 1, ..SyntheticModel::mixtral() }.bytes();
    let entries = entries(&model);
    assert!(entries.iter().any(|(_, experts, _)| *experts == 4));
    let input = file("mixtral.gguf", &model);
    let newer = with(&input, "q4_0", &file("imatrix.gguf", &gguf(&entries).finish()));
    let older = with(&input, "q4_0", &file("imatrix.dat", &dat(&entries)));
    let (newer, older, model) =
        (Gguf::parse(&newer.0).unwrap(), Gguf::parse(&older.0).unwrap(), Gguf::parse(&model).unwrap());
    for info in model.tensors().filter(|info| info.dims().len() > 1 && !info.name().contains("gate_inp")) {
        let entry = entries.iter().find(|(name, ..)| name == info.name());
        let (cols, rows) = (info.dims()[0] as usize, info.dims()[1] as usize);
        let x: Vec<f32> = info.data().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let mut wanted = Vec::new();
        for (row, x) in x.chunks(cols).enumerate() {
            let importance = entry.map(|(.., importance)| &importance[row / rows * cols..][..cols]);
            let mut blocks = vec![0; Dtype::Q4_0.row_bytes(cols).unwrap()];
            quantize(Dtype::Q4_0, x, importance, &mut blocks).unwrap();
            wanted.extend(blocks);
        }
        for made in [&newer, &older] {
            assert!(made.tensor(info.name()).unwrap().data() == wanted, "{}", info.name());
        }
    }
    for made in [&newer, &older] {
        let text = |key: &str| made.get(key).unwrap().as_str().unwrap();
        assert!(text("quantize.imatrix.file").contains("imatrix."));
        assert_eq!(text("quantize.imatrix.dataset"), "texts.txt");
        let number = |key: &str| made.get(key).unwrap().as_u64().unwrap();
        assert_eq!(number("quantize.imatrix.entries_count"), entries.len() as u64);
        assert_eq!(number("quantize.imatrix.chunks_count"), 7);
    }
}

/// `convert` names matrices without an entry. In an expert that no token went to, all columns count the same.
#[test]
fn entries_that_are_not_there() {
    let model = SyntheticModel { layers: 1, ..SyntheticModel::mixtral() }.bytes();
    let input = file("mixtral.gguf", &model);
    let mut entries = entries(&model);
    entries.retain(|(name, ..)| name != "blk.0.attn_k.weight");
    let mut writer = gguf(&entries);
    let (made, said) = with(&input, "q4_0", &file("imatrix.gguf", &writer.finish()));
    let names = "3 matrices are not in the importance matrix: token_embd.weight, output.weight, blk.0.attn_k.weight";
    assert!(names.split(' ').all(|word| said.contains(word.trim_end_matches(','))), "{said}");

    let counts = &mut writer.tensor_mut("blk.0.ffn_up_exps.weight.counts").data;
    counts[4..8].fill(0);
    let (other, _) = with(&input, "q4_0", &file("imatrix.gguf", &writer.finish()));
    let (made, other) = (Gguf::parse(&made).unwrap(), Gguf::parse(&other).unwrap());
    let experts = |gguf: &Gguf<'_>| {
        let data = gguf.tensor("blk.0.ffn_up_exps.weight").unwrap().data().to_vec();
        data.chunks(data.len() / 4).map(<[u8]>::to_vec).collect::<Vec<_>>()
    };
    let same: Vec<bool> = experts(&made).iter().zip(experts(&other)).map(|(a, b)| *a == b).collect();
    assert_eq!(same, [true, false, true, true]);
}

/// Each wrong file is refused before anything is written.
#[test]
fn wrong_importance_matrices() {
    let model = SyntheticModel { layers: 1, ..SyntheticModel::llama() }.bytes();
    let input = file("llama.gguf", &model);
    let entries = entries(&model);
    let refuse = |bytes: &[u8], kind: &str, words: &str| {
        let path = file("wrong.imatrix", bytes);
        refused(&input, &["--type", kind, "--imatrix", path.to_str().unwrap()], words);
    };
    let changed = |change: &dyn Fn(&mut GgufWriter)| {
        let mut writer = gguf(&entries);
        change(&mut writer);
        writer.finish()
    };
    let set = |name: &str, value: f32| {
        let put = |writer: &mut GgufWriter| writer.tensor_mut(name).data[8..12].copy_from_slice(&value.to_le_bytes());
        changed(&put)
    };
    let sums = "blk.0.attn_q.weight.in_sum2";
    refuse(&set(sums, f32::NAN), "q4_0", "blk.0.attn_q.weight: the value NaN of column 2 is no importance");
    refuse(&set(sums, -4.0), "q4_0", "blk.0.attn_q.weight: the value -1 of column 2 is no importance");
    refuse(&set(sums, f32::INFINITY), "q4_0", "the value inf of column 2");
    let without = |name: &'static str| changed(&move |writer| _ = writer.remove_tensor(name));
    refuse(&without("blk.0.attn_q.weight.counts"), "q4_0", "blk.0.attn_q.weight: it has sums, but no counts");
    let halves = changed(&|writer| writer.tensor_mut("blk.0.attn_q.weight.in_sum2").ggml_type = 1);
    refuse(&halves[..], "q4_0", "blk.0.attn_q.weight.in_sum2: its type is F16, not F32");
    let wide = changed(&|writer| {
        let tensor = writer.tensor_mut("blk.0.ffn_down.weight.in_sum2");
        (tensor.dims, tensor.data) = (vec![32, 1], vec![0; 128]);
    });
    let words = "blk.0.ffn_down.weight: the importance matrix has 32 values for it, but it has 96 columns";
    refuse(&wide, "q4_0", words);
    refuse(&model, "q4_0", "it is no importance matrix: no tensor's name ends in .in_sum2");
    let mut other = entries.clone();
    other.iter_mut().for_each(|(name, ..)| name.insert(0, 'x'));
    refuse(&dat(&other), "q4_0", "none of its 7 entries is a matrix of the model; the first is xblk.0.attn_k.weight");
    refuse(b"some text", "q4_0", "is damaged, or the file is cut off");
    refuse(b"\0\0\0\0", "q4_0", "it is no importance matrix: it does not begin with a number of entries");
    refused(&input, &["--type", "q4_0", "--imatrix", "/nowhere"], "/nowhere: ");
    let path = file("imatrix.gguf", &gguf(&entries).finish());
    let error = convert(&input, &scratch("x.gguf"), &["--imatrix", path.to_str().unwrap()]).unwrap_err();
    assert!(error.contains("--type"), "{error}");
}

/// Every cut of a file is refused, except a cut behind all entries.
#[test]
fn cut_files() {
    let model = SyntheticModel { layers: 1, ..SyntheticModel::llama() }.bytes();
    let input = file("llama.gguf", &model);
    let entries = entries(&model);
    let whole = dat(&entries);
    for len in [1, 3, 4, 7, 8, 20, 27, 31, 35, 100, whole.len() - 18, whole.len() / 2] {
        let path = file("cut.dat", &whole[..len]);
        let words = if len < 4 { "does not begin with a number" } else { "cut off" };
        refused(&input, &["--type", "q4_0", "--imatrix", path.to_str().unwrap()], words);
    }
    let (all, _) = with(&input, "q4_0", &file("whole.dat", &whole));
    let (cut, _) = with(&input, "q4_0", &file("whole.dat", &whole[..whole.len() - 17]));
    let data = |file: &[u8]| Gguf::parse(file).unwrap().tensor("blk.0.attn_q.weight").unwrap().data().to_vec();
    assert!(data(&all) == data(&cut));
    let newer = gguf(&entries).finish();
    let path = file("cut.gguf", &newer[..newer.len() / 2]);
    refused(&input, &["--type", "q4_0", "--imatrix", path.to_str().unwrap()], "cut.gguf: ");
}

/// A type that needs an importance matrix is refused without the file, or without an entry for a matrix.
#[test]
fn types_that_need_one() {
    let demo = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/assets/gleed-tales-q8_0.gguf"));
    let words = "blk.0.attn_q.weight: IQ2_XS needs an importance matrix, which --imatrix gives";
    refused(demo, &["--type", "iq2_xs"], words);
    let mut entries = entries(&std::fs::read(demo).unwrap());
    entries.retain(|(name, ..)| name != "blk.1.ffn_up.weight");
    let path = file("imatrix.gguf", &gguf(&entries).finish());
    let words = "blk.1.ffn_up.weight: IQ2_XS needs an importance matrix, which has no entry for it";
    refused(demo, &["--type", "iq2_xs", "--imatrix", path.to_str().unwrap()], words);
    // Its rows are no whole super-blocks, so its matrices become IQ4_NL.
    let small = file("llama.gguf", &SyntheticModel { layers: 1, ..SyntheticModel::llama() }.bytes());
    let out = scratch("small.gguf");
    let said = convert(&small, &out, &["--type", "iq2_xs"]).unwrap();
    assert!(said.contains("6 matrices are IQ4_NL: rows of 64 are no whole number of blocks of IQ2_XS"), "{said}");
    std::fs::remove_file(out).unwrap();
}

/// Scales beside matrices, as in files of NVFP4 made from some checkpoints, are kept.
#[test]
fn scales_beside_matrices_are_kept() {
    let mut writer = SyntheticModel { layers: 1, ..SyntheticModel::llama() }.writer();
    let scale = 0.5_f32.to_le_bytes().to_vec();
    writer.add_tensor("blk.0.ffn_down.scale", &[1], 0, scale.clone());
    let file = converted(&file("scaled.gguf", &writer.finish()), &["--type", "q8_0"]);
    let gguf = Gguf::parse(&file).unwrap();
    assert_eq!(gguf.tensor("blk.0.ffn_down.weight").unwrap().ggml_type().name(), "Q8_0");
    assert_eq!(gguf.tensor("blk.0.ffn_down.scale").unwrap().data(), scale);
    assert!(Model::open(&file).is_ok());
}
