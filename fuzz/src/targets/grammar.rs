//! Grammars, expressions and schemas: any bytes, and damaged texts of the tests' generators. A compiled grammar is
//! walked through: masks against single tokens, saved states, and damaged states.

use gleed::grammar::{Grammar, GrammarBuild, Limits, Matcher, Options, Planned, Source, TokenTrie, Vocabulary};
use xxhash_rust::xxh64::xxh64;

use super::sources::{expression, gbnf, letter, options, schema as random_schema};
use crate::support::{Bytes, Exact, forbidden, tried};
use common::random::Rng;

/// Small limits, so that texts meet them.
const LIMITS: Limits = Limits { items: 24, nodes: 48, depth: 12, past: 120 };
/// Most words of scratch and most bytes of a grammar. A text can ask for any number of repetitions.
const MOST: usize = 1 << 22;

pub fn grammar(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let is_gbnf = bytes.bool();
    let text = text(&mut bytes, |random| if is_gbnf { gbnf(random) } else { expression(random, 2) });
    compile(if is_gbnf { Source::Gbnf(&text) } else { Source::Regex(&text) }, &mut bytes);
}

pub fn schema(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let text = text(&mut bytes, |random| random_schema(random, 3));
    compile(Source::Schema(&text), &mut bytes);
}

/// Returns bytes as they are, or a text that was generated and then damaged.
fn text(bytes: &mut Bytes<'_>, made: impl Fn(&mut Rng) -> String) -> Vec<u8> {
    if bytes.bool() {
        let len = bytes.u16().into();
        return (0..len).map_while(|_| (bytes.left() > 0).then(|| bytes.u8())).collect();
    }
    let mut random = Rng::new(bytes.u32().into());
    let mut text = made(&mut random).into_bytes();
    for _ in 0..bytes.below(4) {
        let at = bytes.below(text.len());
        match bytes.u8() % 5 {
            _ if text.is_empty() => break,
            0 => text[at] = letter(&mut random).as_bytes()[0],
            1 => text[at] = bytes.u8(),
            2 => drop(text.remove(at)),
            3 => text.insert(at, b'0' + bytes.u8() % 10),
            _ => text.extend_from_within(at..),
        }
    }
    text
}

fn compile(source: Source<'_>, bytes: &mut Bytes<'_>) {
    let options = options(&mut Rng::new(bytes.u16().into()));
    let mut scratch: Box<[u32]> = Box::default();
    let size = loop {
        match forbidden(|| Grammar::plan(source, &options, &mut scratch)) {
            Ok(Planned::Scratch(words)) if words > scratch.len() && words <= MOST => scratch = vec![7; words].into(),
            Ok(Planned::Scratch(words)) => return assert!(words > MOST, "more scratch each time: {words}"),
            Ok(Planned::Memory(size)) => break size,
            Err(error) => return assert!(!error.to_string().is_empty()),
        }
    };
    if size > MOST {
        return;
    }
    let mut memory = Exact::new(size, 0xCC);
    forbidden(|| Grammar::new(source, &options, &mut scratch, memory.bytes()).map(drop)).expect("planned before");
    in_pieces((source, &options), scratch.len(), memory.bytes(), 1 + bytes.below(9));
    let grammar = forbidden(|| Grammar::new(source, &options, &mut scratch, memory.bytes())).expect("planned before");
    // A grammar that names a token may allow that token and no byte.
    let has_names = matches!(source, Source::Gbnf(text) if text.contains(&b'<'));
    walk(&grammar, has_names, bytes);
}

/// Compiles a grammar in steps of `units` units, and compares it with the whole one.
fn in_pieces((source, options): (Source<'_>, &Options<'_>), words: usize, whole: &[u8], units: usize) {
    // The compiler does not write the bytes behind the last word, so they must be equal before.
    let (mut scratch, mut memory): (Box<[u32]>, _) = (vec![9; words].into(), Exact::new(whole.len(), 0xCC));
    let mut build = GrammarBuild::new(source, *options, &mut scratch);
    while !forbidden(|| build.step(units)).expect("compiled before") {}
    assert_eq!(build.bytes(), Ok(whole.len()));
    forbidden(|| build.place(memory.bytes())).expect("as many bytes");
    while !forbidden(|| build.step(units)).expect("compiled before") {}
    forbidden(|| build.finish().map(drop)).expect("finished");
    assert!(memory.bytes() == whole, "other bytes in pieces");
}

/// Walks along a text of allowed bytes.
fn walk(grammar: &Grammar<'_>, has_names: bool, bytes: &mut Bytes<'_>) {
    let size = Matcher::plan(LIMITS).expect("limits that are possible");
    let (mut memory, mut other) = (Exact::new(size, 1), Exact::new(size, 2));
    let Ok(mut matcher) = forbidden(|| Matcher::new(grammar, LIMITS, memory.bytes())) else { return };
    let at = bytes.below(8);
    for step in 0..12 {
        if step == at {
            tokens(&mut matcher, other.bytes(), bytes);
            damaged(&mut matcher, bytes);
        }
        let next = matcher.next_bytes();
        let is_allowed = |byte: &u8| next[usize::from(byte / 64)] >> (byte % 64) & 1 == 1;
        let allowed: Vec<u8> = (0..=255).filter(is_allowed).collect();
        let before = saved(&matcher);
        let byte = bytes.u8();
        if !is_allowed(&byte) {
            assert_eq!(forbidden(|| matcher.take(byte)), Ok(false));
            assert_eq!(saved(&matcher), before, "a byte that is refused changes nothing");
        }
        if allowed.is_empty() {
            return assert!(has_names || matcher.may_end(), "a text can be continued, or ends");
        }
        let byte = *bytes.pick(&allowed);
        match forbidden(|| matcher.take(byte)) {
            Ok(taken) => assert!(taken, "a byte that is allowed"),
            Err(_) => return assert_eq!(saved(&matcher), before, "a limit that is met changes nothing"),
        }
    }
}

fn saved(matcher: &Matcher<'_, '_>) -> Vec<u8> {
    let mut out = vec![0; matcher.snapshot_len()];
    assert_eq!(forbidden(|| matcher.snapshot(&mut out)), Ok(out.len()));
    out
}

/// A vocabulary of all bytes, and of texts of the grammars' letters. Some texts end in the middle of a character.
struct Pieces(Vec<Vec<u8>>);

impl Pieces {
    fn new(random: &mut Rng) -> Self {
        let mut pieces: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
        for index in 0..32 {
            let mut text: Vec<u8> = (0..2 + random.below(6)).flat_map(|_| letter(random).bytes()).collect();
            if index % 3 == 0 {
                text.pop_if(|last| *last >= 0x80);
            }
            pieces.push(text);
        }
        Self(pieces)
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

/// Checks that the mask allows exactly the tokens that a copy of the matcher accepts.
fn tokens(matcher: &mut Matcher<'_, '_>, memory: &mut [u8], bytes: &mut Bytes<'_>) {
    let pieces = Pieces::new(&mut Rng::new(bytes.u16().into()));
    let mut scratch = vec![0; TokenTrie::scratch_len(&pieces)];
    let size = forbidden(|| TokenTrie::plan(&pieces, &mut scratch)).expect("a vocabulary");
    let mut nodes = Exact::new(size, 3);
    let trie = forbidden(|| TokenTrie::new(&pieces, &mut scratch, nodes.bytes())).expect("planned before");
    let mut mask = vec![0; trie.mask_len()];
    if forbidden(|| matcher.mask(&trie, usize::MAX, &mut mask)).is_err() {
        return;
    }
    let mut copy = forbidden(|| matcher.fork(memory)).expect("memory of the plan");
    let before = saved(matcher);
    for id in 0..pieces.tokens() {
        let is_allowed = mask[id as usize / 32] >> (id % 32) & 1 == 1;
        match forbidden(|| copy.accept(&pieces, id)) {
            Ok(accepted) => assert_eq!(accepted, is_allowed, "token {id}: {:?}", pieces.0[id as usize]),
            Err(error) => panic!("{error}"),
        }
        if is_allowed {
            match copy.rewindable() {
                0 => copy.restore(&before).expect("a state that was saved"),
                _ => copy.rewind(1).expect("a token that is kept"),
            }
        }
        let state = (copy.next_bytes(), copy.may_end());
        assert_eq!(state, (matcher.next_bytes(), matcher.may_end()), "token {id} was taken back");
    }
}

/// Number of bytes before the words of a state.
const HEAD: usize = 24;
/// Most words that are damaged one by one.
const DAMAGED: usize = 256;

/// Damages a state and corrects its checksum: bytes and bits anywhere, and each word by itself.
fn damaged(matcher: &mut Matcher<'_, '_>, bytes: &mut Bytes<'_>) {
    let own = saved(matcher);
    let body = own.len() - 8;
    for _ in 0..4 {
        let mut state = own.clone();
        for _ in 0..1 + bytes.below(3) {
            let at = HEAD + bytes.below(body - HEAD);
            state[at] = if bytes.bool() { state[at] ^ 1 << (bytes.u8() % 8) } else { bytes.u8() };
        }
        restored(matcher, &own, state, bytes);
    }
    for at in (HEAD..body).step_by(4).take(DAMAGED) {
        let word = u32::from_le_bytes(own[at..at + 4].try_into().expect("four bytes"));
        for other in [u32::MAX, word.wrapping_add(1), word ^ 1 << 16] {
            let mut state = own.clone();
            state[at..at + 4].copy_from_slice(&other.to_le_bytes());
            restored(matcher, &own, state, bytes);
        }
    }
}

/// Restores a state with a correct checksum. Either the matcher refuses it and does not change, or no number of the
/// state leads out of it and the matcher can go on. Afterwards the matcher has its own state again.
fn restored(matcher: &mut Matcher<'_, '_>, own: &[u8], mut state: Vec<u8>, bytes: &mut Bytes<'_>) {
    tried();
    let body = state.len() - 8;
    let sum = xxh64(&state[..body], 0).to_le_bytes();
    state[body..].copy_from_slice(&sum);
    match forbidden(|| matcher.restore(&state)) {
        Err(_) => assert_eq!(saved(matcher), own, "a state that is refused changes nothing"),
        Ok(()) => {
            assert!(leads_nowhere_else(&state[HEAD..body]), "a state whose numbers lead out of it");
            assert_eq!(saved(matcher), state, "a state that was read is written as it was");
            (0..6).for_each(|_| _ = forbidden(|| matcher.take(bytes.u8())));
            matcher.restore(own).expect("a state that was saved");
        }
    }
}

/// Returns whether all numbers of nodes and of places to return to exist in this state. A place must lead to an earlier
/// one, so that no way back is a circle.
fn leads_nowhere_else(state: &[u8]) -> bool {
    let mut words = state.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
    let mut next = || words.next().unwrap_or(u32::MAX);
    let [count, nodes, returns, _] = [(); 4].map(|()| next());
    let items = (0..count).all(|_| [(); 5].map(|()| next())[4] < nodes);
    let nodes_lead = (1..nodes).all(|_| (1..returns).contains(&[(); 3].map(|()| next())[1]));
    let places = (1..returns).all(|number| {
        let [_, _, node, before] = [(); 4].map(|()| next());
        node < nodes && before < number
    });
    items && nodes_lead && places
}
