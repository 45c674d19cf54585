//! The regular expressions of the pre-tokenizers, written out by hand.
//!
//! A [`Rule`] cuts a text into pieces: the matches of its expression, and what is between two of them. As a function it
//! tells the length of the first piece of a text, match or not: at least one character and never more than the text.
//! To cut a text up, a rule reads each character a bounded number of times.

use super::class::Set;

/// From a text that is not empty to the length of its first piece in bytes.
pub(super) type Rule = fn(&str) -> usize;

/// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
pub(super) fn gpt2(text: &str) -> usize {
    if let Some(len) = contraction(text, false) {
        return len;
    }
    let (space, rest) = optional(text, |c| c == ' ');
    let run = [Set::LETTER, Set::NUMBER, OTHER].map(|set| set_run(rest, set)).into_iter().find(|&len| len > 0);
    run.map_or_else(|| spaces(text), |len| space + len)
}

/// `[^\s\p{L}\p{N}]`
const OTHER: Set = Set::SPACE.or(Set::LETTER).or(Set::NUMBER).not();

/// The differences between the rules that descend from cl100k.
pub(super) struct Style {
    /// The characters of words.
    pub(super) letters: Set,
    /// The most digits of a number.
    pub(super) digits: usize,
    /// The characters that a run of other characters takes with it at its end.
    pub(super) tail: fn(char) -> bool,
}

impl Style {
    const fn new(digits: usize) -> Self {
        Self { letters: Set::LETTER, digits, tail: is_newline }
    }
}

/// `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?L+|\p{N}{1,D}| ?[^\s\p{N}L]+T*|\s*[\r\n]+|\s+(?!\S)|\s+` with the
/// letters L, the number of digits D and the tail T of the style.
fn cl100k(text: &str, style: &Style) -> usize {
    contraction(text, true)
        .or_else(|| prefixed(text, Set::LETTER.or(Set::NUMBER), style.letters))
        .unwrap_or_else(|| others(text, style))
}

/// The rule of Llama 3: numbers of up to three digits.
pub(super) fn llama3(text: &str) -> usize {
    cl100k(text, &const { Style::new(3) })
}

/// The rule of Qwen2: every digit by itself.
pub(super) fn qwen2(text: &str) -> usize {
    cl100k(text, &const { Style::new(1) })
}

/// The rule of Qwen3.5: marks belong to words.
pub(super) fn qwen35(text: &str) -> usize {
    cl100k(text, &const { Style { letters: Set::LETTER.or(Set::MARK), ..Style::new(1) } })
}

/// The rule of Seed-Coder: line ends never follow other characters.
pub(super) fn seed_coder(text: &str) -> usize {
    cl100k(text, &const { Style { tail: |_| false, ..Style::new(1) } })
}

/// `P?U*L+C?|P?U+L*C?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+` with
/// P = `[^\r\n\p{L}\p{N}]`, U = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`, L = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`,
/// C = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
pub(super) fn o200k(text: &str) -> usize {
    let style = const { Style { tail: is_newline_or_slash, ..Style::new(3) } };
    let Some(word) = cased_word(text) else { return others(text, &style) };
    word + text.get(word..).and_then(|rest| contraction(rest, true)).unwrap_or(0)
}

/// The rule of Tekken: [`o200k`] without C, and every digit by itself.
pub(super) fn tekken(text: &str) -> usize {
    let style = const { Style { tail: is_newline_or_slash, ..Style::new(1) } };
    cased_word(text).unwrap_or_else(|| others(text, &style))
}

/// `[!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
/// which does not match everything.
pub(super) fn deepseek3(text: &str) -> usize {
    const SIGNS: Set = Set::PUNCTUATION.or(Set::SYMBOL);
    isolated(text, |text| {
        let (sign, rest) = optional(text, |c| c.is_ascii_punctuation());
        let word = run(rest, |c| c.is_ascii_alphabetic());
        if sign > 0 && word > 0 {
            return sign + word;
        }
        let word = prefixed(text, Set::LETTER.or(SIGNS), Set::LETTER.or(Set::MARK));
        word.unwrap_or_else(|| others_or_spaces(text, SIGNS, is_newline))
    })
}

/// ` ?[^(\s|[.,!?…。，、।۔،])]+`
pub(super) fn bloom(text: &str) -> usize {
    let is_end = |c: char| {
        matches!(c, '(' | ')' | '|' | '.' | ',' | '!' | '?' | '\u{2026}' | '\u{3002}')
            || matches!(c, '\u{FF0C}' | '\u{3001}' | '\u{964}' | '\u{6D4}' | '\u{60C}')
            || Set::SPACE.has(c)
    };
    isolated(text, |text| with_optional(text, |c| c == ' ', |c| !is_end(c)))
}

/// `[\p{P}$+<=>^~|`]+`: all punctuation, and the ASCII symbols.
pub(super) fn falcon_signs(text: &str) -> usize {
    runs(text, |c| Set::PUNCTUATION.has(c) || c.is_ascii_punctuation())
}

/// `[\p{P}$+<=>^~|]+`
pub(super) fn default_signs(text: &str) -> usize {
    runs(text, |c| Set::PUNCTUATION.has(c) || c.is_ascii_punctuation() && c != '`')
}

/// `\p{N}+`
pub(super) fn numbers(text: &str) -> usize {
    runs(text, |c| Set::NUMBER.has(c))
}

/// `\p{N}`
pub(super) fn each_digit(text: &str) -> usize {
    isolated(text, |text| at_most(text, Set::NUMBER, 1))
}

/// `\p{N}{1,3}`
pub(super) fn three_digits(text: &str) -> usize {
    isolated(text, |text| at_most(text, Set::NUMBER, 3))
}

/// `[0-9][0-9][0-9]`
pub(super) fn exactly_three_digits(text: &str) -> usize {
    isolated(text, |text| match text.as_bytes() {
        [a, b, c, ..] if [a, b, c].iter().all(|byte| byte.is_ascii_digit()) => 3,
        _ => 0,
    })
}

/// `[\r\n]`
pub(super) fn each_newline(text: &str) -> usize {
    isolated(text, |text| usize::from(text.starts_with(is_newline)))
}

/// `\s?\p{L}+`
pub(super) fn letters(text: &str) -> usize {
    isolated(text, |text| with_optional(text, |c| Set::SPACE.has(c), |c| Set::LETTER.has(c)))
}

/// `\s?\p{P}+`
pub(super) fn punctuation(text: &str) -> usize {
    isolated(text, |text| with_optional(text, |c| Set::SPACE.has(c), |c| Set::PUNCTUATION.has(c)))
}

/// `\s?A+` with the alphabets of [`ALPHABETS`].
pub(super) fn deepseek_letters(text: &str) -> usize {
    isolated(text, |text| with_optional(text, |c| Set::SPACE.has(c), is_in_alphabets))
}

/// `\s?[!-/:-~！-／：-～‘-‟　-。]+`
pub(super) fn deepseek_signs(text: &str) -> usize {
    let is_sign = |c| {
        matches!(c, '!'..='/' | ':'..='~' | '\u{FF01}'..='\u{FF0F}' | '\u{FF1A}'..='\u{FF5E}')
            || matches!(c, '\u{2018}'..='\u{201F}' | '\u{3000}'..='\u{3002}')
    };
    isolated(text, |text| with_optional(text, |c| Set::SPACE.has(c), is_sign))
}

/// `\s+$`
pub(super) fn final_spaces(text: &str) -> usize {
    match text.trim_end().len() {
        0 => text.len(),
        len => len,
    }
}

/// `[\u{4E00}-\u{9FA5}\u{800}-\u{4E00}\u{AC00}-\u{D7FF}]+`
pub(super) fn deepseek_scripts(text: &str) -> usize {
    runs(text, |c| matches!(c, '\u{800}'..='\u{9FA5}' | '\u{AC00}'..='\u{D7FF}'))
}

/// `[\u{4E00}-\u{9FA5}\u{3040}-\u{30FF}]+`
pub(super) fn deepseek3_scripts(text: &str) -> usize {
    runs(text, |c| matches!(c, '\u{4E00}'..='\u{9FA5}' | '\u{3040}'..='\u{30FF}'))
}

/// `[^\r\n<barred>]?W+` where all of W but marks is barred: the prefix gives way where nothing else is left.
fn prefixed(text: &str, barred: Set, word: Set) -> Option<usize> {
    let (prefix, rest) = optional(text, |c| !word.has(c) && !barred.has(c) && !is_newline(c));
    let len = set_run(rest, word);
    (len > 0).then_some(prefix + len)
}

/// The words of [`o200k`], without what follows the apostrophe.
fn cased_word(text: &str) -> Option<usize> {
    let (prefix, rest) = optional(text, |c| !Set::LETTER.or(Set::NUMBER).has(c) && !is_newline(c));
    let with_prefix = |find: fn(&str) -> Option<usize>| Some(prefix + find(rest)?);
    with_prefix(capitalized)
        .or_else(|| capitalized(text))
        .or_else(|| with_prefix(upper_first))
        .or_else(|| upper_first(text))
}

const UPPER: Set = Set::UPPER.or(Set::CASELESS).or(Set::MARK);
const LOWER: Set = Set::LOWER.or(Set::CASELESS).or(Set::MARK);

/// `U*L+`. Where no lower case letter follows U*, it gives back characters up to the last that is in L, too.
fn capitalized(text: &str) -> Option<usize> {
    let upper = set_run(text, UPPER);
    let (head, tail) = text.split_at_checked(upper)?;
    match set_run(tail, LOWER) {
        0 => head.char_indices().rev().find(|&(_, c)| LOWER.has(c)).map(|(at, c)| at + c.len_utf8()),
        lower => Some(upper + lower),
    }
}

/// `U+L*`
fn upper_first(text: &str) -> Option<usize> {
    let upper = set_run(text, UPPER);
    (upper > 0).then(|| upper + text.get(upper..).map_or(0, |rest| set_run(rest, LOWER)))
}

/// `\p{N}{1,D}| ?[^\s\p{N}L]+T*|\s*[\r\n]+|\s+(?!\S)|\s+`
fn others(text: &str, style: &Style) -> usize {
    match at_most(text, Set::NUMBER, style.digits) {
        0 => others_or_spaces(text, Set::SPACE.or(Set::NUMBER).or(style.letters).not(), style.tail),
        digits => digits,
    }
}

/// ` ?O+T*|\s*[\r\n]+|\s+(?!\S)|\s+`, or 0
fn others_or_spaces(text: &str, others: Set, tail: fn(char) -> bool) -> usize {
    let (space, rest) = optional(text, |c| c == ' ');
    let len = set_run(rest, others);
    if len > 0 {
        return space + len + rest.get(len..).map_or(0, |rest| run(rest, tail));
    }
    let blank = text.get(..set_run(text, Set::SPACE)).unwrap_or_default();
    blank.rfind(is_newline).map_or_else(|| spaces(text), |last| last + 1)
}

/// `\s+(?!\S)|\s+`: all of the white space at the start, but its last character where something follows and that is not
/// the only one.
fn spaces(text: &str) -> usize {
    let len = set_run(text, Set::SPACE);
    let last = text.get(..len).and_then(|blank| blank.chars().next_back()).map_or(0, char::len_utf8);
    if len == text.len() || len == last { len } else { len.saturating_sub(last) }
}

/// `'s|'t|'re|'ve|'m|'ll|'d`, without regard to case where `any_case`: U+017F is an s, too.
fn contraction(text: &str, any_case: bool) -> Option<usize> {
    let rest = text.as_bytes().strip_prefix(b"'")?;
    let lower = |byte: u8| if any_case { byte.to_ascii_lowercase() } else { byte };
    match *rest {
        [a, ..] if matches!(lower(a), b's' | b't' | b'm' | b'd') => Some(2),
        [a, b, ..] if matches!([lower(a), lower(b)], [b'r' | b'v', b'e'] | [b'l', b'l']) => Some(3),
        [0xC5, 0xBF, ..] if any_case => Some(3),
        _ => None,
    }
}

fn is_newline(c: char) -> bool {
    c == '\r' || c == '\n'
}

fn is_newline_or_slash(c: char) -> bool {
    is_newline(c) || c == '/'
}

/// Cuts out what `found` finds, given how long the match at the start of a text is, or 0.
fn isolated(text: &str, found: impl Fn(&str) -> usize) -> usize {
    let len_at = |at: usize| text.get(at..).map_or(0, &found);
    match len_at(0) {
        0 => text.char_indices().map(|(at, _)| at).skip(1).find(|&at| len_at(at) > 0).unwrap_or(text.len()),
        len => len,
    }
}

/// Cuts out the runs of what `take` accepts.
fn runs(text: &str, take: impl Fn(char) -> bool) -> usize {
    match run(text, &take) {
        0 => run(text, |c| !take(c)),
        len => len,
    }
}

/// `A?B+`, or 0: A gives way where nothing else is left for B.
fn with_optional(text: &str, a: impl Fn(char) -> bool, b: impl Fn(char) -> bool) -> usize {
    let (prefix, rest) = optional(text, a);
    match run(rest, &b) {
        0 => run(text, b),
        len => prefix + len,
    }
}

/// The length of the first character if `take` accepts it, and what follows.
fn optional(text: &str, take: impl Fn(char) -> bool) -> (usize, &str) {
    text.strip_prefix(take).map_or((0, text), |rest| (text.len() - rest.len(), rest))
}

/// Bytes of the characters of `set` at the start.
fn set_run(text: &str, set: Set) -> usize {
    let ascii = set.ascii_run(text);
    match text.get(ascii..) {
        Some(rest) if !rest.as_bytes().first().is_none_or(u8::is_ascii) => ascii + run(rest, |c| set.has(c)),
        _ => ascii,
    }
}

/// Bytes of the characters at the start that `take` accepts.
fn run(text: &str, take: impl Fn(char) -> bool) -> usize {
    text.find(|c| !take(c)).unwrap_or(text.len())
}

/// Bytes of the first characters of `set`, at most `count` of them.
fn at_most(text: &str, set: Set, count: usize) -> usize {
    text.chars().take(count).take_while(|&c| set.has(c)).map(char::len_utf8).sum()
}

fn is_in_alphabets(c: char) -> bool {
    let code = u32::from(c);
    let after = ALPHABETS.partition_point(|&(first, _)| first <= code);
    after.checked_sub(1).and_then(|index| ALPHABETS.get(index)).is_some_and(|&(_, last)| code <= last)
}

/// The letters of alphabets with upper and lower case, as DeepSeek's first tokenizers list them: first and last code points.
#[rustfmt::skip]
static ALPHABETS: [(u32, u32); 87] = [
    (0x41, 0x5A), (0x61, 0x7A), (0xB5, 0xB5), (0xC0, 0xD6), (0xD8, 0xF6), (0xF8, 0x1BA), (0x1BC, 0x1BF),
    (0x1C4, 0x293), (0x295, 0x2AF), (0x370, 0x373), (0x376, 0x376), (0x377, 0x377), (0x37B, 0x37D),
    (0x37F, 0x37F), (0x386, 0x386), (0x388, 0x38A), (0x38C, 0x38C), (0x38E, 0x3A1), (0x3A3, 0x3F5),
    (0x3F7, 0x481), (0x48A, 0x52F), (0x531, 0x556), (0x10A0, 0x10C5), (0x13A0, 0x13F5), (0x13F8, 0x13FD),
    (0x1C90, 0x1CBA), (0x1CBD, 0x1CBF), (0x1D00, 0x1D2B), (0x1D6B, 0x1D77), (0x1D79, 0x1D9A),
    (0x1E00, 0x1F15), (0x1F18, 0x1F1D), (0x1F20, 0x1F45), (0x1F48, 0x1F4D), (0x1F50, 0x1F57),
    (0x1F59, 0x1F59), (0x1F5B, 0x1F5B), (0x1F5D, 0x1F5D), (0x1F5F, 0x1F7D), (0x1F80, 0x1FB4),
    (0x1FB6, 0x1FBC), (0x1FBE, 0x1FBE), (0x1FC2, 0x1FC4), (0x1FC6, 0x1FCC), (0x1FD0, 0x1FD3),
    (0x1FD6, 0x1FDB), (0x1FE0, 0x1FEC), (0x1FF2, 0x1FF4), (0x1FF6, 0x1FFC), (0x2102, 0x2102),
    (0x2107, 0x2107), (0x210A, 0x2113), (0x2115, 0x2115), (0x2119, 0x211D), (0x2124, 0x2124),
    (0x2126, 0x2126), (0x2128, 0x2128), (0x212A, 0x212D), (0x212F, 0x2134), (0x2139, 0x2139),
    (0x213C, 0x213F), (0x2145, 0x2149), (0x214E, 0x214E), (0x2183, 0x2183), (0x2184, 0x2184),
    (0x2C00, 0x2C7B), (0x2C7E, 0x2CE4), (0x2CEB, 0x2CEE), (0x2CF2, 0x2CF2), (0x2CF3, 0x2CF3),
    (0xA640, 0xA66D), (0xA680, 0xA69B), (0xA722, 0xA76F), (0xA771, 0xA787), (0xA78B, 0xA78E),
    (0xAB70, 0xABBF), (0xFB00, 0xFB06), (0xFB13, 0xFB17), (0xFF21, 0xFF3A), (0xFF41, 0xFF5A),
    (0x10400, 0x1044F), (0x104B0, 0x104D3), (0x104D8, 0x104FB), (0x10C80, 0x10CB2), (0x10CC0, 0x10CF2),
    (0x118A0, 0x118DF), (0x1E900, 0x1E943),
];
