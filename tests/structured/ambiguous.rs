//! Masks of texts with many readings at once: a walk over the tokens meets more frontiers than it can note.

use gleed::grammar::{Limits, MatchError, Matcher, Options, Source, TokenTrie, Vocabulary};

use super::Compiled;
use super::masks::{allows, mask_of, text_of};
use common::Memory;

/// A vocabulary of tokens with these bytes.
struct Texts(Vec<Vec<u8>>);

impl Vocabulary for Texts {
    fn tokens(&self) -> u32 {
        self.0.len() as u32
    }

    fn each_byte(&self, id: u32, f: &mut dyn FnMut(u8)) {
        self.0.get(id as usize).into_iter().flatten().for_each(|byte| f(*byte));
    }
}

/// Returns all texts of 2 to `most` of these letters.
pub(super) fn all_texts(letters: &[&str], most: usize) -> Vec<Vec<u8>> {
    let (mut all, mut last) = (Vec::new(), vec![Vec::new()]);
    for length in 1..=most {
        let longer = |text: &Vec<u8>| {
            let text = text.clone();
            letters.iter().map(move |letter| [&text, letter.as_bytes()].concat()).collect::<Vec<_>>()
        };
        last = last.iter().flat_map(longer).collect();
        if length > 1 {
            all.extend(last.iter().cloned());
        }
    }
    all
}

/// Checks the mask in each state of a text: it allows the tokens that a copy accepts, and is the same in small units.
fn compare(source: Source<'_>, limits: Limits, text: &str, trie: &TokenTrie<'_>, tokens: &Texts) {
    let options = Options::default();
    Compiled::new(source, &options).unwrap().with(source, &options, |grammar| {
        let bytes = Matcher::plan(limits).unwrap();
        let (mut memory, mut other) = (Memory::new(bytes), Memory::new(bytes));
        let mut matcher = Matcher::new(grammar, limits, memory.bytes()).unwrap();
        for at in 0..=text.len() {
            let mask = mask_of(&mut matcher, trie, usize::MAX);
            assert!(mask == mask_of(&mut matcher, trie, 1), "{source:?}: another mask in units");
            let mut copy = matcher.fork(other.bytes()).unwrap();
            for id in 0..tokens.tokens() {
                let accepted = copy.accept(tokens, id).unwrap();
                let token = || text_of(tokens, id).escape_ascii().to_string();
                assert_eq!(allows(&mask, id), accepted, "{source:?}: {} after {:?}", token(), &text[..at]);
                if accepted {
                    copy.rewind(1).unwrap();
                }
            }
            if let Some(byte) = text.as_bytes().get(at) {
                assert_eq!(matcher.take(*byte), Ok(true));
            }
        }
    });
}

fn with_trie(run: impl FnOnce(&Texts, &TokenTrie<'_>)) {
    let bytes = (0..=255).map(|byte| vec![byte]);
    let tokens = Texts(bytes.chain(all_texts(&["a", "b", "c"], 8)).collect());
    let mut scratch = vec![0; TokenTrie::scratch_len(&tokens)];
    let mut memory = Memory::new(TokenTrie::plan(&tokens, &mut scratch).unwrap());
    let trie = TokenTrie::new(&tokens, &mut scratch, memory.bytes()).unwrap();
    run(&tokens, &trie);
}

const GRAMMARS: [Source<'static>; 4] = [
    Source::Regex(b"(.{2}|a){2,}"),
    Source::Gbnf(b"root ::= (\"a\" | .{2}){2,}"),
    Source::Gbnf(b"root ::= (word | sep)+\nword ::= [a-z]+\nsep ::= [ ,.]\n"),
    Source::Gbnf(b"root ::= x\nx ::= \"a\" x \"b\" | \"a\" x \"c\" | [a-c]{3} x? | \"b\"\n"),
];

/// A walk over these tokens meets thousands of frontiers.
#[test]
fn masks_of_ambiguous_texts_equal_single_tokens() {
    with_trie(|tokens, trie| {
        for source in GRAMMARS {
            compare(source, Limits { past: 8192, ..Limits::default() }, "ab", trie, tokens);
        }
    });
}

/// A single token has room for its calls, and the walk must begin again to find that out.
#[test]
fn masks_of_ambiguous_texts_need_no_more_room_than_tokens() {
    with_trie(|tokens, trie| {
        for nodes in [40, 560, 640, 720] {
            for source in GRAMMARS {
                compare(source, Limits { nodes, past: 8192, ..Limits::default() }, "a", trie, tokens);
            }
        }
    });
}

/// If a token has no room, its mask is an error, too.
#[test]
fn masks_of_ambiguous_texts_say_what_has_no_room() {
    with_trie(|tokens, trie| {
        let (source, options) = (GRAMMARS[2], Options::default());
        let limits = Limits { nodes: 6, ..Limits::default() };
        Compiled::new(source, &options).unwrap().with(source, &options, |grammar| {
            let mut memory = Memory::new(Matcher::plan(limits).unwrap());
            let mut matcher = Matcher::new(grammar, limits, memory.bytes()).unwrap();
            let refused = (0..tokens.tokens()).find_map(|id| {
                matcher.reset().unwrap();
                matcher.accept(tokens, id).err()
            });
            matcher.reset().unwrap();
            let made = matcher.mask(trie, usize::MAX, &mut vec![0; trie.mask_len()]);
            assert_eq!(
                (refused, made),
                (Some(MatchError::TooDeep { limit: 6 }), Err(MatchError::TooDeep { limit: 6 }))
            );
        });
    });
}
