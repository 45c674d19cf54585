//! Reads JSON as text. Values of serde_json do not keep the order of names, which matters in a schema.

/// Returns the text of a member of an object.
pub fn member<'t>(object: &'t str, wanted: &str) -> Option<&'t str> {
    let mut members = members(object);
    members.find_map(|(name, value)| (name == wanted).then_some(value))
}

/// Returns the names and the values of an object in their order. Names keep their escapes.
pub fn members(object: &str) -> impl Iterator<Item = (&str, &str)> {
    parts(object).into_iter().filter_map(|part| {
        let colon = string_end(part)?;
        let (name, value) = part.split_at(colon);
        Some((name.trim().trim_matches('"'), value.trim_start().strip_prefix(':')?.trim()))
    })
}

/// Returns the parts of an array or object between its commas.
pub fn parts(container: &str) -> Vec<&str> {
    let inner = container.trim();
    let inner = inner.get(1..inner.len().saturating_sub(1)).unwrap_or("");
    let bytes = inner.as_bytes();
    let (mut parts, mut depth, mut begin, mut at) = (Vec::new(), 0, 0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at += string_end(&inner[at..]).unwrap_or(1) - 1,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(inner[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    if !inner.trim().is_empty() {
        parts.push(inner[begin..].trim());
    }
    parts
}

/// Returns the byte offset after the closing quote of the first string in a text.
fn string_end(text: &str) -> Option<usize> {
    let start = text.find('"')? + 1;
    let mut bytes = text.bytes().enumerate().skip(start);
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}
