//! The regular expressions of the pre-tokenizers, written out by hand.
//!
//! A [`Rule`] cuts a text into pieces: the matches of its expression, and the text between two matches. As a function
//! it returns the length of the first piece of a text, whether this is a match or not. The length is at least one
//! character and at most the text. To cut a whole text, a rule reads each character a bounded number of times.

mod alphabets;
mod cased;
mod chameleon;
mod cl100k;
mod cut;
mod groups;
mod scan;

#[cfg(test)]
pub(super) use alphabets::is_decimal;
pub(super) use cased::{kimi, o200k, tekken, youtu};
pub(super) use chameleon::{each_sign, image_tokens, sentinels, tabs_and_blanks};
pub(super) use cl100k::{deepseek3, exaone_moe, gpt2, jais_blanks, llama3, qwen2, qwen35, seed_coder, spark, ufakzeka};
#[cfg(feature = "encoder")]
pub(super) use cut::words_and_signs;
pub(super) use cut::{
    afmoe_scripts, bloom, deepseek_letters, deepseek_scripts, deepseek_signs, deepseek3_scripts, default_signs,
    each_digit, each_newline, exactly_three_digits, falcon_signs, final_spaces, letters, lines, numbers, punctuation,
    three_digits, youtu_scripts,
};
pub(super) use groups::{bounded_decimals, groups_of_three, thousands, thousands_after, uneven_decimals, uneven_group};

/// A function that returns the length in bytes of the first piece of a text that is not empty.
pub(super) type Rule = fn(&str) -> usize;
