//! Pre-tokenizers: how a text is cut into words before byte-level BPE looks at it.
//!
//! Each is a regular expression of its tokenizer, written out by hand: a function from the text that
//! is left to the length of the first word in bytes, at least one character and never more than the text. All of
//! them read each character a bounded number of times.

use core::fmt;

use super::class::Class;

/// A row of the table of pre-tokenizers.
pub(super) struct PreTokenizer {
    /// Its name in `tokenizer.ggml.pre`.
    pub(super) name: &'static str,
    /// Length of the first word of a text that is not empty, in bytes.
    pub(super) first_word: fn(&str) -> usize,
    /// Whether a word that is in the vocabulary is taken as it is, whatever the merges say.
    pub(super) ignore_merges: bool,
    /// Default of `tokenizer.ggml.add_bos_token`.
    pub(super) add_bos: bool,
}

impl fmt::Debug for PreTokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

const fn row(name: &'static str, first_word: fn(&str) -> usize) -> PreTokenizer {
    PreTokenizer { name, first_word, ignore_merges: false, add_bos: false }
}

const fn llama3(name: &'static str) -> PreTokenizer {
    PreTokenizer { name, first_word: |text| cl100k(text, 3), ignore_merges: true, add_bos: true }
}

/// All pre-tokenizers that are known.
static TABLE: [PreTokenizer; 7] = [
    row("gpt-2", |text| gpt2(text, false)),
    row("smollm", |text| gpt2(text, true)),
    llama3("llama-bpe"),
    llama3("llama3"),
    llama3("llama-v3"),
    row("qwen2", |text| cl100k(text, 1)),
    row("deepseek-r1-qwen", |text| cl100k(text, 1)),
];

/// The pre-tokenizer called `name`.
pub(super) fn find(name: &[u8]) -> Option<&'static PreTokenizer> {
    TABLE.iter().find(|row| row.name.as_bytes() == name)
}

/// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`; with `digits_apart` every
/// `\p{N}` is cut out of the text first.
fn gpt2(text: &str, digits_apart: bool) -> usize {
    if let Some(len) = contraction(text, false) {
        return len;
    }
    let (space, rest) = optional_space(text);
    match first_class(rest) {
        Some(Class::Number) if digits_apart => match space {
            0 => at_most(rest, Class::Number, 1),
            _ => space,
        },
        Some(Class::Space) | None => spaces(text, digits_apart),
        Some(class) => space + run(rest, class),
    }
}

/// `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
fn cl100k(text: &str, digits: usize) -> usize {
    if let Some(len) = contraction(text, true) {
        return len;
    }
    let Some(first) = text.chars().next() else { return 0 };
    let class = Class::of(first);
    if class == Class::Letter {
        return run(text, Class::Letter);
    }
    if class == Class::Number {
        return at_most(text, Class::Number, digits);
    }
    if !is_newline(first) {
        let letters = run(text.get(first.len_utf8()..).unwrap_or_default(), Class::Letter);
        if letters > 0 {
            return first.len_utf8() + letters;
        }
    }
    let (space, rest) = optional_space(text);
    let others = run(rest, Class::Other);
    if others > 0 {
        let tail = rest.get(others..).unwrap_or_default();
        return space + others + leading(tail, is_newline);
    }
    let blank = text.get(..run(text, Class::Space)).unwrap_or_default();
    match blank.rfind(is_newline) {
        Some(last) => last + 1,
        None => spaces(text, false),
    }
}

/// `\s+(?!\S)|\s+`: all of the white space at the start, but its last character where a word follows and
/// that is not the only one. With `digits_apart` a number ends the text.
fn spaces(text: &str, digits_apart: bool) -> usize {
    let len = run(text, Class::Space);
    let blank = text.get(..len).unwrap_or_default();
    let ends = match text.get(len..).and_then(first_class) {
        None => true,
        Some(class) => digits_apart && class == Class::Number,
    };
    let last = blank.chars().next_back().map_or(0, char::len_utf8);
    if ends || last == len { len } else { len.saturating_sub(last) }
}

/// `'s|'t|'re|'ve|'m|'ll|'d`, in capitals too where `any_case`.
fn contraction(text: &str, any_case: bool) -> Option<usize> {
    let rest = text.as_bytes().strip_prefix(b"'")?;
    let lower = |byte: u8| if any_case { byte.to_ascii_lowercase() } else { byte };
    match *rest {
        [a, ..] if matches!(lower(a), b's' | b't' | b'm' | b'd') => Some(2),
        [a, b, ..] if matches!([lower(a), lower(b)], [b'r' | b'v', b'e'] | [b'l', b'l']) => Some(3),
        _ => None,
    }
}

/// The length of the blank that may start a word, and the rest.
fn optional_space(text: &str) -> (usize, &str) {
    text.strip_prefix(' ').map_or((0, text), |rest| (1, rest))
}

fn first_class(text: &str) -> Option<Class> {
    text.chars().next().map(Class::of)
}

fn is_newline(c: char) -> bool {
    c == '\r' || c == '\n'
}

/// Bytes of the characters of `class` at the start.
fn run(text: &str, class: Class) -> usize {
    leading(text, |c| Class::of(c) == class)
}

/// Bytes of the characters at the start that `take` accepts.
fn leading(text: &str, take: impl Fn(char) -> bool) -> usize {
    text.chars().take_while(|&c| take(c)).map(char::len_utf8).sum()
}

/// Bytes of the first characters of `class`, at most `count` of them.
fn at_most(text: &str, class: Class, count: usize) -> usize {
    text.chars().take(count).take_while(|&c| Class::of(c) == class).map(char::len_utf8).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words<'t>(name: &str, mut text: &'t str) -> Vec<&'t str> {
        let pre = find(name.as_bytes()).unwrap();
        core::iter::from_fn(|| {
            let (word, rest) = text.split_at((pre.first_word)(text));
            text = rest;
            (!word.is_empty()).then_some(word)
        })
        .collect()
    }

    #[test]
    fn words_of_gpt2() {
        assert_eq!(words("gpt-2", "I'll don't DON'T"), ["I", "'ll", " don", "'t", " DON", "'", "T"]);
        assert_eq!(words("gpt-2", "a1234 5  \n b\n\nc  "), ["a", "1234", " 5", "  \n", " b", "\n", "\n", "c", "  "]);
        assert_eq!(words("gpt-2", " ?!x \u{a0}é"), [" ?!", "x", " ", "\u{a0}", "é"]);
    }

    #[test]
    fn words_of_llama3_and_qwen2() {
        assert_eq!(words("llama-bpe", "DON'T 12345"), ["DON", "'T", " ", "123", "45"]);
        assert_eq!(words("qwen2", "x 123"), ["x", " ", "1", "2", "3"]);
        assert_eq!(words("qwen2", "(a)\r\n b  \n\n  c\t\td"), ["(a", ")\r\n", " b", "  \n\n", " ", " c", "\t", "\td"]);
        assert_eq!(words("llama-bpe", " !?\n\n\u{3000}語  "), [" !?\n\n", "\u{3000}語", "  "]);
    }

    #[test]
    fn smollm_cuts_digits_out() {
        assert_eq!(words("smollm", "a  12 b"), ["a", "  ", "1", "2", " b"]);
        assert_eq!(words("smollm", "a 1"), ["a", " ", "1"]);
    }

    proptest! {
        #[test]
        fn words_are_the_text(text in "[a-c1-3 '\n\r\t\u{e9}\u{3000}\u{1f600}!sSlL]{0,40}") {
            for row in &TABLE {
                prop_assert_eq!(words(row.name, &text).concat(), text.as_str());
            }
        }
    }
}
