//! The pre-tokenizers against their regular expressions, run by a regular-expression engine.

use std::path::Path;

use fancy_regex::Regex;
use proptest::prelude::*;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

use super::{pre, rules};

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const MINICPM5: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const BAILINGMOE: &str =
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+";
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const SEED_CODER: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+";
const O200K: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const BLOOM: &str = r" ?[^(\s|[.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C}])]+";
const DEEPSEEK_LETTERS: &str = concat!(
    r"\s?[",
    r"A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}",
    r"\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}",
    r"\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}",
    r"\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}",
    r"\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}",
    r"\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}",
    r"\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}",
    r"\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}",
    r"\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}",
    r"\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}",
    r"\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}",
    r"\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}",
    r"\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}",
    r"\x{1E900}-\x{1E943}",
    "]+"
);
const DEEPSEEK3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;
const SCRIPTS: &str = r"[\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+";
const SIGNS: &str = r"\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+";

const KANA_AND_HAN: &str = r"[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+";
/// The rule is as in llama.cpp, like the rules of `afmoe`, `youtu`, `superbpe`, `ufakzeka` and `laguna`. The rule of
/// `kimi-k2` is in the file `tokenization_kimi.py` of the model, and the other rules are in `tokenizer.json`.
const SPARK: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+"##;
const AFMOE_SCRIPTS: &str = concat!(
    r"[\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF}\x{FF65}-\x{FF9F}",
    r"\x{2F00}-\x{2FDF}\x{E40}-\x{E7F}\x{E80}-\x{EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F}",
    r"\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+"
);
const KIMI: &str = r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const YOUTU_SCRIPTS: &str = concat!(
    r"[\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+",
    r"|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+",
    r"|[\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+"
);
const YOUTU: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const EXAONE_MOE: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+";
const JAIS2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}";
const UFAKZEKA: &str = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// For each pre-tokenizer one of its names, and the expressions that cut the text, one after the other.
const EXPRESSIONS: &[(&str, &[&str])] = &[
    ("llama-bpe", &[LLAMA3]),
    ("dbrx", &[LLAMA3]),
    ("minicpm5", &[r"\p{N}{1,3}", MINICPM5]),
    ("qwen2", &[QWEN2]),
    ("bailingmoe", &[BAILINGMOE]),
    ("qwen35", &[QWEN35]),
    ("seed-coder", &[SEED_CODER]),
    ("gpt-4o", &[O200K]),
    ("tekken", &[TEKKEN]),
    ("gpt-2", &[GPT2]),
    ("smollm", &[r"\p{N}", GPT2]),
    ("falcon", &[r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"]),
    ("default", &[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"]),
    ("bloom", &[BLOOM]),
    ("viking", &[BLOOM, r"\p{N}"]),
    ("deepseek-llm", &[r"[\r\n]", DEEPSEEK_LETTERS, SIGNS, r"\s+$", SCRIPTS, r"\p{N}"]),
    ("deepseek-coder", &[r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", SCRIPTS, r"\p{N}"]),
    ("deepseek-v3", &[r"\p{N}{1,3}", KANA_AND_HAN, DEEPSEEK3]),
    ("spark2_5", &[r"\p{N}{1,3}", KANA_AND_HAN, SPARK, r"\p{N}"]),
    ("afmoe", &[r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))", AFMOE_SCRIPTS, DEEPSEEK3]),
    ("kimi-k2", &[KIMI]),
    ("youtu", &[YOUTU_SCRIPTS, YOUTU]),
    ("tiny_aya", &[r"\d{1,3}(?=(?:\d{3})*\b)", O200K]),
    ("superbpe", &[r"\p{N}+", r"(?=(\d{3})+(?!\d))"]),
    ("exaone-moe", &[EXAONE_MOE]),
    ("jais-2", &[JAIS2]),
    ("ufakzeka", &[UFAKZEKA]),
    ("laguna", &[r"[^\n]+|[\n]+", QWEN2]),
    ("gemma4", &[r"[^\n]+|[\n]+"]),
    #[cfg(feature = "encoder")]
    ("whitespace", &[r"\w+|[^\w\s]+"]),
    (
        "chameleon",
        &[
            "<sentinel:[0-9]+>",
            "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
            r"([\t\n]|    |  )",
            r"\p{N}",
            r"[\p{P}!-/:-@\[-`{-~]",
            GPT2,
        ],
    ),
];

struct Oracle {
    name: &'static str,
    regexes: Vec<Regex>,
}

thread_local! {
    static ORACLES: Vec<Oracle> = EXPRESSIONS
        .iter()
        .map(|(name, list)| Oracle { name, regexes: list.iter().map(|text| Regex::new(text).unwrap()).collect() })
        .collect();
}

/// Returns the matches and the pieces of text between them.
fn pieces<'t>(regex: &Regex, text: &'t str) -> Vec<&'t str> {
    let mut pieces = Vec::new();
    let mut end = 0;
    for found in regex.find_iter(text).map(Result::unwrap) {
        pieces.extend([&text[end..found.start()], found.as_str()]);
        end = found.end();
    }
    pieces.push(&text[end..]);
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// Returns whether both sides know the character: the engine has a later version of Unicode than the pre-tokenizers.
fn is_known(c: char) -> bool {
    c.general_category() != GeneralCategory::Unassigned
}

fn check(text: &str) {
    check_rows(text, |_| true);
}

fn check_row(row: &str, text: &str) {
    check_rows(text, |name| name == row);
}

fn check_rows(text: &str, is_meant: impl Fn(&str) -> bool) {
    ORACLES.with(|oracles| {
        for Oracle { name, regexes } in oracles.iter().filter(|oracle| is_meant(oracle.name)) {
            let mut expected = vec![text];
            for regex in regexes {
                expected = expected.into_iter().flat_map(|piece| pieces(regex, piece)).collect();
            }
            expected.retain(|word| !word.is_empty());
            let words: Vec<&str> = pre::find(name.as_bytes()).unwrap().words(text).collect();
            assert_eq!(words, expected, "{name} {text:?}");
        }
    });
}

/// Characters that the rules tell apart, and any others.
fn character() -> impl Strategy<Value = char> {
    let chosen = "aBsSlLeEtTdDvVrRmM'''''      \t\n\r0129.,!?(|)$+<`^~/_-\
        \u{17F}\u{B}\u{85}\u{A0}\u{2028}\u{3000}\u{B2}\u{BD}\u{663}\u{2167}\u{2026}\u{3002}\u{FF0C}\u{964}\
        \u{301}\u{94D}\u{20DD}\u{E0100}\u{E9}\u{C9}\u{1C5}\u{2B0}\u{AA}\u{8A9E}\u{3042}\u{30A2}\u{AC00}\u{E01}\
        \u{5D0}\u{10D0}\u{1C90}\u{1F600}\u{200D}\u{200B}\u{AD}\0\u{1B}\u{FEFF}\u{E000}\u{FFFD}\u{2581}\u{201C}\
        \u{FF01}\u{9FA6}\u{D7FB}";
    let chosen: Vec<char> = chosen.chars().collect();
    prop_oneof![8 => prop::sample::select(chosen), 1 => any::<char>(), 1 => prop::char::range('\0', '\u{32FF}')]
        .prop_filter("not assigned", |&c| is_known(c))
}

proptest! {
    #[test]
    fn words_are_those_of_the_regular_expressions(text in prop::collection::vec(character(), 0..30)) {
        check(&text.into_iter().collect::<String>());
    }

    #[test]
    fn words_are_the_text(text in any::<String>()) {
        for row in pre::TABLE {
            prop_assert_eq!(row.words(&text).collect::<String>(), text.as_str());
        }
    }
}

#[test]
fn words_of_the_fixtures() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/fixtures/tokenizers/texts.jsonl");
    if !Path::new(path).exists() {
        assert!(std::env::var("GLEED_REQUIRE_SHARED").as_deref() != Ok("1"), "../shared is not there");
        println!("skipped: ../shared is not there");
        return;
    }
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        check(&value["text"].as_str().unwrap().chars().filter(|&c| is_known(c)).collect::<String>());
    }
}

/// Names of Chameleon's tokens, whole and cut short.
#[test]
fn names_of_chameleon() {
    let parts = ["<sentinel:", "12", ">", "IMGIMG", "IMG", "A", "BCD", "IZ", "Z", " ", "   ", "x", "1"];
    for (a, b) in parts.iter().flat_map(|a| parts.map(|b| (a, b))) {
        for (c, d) in parts.iter().flat_map(|c| parts.map(|d| (c, d))) {
            check_row("chameleon", &format!("{a}{b}{c}{d}"));
        }
    }
}

/// Runs of blanks and digits that are longer than the runs in random texts.
#[test]
fn long_runs() {
    for len in (1..40).chain([63, 64, 65, 127, 511, 512, 513, 514, 1030]) {
        for run in [" ", "\t", "7", "\u{663}", "\u{BD}", "a b ", "\u{8a9e}"] {
            check(&format!("a{0}b{0}\n{0}", run.repeat(len)));
            check(&format!("12\u{BD}{0},{0}\u{BD}1{0}_{0}", run.repeat(len)));
        }
    }
}

#[test]
fn decimal_digits_are_those_of_unicode() {
    for c in '\0'..=char::MAX {
        assert_eq!(rules::is_decimal(c), c.general_category() == GeneralCategory::DecimalNumber, "{c:?}");
    }
}

/// Every character between other characters. Of large scripts, and of planes without scripts, only a sample.
#[test]
fn every_character_is_where_it_belongs() {
    let is_sampled =
        |code: u32| matches!(code, 0x3400..=0xD7A3 | 0xE000..=0xF8FF | 0x17000..) && !code.is_multiple_of(61);
    for c in ('\0'..=char::MAX).filter(|&c| is_known(c) && !is_sampled(u32::from(c))) {
        check(&format!("a{c}{c}B 1{c}. {c}"));
    }
}

#[test]
fn every_row_is_checked() {
    let is_checked = |names: &[&str]| EXPRESSIONS.iter().any(|(name, _)| names.contains(name));
    let unchecked: Vec<_> = pre::TABLE.iter().filter(|row| !is_checked(row.names)).collect();
    // These have the rule of another row, and differ from it only in their other fields.
    assert_eq!(
        format!("{unchecked:?}"),
        r#"[["glm4", "glm5"], ["granite-embed-multi-97m"], ["granite-embed-multi-311m"], ["sarvam-moe"], ["mmbert"]]"#
    );
}
