//! Texts that are written with guesses, several in one engine, compared with the same texts token by token.

use gleed::grammar::{Grammar, Limits as MatcherLimits, Matcher, TokenTrie};
use gleed::guess::{Forced, Guess, Guessing};
use gleed::sample::{Sampler, scratch_len};
use gleed::token::Tokenizer;
use gleed::{Engine, EngineError, Limits, Logits, Model, Plan, SeqId, Step};

use common::Memory;
use common::playback::hash;
use common::random::Rng;

pub(crate) const MATCHER: MatcherLimits = MatcherLimits { items: 64, nodes: 64, depth: 16, past: 0 };

/// Rules that a text must follow.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'r> {
    pub(crate) grammar: &'r Grammar<'r>,
    pub(crate) tokenizer: &'r Tokenizer<'r, 'r>,
    pub(crate) trie: &'r TokenTrie<'r>,
}

/// The matcher of a text, with its rules and memory.
pub(crate) struct Ruled<'r> {
    rules: Rules<'r>,
    matcher: Matcher<'r, 'r>,
    mask: Vec<u32>,
    scratch: Vec<u32>,
    /// Whether forced tokens are guessed.
    pub(crate) guesses: bool,
}

/// Memory that lives as long as the tests.
pub(crate) fn leaked(bytes: usize) -> &'static mut [u8] {
    Box::leak(Box::new(Memory::new(bytes))).bytes()
}

impl<'r> Ruled<'r> {
    pub(crate) fn new(rules: Rules<'r>, memory: &'r mut Memory) -> Self {
        let matcher = Matcher::new(rules.grammar, MATCHER, memory.bytes()).unwrap();
        let scratch = vec![0; Matcher::forced_scratch_len(rules.tokenizer)];
        Self { rules, matcher, mask: vec![0; rules.trie.mask_len()], scratch, guesses: false }
    }

    fn fork(&self, memory: &'r mut Memory) -> Self {
        let matcher = self.matcher.fork(memory.bytes()).unwrap();
        Self { matcher, mask: self.mask.clone(), scratch: self.scratch.clone(), ..*self }
    }
}

/// The way to choose a token, and everything that the choices depend on.
pub(crate) struct Chooser<'r> {
    pub(crate) sampler: Sampler,
    pub(crate) ruled: Option<Ruled<'r>>,
}

impl Chooser<'_> {
    /// Returns whether the text is complete.
    fn is_complete(&self) -> bool {
        self.ruled.as_ref().is_some_and(|ruled| ruled.matcher.is_complete())
    }

    fn choose(&mut self, logits: &[f32]) -> Choice {
        let mut scratch = vec![0; scratch_len(logits.len())];
        let token = match &mut self.ruled {
            None => self.sampler.sample(logits, &mut scratch).unwrap().token,
            Some(Ruled { rules, matcher, mask, .. }) => {
                assert!(matcher.mask(rules.trie, usize::MAX, mask).unwrap());
                let token = self.sampler.sample_masked(logits, mask, &mut scratch).unwrap().token;
                assert_eq!(matcher.accept(rules.tokenizer, token), Ok(true));
                token
            }
        };
        self.sampler.accept(token);
        Choice { token, logits: hash(logits), state: self.sampler.state() }
    }
}

/// A chosen token, the hash of its logits, and the state of the generator afterwards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Choice {
    token: u32,
    logits: u64,
    state: u64,
}

/// A text that is being written.
pub(crate) struct Story<'s> {
    guessing: Guessing<'s>,
    chooser: Chooser<'s>,
    source: Box<dyn Guess + 's>,
    pub(crate) choices: Vec<Choice>,
    /// The choice behind which each fork began, and its new state of the generator.
    seeds: Vec<(usize, u64)>,
    /// Whether tokens are queued.
    open: bool,
    over: bool,
}

impl<'s> Story<'s> {
    pub(crate) fn new(
        engine: &mut Engine<'_, '_>,
        prompt: &[u32],
        most: usize,
        chooser: Chooser<'s>,
        source: Box<dyn Guess + 's>,
        memory: &'s mut Memory,
    ) -> Self {
        let seq = engine.open().unwrap();
        let guessing = Guessing::new(seq, most, memory.bytes()).unwrap();
        let (choices, seeds) = (Vec::new(), Vec::new());
        let mut story = Self { guessing, chooser, source, choices, seeds, open: false, over: false };
        let logits = engine.prefill(seq, prompt).unwrap();
        story.choices.push(story.chooser.choose(logits));
        story.over = story.chooser.is_complete();
        story
    }

    pub(crate) fn seq(&self) -> SeqId {
        self.guessing.seq()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    pub(crate) fn counts(&self) -> gleed::guess::Counts {
        self.guessing.counts()
    }

    /// Forks this text, with another state of the generator.
    pub(crate) fn fork(
        &self,
        engine: &mut Engine<'_, '_>,
        (most, seed): (usize, u64),
        source: Box<dyn Guess + 's>,
        [memory, matcher]: [&'s mut Memory; 2],
    ) -> Option<Self> {
        let seq = engine.fork(self.seq(), engine.seq_len(self.seq()).unwrap()).ok()?;
        let guessing = Guessing::new(seq, most, memory.bytes()).unwrap();
        let mut sampler = self.chooser.sampler.clone();
        sampler.set_state(seed);
        let ruled = self.chooser.ruled.as_ref().map(|ruled| ruled.fork(matcher));
        let seeds = [&self.seeds[..], &[(self.choices.len(), seed)]].concat();
        let chooser = Chooser { sampler, ruled };
        Some(Self { guessing, chooser, source, choices: self.choices.clone(), seeds, open: false, over: self.over })
    }

    /// Queues the last token and guesses.
    pub(crate) fn queue(&mut self, engine: &mut Engine<'_, '_>, units: usize) {
        let token = self.choices.last().unwrap().token;
        let source = &mut *self.source;
        let queued = match &mut self.chooser.ruled {
            Some(Ruled { rules, matcher, scratch, guesses: true, .. }) => {
                let mut forced =
                    Forced { matcher, tokenizer: rules.tokenizer, trie: rules.trie, scratch, others: source };
                self.guessing.queue(engine, &mut forced, token, units)
            }
            _ => self.guessing.queue(engine, source, token, units),
        };
        match queued {
            Ok(guesses) => self.open = guesses.is_some(),
            Err(error) => {
                // Decoding token by token cannot continue, either.
                let plain = engine.queue(self.seq(), engine.seq_len(self.seq()).unwrap(), &[token], Logits::Last);
                assert_eq!(gleed::guess::GuessError::Engine(plain.unwrap_err()), error);
                self.over = true;
            }
        }
    }

    /// Chooses tokens from the results. The text gets at most `most` tokens.
    pub(crate) fn choose(&mut self, engine: &mut Engine<'_, '_>, most: usize) {
        while self.open && !self.over {
            let Some(logits) = self.guessing.logits(engine) else { return };
            let choice = self.chooser.choose(logits);
            self.choices.push(choice);
            self.over = self.choices.len() >= most || self.chooser.is_complete();
            if !self.guessing.take(choice.token) || self.over {
                self.end(engine);
            }
        }
    }

    /// Ends a batch, however far it is.
    pub(crate) fn end(&mut self, engine: &mut Engine<'_, '_>) {
        self.guessing.end(engine).unwrap();
        self.open = false;
        assert!(self.guessing.logits(engine).is_none());
    }

    /// Compares the text with the same text token by token.
    pub(crate) fn check(
        &self,
        engine: &Engine<'_, '_>,
        model: &Model<'_>,
        limits: &Limits,
        prompt: &[u32],
        mut chooser: Chooser<'_>,
    ) {
        let limits =
            Limits { sequences: 1, rows: 64, logit_rows: 1, kv_blocks: 0, workers: 1, prefix_cache: false, ..*limits };
        let plan = Plan::new(model, &limits).unwrap();
        let mut memory = Memory::new(plan.bytes());
        let mut plain = Engine::new(model, &plan, memory.bytes()).unwrap();
        let seq = plain.open().unwrap();
        let mut next = prompt.to_vec();
        for (index, choice) in self.choices.iter().enumerate() {
            let seed = self.seeds.iter().rev().find(|(at, _)| *at == index);
            seed.into_iter().for_each(|(_, state)| chooser.sampler.set_state(*state));
            let expected = chooser.choose(plain.prefill(seq, &next).unwrap());
            assert_eq!(*choice, expected, "choice {index}");
            next = vec![expected.token];
        }
        // The last chosen token is not part of the sequence.
        let tokens = |engine: &Engine<'_, '_>, seq| -> Vec<Option<u32>> {
            (0..engine.seq_len(seq).unwrap()).map(|at| engine.cache().token(seq, at)).collect()
        };
        if limits.window.is_all() {
            assert_eq!(tokens(engine, self.seq()), tokens(&plain, seq));
        }
        assert_eq!(engine.seq_len(self.seq()), plain.seq_len(seq));
    }
}

/// Writes the texts to their ends. Between steps, forks are made and batches are ended early.
pub(crate) fn play<'s>(
    engine: &mut Engine<'_, '_>,
    stories: &mut Vec<Story<'s>>,
    (most, random): (usize, &mut Rng),
    mut fork: impl FnMut(&mut Engine<'_, '_>, &Story<'s>, &mut Rng) -> Option<Story<'s>>,
) {
    let units = [1, 5, 40, 300, usize::MAX][random.below(5)];
    // Number of batches that are ended before their results are used.
    let mut ends = random.below(8);
    while stories.iter().any(|story| !story.is_over()) {
        for index in 0..stories.len() {
            if stories[index].is_open() || stories[index].is_over() {
                continue;
            }
            if random.below(20) == 0 {
                let forked = fork(engine, &stories[index], random);
                stories.extend(forked);
            }
            stories[index].queue(engine, units);
        }
        match engine.step(units) {
            Ok(Step::Ready) => stories.iter_mut().for_each(|story| story.choose(engine, most)),
            Ok(_) => {}
            Err(error) => assert_eq!(error, EngineError::Busy),
        }
        let index = random.below(stories.len());
        if ends > 0 && random.below(20) == 0 && stories[index].is_open() {
            stories[index].end(engine);
            ends -= 1;
        }
    }
    engine.cache().check().unwrap();
}
