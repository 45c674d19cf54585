//! Translates WGSL to C++, line by line: as much of it as the kernels use. What it does not know, the C++ compiler
//! refuses.

use std::fmt::Write;

/// A kernel in C++.
#[derive(Default)]
struct Kernel {
    workgroup: String,
    constants: String,
    structs: String,
    globals: String,
    prototypes: String,
    functions: String,
    bindings: String,
    call: String,
}

/// Returns a kernel as a C++ program that runs dispatches: see `host.hpp`.
pub(crate) fn translate(wgsl: &str) -> String {
    let lines = wgsl.lines().map(|line| line.split("//").next().unwrap_or_default().trim_end());
    let mut kernel = Kernel::default();
    let mut lines = lines.filter(|line| !line.is_empty()).peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("struct ") {
            let mut whole = line.to_owned();
            while !whole.contains('}') {
                whole.push_str(lines.next().expect("a struct that ends"));
            }
            kernel.add_struct(&whole);
        } else {
            kernel.add_line(line);
        }
    }
    let Kernel { workgroup, constants, structs, globals, prototypes, functions, bindings, call } = kernel;
    format!(
        "#include \"prelude.hpp\"\n{constants}constexpr u32 WORKGROUP = {workgroup};\n{structs}{globals}{prototypes}{functions}
static void bind(u32 number, u32 *words) {{ switch (number) {{\n{bindings}}} }}
static void invoke(vec3<u32> group, u32 invocation) {{ {call} }}\n#include \"host.hpp\"\n"
    )
}

impl Kernel {
    /// Adds a struct, such as `struct Block { sum: i32, minima: i32 }`.
    fn add_struct(&mut self, whole: &str) {
        let (name, rest) = whole.trim_start_matches("struct ").split_once('{').expect("a struct");
        let fields = parts(rest.split_once('}').expect("a struct").0);
        let fields: String = fields.iter().map(|field| declared(field) + "; ").collect();
        writeln!(self.structs, "struct {}{{ {fields}}};", name).unwrap();
    }

    fn add_line(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix("@group(0) @binding(") {
            let (number, rest) = rest.split_once(") var<storage, ").expect("a binding");
            let (_, declaration) = rest.split_once("> ").expect("a binding");
            self.add_binding(number, declaration.trim_end_matches(';'));
        } else if let Some(rest) = line.strip_prefix("var<workgroup> ") {
            writeln!(self.globals, "static {};", declared(rest.trim_end_matches(';'))).unwrap();
        } else if let Some(rest) = line.strip_prefix("var<private> ") {
            let (name, ty) = rest.trim_end_matches(';').split_once(": ").expect("a type");
            writeln!(self.globals, "static {} {name}_[MOST];\n#define {name} {name}_[CURRENT]", type_of(ty)).unwrap();
        } else if let Some(rest) = line.strip_prefix("const ") {
            writeln!(self.constants, "constexpr auto {rest}").unwrap();
        } else if let Some(rest) = line.strip_prefix("@compute @workgroup_size(") {
            rest.split_once(')').expect("a size").0.clone_into(&mut self.workgroup);
        } else if line.starts_with("fn ") {
            self.add_function(line);
        } else {
            writeln!(self.functions, "{}", statement(line)).unwrap();
        }
    }

    /// Adds a binding, such as `POOL: array<u32>` or `P: Params`.
    fn add_binding(&mut self, number: &str, declaration: &str) {
        let (name, ty) = declaration.split_once(": ").expect("a type");
        let element = ty.strip_prefix("array<").and_then(|ty| ty.strip_suffix('>'));
        let (place, ty) = match element {
            Some(element) => (name.to_owned(), type_of(element)),
            None => (format!("{name}_"), type_of(ty)),
        };
        writeln!(self.globals, "static {ty} *{place};").unwrap();
        if element.is_none() {
            writeln!(self.globals, "#define {name} (*{place})").unwrap();
        }
        writeln!(self.bindings, "case {number}: {place} = reinterpret_cast<{ty} *>(words); break;").unwrap();
    }

    /// Adds a function, such as `fn number(bits: u32) -> f32 { ...`
    fn add_function(&mut self, line: &str) {
        let (name, rest) = line.trim_start_matches("fn ").split_once('(').expect("a function");
        let (head, body) = rest.split_once('{').expect("a function");
        let (parameters, result) =
            head.rsplit_once("->").map_or((head, "void"), |(head, result)| (head, result.trim()));
        let parameters = parts(parameters.trim().strip_suffix(')').expect("parameters"));
        let is_main = name == "main";
        let name = if is_main { "entry" } else { name };
        if is_main {
            let of = |parameter: &String| if parameter.contains("workgroup_id") { "group" } else { "invocation" };
            let given: Vec<_> = parameters.iter().map(of).collect();
            self.call = format!("entry({});", given.join(", "));
        }
        let plain =
            |parameter: &String| declared(parameter.rsplit_once(") ").map_or(parameter.as_str(), |(_, rest)| rest));
        let parameters: Vec<_> = parameters.iter().map(plain).collect();
        let signature = format!("static {} {name}({})", type_of(result), parameters.join(", "));
        writeln!(self.prototypes, "{signature};").unwrap();
        writeln!(self.functions, "{signature} {{{}", statement(body)).unwrap();
    }
}

/// Returns a line in C++. It translates `let x = ...`, `var x: T = ...` anywhere in the line, and `switch x {`.
fn statement(line: &str) -> String {
    let mut out = line.to_owned();
    for (word, auto) in [("let ", "const auto "), ("var ", "auto ")] {
        let mut done = String::new();
        let mut rest = out.as_str();
        while let Some(at) = rest.find(word) {
            let starts = rest[..at].chars().next_back().is_none_or(|c| !c.is_alphanumeric() && c != '_');
            done.push_str(&rest[..at]);
            rest = &rest[at + word.len()..];
            if !starts {
                done.push_str(word);
                continue;
            }
            // A declaration ends at its `=`, or at the end of the statement.
            let end = rest.find([';', '=']).expect("a declaration that ends");
            match rest[..end].split_once(':') {
                Some((name, ty)) => done.push_str(&format!("{} {name} ", type_of(ty))),
                None => done.push_str(&format!("{auto}{}", &rest[..end])),
            }
            rest = &rest[end..];
        }
        done.push_str(rest);
        out = done;
    }
    match out.trim_start().strip_prefix("switch ") {
        Some(rest) => format!("switch ({}) {{", rest.trim_end_matches('{').trim()),
        None => out,
    }
}

/// Returns `name: T` as C++ declares it.
fn declared(declaration: &str) -> String {
    let (name, ty) = declaration.split_once(':').expect("a type");
    format!("{} {}", type_of(ty), name.trim())
}

/// Returns the name of a type in C++: only atomics have another name.
fn type_of(ty: &str) -> String {
    ty.trim().replace("atomic<u32>", "u32")
}

/// Returns the parts of a list between commas. Commas inside of brackets do not count.
fn parts(list: &str) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0_u32);
    for c in list.chars() {
        match c {
            '<' | '(' => depth += 1,
            '>' | ')' => depth -= 1,
            _ => {}
        }
        match c {
            ',' if depth == 0 => parts.push(String::new()),
            _ => parts.last_mut().expect("a part").push(c),
        }
    }
    parts.iter().map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}
