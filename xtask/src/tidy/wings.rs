//! The order of the wings: the folders of a crate, each with one idea.
//!
//! The order of the `mod` lines in `lib.rs` is the order of the wings, lowest first. A file imports
//! only from its own wing and from wings below. A file beside the folders is a wing by itself.

use std::collections::BTreeMap;

use super::imports::{Modules, arrows, crates};
use super::{Finding, Tree};

/// The crates that have wings.
const WINGED: &[&str] = &[
    "niwaki",
    "niwaki-analyze",
    "niwaki-background",
    "niwaki-catalog",
    "niwaki-ddl",
    "niwaki-directory",
    "niwaki-exec",
    "niwaki-functions",
    "niwaki-heap",
    "niwaki-model",
    "niwaki-nbtree",
    "niwaki-parse",
    "niwaki-plan",
    "niwaki-session",
    "niwaki-settings",
    "niwaki-sql",
    "niwaki-storage",
    "niwaki-system",
    "niwaki-table",
    "niwaki-txn",
    "niwaki-types",
];

/// The most files of one folder: more do not fit into a reader's head.
const FILES_MAX: usize = 20;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let crates = crates(tree);
    let mut found = Vec::new();
    for &name in WINGED {
        let Some(modules) = crates.get(name) else { continue };
        let face = format!("crates/{name}/src/lib.rs");
        let order = order(tree, &face);
        found.extend(upward(modules, &order));
        found.extend(crowded(modules));
    }
    found
}

/// The names of the modules that a crate's face declares, without the modules of tests.
fn order(tree: &Tree, face: &str) -> Vec<String> {
    let Some(source) = tree.sources.iter().find(|source| source.path == face) else {
        return Vec::new();
    };
    let lines = source.lines().filter(|(line, _)| !source.is_test(*line));
    let declared = lines.filter_map(|(_, text)| {
        let text = text.trim().trim_start_matches("pub ").strip_prefix("mod ")?;
        Some(text.strip_suffix(';')?.to_owned())
    });
    declared.collect()
}

/// Imports of a wing above.
fn upward(modules: &Modules, order: &[String]) -> Vec<Finding> {
    let place = |wing: &String| order.iter().position(|other| other == wing);
    let mut found = Vec::new();
    for (from, tos) in arrows(modules) {
        let Some(wing) = from.first() else { continue };
        for to in tos {
            let above = to.first().filter(|above| place(above) > place(wing));
            if let Some(above) = above {
                let what = format!("the wing {wing} must not know the wing {above}: {to:?}");
                found.push(Finding::new(&modules[from].file, 0, what));
            }
        }
    }
    found
}

/// Folders with too many files.
fn crowded(modules: &Modules) -> Vec<Finding> {
    let mut files = BTreeMap::<&str, usize>::new();
    for module in modules.values() {
        let folder = module.file.rsplit_once('/').map_or("", |(folder, _)| folder);
        *files.entry(folder).or_default() += 1;
    }
    let crowded = files.into_iter().filter(|(_, files)| *files > FILES_MAX);
    crowded
        .map(|(folder, files)| {
            Finding::new(folder, 0, format!("{files} files in a folder, at most {FILES_MAX}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<Finding> {
        let files: Vec<_> = files
            .iter()
            .map(|(path, text)| (format!("crates/niwaki-heap/src/{path}"), *text))
            .collect();
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        check(&tree(&files))
    }

    #[test]
    fn a_wing_knows_those_below_alone() {
        let lib = ("lib.rs", "mod page;\nmod row;\n#[cfg(test)]\nmod tests;");
        let page = ("page/mod.rs", "pub(crate) mod tuple;");
        let tuple = ("page/tuple.rs", "pub(crate) struct Tuple;");
        let below = ("row.rs", "use crate::page::tuple::Tuple; struct Row(Tuple);");
        assert_eq!(found(&[lib, page, tuple, below]), []);
        let above = ("page/tuple.rs", "pub(crate) struct Tuple(crate::row::Row);");
        let row = ("row.rs", "pub(crate) struct Row;");
        assert_eq!(found(&[lib, page, above, row]).len(), 1);
    }

    #[test]
    fn a_folder_has_few_files() {
        let names: Vec<_> = (0..=FILES_MAX).map(|number| format!("page/f{number}.rs")).collect();
        let files: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
        assert_eq!(found(&files).len(), 1);
        assert_eq!(found(&files[1..]), []);
    }
}
