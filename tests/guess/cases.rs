//! Random models, texts, seeds, sources, budgets and forks.

use std::cell::Cell;
use std::sync::LazyLock;

use gguf_rs_lite::Gguf;
use gleed::grammar::{Grammar, Matcher, Options, Planned, Source, TokenTrie};
use gleed::guess::{Draft, Guess, NGrams, NextN};
use gleed::sample::{Sampler, SamplerParams};
use gleed::token::Tokenizer;
use gleed::{Engine, KvKind, KvType, Limits, Model, Plan, Window};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::play::{Chooser, MATCHER, Ruled, Rules, Story, leaked, play};
use super::sources::{Known, Slow};
use common::Memory;
use common::random::Rng;
use common::synthetic::predictor::{self, Own};
use common::synthetic::{Architecture, SyntheticModel};

const VOCAB: usize = 320;

/// Small models with attention, with windows in some layers, with experts, and with each kind of recurrent layer.
static FILES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let small = |model: SyntheticModel| SyntheticModel { hidden: 32, ffn: 32, vocab: VOCAB, ..model }.bytes();
    let windowed = SyntheticModel::llama().with("attention.sliding_window", 16u32);
    vec![
        small(SyntheticModel { layers: 1, ..SyntheticModel::llama() }),
        small(SyntheticModel { seed: 99, layers: 1, ..SyntheticModel::llama() }),
        small(windowed.with("attention.sliding_window_pattern", 2u32)),
        small(SyntheticModel::qwen3()),
        small(SyntheticModel::mixtral()),
        SyntheticModel::of(Architecture::Gemma3).bytes(),
        small(SyntheticModel::of(Architecture::Lfm2)),
        small(SyntheticModel::of(Architecture::Qwen35)),
        small(SyntheticModel::of(Architecture::GraniteHybrid)),
        small(SyntheticModel::of(Architecture::FalconH1)),
        predictor::file(Architecture::Qwen35, true, Own::Norm).finish(),
        predictor::file(Architecture::Qwen35Moe, true, Own::Nothing).finish(),
        predictor::file(Architecture::Glm4Moe, true, Own::All).finish(),
    ]
});

/// Rules that texts must follow.
const TEXTS: [Source<'static>; 3] = [
    Source::Regex(br"(the cat sat on the mat, ){2,5}(and|or) [a-z]{3,9} [0-9]{4}\."),
    Source::Regex(b"[abc]{20,40}(yes|no)"),
    Source::Schema(
        br#"{"type":"object","properties":{"name":{"type":"string","maxLength":8},"kinds":{"type":"array","items":
        {"enum":["dog","cat","dragon"]},"minItems":3,"maxItems":6},"age":{"type":"integer","maximum":99,"minimum":0}},
        "required":["name","kinds","age"]}"#,
    ),
];

/// Returns the grammars with the vocabulary of all models. Each thread makes its own, because matchers are not shared
/// between threads.
fn rules() -> &'static [Rules<'static>] {
    let file = &FILES[0];
    let gguf = Box::leak(Box::new(Gguf::parse(file).unwrap()));
    let tokenizer: &Tokenizer<'_, '_> =
        Box::leak(Box::new(Tokenizer::new(gguf, leaked(Tokenizer::plan(gguf).unwrap())).unwrap()));
    let mut scratch = vec![0; TokenTrie::scratch_len(tokenizer)];
    let bytes = TokenTrie::plan(tokenizer, &mut scratch).unwrap();
    let trie: &TokenTrie<'_> = Box::leak(Box::new(TokenTrie::new(tokenizer, &mut scratch, leaked(bytes)).unwrap()));
    let grammar = |source: Source<'static>| -> &'static Grammar<'static> {
        let mut scratch = vec![0; 1 << 18];
        let options = Options::default();
        let Planned::Memory(bytes) = Grammar::plan(source, &options, &mut scratch).unwrap() else { panic!("scratch") };
        Box::leak(Box::new(Grammar::new(source, &options, &mut scratch, leaked(bytes)).unwrap()))
    };
    TEXTS.map(|source| Rules { grammar: grammar(source), tokenizer, trie }).to_vec().leak()
}

/// Returns random limits in which a prompt fits.
fn limits(random: &mut Rng, prompt: usize) -> Limits {
    let rows = 1 + random.below(24);
    let windowed = random.below(4) == 0;
    let context = prompt + 24 + random.below(80);
    let kv_kind = [KvKind::Paged, KvKind::Paged, KvKind::Paged, KvKind::Basic, KvKind::Off][random.below(5)];
    let sequences = 1 + random.below(3);
    // The pool can become full, but not by the prompt alone.
    let all = context.div_ceil(16) * sequences;
    let kv_blocks = [0, all.min((prompt + 40).div_ceil(16) * sequences)][random.below(2)];
    Limits {
        sequences,
        context,
        window: if windowed {
            Window { sinks: random.below(5), last: (17 + random.below(30)).min(context - 4) }
        } else {
            Window::ALL
        },
        rows,
        logit_rows: 1 + random.below(rows),
        kv_kind,
        kv_type: [KvType::F16, KvType::F32, KvType::Q8_0][random.below(3)],
        kv_blocks: if kv_kind == KvKind::Basic || windowed { 0 } else { kv_blocks },
        prefix_cache: random.below(2) == 0,
        checkpoints: random.below(3),
        checkpoint_every: [0, 16, 32][random.below(3)],
        ..Limits::default()
    }
}

/// Returns greedy parameters, or random ones.
fn params(random: &mut Rng) -> SamplerParams {
    let greedy = random.below(3) == 0;
    SamplerParams {
        temperature: if greedy { 0.0 } else { [0.2, 0.7, 1.3][random.below(3)] },
        top_k: [0, 3, 40][random.below(3)],
        top_p: [1.0, 0.9][random.below(2)],
        min_p: [0.0, 0.05][random.below(2)],
        repetition_penalty: [1.0, 1.2][random.below(2)],
        frequency_penalty: [0.0, 0.3][random.below(2)],
        presence_penalty: [0.0, 0.1][random.below(2)],
        penalty_window: random.below(65),
        seed: random.u64(),
    }
}

/// Returns a random source that is no second model.
fn source<'s>(random: &mut Rng, prompt: &[u32], memory: &'s mut Memory) -> Box<dyn Guess + 's> {
    let mut own = Rng::new(random.u64());
    match random.below(4) {
        // This source knows only the prompt, so it is nearly always wrong.
        0 => {
            let text = [prompt, &own.tokens(200, VOCAB)].concat();
            Box::new(Known { text, right: 50, vocab: VOCAB, random: own })
        }
        kind => {
            let places = 1 + random.below(300);
            let ngrams = NGrams::new(places, &mut memory.bytes()[..NGrams::plan(places).unwrap()]).unwrap();
            if kind == 1 { Box::new(Slow { source: ngrams, random: own }) } else { Box::new(ngrams) }
        }
    }
}

/// Plays a case. Returns the number of right guesses.
fn run(seed: u64, rules: &'static [Rules<'static>]) -> u64 {
    let mut random = Rng::new(seed);
    let random = &mut random;
    let file = random.below(FILES.len());
    let model = Model::open(&FILES[file]).unwrap();
    let vocab = model.config().vocab.min(VOCAB);
    // The prompt repeats a part, so that sources find something.
    let (len, few) = (1 + random.below(12), 2 + random.below(vocab - 2));
    let part = random.tokens(len, few);
    let prompt = part.repeat(1 + random.below(3));
    let limits = limits(random, prompt.len());
    let plan = Plan::new(&model, &limits).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
    // If it is the same model, it is always right for greedy choices.
    let small = Model::open(&FILES[[file, random.below(2)][random.below(2)]]).unwrap();
    let small_limits = Limits { context: 24 + random.below(150), rows: 1 + random.below(70), ..Limits::default() };
    let small_plan = Plan::new(&small, &small_limits).unwrap();
    let mut small_memory = Memory::new(small_plan.bytes());
    let mut small = Engine::new(&small, &small_plan, small_memory.bytes()).unwrap();

    let params = params(random);
    let biases = random.tokens(random.clone().below(4), vocab).into_iter().map(|id| (id, 1.5)).collect::<Vec<_>>();
    let rules = rules.get(random.below(8)).copied();
    let chooser = |memory| {
        let mut sampler = Sampler::new(params).unwrap();
        sampler.set_biases(&biases).unwrap();
        Chooser { sampler, ruled: rules.map(|rules| Ruled::new(rules, memory)) }
    };
    // Memory for the texts and their forks, and for the same texts token by token.
    let bytes = Matcher::plan(MATCHER).unwrap();
    let count = 2 * limits.sequences;
    let mut matchers: Vec<Memory> = (0..count).map(|_| Memory::new(bytes)).collect();
    let mut memories: Vec<Memory> = (0..count).map(|_| Memory::new(NGrams::plan(301).unwrap())).collect();
    let mut fresh: Vec<Memory> = (0..count).map(|_| Memory::new(bytes)).collect();
    let (mut matchers, mut memories) = (matchers.iter_mut(), memories.iter_mut());

    let most = 1 + random.below(31);
    let mut first = chooser(matchers.next().unwrap());
    first.ruled.iter_mut().for_each(|ruled| ruled.guesses = random.below(2) == 0);
    let predictor = model.predictor().ok();
    let layer_plan = predictor.as_ref().map(|layer| Plan::new(layer, &small_limits).unwrap());
    let mut layer_memory = Memory::new(layer_plan.as_ref().map_or(0, Plan::bytes));
    let layer = predictor.as_ref().zip(layer_plan.as_ref());
    let mut layer = layer.map(|(layer, plan)| Engine::new(layer, plan, layer_memory.bytes()).unwrap());
    let first_source: Box<dyn Guess> = match (random.below(4), &mut layer) {
        (0 | 1, Some(layer)) => Box::new(NextN::new(layer).unwrap()),
        (2, Some(layer)) => {
            let layer = NextN::new(layer).unwrap();
            Box::new(Slow { source: layer, random: Rng::new(random.u64()) })
        }
        (kind, _) => match kind {
            0 => Box::new(Draft::new(&mut small).unwrap()),
            1 => {
                let draft = Draft::new(&mut small).unwrap();
                Box::new(Slow { source: draft, random: Rng::new(random.u64()) })
            }
            _ => source(random, &prompt, memories.next().unwrap()),
        },
    };
    let guesses = memories.next().unwrap();
    let mut stories = vec![Story::new(&mut engine, &prompt, most, first, first_source, guesses)];
    let length = 10 + random.below(80);
    play(&mut engine, &mut stories, (length, random), |engine, story, random| {
        let [memory, matcher] = [memories.next()?, matchers.next()?];
        let source = source(random, &prompt, memories.next()?);
        story.fork(engine, (1 + random.below(31), random.u64()), source, [memory, matcher])
    });
    for (story, memory) in stories.iter().zip(&mut fresh) {
        story.check(&engine, &model, &limits, &prompt, chooser(memory));
    }
    stories.iter().map(|story| story.counts().accepted).sum()
}

/// Plays random cases. `PROPTEST_CASES` is their number.
#[test]
fn every_text_is_that_of_decoding_token_by_token() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(100);
    let config = ProptestConfig { cases, max_shrink_iters: 0, failure_persistence: None, ..ProptestConfig::default() };
    let (rules, accepted) = (rules(), Cell::new(0));
    let result = TestRunner::new(config).run(&any::<u64>(), |seed| {
        accepted.set(accepted.get() + run(seed, rules));
        Ok(())
    });
    result.unwrap();
    println!("{cases} texts or more, {} guesses were right", accepted.get());
    assert!(accepted.get() > u64::from(cases));
}
