//! The properties of a model, and the memory that a sequence needs.

use std::io::{self, Write};

use gleed::KvType;
use gleed::model::{Config, FeedForward, Mixer};

/// Number of tokens in a block of keys and values.
const BLOCK: usize = 16;

pub(crate) fn describe(out: &mut impl Write, config: &Config) -> io::Result<()> {
    let Config { architecture, layers, hidden, ffn, vocab, context, .. } = config;
    writeln!(out, "Model")?;
    writeln!(out, "  architecture {architecture}, {layers} layers, width {hidden}, feed-forward {ffn}")?;
    heads(out, config)?;
    if let FeedForward { experts: experts @ 1.., experts_used, expert_width, shared_width, .. } = config.feed_forward {
        let shared = if shared_width > 0 { format!(", and a shared one of {shared_width}") } else { String::new() };
        writeln!(out, "  {experts} experts of width {expert_width}, {experts_used} for each token{shared}")?;
    }
    if config.embedding.per_layer > 0 {
        writeln!(out, "  {} elements of each token for every layer", config.embedding.per_layer)?;
    }
    memory(out, config)?;
    writeln!(out, "  trained on {context} tokens at a time, {vocab} logits\n")
}

/// Prints the heads of queries, keys and values, by kind of layer.
fn heads(out: &mut impl Write, config: &Config) -> io::Result<()> {
    let [local, global] = config.kv_shapes;
    let kinds = if local == global { vec![(local, "")] } else { vec![(local, " with a window"), (global, " without")] };
    for (kv, which) in kinds {
        writeln!(
            out,
            "  {} query heads, {} key/value heads, {} elements each{which}",
            config.heads, kv.heads, kv.head_dim
        )?;
    }
    Ok(())
}

/// Prints the memory of a token and of a sequence: keys and values in f16, and states.
fn memory(out: &mut impl Write, config: &Config) -> io::Result<()> {
    for group in 0..config.layer_groups.count() {
        let own = |&layer: &usize| config.has_kv(layer) && config.layer_groups.group(layer) == group;
        let (kv, count) = (config.kv_shapes[group], (0..config.layers).filter(own).count());
        let KvType { k, v } = KvType::F16;
        let tile = k.k_tile(kv.head_dim).unwrap_or(0) + v.v_tile(kv.head_dim).unwrap_or(0);
        let bytes = count * kv.heads * tile / BLOCK;
        match config.windows[group] {
            _ if count == 0 => {}
            0 => writeln!(out, "  {count} layers keep {bytes} bytes of keys and values of each token in f16")?,
            window => writeln!(
                out,
                "  {count} layers keep {bytes} bytes of keys and values of each of the last {window} tokens in f16"
            )?,
        }
    }
    let shared = config.attention_layers.before(config.layers) - config.kv_layers();
    if shared > 0 {
        writeln!(out, "  {shared} layers read the keys and values of other layers")?;
    }
    if config.recurrent.mixer != Mixer::None {
        let layers = config.recurrent.layers.before(config.layers);
        let bytes = 4 * config.recurrent.state_elements();
        writeln!(out, "  {layers} layers with a state: {bytes} bytes for a sequence, and for each checkpoint")?;
    }
    Ok(())
}
