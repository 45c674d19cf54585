//! The nesting depth of a template, checked before it is parsed: for each level the parser, the compiler and the
//! release of the tree go one call deeper.

use std::format;
use std::vec::Vec;

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;

use super::TemplateError;
use super::bounds::MAX_NESTING;

/// Tags that open a block, apart from `set` without a value.
const OPENERS: [&str; 8] = ["if", "for", "with", "filter", "block", "macro", "call", "autoescape"];

/// The most commas in one tag, because the engine counts the arguments of a call in 16 bits.
const MAX_COMMAS: usize = 60_000;

/// Refuses a source that is nested more than [`MAX_NESTING`] deep. Source that is not Jinja is left to the parser.
pub(super) fn check(source: &str, syntax: SyntaxConfig) -> Result<(), TemplateError> {
    let mut nesting = Nesting::default();
    for (token, span) in tokenize(source, false, syntax).map_while(Result::ok) {
        nesting.take(&token);
        if nesting.depth() > MAX_NESTING {
            let message = format!("blocks, brackets and operators are nested more than {MAX_NESTING} deep");
            return Err(TemplateError { line: Some(usize::from(span.start_line)), message });
        }
        if nesting.commas > MAX_COMMAS {
            let message = format!("more than {MAX_COMMAS} values in one tag");
            return Err(TemplateError { line: Some(usize::from(span.start_line)), message });
        }
    }
    Ok(())
}

#[derive(Default)]
struct Nesting {
    /// Depth of each open block: 1, and 1 more for each `elif` branch so far, because each branch is nested in the one
    /// before.
    blocks: Vec<usize>,
    /// Depth in the tag: the number of operators since the last comma, with brackets. After it comes the same number
    /// for each open bracket, plus 1, because the parser goes two calls deeper for a bracket. An operand may be as
    /// deep as all operators beside it.
    operators: Vec<usize>,
    /// Kind of the tag, once its name is read.
    tag: Option<Tag>,
    /// Number of commas in the tag.
    commas: usize,
}

enum Tag {
    /// A tag whose name comes next.
    Unnamed,
    /// `set`, until its value begins.
    Set,
    Other,
}

impl Nesting {
    fn depth(&self) -> usize {
        self.blocks.iter().sum::<usize>() + self.operators.iter().sum::<usize>()
    }

    fn take(&mut self, token: &Token<'_>) {
        self.commas += usize::from(matches!(token, Token::Comma));
        match token {
            Token::TemplateData(_) => {}
            Token::VariableStart | Token::BlockStart => {
                self.operators = [0].into();
                self.commas = 0;
                self.tag = matches!(token, Token::BlockStart).then_some(Tag::Unnamed);
            }
            Token::VariableEnd | Token::BlockEnd => {
                if let Some(Tag::Set) = self.tag.take() {
                    self.blocks.push(1);
                }
                self.operators.clear();
            }
            Token::Ident(name) if matches!(self.tag, Some(Tag::Unnamed)) => self.name(name),
            Token::BracketOpen | Token::ParenOpen | Token::BraceOpen => {
                self.operator();
                self.operators.push(1);
            }
            Token::BracketClose | Token::ParenClose | Token::BraceClose => {
                self.operators.pop();
            }
            Token::Comma | Token::Colon | Token::Assign => self.next_operand(token),
            Token::Ident("not" | "and" | "or" | "in" | "is" | "if" | "else") => self.operator(),
            Token::Ident(_) | Token::Str(_) | Token::String(_) => {}
            Token::Int(_) | Token::Int128(_) | Token::Float(_) => {}
            _ => self.operator(),
        }
    }

    fn name(&mut self, name: &str) {
        self.tag = Some(if name == "set" { Tag::Set } else { Tag::Other });
        if OPENERS.contains(&name) {
            self.blocks.push(1);
        } else if name.starts_with("end") {
            self.blocks.pop();
        } else if let ("elif", Some(branches)) = (name, self.blocks.last_mut()) {
            *branches += 1;
        }
    }

    fn operator(&mut self) {
        if let Some(operators) = self.operators.last_mut() {
            *operators += 1;
        }
    }

    fn next_operand(&mut self, token: &Token<'_>) {
        if let (Token::Assign, [_], Some(Tag::Set)) = (token, self.operators.as_slice(), &self.tag) {
            self.tag = Some(Tag::Other);
        }
        let depth = usize::from(self.operators.len() > 1);
        if let Some(operators) = self.operators.last_mut() {
            *operators = depth;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_of_models_are_far_from_the_bound() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/templates");
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let deepest = files.filter(|path| path.extension().is_some_and(|extension| extension == "jinja")).map(|path| {
            let source = std::fs::read_to_string(path).unwrap();
            let tokens = tokenize(&source, false, SyntaxConfig::default());
            let mut nesting = Nesting::default();
            let depths = tokens.map(|token| {
                nesting.take(&token.unwrap().0);
                nesting.depth()
            });
            depths.max().unwrap()
        });
        assert_eq!(deepest.max(), Some(21));
    }
}
