//! Models whose tokens see later tokens, too: vectors of texts, the heads behind the pooling, and refusals.

use common::encoder::{VOCAB, encoder, encoder_of_code};
use common::gguf_writer::{GgufWriter, Meta};
use common::random::Rng;
use common::reference::Reference;
use common::synthetic::{SyntheticModel, encode_f32};
use common::{Memory, rel_l2};
use gleed::engine::PlanError;
use gleed::host::ThreadPool;
use gleed::kernels::Level;
use gleed::model::ModelError;
use gleed::{Engine, EngineError, KvKind, KvType, Limits, Logits, Model, Plan, Pooling, SeqId, Step, Window};

/// Returns a llama without a causal mask.
fn llama() -> GgufWriter {
    let model = SyntheticModel { hidden: 32, ffn: 64, vocab: VOCAB, head_dim: 10, ..SyntheticModel::llama() };
    model.with("attention.causal", false).writer()
}

/// Returns an EmbeddingGemma with a window of 7.
fn gemma() -> GgufWriter {
    use common::synthetic::Architecture::Gemma3;
    let model = SyntheticModel { hidden: 32, ffn: 64, vocab: VOCAB, head_dim: 10, ..SyntheticModel::of(Gemma3) };
    renamed(model.with("attention.sliding_window", 7u32).writer(), "gemma3", "gemma-embedding")
}

/// Returns a NeoBERT or EuroBERT, which has the tensors of a llama.
fn like_llama(name: &str) -> GgufWriter {
    let mut writer = renamed(llama(), "llama", name);
    writer.metadata.retain(|(key, _)| !key.ends_with("attention.causal"));
    if name == "neo-bert" {
        writer.tensor_mut("output_norm.weight").name = "enc.output_norm.weight".into();
    }
    writer
}

/// Returns the same file with another architecture's name.
fn renamed(mut writer: GgufWriter, from: &str, to: &str) -> GgufWriter {
    for (key, value) in &mut writer.metadata {
        *key = key.replace(&format!("{from}."), &format!("{to}."));
        if key == "general.architecture" {
            *value = Meta::String(to.as_bytes().to_vec());
        }
    }
    writer
}

/// Returns a BERT of odd sizes: 27 wide, 3 heads of 9, 2 layers, 300 positions. With `fused`, Q, K and V are one
/// matrix.
fn bert(fused: bool) -> GgufWriter {
    encoder("bert", 9, fused)
}

/// Returns models of all kinds, with their names.
fn models() -> [(&'static str, GgufWriter); 15] {
    [
        ("llama", llama()),
        ("gemma-embedding", gemma()),
        ("bert", bert(false)),
        ("bert, one matrix", bert(true)),
        ("nomic-bert", encoder("nomic-bert", 8, true)),
        ("nomic-bert-moe", encoder("nomic-bert-moe", 8, true)),
        ("jina-bert-v2", encoder("jina-bert-v2", 9, false)),
        ("jina-bert-v2, one matrix", encoder("jina-bert-v2", 9, true)),
        ("jina-bert-v2 of code", encoder_of_code(9, false)),
        ("jina-bert-v2 of code, one matrix", encoder_of_code(8, true)),
        ("jina-bert-v3", encoder("jina-bert-v3", 8, true)),
        ("modern-bert", encoder("modern-bert", 8, true)),
        ("neo-bert", like_llama("neo-bert")),
        ("eurobert", like_llama("eurobert")),
        ("llama-embed", like_llama("llama-embed")),
    ]
}

fn with_engine<R>(file: &[u8], limits: Limits, play: impl FnOnce(&mut Engine<'_, '_>) -> R) -> R {
    let model = Model::open(file).unwrap();
    let plan = Plan::new(&model, &limits).unwrap();
    let mut memory = Memory::new(plan.bytes());
    play(&mut Engine::new(&model, &plan, memory.bytes()).unwrap())
}

fn limits(rows: usize) -> Limits {
    Limits { sequences: 4, context: 300, rows, kv_type: KvType::F32, level: Level::SCALAR, ..Limits::default() }
}

/// Returns the hidden states of a text that is computed alone, in steps of `budget` units.
fn hidden(engine: &mut Engine<'_, '_>, seq: SeqId, text: &[u32], budget: usize) -> Vec<Vec<f32>> {
    engine.queue(seq, 0, text, Logits::Hidden).unwrap();
    while engine.step(budget).unwrap() == Step::Yielded {}
    let mut rows = Vec::new();
    engine.hidden(|owner, position, row| {
        assert_eq!((owner, position), (seq, rows.len()));
        rows.push(row.to_vec());
    });
    rows
}

/// Compares the hidden states of every token with the reference. Texts are longer than a chunk of attention and than
/// windows.
#[test]
fn agree_with_the_reference() {
    for (name, writer) in models() {
        let file = writer.finish();
        let (reference, mut worst) = (Reference::open(&file), 0.0_f64);
        for text in texts() {
            let expected = reference.trace(&text).normed;
            let found = with_engine(&file, limits(300), |engine| {
                let seq = engine.open().unwrap();
                hidden(engine, seq, &text, usize::MAX)
            });
            assert_eq!(found.len(), expected.len());
            worst = found.iter().zip(expected.iter()).fold(worst, |worst, (found, row)| worst.max(rel_l2(found, row)));
        }
        println!("{name}: relative error of the worst row {worst:.1e}");
        assert!(worst <= 1e-5, "{name}: {worst:e}");
    }
}

fn texts() -> Vec<Vec<u32>> {
    [1, 2, 15, 16, 17, 40, 270].iter().map(|&len| Rng::new(len as u64).tokens(len, VOCAB)).collect()
}

#[test]
fn threads_levels_budgets_and_batches_do_not_matter() {
    for file in models().map(|(_, writer)| writer.finish()) {
        let texts = texts();
        let width = Model::open(&file).unwrap().config().hidden;
        let plain: Vec<Vec<Vec<f32>>> = with_engine(&file, limits(300), |engine| {
            let seq = engine.open().unwrap();
            let alone = texts.iter().map(|text| {
                let rows = hidden(engine, seq, text, usize::MAX);
                engine.reset(seq).unwrap();
                rows
            });
            alone.collect()
        });
        let means = with_engine(&file, limits(300), |engine| {
            let mut out = vec![0.0; texts.len() * width];
            engine.embed_all(texts.iter().map(Vec::as_slice), Pooling::Mean, &mut out).unwrap();
            out
        });
        for (rows, mean) in plain.iter().zip(means.chunks(width)) {
            let sum = |i: usize| rows.iter().fold(0.0, |sum: f32, row| sum + row[i]);
            assert!(mean.iter().enumerate().all(|(i, &mean)| mean == sum(i) / rows.len() as f32));
        }
        // Engines borrow the pools.
        let pools: &'static [ThreadPool; 3] =
            Box::leak(Box::new([1, 2, 3].map(|threads| ThreadPool::new(threads).unwrap())));
        for (level, pool) in Level::available().flat_map(|level| [level; 3]).zip(pools.iter().cycle()) {
            for (kv_kind, budget) in [(KvKind::Paged, usize::MAX), (KvKind::Basic, 7), (KvKind::Off, 100)] {
                let limits = Limits { level, kv_kind, workers: 3, rows: 280, ..limits(280) };
                with_engine(&file, limits, |engine| {
                    engine.set_parallel(pool);
                    let seq = engine.open().unwrap();
                    for (text, plain) in texts.iter().zip(&plain) {
                        assert!(&hidden(engine, seq, text, budget) == plain, "{level} {kv_kind} {}", text.len());
                        engine.reset(seq).unwrap();
                    }
                    // The texts again, in other batches and in the reverse order.
                    engine.close(seq).unwrap();
                    let mut out = vec![f32::NAN; texts.len() * width];
                    engine.embed_all(texts.iter().rev().map(Vec::as_slice), Pooling::Mean, &mut out).unwrap();
                    assert!(out.chunks(width).rev().eq(means.chunks(width)), "{level} {kv_kind}");
                });
            }
        }
    }
}

/// A token depends on all tokens, or on those in the window.
#[test]
fn tokens_see_those_after_them() {
    let text = Rng::new(3).tokens(40, VOCAB);
    // A layer of gemma with a window of 7 reaches 3 positions to each side.
    let layers = [("llama", llama(), usize::MAX), ("bert", bert(true), usize::MAX), ("gemma", one_layer(gemma()), 3)];
    for (name, writer, reach) in layers {
        with_engine(&writer.finish(), limits(64), |engine| {
            let [a, b] = [engine.open().unwrap(), engine.open().unwrap()];
            let before = hidden(engine, a, &text, usize::MAX);
            for changed in [0, 20, 39] {
                let mut other = text.clone();
                other[changed] = (other[changed] + 1) % VOCAB as u32;
                let after = hidden(engine, b, &other, usize::MAX);
                engine.reset(b).unwrap();
                for (position, (before, after)) in before.iter().zip(&after).enumerate() {
                    assert_eq!(before != after, position.abs_diff(changed) <= reach, "{name} {changed} {position}");
                }
            }
        });
    }
}

/// Returns the same file with its first layer only.
fn one_layer(mut writer: GgufWriter) -> GgufWriter {
    writer.tensors.retain(|tensor| !tensor.name.starts_with("blk.") || tensor.name.starts_with("blk.0."));
    writer.set("gemma-embedding.block_count", 1u32);
    writer
}

/// Biases of matrices and token types may be missing, but not the bias of a norm.
#[test]
fn biases_and_types_can_be_left_out() {
    let mut writer = bert(false);
    writer.tensors.retain(|tensor| {
        tensor.name.contains("norm") || !tensor.name.ends_with(".bias") && tensor.name != "token_types.weight"
    });
    let text = Rng::new(3).tokens(30, VOCAB);
    let [without, with] = [writer, bert(false)].map(|writer| {
        with_engine(&writer.finish(), limits(64), |engine| {
            let seq = engine.open().unwrap();
            hidden(engine, seq, &text, usize::MAX)
        })
    });
    assert_ne!(without, with);
    let mut writer = bert(false);
    writer.remove_tensor("blk.1.layer_output_norm.bias");
    let error = Model::open(&writer.finish()).unwrap_err();
    assert!(error.to_string().contains("blk.1.layer_output_norm.bias"), "{error}");
}

/// Calls that have no meaning for an encoder are refused with a specific error, and nothing changes.
#[test]
fn what_has_no_meaning_is_refused() {
    for writer in [llama(), bert(false)] {
        let file = writer.finish();
        let model = Model::open(&file).unwrap();
        assert!(!model.has_logits());
        let hidden_len = model.config().hidden;
        with_engine(&file, limits(20), |engine| {
            let [seq, text] = [engine.open().unwrap(), engine.open().unwrap()];
            let tokens = Rng::new(1).tokens(21, VOCAB);
            for wanted in [Logits::Last, Logits::All] {
                assert_eq!(engine.queue(seq, 0, &tokens[..5], wanted), Err(EngineError::NoLogits));
            }
            assert_eq!(engine.prefill(seq, &tokens[..5]).err(), Some(EngineError::NoLogits));
            assert_eq!(engine.prefill_prompt(seq, &tokens[..5]).err(), Some(EngineError::NoLogits));
            assert_eq!(engine.decode_step(seq, 1).err(), Some(EngineError::NoLogits));
            assert_eq!(engine.log_probs(seq, &tokens[..5], &mut [0.0; 4]), Err(EngineError::NoLogits));
            // A text that is too long for a batch.
            let too_long = EngineError::TextRows { tokens: 21, rows: 20 };
            let mut out = vec![0.0; hidden_len];
            assert_eq!(engine.queue(seq, 0, &tokens, Logits::Hidden), Err(too_long));
            assert_eq!(engine.embed(seq, &tokens, Pooling::Mean, &mut out), Err(too_long));
            assert_eq!(engine.embed_all([&tokens[..]], Pooling::Mean, &mut out), Err(too_long));
            assert_eq!((engine.can_extend(seq, 21), engine.can_prefill(seq, 21)), (Err(too_long), Err(too_long)));
            assert_eq!((engine.can_extend(seq, 20), engine.can_prefill(seq, 20)), (Ok(()), Ok(())));
            assert_eq!(engine.embed(seq, &tokens, Pooling::Rank, &mut out), Err(EngineError::NoClasses));
            assert_eq!((engine.seq_len(seq), engine.is_busy(), engine.stats().pools[0].used), (Ok(0), false, 0));
            // A sequence that already has its text.
            engine.embed(text, &tokens[..7], Pooling::Mean, &mut out).unwrap();
            let whole = EngineError::Whole { length: 7 };
            assert_eq!(engine.queue(text, 7, &tokens[..1], Logits::Hidden), Err(whole));
            assert_eq!(engine.embed(text, &tokens[..1], Pooling::Last, &mut out), Err(whole));
            assert_eq!((engine.can_extend(text, 1), engine.can_prefill(text, 1)), (Err(whole), Err(whole)));
            assert_eq!((engine.fork(text, 3).err(), engine.rewind(text, 3)), (Some(whole), Err(whole)));
            assert_eq!((engine.seq_len(text), engine.rewind(text, 7)), (Ok(7), Ok(())));
            let copy = engine.fork(text, 7).unwrap();
            assert_eq!(engine.queue(copy, 7, &tokens[..1], Logits::Hidden), Err(whole));
            engine.close(copy).unwrap();
            // Afterwards the same text gives the same vector.
            let mut again = vec![0.0; hidden_len];
            engine.reset(text).unwrap();
            engine.embed(text, &tokens[..7], Pooling::Mean, &mut again).unwrap();
            assert_eq!(again, out);
            engine.cache().check().unwrap();
        });
        for (sinks, last, name, given) in [(0, 8, "window", 8), (3, 0, "sinks", 3), (3, 8, "sinks", 3)] {
            let windowed = Limits { window: Window { sinks, last }, ..limits(20) };
            let refused = Plan::new(&model, &windowed).unwrap_err();
            assert_eq!(refused, PlanError::Limit { name, given, min: 0, max: 0 });
        }
        // An encoder has no prefixes to reuse.
        let prefixes = Plan::new(&model, &Limits { prefix_cache: true, ..limits(20) }).unwrap();
        assert!(!prefixes.limits().prefix_cache);
    }
}

/// A text waits for a batch that holds all of it, and is never cut.
#[test]
fn texts_are_not_cut() {
    let texts: Vec<Vec<u32>> = (0..3).map(|seed| Rng::new(seed).tokens(12, VOCAB)).collect();
    let file = bert(false).finish();
    with_engine(&file, limits(20), |engine| {
        let seqs: Vec<SeqId> = texts.iter().map(|_| engine.open().unwrap()).collect();
        for (&seq, text) in seqs.iter().zip(&texts) {
            engine.queue(seq, 0, text, Logits::Hidden).unwrap();
        }
        for &seq in &seqs {
            assert_eq!(engine.step(usize::MAX), Ok(Step::Ready));
            assert_eq!(engine.hidden_rows(), 12);
            engine.hidden(|owner, _, _| assert_eq!(owner, seq));
        }
        assert_eq!(engine.step(usize::MAX), Ok(Step::Idle));
    });
    // One text is cancelled while it runs with another one. The other starts again and has the same vectors.
    with_engine(&file, limits(24), |engine| {
        let [a, b] = [engine.open().unwrap(), engine.open().unwrap()];
        let plain = hidden(engine, a, &texts[0], usize::MAX);
        engine.reset(a).unwrap();
        engine.queue(a, 0, &texts[0], Logits::Hidden).unwrap();
        engine.queue(b, 0, &texts[1], Logits::LastHidden).unwrap();
        assert_eq!(engine.step(10), Ok(Step::Yielded));
        engine.cancel(b).unwrap();
        assert_eq!((engine.step(usize::MAX), engine.seq_len(b)), (Ok(Step::Ready), Ok(0)));
        let mut rows = Vec::new();
        engine.hidden(|_, _, row| rows.push(row.to_vec()));
        assert_eq!(rows, plain);
    });
}

#[test]
fn many_texts_leave_nothing_behind() {
    let file = bert(false).finish();
    let texts: Vec<Vec<u32>> = (0..150).map(|seed| Rng::new(seed).tokens(1 + seed as usize % 9, VOCAB)).collect();
    with_engine(&file, limits(32), |engine| {
        let mut out = vec![0.0; 27 * 150];
        let all = || texts.iter().map(Vec::as_slice);
        engine.embed_all(all(), Pooling::Cls, &mut out).unwrap();
        let seq = engine.open().unwrap();
        for (text, vector) in texts.iter().zip(out.chunks(27)) {
            let mut alone = vec![0.0; 27];
            engine.embed(seq, text, Pooling::Cls, &mut alone).unwrap();
            assert_eq!(alone, vector);
            engine.reset(seq).unwrap();
            engine.queue(seq, 0, text, Logits::Hidden).unwrap();
            assert_eq!(engine.step(usize::MAX), Ok(Step::Ready));
            assert_eq!(engine.hidden_row(0).unwrap().2, vector);
            engine.reset(seq).unwrap();
        }
        let wrong = EngineError::OutputLength { needed: 27 * 150, given: 27 };
        assert_eq!(engine.embed_all(all(), Pooling::Cls, &mut out[..27]), Err(wrong));
        let bad: Vec<&[u32]> = all().take(149).chain([&[1, 99][..]]).collect();
        // The index counts from the first token of all texts.
        let index = all().take(149).map(<[u32]>::len).sum::<usize>() + 1;
        let wrong = EngineError::Token { index, token: 99, vocab: VOCAB };
        assert_eq!(engine.embed_all(bad, Pooling::Cls, &mut out), Err(wrong));
        let bad: Vec<&[u32]> = all().take(149).chain([&[][..]]).collect();
        assert_eq!(engine.embed_all(bad, Pooling::Cls, &mut out), Err(EngineError::Empty));
        assert_eq!((engine.is_busy(), engine.stats().pools[0].used), (false, 0));
        // All sequences are open.
        let others = [0; 3].map(|_| engine.open().unwrap());
        assert!(matches!(engine.embed_all(all(), Pooling::Cls, &mut out), Err(EngineError::Cache(_))));
        others.into_iter().for_each(|seq| engine.close(seq).unwrap());
        engine.embed_all(all(), Pooling::Cls, &mut out).unwrap();
        assert_eq!(engine.embed_all([], Pooling::Cls, &mut []), Ok(()));
        engine.cache().check().unwrap();
    });
}

/// Adds random numbers as a tensor. Returns the tensor's product with a vector in f64.
fn matrix(writer: &mut GgufWriter, name: &str, [rows, cols]: [usize; 2]) -> impl Fn(&[f64]) -> Vec<f64> + use<> {
    let mut rng = Rng::new(rows as u64 * 31 + name.len() as u64);
    let values: Vec<f32> = (0..rows * cols).map(|_| 0.3 * rng.normal()).collect();
    let dims = if cols == 1 { vec![rows as u64] } else { vec![cols as u64, rows as u64] };
    writer.add_tensor(name, &dims, 0, encode_f32(&values));
    move |x: &[f64]| {
        let dot = |row: &[f32]| row.iter().zip(x).map(|(&w, x)| f64::from(w) * x).sum();
        values.chunks(cols).map(dot).collect()
    }
}

fn close(found: &[f32], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((f64::from(*found) - expected).abs() < 1e-5 * (1.0 + expected.abs()), "{found} {expected}");
    }
}

/// Returns the embedding of a text, and its hidden states.
fn embed(file: &[u8], pooling: Pooling) -> (Vec<f32>, Vec<Vec<f64>>) {
    let model = Model::open(file).unwrap();
    let mut out = vec![f32::NAN; model.config().embedding_len(pooling).unwrap()];
    let text = Rng::new(8).tokens(19, VOCAB);
    // A causal model computes the text in several batches.
    let rows = if model.config().attention.causal { 7 } else { 20 };
    let rows = with_engine(file, limits(rows), |engine| {
        let seq = engine.open().unwrap();
        engine.embed(seq, &text, pooling, &mut out).unwrap();
        let mut all = vec![f32::NAN; 2 * out.len()];
        engine.embed_all([&text[..], &text], pooling, &mut all).unwrap();
        assert_eq!(all, [&out[..], &out].concat());
        engine.reset(seq).unwrap();
        engine.queue(seq, 0, &text, Logits::Hidden).unwrap();
        let mut rows = Vec::new();
        while engine.step(usize::MAX).unwrap() == Step::Ready {
            engine.hidden(|_, _, row| rows.push(row.iter().map(|&x| f64::from(x)).collect()));
        }
        rows
    });
    (out, rows)
}

fn mean(rows: &[Vec<f64>]) -> Vec<f64> {
    (0..rows[0].len()).map(|i| rows.iter().map(|row| row[i]).sum::<f64>() / rows.len() as f64).collect()
}

#[test]
fn matrices_behind_the_pooling() {
    let mut writer = gemma();
    writer.set("gemma-embedding.pooling_type", 1u32);
    let second = matrix(&mut writer, "dense_2.weight", [45, 32]);
    let (out, rows) = embed(&writer.finish(), Pooling::Mean);
    close(&out, &second(&mean(&rows)));
    let third = matrix(&mut writer, "dense_3.weight", [11, 45]);
    let file = writer.finish();
    for (pooling, row) in [(Pooling::Mean, None), (Pooling::Cls, Some(0)), (Pooling::Last, Some(18))] {
        let (out, rows) = embed(&file, pooling);
        close(&out, &third(&second(&row.map_or_else(|| mean(&rows), |row| rows[row].clone()))));
    }
    let model = Model::open(&file).unwrap();
    assert_eq!((model.pooling(), model.config().embedding_len(Pooling::Rank)), (Some(Pooling::Mean), None));
    writer.tensor_mut("dense_3.weight").dims = vec![11, 45];
    assert!(matches!(Model::open(&writer.finish()), Err(ModelError::TensorShape { .. })));
}

#[test]
fn classifiers_rank_texts() {
    let mut writer = bert(false);
    writer.set("bert.pooling_type", 4u32);
    let first = matrix(&mut writer, "cls.weight", [27, 27]);
    let bias = matrix(&mut writer, "cls.bias", [27, 1])(&[1.0]);
    let add = |x: Vec<f64>, bias: &[f64]| -> Vec<f64> { x.iter().zip(bias).map(|(x, bias)| x + bias).collect() };
    let bent = |rows: &[Vec<f64>]| -> Vec<f64> { add(first(&rows[0]), &bias).iter().map(|x| x.tanh()).collect() };
    // Without a last matrix, the result is the output of the first one.
    let (out, rows) = embed(&writer.finish(), Pooling::Rank);
    close(&out, &bent(&rows));
    let last = matrix(&mut writer, "cls.output.weight", [3, 27]);
    let last_bias = matrix(&mut writer, "cls.output.bias", [3, 1])(&[1.0]);
    let (out, rows) = embed(&writer.finish(), Pooling::Rank);
    close(&out, &add(last(&bent(&rows)), &last_bias));
    assert_eq!(Model::open(&writer.finish()).unwrap().pooling(), Some(Pooling::Rank));
    // The model can still make a vector.
    let (out, rows) = embed(&writer.finish(), Pooling::Mean);
    close(&out, &mean(&rows));

    // ModernBERT takes the mean, GELU, and a norm if there is one.
    let mut writer = encoder("modern-bert", 8, true);
    let first = matrix(&mut writer, "cls.weight", [24, 24]);
    let last = matrix(&mut writer, "cls.output.weight", [2, 24]);
    let bent = |rows: &[Vec<f64>]| -> Vec<f64> {
        first(&mean(rows)).iter().map(|&x| x / 2.0 * (1.0 + libm::erf(x / 2.0_f64.sqrt()))).collect()
    };
    let (out, rows) = embed(&writer.finish(), Pooling::Rank);
    close(&out, &last(&bent(&rows)));
    let norm = matrix(&mut writer, "cls.norm.weight", [24, 1])(&[1.0]);
    writer.tensor_mut("cls.norm.weight").dims = vec![24];
    let (out, rows) = embed(&writer.finish(), Pooling::Rank);
    let bent = bent(&rows);
    let center = bent.iter().sum::<f64>() / 24.0;
    let variance = bent.iter().map(|x| (x - center).powi(2)).sum::<f64>() / 24.0;
    let normed: Vec<f64> = bent.iter().zip(&norm).map(|(x, w)| (x - center) / (variance + 1e-12).sqrt() * w).collect();
    close(&out, &last(&normed));

    // A causal model reads its last row, and returns the probabilities of yes and no.
    let model = SyntheticModel { hidden: 32, ffn: 64, vocab: VOCAB, head_dim: 10, ..SyntheticModel::qwen3() };
    let mut writer = model.with("pooling_type", 4u32).writer();
    let classes = matrix(&mut writer, "cls.output.weight", [2, 32]);
    let (out, rows) = embed(&writer.finish(), Pooling::Rank);
    let [yes, no] = classes(&rows[18]).try_into().unwrap();
    let yes = 1.0 / (1.0 + (no - yes).exp());
    close(&out, &[yes, 1.0 - yes]);
}

#[test]
fn files_that_ask_for_more_are_refused_by_name() {
    let refused = |writer: &GgufWriter| Model::open(&writer.finish()).unwrap_err().to_string();
    let mut writer = llama();
    writer.set("llama.attention.sliding_window", 8u32);
    assert!(refused(&writer).contains("llama.attention.causal"), "{}", refused(&writer));
    let mut writer = llama();
    writer.set("llama.attention.max_alibi_bias", 8.0_f32);
    assert!(refused(&writer).contains("llama.attention.causal"), "{}", refused(&writer));
    let mut writer = bert(false);
    writer.set("bert.pooling_type", 9u32);
    assert!(refused(&writer).contains("bert.pooling_type"), "{}", refused(&writer));
    writer.set("bert.pooling_type", 0u32);
    assert_eq!(Model::open(&writer.finish()).unwrap().pooling(), None);
    writer.set("general.architecture", "t5encoder");
    assert!(refused(&writer).contains("t5encoder"), "{}", refused(&writer));
    for name in ["blk.0.attn_norm_2.weight", "cls.norm.weight", "blk.0.attn_q_norm.weight", "output.weight"] {
        let mut writer = bert(false);
        let _ = matrix(&mut writer, name, [27, 1]);
        assert!(refused(&writer).contains(name), "{name}: {}", refused(&writer));
    }
    // Norms that only some of the layers have.
    for name in
        ["blk.1.attn_norm_2.weight", "blk.0.attn_norm_2.bias", "blk.1.attn_q_norm.weight", "blk.0.attn_k_norm.bias"]
    {
        let mut writer = encoder_of_code(9, false);
        writer.tensors.retain(|tensor| tensor.name != name);
        assert!(refused(&writer).contains(name), "{name}: {}", refused(&writer));
    }
}
