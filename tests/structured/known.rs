//! Masks for which a walk over tokens looks at few bytes: characters of all lengths, and texts with a bound. Each mask
//! is compared with single tokens.

use gleed::grammar::{Escapes, Grammar, Limits, Matcher, Options, Source, TokenTrie, Vocabulary, Whitespace};

use super::Compiled;
use super::masks::{allows, mask_of, text_of};
use common::Memory;
use common::random::Rng;

/// The first and the last character of each length, and of each first byte that allows few others, and some characters
/// between these.
const CHARS: &[char] = &[
    'a',
    'z',
    '-',
    ' ',
    '"',
    '\\',
    '<',
    '>',
    '@',
    '.',
    '1',
    '\t',
    '\u{1F}',
    '\u{7F}',
    '\u{80}',
    'é',
    'я',
    '\u{7FF}',
    '\u{800}',
    '\u{FFF}',
    '\u{1000}',
    '\u{2028}',
    '\u{3000}',
    '\u{CFFF}',
    '\u{D000}',
    '\u{D7FF}',
    '\u{E000}',
    '\u{FFFF}',
    '\u{10000}',
    '\u{3FFFF}',
    '\u{40000}',
    '\u{FFFFF}',
    '\u{100000}',
    '\u{10FFFF}',
];

/// A vocabulary of all bytes, and of texts of such characters. Some texts begin or end inside of a character.
struct Pieces(Vec<Vec<u8>>);

impl Pieces {
    fn new(random: &mut Rng) -> Self {
        let mut pieces: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
        for _ in 0..500 {
            // Most texts have few different characters, so that they get long before they are refused.
            let few = random.below(CHARS.len());
            let among = 1 + random.below(4);
            let char = |random: &mut Rng| CHARS[(few + random.below(among)) % CHARS.len()];
            let text: String = (0..1 + random.below(9)).map(|_| char(random)).collect();
            let (begin, end) = (random.below(4) / 3 * random.below(4), random.below(4) / 3 * random.below(4));
            pieces.push(text.bytes().skip(begin).take(text.len().saturating_sub(begin + end)).collect());
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

/// Writes a text of random allowed tokens. Returns the number of tokens.
fn walk(grammar: &Grammar<'_>, limits: Limits, name: &str, random: &mut Rng) -> usize {
    let pieces = Pieces::new(random);
    let mut scratch = vec![0; TokenTrie::scratch_len(&pieces)];
    let mut nodes = Memory::new(TokenTrie::plan(&pieces, &mut scratch).unwrap());
    let trie = TokenTrie::new(&pieces, &mut scratch, nodes.bytes()).unwrap();
    let mut memory = Memory::new(Matcher::plan(limits).unwrap());
    let mut matcher = Matcher::new(grammar, limits, memory.bytes()).unwrap();
    for step in 0..14 {
        if matcher.is_complete() {
            return step;
        }
        let mask = mask_of(&mut matcher, &trie, usize::MAX);
        assert_eq!(mask_of(&mut matcher, &trie, 1), mask, "{name}");
        let mut allowed = Vec::new();
        for id in 0..pieces.tokens() {
            let accepted = matcher.accept(&pieces, id).unwrap();
            let text = text_of(&pieces, id);
            assert_eq!(accepted, allows(&mask, id), "{name}, state {step}: {:?}", String::from_utf8_lossy(&text));
            if accepted {
                matcher.rewind(1).unwrap();
                allowed.push(id);
            }
        }
        // Any allowed token may come: long ones are rare enough.
        let id = allowed[allowed.len() - 1 - random.below(allowed.len())];
        assert_eq!(matcher.accept(&pieces, id), Ok(true));
    }
    14
}

#[test]
fn masks_of_characters_and_counts() {
    let schemas = [
        r#"{"type":"string","pattern":"^[^<>]*$"}"#,
        r#"{"type":"string","pattern":"^[^<>]*$","maxLength":7}"#,
        r#"{"type":"string","pattern":"^[^<>]*$","minLength":12,"maxLength":14}"#,
        r#"{"type":"string","minLength":3,"maxLength":9}"#,
        r#"{"type":"string","format":"email","maxLength":30}"#,
        r#"{"type":"string","pattern":"^(([a-z]+)(-?))+$","minLength":4,"maxLength":11}"#,
        r#"{"type":"string","pattern":"^(\\S+\\s+){0,3}\\S+$"}"#,
        r#"{"type":"string","pattern":"^[\\w\\s-]{1,40}$"}"#,
        r#"{"type":"string","pattern":"[а-яё]{2}","maxLength":20}"#,
        r#"{"type":"object","properties":{"aé":{"type":"string","pattern":"^a*$"}}}"#,
        r#"{"anyOf":[{"type":"string","maxLength":4},{"type":"string","pattern":"^[^a]*$"}]}"#,
    ];
    let expressions = [
        "\"[^\"]*\"",
        "[\\u{80}-\\u{10FFFF}]+",
        "[\\u{700}-\\u{FFFD}az]+x?",
        "[^\\u{2028}\\u{3000}]*",
        "([а-яё -]|[\\u{E000}-\\u{FFFF}]{2})+",
        "(.{3}|<[^>]*>)*",
        "[a-zé-]{0,300}",
    ];
    let gbnf = [
        "root ::= [^<]* \"<\" [^>]{2,5} \">\"",
        "root ::= ([\\x01-\\U0010FFFF] \"a\"?)+",
        "root ::= item+\nitem ::= [^ ] [^<]* \"<\" | \"b\" item \"z\"",
    ];
    let sources = (schemas.iter().map(|text| Source::Schema(text.as_bytes())))
        .chain(expressions.iter().map(|text| Source::Regex(text.as_bytes())))
        .chain(gbnf.iter().map(|text| Source::Gbnf(text.as_bytes())));
    let (mut random, mut states) = (Rng::new(20), 0);
    for source in sources {
        let name = String::from_utf8_lossy(source.text());
        for escapes in [Escapes::Short, Escapes::All] {
            let options = Options { whitespace: Whitespace::Compact, escapes, ..Options::default() };
            let mut compiled = Compiled::new(source, &options).unwrap_or_else(|error| panic!("{name}: {error}"));
            compiled.with(source, &options, |grammar| {
                let large = Limits::default();
                let small = Limits { items: 12, nodes: 200, ..large };
                for limits in [large, large, small] {
                    states += walk(grammar, limits, &name, &mut random);
                }
            });
        }
    }
    println!("{states} states");
    assert!(states > 500, "{states}");
}
