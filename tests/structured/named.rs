//! Tokens that the grammar names and whose bytes it may also allow. The mask and a matcher that takes them agree,
//! including about limits.

use gleed::grammar::{Limits, MatchError, Matcher, Options, Source, TokenTrie, Vocabulary};

use super::Compiled;
use super::masks::allows;
use common::Memory;

/// A vocabulary of bytes, some texts, two tokens without bytes (260, 261), and a token that is too long (262).
struct Texts;

impl Vocabulary for Texts {
    fn tokens(&self) -> u32 {
        263
    }

    fn each_byte(&self, id: u32, f: &mut dyn FnMut(u8)) {
        match id {
            0..256 => f(id as u8),
            256 => b"ad".iter().copied().for_each(f),
            257 => b"a".iter().copied().for_each(f),
            258 => b"(x)(x)(x)(x)(x)".iter().copied().for_each(f),
            259 => [b'z'; 512].into_iter().for_each(f),
            262 => [b'z'; 513].into_iter().for_each(f),
            _ => {}
        }
    }
}

/// Compares the mask behind a text with each token alone. Returns the allowed tokens, or the error that both give.
fn compare(source: &[u8], limits: Limits, text: &[u8]) -> Result<Vec<u32>, MatchError> {
    let (source, options) = (Source::Gbnf(source), Options::default());
    let mut scratch = vec![0; TokenTrie::scratch_len(&Texts)];
    let mut nodes = Memory::new(TokenTrie::plan(&Texts, &mut scratch).unwrap());
    let trie = TokenTrie::new(&Texts, &mut scratch, nodes.bytes()).unwrap();
    Compiled::new(source, &options).unwrap().with(source, &options, |grammar| {
        let mut memory = Memory::new(Matcher::plan(limits).unwrap());
        let mut matcher = Matcher::new(grammar, limits, memory.bytes()).unwrap();
        assert_eq!(matcher.take_all(text), Ok(text.len()));
        let mut saved = vec![0; matcher.snapshot_len()];
        matcher.snapshot(&mut saved).unwrap();
        // This includes one id beyond the last one.
        let mut alone = (0..=Texts.tokens()).map(|id| {
            matcher.restore(&saved).unwrap();
            matcher.accept(&Texts, id)
        });
        let alone: Result<Vec<bool>, MatchError> = alone.by_ref().collect();
        matcher.restore(&saved).unwrap();
        let mut mask = vec![0; trie.mask_len()];
        let made = match matcher.mask(&trie, usize::MAX, &mut mask) {
            Err(MatchError::NoToken { .. }) => Ok(()),
            made => made.map(|_| ()),
        };
        assert_eq!(made, alone.as_ref().map(drop).map_err(|error| *error));
        let alone = alone?;
        (0..=Texts.tokens()).for_each(|id| assert_eq!(allows(&mask, id), alone[id as usize], "token {id}"));
        Ok((0..Texts.tokens()).filter(|&id| allows(&mask, id)).collect())
    })
}

const LIMITS: Limits = Limits { items: 16, nodes: 16, depth: 8, past: 0 };

/// The readings of the name and of the bytes each fit alone, but not together.
#[test]
fn a_token_that_is_read_in_too_many_ways_is_in_no_mask() {
    let both = b"root ::= <[97]> (\"b\" \"1\" | \"c\" \"2\") | \"a\" (\"d\" \"3\" | \"e\" \"4\")";
    assert_eq!(compare(both, LIMITS, b""), Ok(vec![97, 256, 257]));
    let few = |items| Limits { items, ..LIMITS };
    assert_eq!(compare(both, few(4), b""), Ok(vec![97, 256, 257]));
    assert_eq!(compare(both, few(3), b""), Err(MatchError::TooAmbiguous { limit: 3 }));
    // A token with the same bytes has the name.
    let alike = b"root ::= <[257]> (\"b\" \"1\" | \"c\" \"2\") | \"a\" (\"d\" \"3\" | \"e\" \"4\")";
    assert_eq!(compare(alike, few(4), b""), Ok(vec![97, 256, 257]));
    assert_eq!(compare(alike, few(3), b""), Err(MatchError::TooAmbiguous { limit: 3 }));
    // Any token except one: only those that begin with the letter have both readings.
    let other = b"root ::= !<[120]> (\"b\" \"1\" | \"c\" \"2\") | \"a\" (\"d\" \"3\" | \"e\" \"4\")";
    assert_eq!(compare(other, LIMITS, b"").map(|ids| ids.len()), Ok(262));
    assert_eq!(compare(other, few(3), b""), Err(MatchError::TooAmbiguous { limit: 3 }));
    // The readings of the name alone are too many.
    let name = b"root ::= <[97]> (\"b\" \"1\" | \"c\" \"2\") | \"xy\"";
    assert_eq!(compare(name, few(2), b""), Ok(vec![97, 120]));
    let name = b"root ::= <[260]> (\"b\" \"1\" | \"c\" \"2\" | \"d\" \"3\") | \"xy\"";
    assert_eq!(compare(name, LIMITS, b""), Ok(vec![120, 260]));
    assert_eq!(compare(name, few(2), b""), Err(MatchError::TooAmbiguous { limit: 2 }));
}

/// Calls in the reading of the name and in that of the bytes take separate nodes.
#[test]
fn nodes_of_both_readings_count() {
    let both = b"root ::= <[256]> x \"1\" | \"a\" y \"2\"\nx ::= \"b\"+\ny ::= \"d\" z \"3\" | \"e\"\nz ::= \"c\"+";
    let nodes = |nodes| Limits { nodes, ..LIMITS };
    assert_eq!(compare(both, LIMITS, b""), Ok(vec![97, 256, 257]));
    assert_eq!(compare(both, nodes(4), b""), Ok(vec![97, 256, 257]));
    assert_eq!(compare(both, nodes(3), b""), Err(MatchError::TooDeep { limit: 3 }));
    // Bytes that make a node and lead nowhere.
    let name = b"root ::= <[256]> x \"1\" | \"a\" y \"2\"\nx ::= \"b\"+\ny ::= \"e\"+";
    assert_eq!(compare(name, nodes(2), b""), Ok(vec![97, 256, 257]));
}

/// A token that returns to its first state makes nodes in each round. The walk, which knows the state, makes them only
/// once.
#[test]
fn rounds_within_a_token_take_nodes() {
    let rounds = b"root ::= (\"(\" x \")\")*\nx ::= \"x\"";
    let nodes = |nodes| Limits { nodes, ..LIMITS };
    assert_eq!(compare(rounds, LIMITS, b""), Ok(vec![40, 258]));
    assert_eq!(compare(rounds, LIMITS, b"("), Ok(vec![120]));
    assert_eq!(compare(rounds, nodes(6), b""), Ok(vec![40, 258]));
    assert_eq!(compare(rounds, nodes(5), b""), Err(MatchError::TooDeep { limit: 5 }));
    assert_eq!(compare(rounds, nodes(2), b""), Err(MatchError::TooDeep { limit: 2 }));
}

/// A walk has a limited number of states behind a token. Beyond the limit, a mask is refused, and is never wrong.
#[test]
fn a_walk_has_places_or_is_refused() {
    let pairs = b"root ::= (\"zz\" | \"z\" \"z\")*";
    assert_eq!(compare(pairs, Limits { items: 256, ..LIMITS }, b""), Ok(vec![122, 259]));
    let (source, options, limits) = (Source::Gbnf(pairs), Options::default(), Limits { items: 3, ..LIMITS });
    let mut scratch = vec![0; TokenTrie::scratch_len(&Texts)];
    let mut nodes = Memory::new(TokenTrie::plan(&Texts, &mut scratch).unwrap());
    let trie = TokenTrie::new(&Texts, &mut scratch, nodes.bytes()).unwrap();
    Compiled::new(source, &options).unwrap().with(source, &options, |grammar| {
        let mut memory = Memory::new(Matcher::plan(limits).unwrap());
        let mut matcher = Matcher::new(grammar, limits, memory.bytes()).unwrap();
        let refused = matcher.mask(&trie, usize::MAX, &mut vec![0; trie.mask_len()]);
        assert_eq!(refused, Err(MatchError::TooAmbiguous { limit: 3 }));
        assert_eq!(matcher.accept(&Texts, 259), Ok(true));
    });
}

#[test]
fn tokens_without_bytes_with_too_many_and_beyond_the_last_one() {
    assert_eq!(compare(b"root ::= \"z\"+", LIMITS, b""), Ok(vec![122, 259]));
    assert_eq!(compare(b"root ::= <[262]> | <[260]> \"x\"", LIMITS, b""), Ok(vec![260, 262]));
    assert_eq!(compare(b"root ::= <[263]> | <[9999]> \"x\" | <[261]>", LIMITS, b""), Ok(vec![261]));
    assert_eq!(compare(b"root ::= <[263]>", LIMITS, b""), Ok(vec![]));
    let others = compare(b"root ::= \"x\" !<[260]> \"y\"", LIMITS, b"x").unwrap();
    assert_eq!(others, (0..263).filter(|id| *id != 260).collect::<Vec<u32>>());
    // Each of the two names is excluded in only one alternative.
    let all = compare(b"root ::= !<[260]> \"y\" | !<[97]> \"z\"", LIMITS, b"").unwrap();
    assert_eq!(all, (0..263).collect::<Vec<u32>>());
}
