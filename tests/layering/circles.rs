//! Circles of imports between the files of a folder.

use std::collections::{BTreeMap, BTreeSet};

/// A token and its line.
type Token = (usize, String);

/// A path from the root of the crate: `["cache", "block", "BlockId"]`.
type Path = Vec<String>;

/// The items that a file defines, and its imports.
#[derive(Default)]
struct File {
    name: String,
    items: BTreeSet<String>,
    uses: Vec<Use>,
    /// Words outside of `use` and `mod` declarations.
    words: BTreeSet<String>,
}

struct Use {
    path: Path,
    /// The name of the import in this file, or `None` for a path in an expression.
    name: Option<String>,
    /// Whether other files can import it from this one.
    public: bool,
}

/// Returns the circles of more than `most` files among those of a folder, for example `src/cache`. `files` has all
/// files of the crate. Each name is followed to the file that defines it, so a re-export is no link of a circle.
pub(crate) fn circles(files: &[(String, Vec<Token>)], folder: &str, most: usize) -> Vec<Vec<String>> {
    let modules: BTreeMap<Path, File> =
        files.iter().map(|(name, tokens)| (path_of(name), scan(name, tokens))).collect();
    let within = |name: &str| name.strip_prefix(folder).is_some_and(|rest| rest.starts_with(['/', '.']));
    let files = || modules.iter().filter(|(_, file)| within(&file.name));
    let links: BTreeMap<&str, BTreeSet<&str>> = files()
        .map(|(_, file)| {
            let used = file.uses.iter().filter(|used| is_needed(file, used));
            let found = used.filter_map(|used| resolve(&modules, &used.path, 0));
            (file.name.as_str(), found.filter(|found| *found != file.name && within(found)).collect())
        })
        .collect();
    let reached: BTreeMap<&str, BTreeSet<&str>> = links.keys().map(|&file| (file, reachable(&links, file))).collect();
    let mut circles: Vec<Vec<String>> = Vec::new();
    for (&file, others) in &reached {
        let circle = others.iter().filter(|other| reached[*other].contains(file));
        let circle: Vec<String> = circle.map(|member| (*member).to_owned()).collect();
        if circle.len() > most && !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles
}

/// Returns whether an import makes a link. A re-export whose name the file does not mention makes none.
fn is_needed(file: &File, used: &Use) -> bool {
    !used.public || used.name.as_ref().is_none_or(|name| file.words.contains(name))
}

/// Returns the files that can be reached from a file by one or more imports.
fn reachable<'f>(links: &BTreeMap<&'f str, BTreeSet<&'f str>>, from: &str) -> BTreeSet<&'f str> {
    let mut found = BTreeSet::new();
    let mut waiting: Vec<&str> = links.get(from).into_iter().flatten().copied().collect();
    while let Some(file) = waiting.pop() {
        if found.insert(file) {
            waiting.extend(links.get(file).into_iter().flatten());
        }
    }
    found
}

/// Returns the file that defines the item behind a path.
fn resolve<'m>(modules: &'m BTreeMap<Path, File>, path: &[String], depth: usize) -> Option<&'m str> {
    let (parents, rest) =
        (0..=path.len()).rev().map(|at| path.split_at(at)).find(|(module, _)| modules.contains_key(*module))?;
    // A function may have the name of a module beside it.
    if let ([], Some((name, parents))) = (rest, parents.split_last())
        && let Some(file) = modules.get(parents).filter(|file| file.items.contains(name))
    {
        return Some(&file.name);
    }
    let file = &modules[parents];
    let Some(name) = rest.first().filter(|name| depth < 8 && !file.items.contains(*name)) else {
        return Some(&file.name);
    };
    let imported = file.uses.iter().find(|used| used.name.as_ref() == Some(name));
    match imported.filter(|used| used.path != path) {
        Some(used) => resolve(modules, &used.path, depth + 1),
        None => Some(&file.name),
    }
}

/// Returns the module of a file: `["mem", "arena"]` for `src/mem/arena.rs`.
fn path_of(file: &str) -> Path {
    super::module_path(file).into_iter().map(str::to_owned).collect()
}

/// Reads a file, without its tests.
fn scan(name: &str, tokens: &[Token]) -> File {
    let tokens = without_tests(tokens);
    let word = |i: usize| tokens.get(i).map_or("", String::as_str);
    let own = path_of(name);
    let children: BTreeSet<&str> =
        (0..tokens.len()).filter(|&i| word(i) == "mod" && word(i + 2) == ";").map(|i| word(i + 1)).collect();
    let mut file = File { name: name.to_owned(), ..File::default() };
    let (mut braces, mut inline, mut i) = (0usize, Vec::new(), 0);
    while i < tokens.len() {
        match word(i) {
            "mod" if word(i + 2) == "{" => inline.push(braces),
            "{" => braces += 1,
            "}" => {
                braces = braces.saturating_sub(1);
                inline.pop_if(|start| *start == braces);
            }
            "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" if braces == 0 => {
                file.items.insert(word(i + 1).to_owned());
            }
            "macro_rules" => drop(file.items.insert(word(i + 2).to_owned())),
            _ => {}
        }
        let declares = word(i) == "use" && word(i + 1) != "<";
        let public = declares && i > 0 && matches!(word(i - 1), "pub" | ")");
        let start = i + usize::from(declares);
        // A path does not begin inside of a path, or in `pub(in crate::cache)`.
        let begins = i == 0 || !matches!(word(i - 1), "::" | "in");
        let root = if begins { root(&tokens, start, &own, inline.len(), &children) } else { None };
        let next = match root {
            Some((path, next)) => names(&tokens, next, path, &mut |path, name| {
                file.uses.push(Use { path, name: declares.then_some(name), public });
            }),
            None => i + 1,
        };
        if declares || word(i) == "mod" && word(i + 2) == ";" {
            i = (i..tokens.len()).find(|&i| word(i) == ";").unwrap_or(tokens.len());
        } else {
            file.words.extend(tokens[i..next].iter().cloned());
            i = next;
        }
    }
    file
}

/// Returns the module in which a path begins, and the index after its name. Returns `None` for a path of another crate,
/// or of this file alone.
fn root(tokens: &[String], i: usize, own: &Path, inline: usize, children: &BTreeSet<&str>) -> Option<(Path, usize)> {
    let word = |i: usize| tokens.get(i).map_or("", String::as_str);
    match word(i) {
        "crate" if word(i + 1) == "::" => Some((Path::new(), i + 1)),
        "self" if word(i + 1) == "::" && inline == 0 => Some((own.clone(), i + 1)),
        "super" => {
            let more = (1..).take_while(|n| word(i + 2 * n) == "super" && word(i + 2 * n - 1) == "::").count();
            let up = (1 + more).checked_sub(inline).filter(|up| (1..=own.len()).contains(up))?;
            // This excludes `pub(super)`.
            (word(i + 1 + 2 * more) == "::").then_some(())?;
            Some((own[..own.len() - up].to_vec(), i + 1 + 2 * more))
        }
        child if word(i + 1) == "::" && inline == 0 && children.contains(child) => {
            Some(([own.as_slice(), &[child.to_owned()]].concat(), i + 1))
        }
        _ => None,
    }
}

/// Calls `found` with every path that continues at token `i`, a `::`, and with the name that the import gets. Returns
/// the index of the token after the paths.
fn names(tokens: &[String], mut i: usize, mut path: Path, found: &mut dyn FnMut(Path, String)) -> usize {
    let word = |i: usize| tokens.get(i).map_or("", String::as_str);
    while word(i) == "::" {
        match word(i + 1) {
            "{" => {
                i += 2;
                while !matches!(word(i), "}" | "") {
                    if word(i) == "," {
                        i += 1;
                        continue;
                    }
                    let mut inner = path.clone();
                    if word(i) != "self" {
                        inner.push(word(i).to_owned());
                    }
                    i = names(tokens, i + 1, inner, found);
                }
                return i + 1;
            }
            name if name.chars().all(|c| c.is_alphanumeric() || c == '_') && !name.is_empty() => {
                path.push(name.to_owned());
                i += 2;
            }
            // A glob, or generic arguments.
            _ => {
                i += 2;
                break;
            }
        }
    }
    let (name, next) = if word(i) == "as" { (word(i + 1), i + 2) } else { (path.last().map_or("", String::as_str), i) };
    let name = name.to_owned();
    found(path, name);
    next
}

/// Returns the words and punctuation of a file, without its modules of tests.
fn without_tests(tokens: &[Token]) -> Vec<String> {
    const TESTS: [&str; 8] = ["#", "[", "cfg", "(", "test", ")", "]", "mod"];
    let mut kept = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        let rest = &tokens[i..];
        if rest.len() < TESTS.len() || !rest.iter().zip(TESTS).all(|((_, token), wanted)| token == wanted) {
            kept.push(tokens[i].1.clone());
            i += 1;
            continue;
        }
        let mut depth = 0;
        i += 1 + rest
            .iter()
            .position(|(_, token)| {
                depth += i32::from(token == "{") - i32::from(token == "}");
                depth == 0 && matches!(token.as_str(), "}" | ";")
            })
            .unwrap_or(rest.len() - 1);
    }
    kept
}
