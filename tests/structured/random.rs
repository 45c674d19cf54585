//! Random grammars, schemas and expressions, damaged ones, random tokens, and damaged states. `PROPTEST_CASES` is their
//! number.

use std::time::SystemTime;

use gleed::grammar::{Grammar, Limits, MatchError, Matcher, Source, TokenTrie, TrieBuild, TrieError, Vocabulary};

use super::ambiguous::all_texts;
use super::masks::{allows, mask_of, text_of};
use super::pieces::made;
use super::random_sources::{bounded, expression, gbnf, letter, options, schema, unanchored};
use super::{Compiled, check};
use common::Memory;
use common::random::Rng;

/// Returns small limits, so that texts meet them, and now and then limits for many tokens.
fn limits(random: &mut Rng) -> Limits {
    if random.below(24) == 0 {
        return Limits { items: 128, nodes: 512 + random.below(2048), depth: 32, past: 2000 };
    }
    let [items, nodes] = [2 + random.below(23), 3 + random.below(46)];
    [Limits { items, nodes, depth: 12, past: 120 }, Limits { items: 24, nodes: 48, depth: 12, past: 120 }]
        [random.below(2)]
}

/// Counts of the things that were tried.
#[derive(Debug, Default)]
struct Counts {
    compiled: usize,
    refused: usize,
    states: usize,
    tokens: usize,
    damaged: usize,
}

/// Prints its contents if a test fails while it lives.
struct Case<T: std::fmt::Debug>(T);

impl<T: std::fmt::Debug> Drop for Case<T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("it was with {:?}", self.0);
        }
    }
}

/// Runs a test with random seeds, or with `RANDOM_SEED`.
fn cases(name: &str, most: usize, mut test: impl FnMut(&mut Rng, &mut Counts)) {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let mut counts = Counts::default();
    if let Some(seed) = number("RANDOM_SEED") {
        return test(&mut Rng::new(seed), &mut counts);
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let mut seeds = Rng::new(now);
    for _ in 0..number("PROPTEST_CASES").map_or(most, |cases| cases as usize) {
        let seed = Case(seeds.u64());
        test(&mut Rng::new(seed.0), &mut counts);
    }
    println!("{name}: {counts:?}");
}

/// A vocabulary of all bytes, random texts of the grammars' letters, and some tokens without bytes or with too many.
struct Pieces(Vec<Vec<u8>>);

impl Pieces {
    /// Adds all texts of 2 to 7 of some letters: a walk over these meets more frontiers than it can note.
    fn many(random: &mut Rng) -> Self {
        let Self(mut pieces) = Self::new(random);
        let letters = if random.below(2) == 0 { ["a", "b", "c"] } else { [(); 3].map(|()| letter(random)) };
        pieces.extend(all_texts(&letters, 7));
        Self(pieces)
    }

    fn new(random: &mut Rng) -> Self {
        let bytes = (0..=255).map(|byte| vec![byte]);
        let text = |random: &mut Rng| (0..2 + random.below(6)).flat_map(|_| letter(random).bytes()).collect();
        let texts: Vec<Vec<u8>> = (0..48).map(|_| text(random)).collect();
        // Some texts end in the middle of a character.
        let cut = |mut text: Vec<u8>| {
            text.pop_if(|last| *last >= 0x80);
            text
        };
        let others = [vec![], vec![b'a'; 512], vec![b'a'; 513], vec![], b"ab".repeat(12), b"[1,".repeat(12)];
        Self(bytes.chain(texts.iter().cloned()).chain(texts.iter().take(16).cloned().map(cut)).chain(others).collect())
    }
}

impl Vocabulary for Pieces {
    fn tokens(&self) -> u32 {
        self.0.len() as u32
    }

    fn each_byte(&self, id: u32, f: &mut dyn FnMut(u8)) {
        self.0.get(id as usize).into_iter().flatten().for_each(|byte| f(*byte));
    }
}

/// Compiles a source, and walks through the grammar.
fn compile(source: Source<'_>, random: &mut Rng, counts: &mut Counts) {
    let options = options(random);
    let _case = Case((String::from_utf8_lossy(source.text()), options));
    let whole = Compiled::new(source, &options);
    if random.below(8) == 0 {
        let whole = whole.as_ref().map(|_| made(source, &options, usize::MAX).unwrap().0);
        let pieces = made(source, &options, 1 + random.below(9)).map(|(bytes, _)| bytes);
        assert!(whole.map_err(|error| *error) == pieces, "other bytes, or another error, in pieces");
    }
    match whole {
        Err(_) => counts.refused += 1,
        Ok(mut compiled) => {
            counts.compiled += 1;
            // A grammar that names a token may allow that token and no byte.
            let names = matches!(source, Source::Gbnf(text) if text.contains(&b'<'));
            let limits = limits(random);
            let _limits = Case(limits);
            compiled.with(source, &options, |grammar| walk(grammar, limits, names, random, counts));
        }
    }
}

/// Writes a text of random allowed bytes. Its states are saved and damaged, and masks are compared with single tokens.
fn walk(grammar: &Grammar<'_>, limits: Limits, names: bool, random: &mut Rng, counts: &mut Counts) {
    let bytes = Matcher::plan(limits).unwrap();
    let (mut memory, mut other) = (Memory::new(bytes), Memory::new(bytes));
    let Ok(mut matcher) = Matcher::new(grammar, limits, memory.bytes()) else { return };
    let at = random.below(10);
    for step in 0..16 {
        counts.states += 1;
        if step == at {
            tokens(&mut matcher, other.bytes(), random, counts);
            damaged(&mut matcher, random, counts);
        }
        let next = matcher.next_bytes();
        let is_allowed = |byte: &u8| next[usize::from(byte / 64)] >> (byte % 64) & 1 == 1;
        let allowed: Vec<u8> = (0..=255).filter(is_allowed).collect();
        let before = saved(&matcher);
        let byte = random.u64() as u8;
        if !is_allowed(&byte) {
            assert_eq!(matcher.take(byte), Ok(false));
            assert_eq!(saved(&matcher), before);
        }
        if allowed.is_empty() {
            assert!(names || matcher.may_end(), "a text that can be continued, or ends");
            return;
        }
        match matcher.take(allowed[random.below(allowed.len())]) {
            Ok(taken) => assert!(taken),
            Err(_) => return assert_eq!(saved(&matcher), before),
        }
    }
}

fn saved(matcher: &Matcher<'_, '_>) -> Vec<u8> {
    let mut bytes = vec![0; matcher.snapshot_len()];
    assert_eq!(matcher.snapshot(&mut bytes), Ok(bytes.len()));
    bytes
}

/// Checks that the mask allows the tokens that a copy of the matcher accepts, or is an error if a limit is exceeded.
fn tokens(matcher: &mut Matcher<'_, '_>, memory: &mut [u8], random: &mut Rng, counts: &mut Counts) {
    let pieces = if matcher.limits().nodes < 512 { Pieces::new(random) } else { Pieces::many(random) };
    let mut scratch = vec![0; TokenTrie::scratch_len(&pieces)];
    let mut build = TrieBuild::new(&pieces, &mut scratch).unwrap();
    assert!(build.step(usize::MAX).unwrap());
    let mut nodes = Memory::new(build.bytes().unwrap());
    build.place(nodes.bytes()).unwrap();
    assert!(build.step(usize::MAX).unwrap());
    let trie = build.finish().unwrap();
    let mut mask = vec![0; trie.mask_len()];
    let made = matcher.mask(&trie, usize::MAX, &mut mask);
    let is_too_much = matches!(made, Err(MatchError::TooAmbiguous { .. } | MatchError::TooDeep { .. }));
    match made {
        Ok(_) => assert_eq!(mask_of(matcher, &trie, 1), mask),
        Err(MatchError::NoToken { .. }) => mask.fill(0),
        Err(error) => assert!(is_too_much, "{error}"),
    }
    let mut copy = matcher.fork(memory).unwrap();
    let before = saved(matcher);
    let mut ends = vec![usize::MAX; mask.len() * 32];
    let mut refused = false;
    for id in 0..=pieces.tokens() {
        counts.tokens += 1;
        let accepted = match copy.accept(&pieces, id) {
            Ok(accepted) => accepted,
            Err(error) => {
                assert!(is_too_much, "{error}: {:?}", String::from_utf8_lossy(&text_of(&pieces, id)));
                refused = true;
                continue;
            }
        };
        let is_allowed = is_too_much || accepted == (id < pieces.tokens() && allows(&mask, id));
        assert!(is_allowed, "{id}, {:?}: {accepted}", String::from_utf8_lossy(&text_of(&pieces, id)));
        if accepted {
            ends[id as usize] = copy.bytes_to_end().unwrap_or(usize::MAX);
            match copy.rewindable() {
                0 => copy.restore(&before).unwrap(),
                _ => copy.rewind(1).unwrap(),
            }
        }
    }
    // A walk needs more room for items than a single token.
    assert!(refused || !matches!(made, Err(MatchError::TooDeep { .. })), "{made:?}");
    let left = matcher.bytes_to_end().ok().filter(|_| made.is_ok());
    if let Some(left) = left {
        for tokens in [left / 2, left, left + 1, left + 1 + random.below(9), left + 1000] {
            within(matcher, &trie, tokens, left, (&mask, &ends));
        }
    }
}

/// Checks the mask for a text that must end in time. It allows the tokens after which the end is near enough: `ends`
/// bytes. It allows all tokens if there is no such token, or if the limit is far.
fn within(
    matcher: &mut Matcher<'_, '_>,
    trie: &TokenTrie<'_>,
    tokens: usize,
    left: usize,
    (all, ends): (&[u32], &[usize]),
) {
    let mut mask = vec![0; all.len()];
    if matcher.mask_within(trie, tokens, usize::MAX, &mut mask).is_err() {
        return;
    }
    let most = tokens.max(left).saturating_sub(1);
    let near = |id: u32| allows(all, id) && ends[id as usize] <= most;
    let is_near = (0..all.len() as u32 * 32).all(|id| allows(&mask, id) == near(id));
    let is_none = !(0..all.len() as u32 * 32).any(near);
    assert!(is_near || mask == all && (is_none || tokens > left), "{tokens} tokens, {left} bytes");
}

/// Damages a state and corrects its checksum. Either the state is refused and nothing changes, or the matcher goes on
/// with it.
fn damaged(matcher: &mut Matcher<'_, '_>, random: &mut Rng, counts: &mut Counts) {
    let own = saved(matcher);
    let body = own.len() - 8;
    for _ in 0..8 {
        counts.damaged += 1;
        let mut bytes = own.clone();
        for _ in 0..1 + random.below(3) {
            let at = 24 + random.below(body - 24);
            bytes[at] = if random.below(2) == 0 { bytes[at] ^ 1 << random.below(8) } else { random.u64() as u8 };
        }
        let sum = gleed::num::Xxh64::hash(&bytes[..body]);
        bytes[body..].copy_from_slice(&sum.to_le_bytes());
        match matcher.restore(&bytes) {
            Err(_) => assert_eq!(saved(matcher), own),
            Ok(()) => {
                assert_eq!(saved(matcher), bytes);
                for _ in 0..8 {
                    let _any = matcher.take(random.u64() as u8);
                }
                matcher.restore(&own).unwrap();
            }
        }
    }
}

#[test]
fn random_grammars() {
    cases("grammars", 150, |random, counts| compile(Source::Gbnf(gbnf(random).as_bytes()), random, counts));
}

#[test]
fn random_expressions() {
    cases("expressions", 150, |random, counts| {
        let text = expression(random, 2);
        // Most expressions have no anchors, because anchors are refused within a text.
        let text = if random.below(8) == 0 { text } else { unanchored(&text) };
        compile(Source::Regex(text.as_bytes()), random, counts)
    });
}

#[test]
fn random_schemas() {
    cases("schemas", 150, |random, counts| compile(Source::Schema(schema(random, 3).as_bytes()), random, counts));
}

/// A bound as a count of characters gives the same as a bound as states, which one of several alternatives has.
#[test]
fn bounds_of_patterns() {
    cases("bounds", 150, |random, counts| {
        let pattern = bounded(random);
        let other = ["", r#","maxLength":7"#, r#","minLength":3"#][random.below(3)];
        let schema =
            |pattern: &str| format!(r#"{{"type":"string","pattern":{}{other}}}"#, serde_json::Value::from(pattern));
        let [counted, states] = [schema(&pattern), schema(&format!("{pattern}|{pattern}"))];
        let _case = Case((counted.clone(), states.clone()));
        let text = |random: &mut Rng| {
            let letter = |random: &mut Rng| ["a", "b", "c", "\u{e9}", "1", "\u{1f600}", "\\n"][random.below(7)];
            let one = letter(random);
            let inner: String =
                (0..random.below(17)).map(|_| if random.below(9) == 0 { letter(random) } else { one }).collect();
            format!("\"{inner}\"")
        };
        let texts: Vec<String> = (0..12).map(|_| text(random)).collect();
        let options = options(random);
        let of = |schema: &str| check(Source::Schema(schema.as_bytes()), &options, &texts).map_err(|error| error.kind);
        let found = of(&counted);
        assert_eq!(found, of(&states));
        counts.compiled += usize::from(found.is_ok());
        counts.refused += usize::from(found.is_err());
        counts.states += texts.len();
        compile(Source::Schema(counted.as_bytes()), random, counts);
    });
}

/// Texts with bytes that were changed, removed, or doubled.
#[test]
fn damaged_sources() {
    cases("damaged sources", 150, |random, counts| {
        let kind = random.below(3);
        let text = match kind {
            0 => gbnf(random),
            1 => expression(random, 2),
            _ => schema(random, 3),
        };
        let mut text = text.into_bytes();
        for _ in 0..1 + random.below(3) {
            if text.is_empty() {
                break;
            }
            let at = random.below(text.len());
            match random.below(4) {
                0 => text[at] = letter(random).as_bytes()[0],
                1 => text[at] = random.u64() as u8,
                2 => drop(text.remove(at)),
                _ => text.extend_from_within(at..),
            }
        }
        let source = match kind {
            0 => Source::Gbnf(&text),
            1 => Source::Regex(&text),
            _ => Source::Schema(&text),
        };
        compile(source, random, counts);
    });
}

/// The tables of a vocabulary are the same in any pieces.
#[test]
fn tables_in_pieces_are_the_same() {
    cases("vocabularies", 20, |random, counts| {
        let mut pieces = Pieces::new(random);
        for _ in 0..random.below(6000) {
            let text = (0..random.below(30)).flat_map(|_| letter(random).bytes()).collect();
            pieces.0.push(text);
        }
        let mut scratch = vec![random.u64() as u32; TokenTrie::scratch_len(&pieces)];
        let mut nodes = Memory::new(TokenTrie::plan(&pieces, &mut scratch).unwrap());
        TokenTrie::new(&pieces, &mut scratch, nodes.bytes()).unwrap();
        let mut again = Memory::new(nodes.bytes().len());
        let mut build = TrieBuild::new(&pieces, &mut scratch).unwrap();
        let (mut steps, bytes) = (0, again.bytes().len());
        assert_eq!(build.bytes(), Err(TrieError::Unfinished));
        while !build.step(random.below(3)).unwrap() {
            assert!(build.bytes().is_err() && build.finish().is_err());
            steps += 1;
        }
        assert_eq!(build.bytes(), Ok(bytes));
        build.place(again.bytes()).unwrap();
        while !build.step(random.below(3)).unwrap() {
            assert!(build.finish().is_err());
            steps += 1;
        }
        assert!(build.finish().is_ok() && build.finish().is_err());
        assert!(steps >= pieces.0.len() / 4096);
        drop(build);
        counts.tokens += pieces.0.len();
        assert!(nodes.bytes() == again.bytes());
    });
}
