//! Pre-tokenizers: they cut a text into words before byte-level BPE reads it.
//!
//! A pre-tokenizer is a list of rules: the first rule cuts the text, the second one cuts the pieces of the first, and
//! so on. The rules are those of the original tokenizers. `docs/tokenizers.md` says where the rules of llama.cpp
//! differ.

use core::fmt;

use super::rules::{self, Rule};

/// A row of the table of pre-tokenizers.
pub(super) struct PreTokenizer {
    /// The names of the pre-tokenizer in `tokenizer.ggml.pre`.
    pub(super) names: &'static [&'static str],
    /// The rules, at most [`MAX_RULES`].
    rules: &'static [Rule],
    /// Whether tokens are spelled with characters, with U+2581 for a blank, instead of the alphabet of bytes.
    pub(super) is_spelled_plainly: bool,
    /// Whether a run of line ends that is a token becomes this token.
    pub(super) has_whole_newlines: bool,
    /// Whether every blank begins a word, and a line that does not begin with a blank gets one.
    pub(super) has_metaspace: bool,
    /// Whether white space only separates words and is left out.
    #[cfg(feature = "encoder")]
    pub(super) drops_space: bool,
    /// Whether a word that is a token becomes this token, whatever the merges say.
    pub(super) ignore_merges: bool,
    /// Default of `tokenizer.ggml.add_bos_token`.
    pub(super) add_bos: bool,
}

impl fmt::Debug for PreTokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.names, f)
    }
}

/// The most rules of a pre-tokenizer.
const MAX_RULES: usize = 6;

const fn row(names: &'static [&'static str], rules: &'static [Rule]) -> PreTokenizer {
    PreTokenizer {
        names,
        rules,
        is_spelled_plainly: false,
        has_whole_newlines: false,
        has_metaspace: false,
        #[cfg(feature = "encoder")]
        drops_space: false,
        ignore_merges: false,
        add_bos: false,
    }
}

impl PreTokenizer {
    const fn ignoring_merges(self) -> Self {
        Self { ignore_merges: true, ..self }
    }

    const fn spelled_plainly(self) -> Self {
        Self { is_spelled_plainly: true, ..self }
    }

    const fn keeping_newlines(self) -> Self {
        Self { has_whole_newlines: true, ..self }
    }

    const fn with_metaspace(self) -> Self {
        Self { has_metaspace: true, ..self }
    }

    #[cfg(feature = "encoder")]
    const fn dropping_space(self) -> Self {
        Self { drops_space: true, ..self }
    }

    const fn adding_bos(self) -> Self {
        Self { add_bos: true, ..self }
    }

    /// Returns the words of `text`, in order.
    pub(super) fn words<'t>(&self, text: &'t str) -> Words<'t> {
        Words { rules: self.rules, text, start: 0, ends: [0; MAX_RULES] }
    }
}

/// Table of all pre-tokenizers.
pub(super) static TABLE: &[PreTokenizer] = &[
    row(
        &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"],
        &[rules::llama3],
    )
    .ignoring_merges()
    .adding_bos(),
    row(&["dbrx", "smaug-bpe", "chatglm-bpe"], &[rules::llama3]),
    row(&["glm4", "glm5"], &[rules::llama3]).ignoring_merges(),
    row(&["minicpm5"], &[rules::three_digits, rules::llama3]).ignoring_merges(),
    row(
        &["qwen2", "deepseek-r1-qwen", "stablelm2", "megrez", "hunyuan", "solar-open", "grok-2", "kormo", "f2llmv2"],
        &[rules::qwen2],
    ),
    row(&["bailingmoe", "bailingmoe2", "llada-moe"], &[rules::qwen2]),
    row(&["qwen35"], &[rules::qwen35]),
    row(&["seed-coder"], &[rules::seed_coder]),
    row(&["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"], &[rules::o200k]),
    row(&["granite-embed-multi-97m"], &[rules::o200k]).ignoring_merges(),
    row(&["tekken"], &[rules::tekken]).ignoring_merges().adding_bos(),
    row(
        &[
            "gpt-2",
            "phi-2",
            "mpt",
            "olmo",
            "jais",
            "trillion",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "exaone4",
            "granite-docling",
            "modern-bert",
            "roberta-bpe",
            "jina-v1-en",
            "jina-v2-code",
            "jina-v2-de",
            "jina-v2-es",
            "jina-de",
            "jina-es",
        ],
        &[rules::gpt2],
    ),
    row(
        &["starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"],
        &[rules::each_digit, rules::gpt2],
    ),
    row(&["falcon"], &[rules::falcon_signs, rules::gpt2, rules::exactly_three_digits]),
    row(&["default"], &[rules::default_signs, rules::gpt2, rules::numbers, rules::exactly_three_digits]),
    row(&["bloom", "gpt3-finnish", "poro-chat"], &[rules::bloom]),
    row(&["viking"], &[rules::bloom, rules::each_digit]),
    row(
        &["deepseek-llm"],
        &[
            rules::each_newline,
            rules::deepseek_letters,
            rules::deepseek_signs,
            rules::final_spaces,
            rules::deepseek_scripts,
            rules::each_digit,
        ],
    ),
    row(
        &["deepseek-coder"],
        &[rules::each_newline, rules::letters, rules::punctuation, rules::deepseek_scripts, rules::each_digit],
    ),
    row(
        &["deepseek-v3", "hunyuan-dense", "hy_v4", "joyai-llm"],
        &[rules::three_digits, rules::deepseek3_scripts, rules::deepseek3],
    ),
    row(&["spark2_5"], &[rules::three_digits, rules::deepseek3_scripts, rules::spark, rules::each_digit]),
    row(
        &["afmoe"],
        &[rules::numbers, rules::uneven_group, rules::groups_of_three, rules::afmoe_scripts, rules::deepseek3],
    ),
    row(&["kimi-k2"], &[rules::kimi]),
    row(&["youtu"], &[rules::youtu_scripts, rules::youtu]).ignoring_merges(),
    row(
        &["tiny_aya", "cohere2moe"],
        &[rules::bounded_decimals, rules::uneven_decimals, rules::groups_of_three, rules::o200k],
    ),
    row(&["superbpe"], &[rules::numbers, rules::thousands, rules::thousands_after]),
    row(&["exaone-moe"], &[rules::exaone_moe]),
    row(&["jais-2"], &[rules::llama3, rules::jais_blanks]),
    row(&["ufakzeka"], &[rules::ufakzeka]),
    row(&["laguna"], &[rules::lines, rules::qwen2]),
    row(&["gemma4"], &[rules::lines]).spelled_plainly().keeping_newlines().adding_bos(),
    row(&["granite-embed-multi-311m"], &[rules::lines]).spelled_plainly().keeping_newlines(),
    row(&["sarvam-moe"], &[rules::lines]).spelled_plainly(),
    row(&["mmbert"], &[rules::lines]).spelled_plainly().keeping_newlines().with_metaspace(),
    #[cfg(feature = "encoder")]
    row(&["whitespace"], &[rules::words_and_signs]).spelled_plainly().dropping_space(),
    row(
        &["chameleon"],
        &[
            rules::sentinels,
            rules::image_tokens,
            rules::tabs_and_blanks,
            rules::each_digit,
            rules::each_sign,
            rules::gpt2,
        ],
    )
    .adding_bos(),
];

/// Returns the pre-tokenizer called `name`.
pub(super) fn find(name: &[u8]) -> Option<&'static PreTokenizer> {
    TABLE.iter().find(|row| row.names.iter().any(|other| other.as_bytes() == name))
}

/// An iterator over the words of a text.
#[derive(Clone, Debug)]
pub(super) struct Words<'t> {
    rules: &'static [Rule],
    text: &'t str,
    /// Offset of the next word in `text`.
    start: usize,
    /// End of each rule's piece that contains the next word. If it is not after `start`, the rule has to cut its next
    /// piece.
    ends: [usize; MAX_RULES],
}

impl<'t> Iterator for Words<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        let mut end = self.text.len();
        for (rule, piece_end) in self.rules.iter().zip(&mut self.ends) {
            if *piece_end <= self.start {
                let piece = self.text.get(self.start..end).filter(|piece| !piece.is_empty())?;
                *piece_end = self.start + rule(piece);
            }
            end = *piece_end;
        }
        let word = self.text.get(self.start..end).filter(|word| !word.is_empty());
        self.start = end;
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words<'t>(name: &str, text: &'t str) -> Vec<&'t str> {
        find(name.as_bytes()).unwrap().words(text).collect()
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
    fn words_of_o200k_and_tekken() {
        assert_eq!(words("gpt-4o", "CamelCase DON'T 1234"), ["Camel", "Case", " DON'T", " ", "123", "4"]);
        assert_eq!(words("tekken", "CamelCase DON'T 12 //\n"), ["Camel", "Case", " DON", "'T", " ", "1", "2", " //\n"]);
        assert_eq!(words("gpt-4o", "\u{301}ABC \u{aa}ABC \u{2c6}"), ["\u{301}", "ABC", " \u{aa}", "ABC", " \u{2c6}"]);
    }

    #[test]
    fn smollm_cuts_digits_out() {
        assert_eq!(words("smollm", "a  12 b"), ["a", "  ", "1", "2", " b"]);
        assert_eq!(words("smollm", "a 1"), ["a", " ", "1"]);
    }

    #[test]
    fn words_of_rules_in_a_row() {
        assert_eq!(words("falcon", "a  1234,5"), ["a", " ", " ", "123", "4", ",", "5"]);
        assert_eq!(words("falcon", "a 12"), ["a", " 12"]);
        assert_eq!(words("default", "a 12"), ["a", " ", "12"]);
        assert_eq!(words("bloom", "a b... c"), ["a", " b", "...", " c"]);
        assert_eq!(words("deepseek-llm", "a,b  c12\n 語 "), ["a", ",", "b", " ", " c", "1", "2", "\n", " ", "語", " "]);
        assert_eq!(words("deepseek-v3", "a.b c\0\u{8a9e}x12"), ["a", ".b", " c", "\0", "\u{8a9e}", "x", "12"]);
    }

    #[test]
    fn names_are_documented() {
        let text = include_str!("../../docs/tokenizers.md");
        for name in TABLE.iter().flat_map(|row| row.names) {
            assert!(text.contains(&format!("`{name}`")), "docs/tokenizers.md lacks {name}");
        }
    }

    #[test]
    fn names_are_unique_and_rules_fit() {
        let mut names: Vec<_> = TABLE.iter().flat_map(|row| row.names).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(TABLE.iter().all(|row| !row.rules.is_empty() && row.rules.len() <= MAX_RULES));
    }
}
