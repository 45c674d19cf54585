//! Finds the name in GGUF files for the pre-tokenizer of a `tokenizer.json`, which cuts texts into words.

use serde_json::Value as Json;

use common::Result;

/// A step of a pre-tokenizer.
#[derive(Debug, PartialEq)]
enum Step<'a> {
    /// Cuts around the matches of the expression.
    Split(&'a str),
    /// Cuts with the expression of GPT-2.
    Gpt2,
    /// Cuts around every digit.
    Digits,
    /// Cuts around numbers.
    Numbers,
    /// Cuts around punctuation.
    Punctuation,
    Other(&'a str),
}

/// Name, steps, and the value of `ignore_merges` (whether words that are tokens are taken without merges), if it
/// matters.
const TABLE: [(&str, &[Step<'_>], Option<bool>); 15] = [
    ("gpt-2", &[Step::Gpt2], None),
    ("smollm", &[Step::Digits, Step::Gpt2], None),
    ("llama-bpe", &[Step::Split(LLAMA3)], Some(true)),
    ("dbrx", &[Step::Split(LLAMA3)], Some(false)),
    ("qwen2", &[Step::Split(QWEN2)], None),
    ("qwen2", &[Step::Split(STABLELM2)], None),
    ("gpt-4o", &[Step::Split(GPT_4O)], None),
    ("tekken", &[Step::Split(TEKKEN)], None),
    ("bloom", &[Step::Split(BLOOM)], None),
    (
        "deepseek-llm",
        &[
            Step::Split("[\r\n]"),
            Step::Split(LETTERS),
            Step::Split(SIGNS),
            Step::Split("\\s+$"),
            Step::Split(CJK),
            Step::Digits,
        ],
        None,
    ),
    (
        "deepseek-coder",
        &[
            Step::Split("[\r\n]"),
            Step::Split("\\s?\\p{L}+"),
            Step::Split("\\s?\\p{P}+"),
            Step::Split(CJK),
            Step::Digits,
        ],
        None,
    ),
    (
        "deepseek-v3",
        &[Step::Split("\\p{N}{1,3}"), Step::Split("[一-龥\u{3040}-ゟ゠-ヿ]+"), Step::Split(DEEPSEEK3)],
        None,
    ),
    ("falcon", &[Step::Punctuation, Step::Gpt2, Step::Numbers, Step::Split("[0-9][0-9][0-9]")], None),
    ("falcon", &[Step::Punctuation, Step::Gpt2, Step::Split("[0-9][0-9][0-9]")], None),
    ("whitespace", &[Step::Other("Whitespace")], None),
];

const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const STABLELM2: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT_4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const BLOOM: &str = r" ?[^(\s|[.,!?…。，、।۔،])]+";
const DEEPSEEK3: &str = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";
const SIGNS: &str = r"\s?[!-/:-~！-／：-～‘-‟　-。]+";
const CJK: &str = "[一-龥ࠀ-一가-\u{d7ff}]+";
const LETTERS: &str = r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+";

/// Returns the name of the pre-tokenizer.
pub(super) fn name(tokenizer: &Json) -> Result<&'static str> {
    let steps = steps(&tokenizer["pre_tokenizer"]);
    let ignores_merges = tokenizer["model"]["ignore_merges"].as_bool().unwrap_or(false);
    let same = |&&(_, known, ignores): &&(&str, &[Step<'_>], Option<bool>)| {
        steps == known && ignores.is_none_or(|ignores| ignores == ignores_merges)
    };
    let found = TABLE.iter().find(same);
    found.map(|(name, ..)| *name).ok_or_else(|| format!("its pre-tokenizer is not known: {steps:?}").into())
}

/// Returns the steps, without those that cut nothing.
fn steps(json: &Json) -> Vec<Step<'_>> {
    if let Some(list) = json["pretokenizers"].as_array() {
        return list.iter().flat_map(steps).collect();
    }
    let flag = |name: &str, default: bool| json[name].as_bool().unwrap_or(default);
    let step = match json["type"].as_str().unwrap_or_default() {
        "ByteLevel" if flag("use_regex", true) => Step::Gpt2,
        "ByteLevel" | "" => return Vec::new(),
        "Split" => match (json["pattern"]["Regex"].as_str(), json["pattern"]["String"].as_str()) {
            (Some(expression), _) | (None, Some(expression)) => Step::Split(expression),
            _ => Step::Other("Split"),
        },
        "Digits" if flag("individual_digits", false) => Step::Digits,
        "Digits" => Step::Numbers,
        "Punctuation" => Step::Punctuation,
        other => Step::Other(other),
    };
    vec![step]
}
