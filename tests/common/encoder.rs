//! BERT-like encoders with random weights, made in the test.

use super::gguf_writer::GgufWriter;
use super::random::Rng;
use super::synthetic::encode_f32;

pub const VOCAB: usize = 40;

const POSITIONS: usize = 300;
const FFN: usize = 50;
const EXPERTS: usize = 5;

/// Returns an encoder with 3 heads, which together are as wide as the hidden state. It has 2 layers, or 4 if the layers
/// differ. If `fused` is set, Q, K and V are one matrix (ModernBERT always has one), and in Jina BERT 2 gate and up are
/// one.
pub fn encoder(architecture: &str, head_dim: usize, fused: bool) -> GgufWriter {
    let modern = architecture == "modern-bert";
    let hidden = 3 * head_dim;
    let (layers, mut rng, mut writer) = (if modern { 4 } else { 2 }, Rng::new(9), GgufWriter::default());
    keys(&mut writer, architecture, hidden, layers);
    let mut add = |name: String, dims: &[usize]| {
        let is_norm = name.contains("norm.weight");
        let len = dims.iter().product();
        let values: Vec<f32> = (0..len).map(|_| f32::from(u8::from(is_norm)) + 0.2 * rng.normal()).collect();
        let dims: Vec<u64> = dims.iter().map(|&dim| dim as u64).collect();
        writer.add_tensor(&name, &dims, 0, encode_f32(&values));
    };
    let tables: &[(&str, usize)] = match architecture {
        "bert" => &[("token_embd", VOCAB), ("position_embd", POSITIONS), ("token_types", 2)],
        "modern-bert" => &[("token_embd", VOCAB)],
        _ => &[("token_embd", VOCAB), ("token_types", 2)],
    };
    for (name, rows) in tables {
        add(format!("{name}.weight"), &[hidden, *rows]);
    }
    let mut norm = |name: &str| {
        let ends: &[&str] = if modern { &["weight"] } else { &["weight", "bias"] };
        ends.iter().for_each(|end| add(format!("{name}.{end}"), &[hidden]));
    };
    norm("token_embd_norm");
    for layer in 0..layers {
        let names = if modern { ["attn_norm", "ffn_norm"] } else { ["attn_output_norm", "layer_output_norm"] };
        // The first layer has no `attn_norm`: the embedding's norm takes its place.
        let names = names.into_iter().filter(|&name| layer > 0 || name != "attn_norm");
        names.for_each(|name| norm(&format!("blk.{layer}.{name}")));
    }
    if modern {
        norm("output_norm");
    }
    for layer in 0..layers {
        for (name, dims) in matrices(architecture, hidden, fused, layer) {
            add(format!("blk.{layer}.{name}.weight"), &dims);
            if !modern && dims.len() == 2 && name != "ffn_gate_inp" {
                add(format!("blk.{layer}.{name}.bias"), &dims[1..]);
            }
        }
    }
    writer
}

/// Returns a Jina BERT 2 like the one for code, with a second norm after attention, and norms of queries and keys.
pub fn encoder_of_code(head_dim: usize, fused: bool) -> GgufWriter {
    let (mut writer, mut rng, hidden) = (encoder("jina-bert-v2", head_dim, fused), Rng::new(10), 3 * head_dim);
    for (layer, name) in
        (0..2).flat_map(|layer| ["attn_norm_2", "attn_q_norm", "attn_k_norm"].map(|name| (layer, name)))
    {
        for (end, mean) in [("weight", 1.0), ("bias", 0.0)] {
            let values: Vec<f32> = (0..hidden).map(|_| mean + 0.2 * rng.normal()).collect();
            writer.add_tensor(&format!("blk.{layer}.{name}.{end}"), &[hidden as u64], 0, encode_f32(&values));
        }
    }
    writer
}

fn keys(writer: &mut GgufWriter, architecture: &str, hidden: usize, layers: u32) {
    writer.set("general.architecture", architecture);
    writer.set(&format!("{architecture}.attention.layer_norm_epsilon"), 1e-12_f32);
    let usual = [
        ("block_count", layers),
        ("context_length", POSITIONS as u32),
        ("embedding_length", hidden as u32),
        ("feed_forward_length", FFN as u32),
        ("attention.head_count", 3),
        ("pooling_type", 2),
    ];
    let more: &[(&str, u32)] = match architecture {
        "nomic-bert-moe" => &[("expert_count", EXPERTS as u32), ("expert_used_count", 2), ("moe_every_n_layers", 2)],
        "modern-bert" => &[("attention.sliding_window", 7), ("attention.sliding_window_pattern", 3)],
        _ => &[],
    };
    for (key, value) in usual.iter().chain(more) {
        writer.set(&format!("{architecture}.{key}"), *value);
    }
    if architecture == "modern-bert" {
        writer.set("modern-bert.rope.freq_base", 160_000_f32);
    }
}

/// Returns the names of the matrices of a layer with their dimensions. The first dimension is the length of a row.
fn matrices(architecture: &str, hidden: usize, fused: bool, layer: u32) -> Vec<(&'static str, Vec<usize>)> {
    let mut all: Vec<(&str, Vec<usize>)> = match fused {
        true => vec![("attn_qkv", vec![hidden, 3 * hidden])],
        false => ["attn_q", "attn_k", "attn_v"].map(|name| (name, vec![hidden, hidden])).to_vec(),
    };
    all.push(("attn_output", vec![hidden, hidden]));
    match architecture {
        "nomic-bert-moe" if layer == 1 => all.extend([
            ("ffn_gate_inp", vec![hidden, EXPERTS]),
            ("ffn_up_exps", vec![hidden, FFN, EXPERTS]),
            ("ffn_down_exps", vec![FFN, hidden, EXPERTS]),
        ]),
        "modern-bert" => all.extend([("ffn_up", vec![hidden, 2 * FFN]), ("ffn_down", vec![FFN, hidden])]),
        "jina-bert-v2" if fused => all.extend([("ffn_up", vec![hidden, 2 * FFN]), ("ffn_down", vec![FFN, hidden])]),
        _ => all.extend([("ffn_up", vec![hidden, FFN]), ("ffn_down", vec![FFN, hidden])]),
    }
    if architecture == "nomic-bert" || architecture == "jina-bert-v2" && !fused {
        all.push(("ffn_gate", vec![hidden, FFN]));
    }
    all
}
