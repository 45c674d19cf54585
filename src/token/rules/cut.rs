//! Rules that cut something out of a text: digits, signs, scripts, lines.

use super::alphabets::is_in_alphabets;
#[cfg(feature = "encoder")]
use super::alphabets::is_word;
use super::scan::{at_most, is_newline, isolated, run, runs, with_optional};
use crate::token::class::Set;

/// ` ?[^(\s|[.,!?…。，、।۔،])]+`
pub(in crate::token) fn bloom(text: &str) -> usize {
    let is_end = |c: char| {
        matches!(c, '(' | ')' | '|' | '.' | ',' | '!' | '?' | '\u{2026}' | '\u{3002}')
            || matches!(c, '\u{FF0C}' | '\u{3001}' | '\u{964}' | '\u{6D4}' | '\u{60C}')
            || Set::SPACE.has(c)
    };
    isolated(text, |text| with_optional(text, |c| c == ' ', |c| !is_end(c)))
}

/// `[\p{P}$+<=>^~|`]+`: all punctuation, and the ASCII symbols.
pub(in crate::token) fn falcon_signs(text: &str) -> usize {
    runs(text, |c| Set::PUNCTUATION.has(c) || c.is_ascii_punctuation())
}

/// `[\p{P}$+<=>^~|]+`
pub(in crate::token) fn default_signs(text: &str) -> usize {
    runs(text, |c| Set::PUNCTUATION.has(c) || c.is_ascii_punctuation() && c != '`')
}

/// `\p{N}+`
pub(in crate::token) fn numbers(text: &str) -> usize {
    runs(text, |c| Set::NUMBER.has(c))
}

/// `\p{N}`
pub(in crate::token) fn each_digit(text: &str) -> usize {
    isolated(text, |text| at_most(text, Set::NUMBER, 1))
}

/// `\p{N}{1,3}`
pub(in crate::token) fn three_digits(text: &str) -> usize {
    isolated(text, |text| at_most(text, Set::NUMBER, 3))
}

/// `[0-9][0-9][0-9]`
pub(in crate::token) fn exactly_three_digits(text: &str) -> usize {
    isolated(text, |text| match text.as_bytes() {
        [a, b, c, ..] if [a, b, c].iter().all(|byte| byte.is_ascii_digit()) => 3,
        _ => 0,
    })
}

/// `[\r\n]`
pub(in crate::token) fn each_newline(text: &str) -> usize {
    isolated(text, |text| usize::from(text.starts_with(is_newline)))
}

/// `\s?\p{L}+`
pub(in crate::token) fn letters(text: &str) -> usize {
    isolated(text, |text| with_optional(text, |c| Set::SPACE.has(c), |c| Set::LETTER.has(c)))
}

/// `\s?\p{P}+`
pub(in crate::token) fn punctuation(text: &str) -> usize {
    isolated(text, |text| with_optional(text, |c| Set::SPACE.has(c), |c| Set::PUNCTUATION.has(c)))
}

/// `\s?A+` with the letters of alphabets with upper and lower case.
pub(in crate::token) fn deepseek_letters(text: &str) -> usize {
    isolated(text, |text| with_optional(text, |c| Set::SPACE.has(c), is_in_alphabets))
}

/// `\s?[!-/:-~！-／：-～‘-‟　-。]+`
pub(in crate::token) fn deepseek_signs(text: &str) -> usize {
    let is_sign = |c| {
        matches!(c, '!'..='/' | ':'..='~' | '\u{FF01}'..='\u{FF0F}' | '\u{FF1A}'..='\u{FF5E}')
            || matches!(c, '\u{2018}'..='\u{201F}' | '\u{3000}'..='\u{3002}')
    };
    isolated(text, |text| with_optional(text, |c| Set::SPACE.has(c), is_sign))
}

/// `\s+$`
pub(in crate::token) fn final_spaces(text: &str) -> usize {
    match text.trim_end().len() {
        0 => text.len(),
        len => len,
    }
}

/// `[\u{4E00}-\u{9FA5}\u{800}-\u{4E00}\u{AC00}-\u{D7FF}]+`
pub(in crate::token) fn deepseek_scripts(text: &str) -> usize {
    runs(text, |c| matches!(c, '\u{800}'..='\u{9FA5}' | '\u{AC00}'..='\u{D7FF}'))
}

/// `[\u{4E00}-\u{9FA5}\u{3040}-\u{30FF}]+`
pub(in crate::token) fn deepseek3_scripts(text: &str) -> usize {
    runs(text, |c| matches!(c, '\u{4E00}'..='\u{9FA5}' | '\u{3040}'..='\u{30FF}'))
}

/// `[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+`: the scripts of Youtu.
pub(in crate::token) fn youtu_scripts(text: &str) -> usize {
    let kind = |c: char| match c {
        '\u{AC00}'..='\u{D7A3}' | '\u{3131}'..='\u{318E}' => Some(0),
        '\u{FF01}' | '\u{2026}' | '\u{201C}' | '\u{201D}' | '\u{2018}' | '\u{2019}' | '\u{2014}' => Some(1),
        '\u{FF1A}' | '\u{FF1B}' | '\u{FF0C}' | '\u{3001}'..='\u{303F}' | '\u{FE30}'..='\u{FE4F}' => Some(1),
        '\u{3105}'..='\u{312F}' => Some(2),
        '\u{4E00}'..='\u{9FA5}' | '\u{3040}'..='\u{30FF}' => Some(3),
        _ => None,
    };
    let first = text.chars().next().and_then(kind);
    run(text, |c| kind(c) == first)
}

/// `[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+`: the scripts of AFMoE.
pub(in crate::token) fn afmoe_scripts(text: &str) -> usize {
    runs(text, |c| {
        matches!(c, '\u{4E00}'..='\u{9FFF}' | '\u{3400}'..='\u{4DBF}' | '\u{F900}'..='\u{FAFF}' | '\u{3040}'..='\u{30FF}')
            || matches!(c, '\u{FF65}'..='\u{FF9F}' | '\u{2F00}'..='\u{2FDF}' | '\u{E40}'..='\u{EFF}')
            || matches!(c, '\u{1780}'..='\u{17FF}' | '\u{1000}'..='\u{109F}' | '\u{AA60}'..='\u{AA7F}')
            || matches!(c, '\u{A9E0}'..='\u{A9FF}' | '\u{AC00}'..='\u{D7AF}' | '\u{1100}'..='\u{11FF}')
    })
}

/// `\w+|[^\w\s]+`
#[cfg(feature = "encoder")]
pub(in crate::token) fn words_and_signs(text: &str) -> usize {
    let kind = |c: char| (is_word(c), Set::SPACE.has(c));
    let first = text.chars().next().map(kind);
    run(text, |c| Some(kind(c)) == first)
}

/// `[^\n]+|[\n]+`
pub(in crate::token) fn lines(text: &str) -> usize {
    runs(text, |c| c == '\n')
}
