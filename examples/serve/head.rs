//! Parses the head of a request. Refuses a head that two servers could read in two ways, so that no request can hide in
//! the body of another.

use crate::http::{BODY, Fault};

pub(crate) struct Head {
    pub(crate) method: String,
    /// Path without the query after a question mark.
    pub(crate) path: String,
    /// Whether the client may send another request.
    pub(crate) stays: bool,
    /// Whether the client waits for `100 Continue` before it sends the body.
    pub(crate) waits: bool,
    pub(crate) body: Body,
}

/// How the body ends.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Body {
    Len(usize),
    Chunks,
}

/// The values of the fields that matter here.
#[derive(Default)]
struct Fields {
    len: Option<usize>,
    is_chunked: bool,
    closes: bool,
    waits: bool,
}

impl Head {
    /// Reads a head, without the empty line at its end.
    pub(crate) fn parse(text: &str) -> Result<Self, Fault> {
        let mut lines = text.lines();
        let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
        let (method, path, minor) = match words[..] {
            [method, path, "HTTP/1.1"] if !method.is_empty() => (method, path, 1),
            [method, path, "HTTP/1.0"] if !method.is_empty() => (method, path, 0),
            _ => return Err(Fault::bad("the first line is no request of HTTP/1.1")),
        };
        let mut fields = Fields::default();
        lines.try_for_each(|line| fields.read(line))?;
        let body = match fields.len {
            Some(_) if fields.is_chunked => {
                return Err(Fault::bad("Content-Length and Transfer-Encoding cannot be used together"));
            }
            None if fields.is_chunked && minor == 0 => return Err(Fault::bad("HTTP/1.0 has no Transfer-Encoding")),
            None if fields.is_chunked => Body::Chunks,
            Some(len) if len > BODY => return Err(Fault::too_large()),
            len => Body::Len(len.unwrap_or(0)),
        };
        Ok(Self {
            method: method.to_owned(),
            path: path.split('?').next().unwrap_or_default().to_owned(),
            stays: minor == 1 && !fields.closes,
            waits: minor == 1 && fields.waits,
            body,
        })
    }
}

impl Fields {
    fn read(&mut self, line: &str) -> Result<(), Fault> {
        // This refuses continuation lines, too: they begin with a space, which no name contains.
        let field = line.split_once(':').filter(|(name, _)| is_name(name));
        let (name, value) = field.ok_or_else(|| Fault::bad("a line of the head has no name with a colon behind it"))?;
        if value.chars().any(|c| c.is_ascii_control() && c != '\t') {
            return Err(Fault::bad(&format!("{name} has a control character")));
        }
        let value = value.trim_matches([' ', '\t']);
        match &*name.to_ascii_lowercase() {
            "content-length" => {
                let len = number(value).ok_or_else(|| Fault::bad("Content-Length must be a decimal number"))?;
                if self.len.replace(len).is_some_and(|before| before != len) {
                    return Err(Fault::bad("there are several values of Content-Length"));
                }
            }
            "transfer-encoding" if value.eq_ignore_ascii_case("chunked") && !self.is_chunked => self.is_chunked = true,
            "transfer-encoding" => {
                return Err(Fault::Refused(501, "Transfer-Encoding must be chunked, once".into()));
            }
            "connection" => self.closes |= value.split(',').any(|word| word.trim().eq_ignore_ascii_case("close")),
            "expect" => self.waits = value.eq_ignore_ascii_case("100-continue"),
            _ => {}
        }
        Ok(())
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// Parses a decimal number without a sign. A number that is too large becomes `usize::MAX`.
fn number(text: &str) -> Option<usize> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(usize::MAX))
}

/// Decodes the percent signs of a path: `%2F` is a slash. A percent sign without two digits stays.
pub(crate) fn decoded(path: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), path.as_bytes());
    while let [first, behind @ ..] = rest {
        let digit = |index: usize| behind.get(index).and_then(|digit| char::from(*digit).to_digit(16));
        match (*first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = behind.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    bytes
}
