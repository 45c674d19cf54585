//! Reads JSON that is mostly numbers, from the first byte to the last. Nested arrays become tensors.
//!
//! Memory grows by 4 bytes for each number that is kept. Each takes at least two bytes in the file.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use common::Result;

/// Limits: depth of nested arrays, bytes of a name, bytes of settings, number of tensors.
const MAX_DEPTH: usize = 4;
const MAX_NAME: usize = 256;
const MAX_SETTINGS: usize = 1 << 16;
const MAX_TENSORS: usize = 1 << 16;

/// A tensor of f32.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    pub(crate) shape: Vec<usize>,
    /// Elements in little-endian order.
    pub(crate) bytes: Vec<u8>,
}

/// The contents of a file.
#[derive(Debug, Default)]
pub(crate) struct File {
    pub(crate) tensors: BTreeMap<String, Numbers>,
    pub(crate) config: Option<Json>,
}

/// Reads an object of tensors. They may be in an inner object `state_dict`, `weights` or `model`, and settings in
/// `config`. Tensors whose names end with one of `left_out` are not kept.
pub(crate) fn read(bytes: &[u8], left_out: &[&str]) -> Result<File> {
    let mut reader = Reader { bytes, at: 0, left_out };
    let mut file = File::default();
    reader.members(&mut file, true)?;
    match reader.peek() {
        None => Ok(file),
        Some(_) => Err(reader.wrong("the end of the file")),
    }
}

struct Reader<'j> {
    bytes: &'j [u8],
    at: usize,
    left_out: &'j [&'j str],
}

impl Reader<'_> {
    /// Skips white space and returns the next byte without taking it.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        self.at += rest.iter().take_while(|byte| b" \t\r\n".contains(byte)).count();
        self.bytes.get(self.at).copied()
    }

    /// Takes the next byte if it is this one. Returns whether it is.
    fn takes(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Result<()> {
        if self.takes(byte) { Ok(()) } else { Err(self.wrong(&format!("{:?}", char::from(byte)))) }
    }

    fn wrong(&self, expected: &str) -> Box<dyn std::error::Error> {
        format!("byte {}: {expected} is expected", self.at).into()
    }

    /// Reads the members of an object. `outer`: the object is the whole file.
    fn members(&mut self, file: &mut File, outer: bool) -> Result<()> {
        self.expect(b'{')?;
        if self.takes(b'}') {
            return Ok(());
        }
        loop {
            let name = self.name()?;
            self.expect(b':')?;
            self.member(&name, file, outer).map_err(|error| format!("{name}: {error}"))?;
            if !self.takes(b',') {
                return self.expect(b'}');
            }
        }
    }

    fn member(&mut self, name: &str, file: &mut File, outer: bool) -> Result<()> {
        match (name, self.peek()) {
            ("config", Some(b'{')) if outer => file.config = Some(self.settings()?),
            ("state_dict" | "weights" | "model", Some(b'{')) if outer => self.members(file, false)?,
            (_, Some(b'[')) => {
                let keep = !self.left_out.iter().any(|end| name.ends_with(end));
                let mut numbers = Numbers::default();
                self.array(0, &mut numbers, keep)?;
                if keep && file.tensors.insert(name.into(), numbers).is_some() {
                    return Err("it is there twice".into());
                }
                if file.tensors.len() > MAX_TENSORS {
                    return Err(format!("more than {MAX_TENSORS} tensors").into());
                }
            }
            _ => return Err(self.wrong("an array of numbers")),
        }
        Ok(())
    }

    /// Reads an array of numbers or of equal arrays, inside of `depth` arrays.
    fn array(&mut self, depth: usize, numbers: &mut Numbers, keep: bool) -> Result<()> {
        if depth >= MAX_DEPTH {
            return Err(format!("byte {}: more than {MAX_DEPTH} arrays in each other", self.at).into());
        }
        self.expect(b'[')?;
        let (mut count, mut holds_arrays) = (0, false);
        while !self.takes(b']') {
            if count > 0 {
                self.expect(b',')?;
            }
            let is_array = self.peek() == Some(b'[');
            // All elements are of one kind: that of the first one, and that of finished arrays at this depth.
            let others = match numbers.shape.get(depth..) {
                _ if count > 0 => holds_arrays,
                Some([size, inner @ ..]) if *size != usize::MAX => !inner.is_empty(),
                _ => is_array,
            };
            if is_array != others {
                return Err(self.wrong(if others { "an array" } else { "a number" }));
            }
            (count, holds_arrays) = (count + 1, is_array);
            if is_array {
                self.array(depth + 1, numbers, keep)?;
            } else {
                self.number(numbers, keep)?;
            }
        }
        self.dimension(depth, count, numbers)
    }

    /// Checks that arrays at the same depth have the same length. The innermost array ends first.
    fn dimension(&self, depth: usize, count: usize, numbers: &mut Numbers) -> Result<()> {
        if numbers.shape.len() <= depth {
            numbers.shape.resize(depth + 1, usize::MAX);
        }
        let size = numbers.shape.get_mut(depth).ok_or("too deep")?;
        if *size == usize::MAX {
            *size = count;
        }
        if *size == count && count > 0 {
            return Ok(());
        }
        let text = format!("an array of {count} ends at byte {}, where others have {size} elements", self.at);
        Err(if count == 0 { format!("an array without elements ends at byte {}", self.at).into() } else { text.into() })
    }

    fn number(&mut self, numbers: &mut Numbers, keep: bool) -> Result<()> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let len = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte)).count();
        let text = rest.get(..len).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default();
        let is_json = text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        let number = text.parse::<f32>().ok().filter(|number| is_json && number.is_finite());
        let number = number.ok_or_else(|| self.wrong("a finite number"))?;
        self.at += len;
        if keep {
            numbers.bytes.extend(number.to_le_bytes());
        }
        Ok(())
    }

    /// Reads a string.
    fn name(&mut self) -> Result<String> {
        if self.peek() != Some(b'"') {
            return Err(self.wrong("a name"));
        }
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let end = rest.iter().skip(1).take(MAX_NAME).position(|&byte| byte == b'"').map(|end| end + 2);
        let text = end.and_then(|end| rest.get(..end)).ok_or_else(|| self.wrong("a name of at most 255 bytes"))?;
        let name = serde_json::from_slice(text).map_err(|_| self.wrong("a name without escaped quotes"))?;
        self.at += text.len();
        Ok(name)
    }

    /// Reads a small object.
    fn settings(&mut self) -> Result<Json> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let rest = rest.get(..MAX_SETTINGS).unwrap_or(rest);
        let mut stream = serde_json::Deserializer::from_slice(rest).into_iter::<Json>();
        let json = stream.next().and_then(std::result::Result::ok);
        let json = json.ok_or_else(|| self.wrong(&format!("an object of at most {MAX_SETTINGS} bytes")))?;
        self.at += stream.byte_offset();
        Ok(json)
    }
}
