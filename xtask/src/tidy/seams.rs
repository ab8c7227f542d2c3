//! The seams between the engine and the machine.
//!
//! There are two rules, so that everything can be simulated. Only three crates have `unsafe`. The
//! standard library's files, threads, locks, atomics, clocks and hash tables are behind
//! `niwaki-env`.

use super::source::Source;
use super::{Finding, Tree};

/// The crates that may hold `unsafe` code.
const UNSAFE: [&str; 3] =
    ["crates/niwaki-allocator/", "crates/niwaki-env/", "crates/niwaki-storage/"];

/// Names that only `niwaki-env` may use. Clippy cannot hold this rule: `niwaki_env::sync::atomic`
/// is the standard library's own module, and the lint cannot tell them apart.
const OF_THE_MACHINE: [&str; 15] = [
    "std::collections::HashMap",
    "std::collections::HashSet",
    "std::fs",
    "std::hash::RandomState",
    "std::thread",
    "std::sync::Barrier",
    "std::sync::Condvar",
    "std::sync::LazyLock",
    "std::sync::Mutex",
    "std::sync::Once",
    "std::sync::RwLock",
    "std::sync::atomic",
    "std::sync::mpsc",
    "std::time::Instant",
    "std::time::SystemTime",
];

/// Exceptions: file, name, and the reason why the use is harmless.
const ALLOWED: [(&str, &str, &str); 2] = [
    ("crates/niwaki-cli/src/shell.rs", "std::fs", "reads the script that the user names"),
    ("crates/niwaki-server/src/server.rs", "std::fs", "the socket file and its permissions"),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in &tree.sources {
        if !UNSAFE.iter().any(|start| source.path.starts_with(start)) {
            found.extend(unsafe_code(source));
        }
        if source.path.starts_with("crates/") && !source.path.starts_with("crates/niwaki-env/") {
            found.extend(of_the_machine(source));
            found.extend(hashed_by_chance(source));
        }
    }
    for (path, name, _) in ALLOWED {
        let used = tree.sources.iter().any(|s| s.path == path && imports(s).any(|i| i.1 == name));
        if tree.file(path).is_some() && !used {
            found.push(Finding::new(path, 0, format!("tidy allows {name} here: no longer needed")));
        }
    }
    found
}

fn unsafe_code(source: &Source) -> Vec<Finding> {
    let root = source.path.ends_with("/src/lib.rs") || source.path.ends_with("/src/main.rs");
    let forbids = source.code.iter().any(|line| line.trim() == "#![forbid(unsafe_code)]");
    let mut found = Vec::new();
    if root && !forbids {
        found.push(Finding::new(&source.path, 0, "must say #![forbid(unsafe_code)]"));
    }
    for (line, code) in source.lines() {
        if code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe") {
            found.push(Finding::new(
                &source.path,
                line,
                "unsafe outside niwaki-allocator, niwaki-env and niwaki-storage",
            ));
        }
    }
    found
}

fn of_the_machine(source: &Source) -> Vec<Finding> {
    let used = imports(source).filter(|(line, name)| {
        !source.is_test(*line)
            && !ALLOWED.iter().any(|(path, allowed, _)| source.path == *path && name == allowed)
    });
    used.map(|(line, name)| {
        Finding::new(&source.path, line, format!("{name}: use what niwaki_env has"))
    })
    .collect()
}

/// Calls of `new()` for hash tables: builds for the deterministic scheduler have another hasher.
fn hashed_by_chance(source: &Source) -> Vec<Finding> {
    const MADE: [&str; 4] =
        ["HashMap::new(", "HashSet::new(", "HashMap::with_capacity(", "HashSet::with_capacity("];
    let made = source.lines().filter(|(line, code)| {
        !source.is_test(*line) && MADE.iter().any(|made| code.contains(made))
    });
    made.map(|(line, _)| Finding::new(&source.path, line, "a hash table is made by default()"))
        .collect()
}

/// Returns every use of a name of [`OF_THE_MACHINE`], with its line: as a path, or in the braces of
/// an import.
fn imports(source: &Source) -> impl Iterator<Item = (usize, &'static str)> {
    let text = source.code.join("\n");
    let mut found = Vec::new();
    for (start, _) in text.match_indices("std::") {
        let line = text[..start].matches('\n').count() + 1;
        let mut paths = Vec::new();
        expand("", &text[start..], &mut paths);
        for path in paths {
            let named = OF_THE_MACHINE.into_iter().find(|name| {
                path.strip_prefix(name)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
            });
            found.extend(named.map(|name| (line, name)));
        }
    }
    found.dedup();
    found.into_iter()
}

/// Appends the paths at the front of `text`, braces multiplied out; returns the bytes they take.
fn expand(prefix: &str, text: &str, out: &mut Vec<String>) -> usize {
    let word = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let end = text.find(|c| !word(c)).unwrap_or(text.len());
    let path = format!("{prefix}{}", &text[..end]);
    if !text[end..].starts_with('{') {
        out.push(path);
        return end;
    }
    let mut at = end + 1;
    // Ends: every turn takes a path, a separator or the closing brace.
    while at < text.len() && !text[at..].starts_with('}') {
        let skipped = text[at..].find(|c: char| word(c) || c == '{' || c == '}');
        at += skipped.unwrap_or(text.len() - at);
        if !text[at..].starts_with('}') {
            at += expand(&path, &text[at..], out);
        }
    }
    at + 1
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    fn found(path: &str, code: &str) -> Vec<String> {
        check(&tree(&[(path, code)])).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn hash_tables_are_made_by_default() {
        let made = "fn f() { let a: HashMap<u8, u8> = HashMap::new(); }";
        assert_eq!(found("crates/niwaki-heap/src/x.rs", made).len(), 1);
        assert_eq!(found("crates/niwaki-env/src/hash.rs", made), [""; 0]);
        let default = "fn f() { let a: HashMap<u8, u8> = HashMap::default(); }";
        assert_eq!(found("crates/niwaki-heap/src/x.rs", default), [""; 0]);
    }

    #[test]
    fn the_machine_is_reached_through_env() {
        let engine = "crates/niwaki-heap/src/x.rs";
        assert_eq!(found(engine, "use std::sync::{Arc, OnceLock};"), [""; 0]);
        let sync = ["std::sync::Mutex: use what niwaki_env has"];
        assert_eq!(found(engine, "use std::sync::{Arc, Mutex};"), sync);
        assert_eq!(found(engine, "use std::{io, sync::{\n    Arc, Mutex,\n}};"), sync);
        assert_eq!(found(engine, "let m = std::sync::Mutex::new(1);"), sync);
        let map = ["std::collections::HashMap: use what niwaki_env has"];
        assert_eq!(found(engine, "use std::collections::{BTreeMap, HashMap};"), map);
        let fs = ["std::fs: use what niwaki_env has"];
        assert_eq!(found(engine, "use std::fs::{File, read};"), fs);
        assert_eq!(found(engine, "#[cfg(test)]\nmod tests {\n use std::fs;\n}"), [""; 0]);
        assert_eq!(found("crates/niwaki-env/src/x.rs", "use std::fs;"), [""; 0]);
    }

    #[test]
    fn unsafe_stays_where_it_is_allowed() {
        assert_eq!(found("crates/niwaki-heap/src/x.rs", "unsafe { f() }").len(), 1);
        assert_eq!(
            found("crates/niwaki-heap/src/x.rs", "// unsafe\nlet unsafe_word = 1;").len(),
            0
        );
        assert_eq!(found("crates/niwaki-storage/src/x.rs", "unsafe { f() }").len(), 0);
        assert_eq!(found("crates/niwaki-heap/src/lib.rs", "mod x;").len(), 1);
        assert_eq!(found("crates/niwaki-heap/src/lib.rs", "#![forbid(unsafe_code)]").len(), 0);
    }

    #[test]
    fn an_exception_goes_when_it_is_not_needed() {
        assert_eq!(found("crates/niwaki-cli/src/shell.rs", "use std::fs;").len(), 0);
        assert_eq!(found("crates/niwaki-cli/src/shell.rs", "use std::io;").len(), 1);
    }
}
