//! Imports between the modules of a crate.
//!
//! A file imports another if a path in its code ends there: `use` of an item that the other file
//! defines, through re-exports, or a path in the code that begins with `crate`, `super`, `self` or
//! a child module. A re-export itself imports nothing. Calls of methods are not seen.

use std::collections::{BTreeMap, BTreeSet};

use super::{Source, Tree};

/// Names of modules from the crate's root.
pub(super) type Path = Vec<String>;

/// The definitions of a module, and the paths that its code names.
#[derive(Default)]
pub(super) struct Module {
    pub(super) file: String,
    defined: BTreeSet<String>,
    /// Re-exported names with their paths; `*` for all of a module.
    exported: Vec<(String, Path)>,
    /// Imported names with their paths.
    imported: Vec<(String, Path)>,
    /// Paths in the code, as they are written.
    named: Vec<Path>,
}

/// The modules of a crate by their paths.
pub(super) type Modules = BTreeMap<Path, Module>;

/// The modules of each crate by their paths.
pub(super) fn crates(tree: &Tree) -> BTreeMap<String, Modules> {
    let mut crates = BTreeMap::<String, Modules>::new();
    for source in tree.sources.iter().filter(|source| !source.all_tests) {
        let Some((name, inside)) =
            source.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"))
        else {
            continue;
        };
        let mut path: Path = inside.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        if path.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
            path.pop();
        }
        crates.entry(name.to_owned()).or_default().insert(path, Module::read(source));
    }
    crates
}

impl Module {
    fn read(source: &Source) -> Self {
        let lines = source.lines().filter(|(line, _)| !source.is_test(*line));
        let text = lines.map(|(_, text)| text).collect::<Vec<_>>().join("\n");
        let tokens = tokens(&text);
        let mut module = Self { file: source.path.clone(), ..Self::default() };
        let mut at = 0;
        // Ends: every turn goes on by at least one token.
        while at < tokens.len() {
            if tokens[at] == "use" && tokens.get(at + 1).is_some_and(|next| *next != "<") {
                let public = at > 0 && (tokens[at - 1] == "pub" || tokens[at - 1] == ")");
                let mut paths = Vec::new();
                at = used(&tokens, at + 1, &mut Path::new(), &mut paths);
                let uses = if public { &mut module.exported } else { &mut module.imported };
                uses.append(&mut paths);
            } else if tokens.get(at + 1).is_some_and(|next| *next == "::") && is_word(tokens[at]) {
                let mut path = vec![tokens[at].to_owned()];
                at += 1;
                while at + 1 < tokens.len() && tokens[at] == "::" && is_word(tokens[at + 1]) {
                    path.push(tokens[at + 1].to_owned());
                    at += 2;
                }
                module.named.push(path);
                at += usize::from(tokens.get(at).is_some_and(|token| *token == "::"));
            } else {
                if DEFINING.contains(&tokens[at]) {
                    let name = tokens.get(at + 1).filter(|name| is_word(name));
                    module.defined.extend(name.map(|name| (*name).to_owned()));
                }
                at += 1;
            }
        }
        module
    }
}

/// Words in front of a name that a module defines.
const DEFINING: [&str; 9] =
    ["fn", "struct", "enum", "union", "trait", "type", "const", "static", "macro_rules"];

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Words, `::` and single characters, without `!` behind the name of a macro's definition.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    // Ends: every turn takes at least one character.
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let length = match first {
            _ if word > 0 => word,
            ':' if rest.starts_with("::") => 2,
            _ => first.len_utf8(),
        };
        let (token, behind) = rest.split_at(length);
        if token != "!" {
            tokens.push(token);
        }
        rest = behind.trim_start();
    }
    tokens
}

/// Reads one tree of a `use` behind `before`, and gives the position behind it. Each path comes
/// with the name that it gets.
fn used(
    tokens: &[&str],
    mut at: usize,
    before: &mut Path,
    paths: &mut Vec<(String, Path)>,
) -> usize {
    let depth = before.len();
    // Ends: every turn goes on by at least one token.
    while let Some(token) = tokens.get(at) {
        at += 1;
        match *token {
            "::" => {}
            "{" => {
                // Ends: every turn goes on, up to the bracket that closes, or what ends the item.
                while tokens.get(at).is_some_and(|token| !["}", ";"].contains(token)) {
                    at = used(tokens, at, before, paths);
                    at += usize::from(tokens.get(at).is_some_and(|token| *token == ","));
                }
                before.truncate(depth);
                return at + 1;
            }
            "," | "}" | ";" => {
                at -= 1;
                break;
            }
            "as" => {
                let alias = tokens.get(at).map_or("_", |alias| *alias).to_owned();
                paths.push((alias, before.clone()));
                before.truncate(depth);
                return at + 1;
            }
            word => before.push(word.to_owned()),
        }
    }
    if let Some(last) = before.last().filter(|_| before.len() > depth) {
        let mut path = before.clone();
        // `self` in a list is the module itself.
        let name = if last == "self" && path.len() > 1 {
            path.pop();
            path.last().cloned().unwrap_or_default()
        } else {
            last.clone()
        };
        paths.push((name, path));
    }
    before.truncate(depth);
    at
}

/// The module in which a path ends. `is_item`: the path names an item there, not the module.
struct End {
    module: Path,
    is_item: bool,
}

/// The end of a path that is written in the module `from`; `None` outside the crate.
fn resolved(modules: &Modules, from: &Path, path: &[String], depth: usize) -> Option<End> {
    let mut module = from.clone();
    let mut rest = path;
    match rest.first()?.as_str() {
        "crate" => {
            module.clear();
            rest = &rest[1..];
        }
        "self" => rest = &rest[1..],
        "super" => {}
        child => {
            module.push(child.to_owned());
            let is_child = modules.contains_key(&module);
            module.pop();
            if !is_child {
                let imported = &modules.get(from)?.imported;
                let (_, before) = imported.iter().find(|(name, _)| name == child)?;
                if before.first() == rest.first() || depth > EXPORTS_MAX {
                    return None;
                }
                let path = [before, &rest[1..]].concat();
                return resolved(modules, from, &path, depth + 1);
            }
        }
    }
    for (at, name) in rest.iter().enumerate() {
        if name == "super" {
            module.pop();
            continue;
        }
        if name == "*" {
            return Some(End { module, is_item: true });
        }
        module.push(name.clone());
        if modules.contains_key(&module) {
            continue;
        }
        module.pop();
        let other = owner(modules, &module, &rest[at..], depth);
        return Some(End { module: other.unwrap_or(module), is_item: true });
    }
    Some(End { module, is_item: false })
}

/// Re-exports in one another that are followed.
const EXPORTS_MAX: usize = 8;

/// The module that defines the first name of `rest`, which `module` defines or re-exports.
fn owner(modules: &Modules, module: &Path, rest: &[String], depth: usize) -> Option<Path> {
    let here = modules.get(module)?;
    if here.defined.contains(&rest[0]) || depth > EXPORTS_MAX {
        return Some(module.clone());
    }
    for (name, path) in &here.exported {
        if *name == rest[0] {
            let path = [path, &rest[1..]].concat();
            return resolved(modules, module, &path, depth + 1).map(|end| end.module);
        }
    }
    here.exported.iter().filter(|(name, _)| name == "*").find_map(|(_, path)| {
        let all = resolved(modules, module, path, depth + 1)?.module;
        (all != *module).then(|| defined_in(modules, &all, rest, depth + 1)).flatten()
    })
}

/// [`owner`], only where a module has the name.
fn defined_in(modules: &Modules, module: &Path, rest: &[String], depth: usize) -> Option<Path> {
    let here = modules.get(module)?;
    let has = here.exported.iter().any(|(name, _)| *name == rest[0] || name == "*");
    (has || here.defined.contains(&rest[0])).then(|| owner(modules, module, rest, depth)).flatten()
}

/// The modules that each module imports, itself left out.
pub(super) fn arrows(modules: &Modules) -> BTreeMap<&Path, BTreeSet<&Path>> {
    let arrows = modules.iter().map(|(path, module)| {
        let named = module.named.iter().filter_map(|named| resolved(modules, path, named, 0));
        let imports = module.imported.iter();
        // What an imported module gives is named by paths in the code.
        let items = imports.filter_map(|(_, named)| resolved(modules, path, named, 0));
        let ends = named.chain(items.filter(|end| end.is_item));
        let found = ends.filter_map(|end| modules.get_key_value(&end.module));
        (path, found.map(|(to, _)| to).filter(|to| *to != path).collect())
    });
    arrows.collect()
}
