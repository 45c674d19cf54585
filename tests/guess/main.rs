//! Whatever is guessed, the text, the logits and the generator are those of decoding token by token.

mod cases;
mod frames;
mod nextn;
mod play;
mod sources;

use gguf_rs_lite::Gguf;
use gleed::guess::{Counts, Draft, Guess, GuessError, Guessing, MAX_GUESSES, NGrams, Off, Text};
use gleed::sample::argmax;
use gleed::{Engine, EngineError, Limits, Model, Plan, SeqId, Step};

use common::Memory;
use common::synthetic::{Architecture, SyntheticModel};
use sources::Known;

/// Calls `run` with an engine and its only sequence.
fn with_engine<T>(file: &[u8], limits: &Limits, run: impl FnOnce(&mut Engine<'_, '_>, SeqId) -> T) -> T {
    let model = Model::open(file).unwrap();
    let plan = Plan::new(&model, limits).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
    let seq = engine.open().unwrap();
    run(&mut engine, seq)
}

/// Returns the most probable tokens behind a prompt.
fn plain(file: &[u8], prompt: &[u32], count: usize) -> Vec<u32> {
    with_engine(file, &Limits::default(), |engine, seq| {
        let mut text = vec![argmax(engine.prefill(seq, prompt).unwrap()).unwrap()];
        while text.len() < count {
            text.push(argmax(engine.decode_step(seq, *text.last().unwrap()).unwrap()).unwrap());
        }
        text
    })
}

/// Writes the same text with guesses. Also returns the number of batches, and the counts of guesses.
fn guessed(
    engine: &mut Engine<'_, '_>,
    seq: SeqId,
    source: &mut dyn Guess,
    most: usize,
    (prompt, count): (&[u32], usize),
) -> (Vec<u32>, usize, Counts) {
    let mut memory = Memory::new(Guessing::plan(most).unwrap());
    let mut guessing = Guessing::new(seq, most, memory.bytes()).unwrap();
    let mut text = vec![argmax(engine.prefill(seq, prompt).unwrap()).unwrap()];
    let mut batches = 0;
    while text.len() < count {
        guessing.queue(engine, source, *text.last().unwrap(), usize::MAX).unwrap();
        while let Ok(step) = engine.step(usize::MAX) {
            while let Some(logits) = guessing.logits(engine) {
                let token = argmax(logits).unwrap();
                text.push(token);
                if !guessing.take(token) || text.len() == count {
                    break;
                }
            }
            if step == Step::Idle || text.len() == count {
                break;
            }
        }
        batches += 1;
        guessing.end(engine).unwrap();
    }
    assert_eq!(engine.seq_len(seq), Ok(prompt.len() + count - 1));
    (text, batches, guessing.counts())
}

#[test]
fn right_guesses_save_batches() {
    let file = SyntheticModel::llama().bytes();
    let (prompt, count) = ([5, 6, 7], 200);
    let text = plain(&file, &prompt, count);
    let limits = Limits { logit_rows: 32, ..Limits::default() };
    let all = [&prompt[..], &text].concat();
    for (rate, batches) in [(100, 7..25), (80, 20..120), (0, 195..200)] {
        with_engine(&file, &limits, |engine, seq| {
            let mut source = Known { text: all.clone(), right: rate, vocab: 320, random: common::random::Rng::new(1) };
            let (found, took, counts) = guessed(engine, seq, &mut source, MAX_GUESSES, (&prompt, count));
            assert_eq!(found, text);
            assert!(batches.contains(&took), "{rate} {took} {counts:?}");
            assert!(counts.accepted as usize + took + 1 >= count, "{counts:?}");
        });
    }
}

#[test]
fn text_that_repeats_itself_is_found() {
    let file = SyntheticModel { vocab: 40, ..SyntheticModel::llama() }.bytes();
    let (prompt, count) = ([5, 6, 7, 5, 6, 7, 5, 6], 300);
    let limits = Limits { logit_rows: 16, ..Limits::default() };
    let text = plain(&file, &prompt, count);
    with_engine(&file, &limits, |engine, seq| {
        let mut memory = Memory::new(NGrams::plan(512).unwrap());
        assert_eq!(NGrams::plan(512), Ok(2 * 4 * 512));
        let mut ngrams = NGrams::new(512, memory.bytes()).unwrap();
        let (found, batches, counts) = guessed(engine, seq, &mut ngrams, 15, (&prompt, count));
        assert_eq!(found, text);
        // A model of random weights repeats itself after some time.
        assert!(batches < 200 && counts.accepted > 100, "{batches} {counts:?}");
    });
}

#[test]
fn a_table_guesses_what_followed() {
    let mut memory = Memory::new(NGrams::plan(512).unwrap());
    let mut ngrams = NGrams::new(512, memory.bytes()).unwrap();
    let mut guess = |text: &[u32], most: usize| -> Vec<u32> {
        let mut out = vec![0; most];
        let token = |at: usize| text.get(at).copied();
        let count = ngrams.guess(&Text::new(text.len(), &token), &mut usize::MAX.into(), &mut out).unwrap().unwrap();
        out.truncate(count);
        out
    };
    assert!(guess(&[], 3).is_empty());
    assert!(guess(&[1, 2, 3, 4, 5, 6], 3).is_empty());
    assert_eq!(guess(&[1, 2, 3, 4, 5, 6, 9, 2, 3, 4], 2), [5, 6]);
    // A longer match wins over a newer one. A repetition continues.
    assert_eq!(guess(&[1, 2, 3, 4, 5, 6, 9, 3, 4, 5, 8, 1, 2, 3, 4, 5], 2), [6, 9]);
    assert_eq!(guess(&[7, 8, 7, 8, 7], 5), [8, 7, 8, 7, 8]);
    // A host that rewound and wrote another text.
    assert!(guess(&[7, 8, 9], 2).is_empty());
    assert_eq!(guess(&[7, 8, 9, 4, 7, 8, 9], 2), [4, 7]);
}

#[test]
fn a_second_model_follows_the_text() {
    let file = SyntheticModel::llama().bytes();
    let (prompt, count) = ([5, 6, 7], 120);
    let text = plain(&file, &prompt, count);
    let limits = Limits { logit_rows: 8, ..Limits::default() };
    // The same model is always right, another one is not, and one with a small context stops.
    let other = SyntheticModel { seed: 77, layers: 1, ..SyntheticModel::llama() }.bytes();
    for (draft, context, least) in [(&file, 256, 100), (&other, 256, 0), (&file, 40, 25)] {
        let small = Limits { context, ..Limits::default() };
        let counts = with_engine(draft, &small, |small, first| {
            small.close(first).unwrap();
            let mut source = Draft::new(small).unwrap();
            let counts = with_engine(&file, &limits, |engine, seq| {
                let (found, _, counts) = guessed(engine, seq, &mut source, 7, (&prompt, count));
                assert_eq!(found, text);
                counts
            });
            source.close().unwrap();
            counts
        });
        assert!(counts.accepted >= least, "{counts:?}");
        assert!(draft != &file || counts.accepted == counts.proposed || context == 256, "{counts:?}");
    }
}

/// A token whose logits are not finite can be guessed. Only a token of the text itself may make the text fail.
#[test]
fn a_guess_that_fails_does_not_fail_the_text() {
    let mut file = SyntheticModel::llama().bytes();
    let (prompt, count) = ([5, 6, 7], 60);
    let text = plain(&file, &prompt, count);
    let poison = (0..320).find(|token| !text.contains(token) && !prompt.contains(token)).unwrap();
    let gguf = Gguf::parse(&file).unwrap();
    let data = gguf.tensor("token_embd.weight").unwrap().data().as_ptr().addr() - file.as_ptr().addr();
    let row = data + poison as usize * 64 * 4;
    file[row..row + 4].copy_from_slice(&f32::INFINITY.to_le_bytes());
    let mut source = Known { text: vec![poison; 100], right: 100, vocab: 320, random: common::random::Rng::new(1) };
    with_engine(&file, &Limits { logit_rows: 4, ..Limits::default() }, |engine, seq| {
        let (found, batches, counts) = guessed(engine, seq, &mut source, 3, (&prompt, count));
        assert_eq!((found, counts.accepted), (text.clone(), 0));
        assert!(batches > count, "nothing has failed");
        // If the text itself has the token, its error is returned.
        let mut memory = Memory::new(Guessing::plan(3).unwrap());
        let mut guessing = Guessing::new(seq, 3, memory.bytes()).unwrap();
        for _ in 0..2 {
            guessing.queue(engine, &mut source, poison, usize::MAX).unwrap();
            assert!(matches!(engine.step(usize::MAX), Err(EngineError::NonFinite { .. })));
            guessing.end(engine).unwrap();
            assert_eq!(engine.seq_len(seq), Ok(prompt.len() + count - 1));
        }
    });
}

/// Cost of a wrong guess with recurrent layers: the right tokens before it are computed again, in a batch without
/// guesses. After a batch of 1 + g rows with a right guesses comes one of 1 + a + 1 rows, and both give a + 2 tokens.
#[test]
fn recurrent_layers_compute_right_tokens_before_a_wrong_one_again() {
    for architecture in [Architecture::Lfm2, Architecture::Qwen35, Architecture::GraniteHybrid, Architecture::FalconH1]
    {
        let file = SyntheticModel::of(architecture).bytes();
        let (prompt, count) = ([5, 6, 7], 150);
        let text = [&prompt[..], &plain(&file, &prompt, count + 20)].concat();
        with_engine(&file, &Limits { logit_rows: 8, ..Limits::default() }, |engine, seq| {
            let mut source = Known { text: text.clone(), right: 80, vocab: 320, random: common::random::Rng::new(3) };
            let mut memory = Memory::new(Guessing::plan(7).unwrap());
            let mut guessing = Guessing::new(seq, 7, memory.bytes()).unwrap();
            let mut token = argmax(engine.prefill(seq, &prompt).unwrap()).unwrap();
            let (mut len, mut batches, mut rows, mut again, mut wrong) = (prompt.len() + 1, 0, 0, 0, false);
            while len < count {
                let guessed = guessing.queue(engine, &mut source, token, usize::MAX).unwrap().unwrap();
                assert!(!wrong || guessed == 0);
                assert_eq!(engine.step(usize::MAX), Ok(Step::Ready));
                let mut taken = 0;
                while let Some(logits) = guessing.logits(engine) {
                    token = argmax(logits).unwrap();
                    assert_eq!(token, text[len]);
                    (len, taken) = (len + 1, taken + 1);
                    guessing.take(token);
                }
                (batches, rows, wrong) = (batches + 1, rows + 1 + guessed as u64, taken <= guessed);
                assert_eq!(engine.metrics().slots_used, if guessed > 0 { 2 } else { 1 });
                guessing.end(engine).unwrap();
                assert_eq!(engine.metrics().slots_used, if wrong && batches == 1 { 2 } else { 1 });
                if wrong {
                    again += taken as u64;
                }
            }
            // The rows of the last batch are not computed again yet.
            again -= (engine.seq_len(seq).unwrap() - engine.cache().computed(seq).unwrap()) as u64;
            let (metrics, counts) = (engine.metrics(), guessing.counts());
            assert!(again > 10 && counts.accepted > 50, "{again} {counts:?}");
            assert_eq!((metrics.rows_again, metrics.decode.count), (again, batches));
            assert_eq!(metrics.decode.rows, rows + again);
            assert_eq!(metrics.decode_tokens as usize, len - 1 - prompt.len());
        });
        // If all guesses are wrong, guessing rests. Each of the few guesses costs one row that is computed again.
        with_engine(&file, &Limits { logit_rows: 8, ..Limits::default() }, |engine, seq| {
            let mut source = Known { text: text.clone(), right: 0, vocab: 320, random: common::random::Rng::new(3) };
            let (found, batches, counts) = guessed(engine, seq, &mut source, 7, (&prompt, count));
            assert_eq!(found, &text[prompt.len()..prompt.len() + count]);
            assert!(batches + 4 > count && counts.proposed < 40, "{batches} {counts:?}");
            assert!(engine.metrics().rows_again <= counts.proposed);
        });
    }
}

/// Checkpoints that the host asked for stay, whatever the guesses are.
#[test]
fn guesses_leave_checkpoints_where_they_are() {
    let file = SyntheticModel::of(Architecture::Qwen35).bytes();
    let prompt: Vec<u32> = (5..25).collect();
    let text = [&prompt[..], &plain(&file, &prompt, 80)].concat();
    let limits = Limits { logit_rows: 8, checkpoints: 4, checkpoint_every: 32, ..Limits::default() };
    for right in [100, 70, 0] {
        with_engine(&file, &limits, |engine, seq| {
            let mut source = Known { text: text.clone(), right, vocab: 320, random: common::random::Rng::new(3) };
            engine.checkpoint_at(seq, 50).unwrap();
            guessed(engine, seq, &mut source, 7, (&prompt, 60));
            // The checkpoints of the prompt, of position 50, which was asked for, and of each 32nd token remain.
            let found = [31, 49, 63, 64].map(|keep| engine.computed_at(seq, keep).unwrap());
            assert_eq!(found, [20, 32, 50, 64], "{right}");
        });
    }
}

#[test]
fn what_cannot_guess_says_why() {
    let mut memory = Memory::new(Guessing::plan(4).unwrap());
    let mut source = Known { text: vec![3; 100], right: 100, vocab: 320, random: common::random::Rng::new(1) };
    let file = SyntheticModel::llama().bytes();
    with_engine(&file, &Limits::default(), |engine, seq| {
        let mut guessing = Guessing::new(seq, 4, memory.bytes()).unwrap();
        assert_eq!(guessing.off(engine), Some(Off::LogitRows));
        let wrong = guessing.queue(engine, &mut source, 999, usize::MAX);
        assert_eq!(wrong, Err(GuessError::Engine(EngineError::Token { index: 0, token: 999, vocab: 320 })));
        engine.close(seq).unwrap();
        assert!(matches!(guessing.queue(engine, &mut source, 3, usize::MAX), Err(GuessError::Engine(_))));
    });
    with_engine(&file, &Limits { logit_rows: 8, ..Limits::default() }, |engine, seq| {
        let mut guessing = Guessing::new(seq, 4, memory.bytes()).unwrap();
        assert_eq!(guessing.off(engine), None);
        assert!(!guessing.take(3));
        guessing.queue(engine, &mut source, 1, usize::MAX).unwrap();
        assert_eq!(guessing.queue(engine, &mut source, 3, usize::MAX), Err(GuessError::Open));
        assert!(guessing.logits(engine).is_none());
        guessing.end(engine).unwrap();
        // If guesses are always wrong, guessing rests.
        let mut token = argmax(engine.prefill(seq, &[1]).unwrap()).unwrap();
        for _ in 0..100 {
            guessing.queue(engine, &mut source, token, usize::MAX).unwrap();
            assert_eq!(engine.step(usize::MAX), Ok(Step::Ready));
            token = argmax(guessing.logits(engine).unwrap()).unwrap();
            guessing.take(token);
            guessing.end(engine).unwrap();
        }
        assert_eq!(guessing.off(engine), Some(Off::DoesNotPay));
        assert!(guessing.counts().proposed < 60, "{:?}", guessing.counts());
    });
    assert_eq!(Guessing::new(SeqId::from_bits(1), 0, &mut []).err(), Some(GuessError::Most { given: 0, limit: 31 }));
    assert_eq!(Guessing::plan(15), Ok(64));
    // The engine is that of a second model, or that of a layer that predicts further ahead.
    assert_eq!(GuessError::Draft(EngineError::Empty).to_string(), "the engine that guesses: no tokens were given");
}
