//! The functions that a C header declares, and the functions of Rust source text as C would declare them.
#![allow(unreachable_pub)] // it is a part of other tests, too

use std::collections::BTreeMap;

/// Returns C text with every comment replaced by a space.
pub fn without_comments(text: &str) -> String {
    let mut parts = text.split("/*");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push(' ');
        out.push_str(part.split_once("*/").expect("a comment that ends").1);
    }
    out
}

/// Returns the declarations of a header by function name, with single spaces: `const char *gleed_version(void)` for
/// example.
pub fn declared(header: &str) -> BTreeMap<String, String> {
    let lines = header.lines().filter(|line| !line.trim_start().starts_with('#'));
    let text = lines.collect::<Vec<_>>().join(" ");
    let mut functions = BTreeMap::new();
    for statement in text.split([';', '{', '}']) {
        let declaration = statement.split_whitespace().collect::<Vec<_>>().join(" ");
        let Some((before, _)) = declaration.split_once('(') else { continue };
        let name = before.rsplit([' ', '*']).next().unwrap_or_default();
        if name.starts_with("gleed_") && !declaration.starts_with("typedef") {
            functions.insert(name.to_owned(), declaration);
        }
    }
    functions
}

/// Returns the declarations that C needs for the `extern "C"` functions of Rust source text, by function name.
pub fn exported(source: &str) -> BTreeMap<String, String> {
    let mut functions = BTreeMap::new();
    for part in source.split("#[unsafe(no_mangle)]").skip(1) {
        let signature = part.split_once("fn ").expect("a function").1;
        let (name, rest) = signature.split_once('(').unwrap();
        let (parameters, rest) = rest.split_once(')').unwrap();
        let result = rest.split_once('{').unwrap().0.trim().trim_start_matches("->").trim();
        let parameters: Vec<_> = parameters
            .split(',')
            .filter_map(|parameter| parameter.split_once(':'))
            .map(|(name, rust)| c_declaration(rust.trim(), name.trim()))
            .collect();
        let parameters = if parameters.is_empty() { "void".to_owned() } else { parameters.join(", ") };
        let result = if result.is_empty() { format!("void {name}") } else { c_declaration(result, name) };
        functions.insert(name.to_owned(), format!("{result}({parameters})"));
    }
    functions
}

/// Returns the C declaration of a name with a Rust type: `const char *text` for `text` of type `*const c_char`.
fn c_declaration(rust: &str, name: &str) -> String {
    if let Some(target) = rust.strip_prefix("*mut ") {
        return c_declaration(target, &format!("*{name}"));
    }
    if let Some(target) = rust.strip_prefix("*const ") {
        return match target.starts_with('*') {
            true => c_declaration(target, &format!("*const {name}")),
            false => format!("const {}", c_declaration(target, &format!("*{name}"))),
        };
    }
    let c = match rust {
        "c_char" => "char",
        "c_void" => "void",
        "u8" => "uint8_t",
        "i32" => "int32_t",
        "u32" => "uint32_t",
        "u64" => "uint64_t",
        "f32" => "float",
        "usize" => "size_t",
        other => other,
    };
    format!("{c} {name}")
}
