//! The order of the crates: each depends only on crates before it, as
//! `docs/internals/ARCHITECTURE.md` draws it.
//!
//! Dependencies of tests alone are free.

use super::{Finding, Tree};

/// Bottom to top.
const ORDER: &[&str] = &[
    "niwaki-allocator",
    "niwaki-env",
    "niwaki-types",
    "niwaki-storage",
    "niwaki-txn",
    "niwaki-heap",
    "niwaki-nbtree",
    "niwaki-table",
    "niwaki-vacuum",
    "niwaki-catalog",
    "niwaki-settings",
    "niwaki-parse",
    "niwaki-expr",
    "niwaki-functions",
    "niwaki-analyze",
    "niwaki-plan",
    "niwaki-exec",
    "niwaki-sql",
    "niwaki-system",
    "niwaki-directory",
    "niwaki-background",
    "niwaki-session",
    "niwaki-ddl",
    "niwaki",
    "niwaki-server",
    "niwaki-cli",
    "niwaki-model",
    "niwaki-testkit",
];

/// Arrows that the order allows and the design does not: a crate, and a crate that it must not
/// know.
const FORBIDDEN: [(&str, &str); 5] = [
    // These crates meet in niwaki-table, so that either can be understood alone.
    ("niwaki-nbtree", "niwaki-heap"),
    // Pages hold bytes, not values.
    ("niwaki-storage", "niwaki-types"),
    // Analysis, planning and execution meet in niwaki-sql, as queries and plans of niwaki-expr.
    ("niwaki-plan", "niwaki-analyze"),
    ("niwaki-exec", "niwaki-analyze"),
    ("niwaki-exec", "niwaki-plan"),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in &tree.files {
        let Some(name) = crate_of(&file.path) else { continue };
        let Some(place) = ORDER.iter().position(|other| *other == name) else {
            found.push(Finding::new(&file.path, 0, "the crate has no place in tidy's order"));
            continue;
        };
        for (line, dependency) in dependencies(&file.text) {
            let above = ORDER.iter().position(|other| *other == dependency);
            if above.is_some_and(|above| above >= place)
                || FORBIDDEN.contains(&(name, dependency))
                || dependency == "xtask"
            {
                let what = format!("{name} must not know {dependency}");
                found.push(Finding::new(&file.path, line, what));
            }
        }
    }
    found
}

fn crate_of(path: &str) -> Option<&str> {
    path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")
}

/// Returns the names under `[dependencies]`, `[build-dependencies]` and `[target.….dependencies]`.
pub(super) fn dependencies(manifest: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut inside = false;
    (1..).zip(manifest.lines()).filter_map(move |(line, text)| {
        if let Some(section) = text.strip_prefix('[') {
            let section = section.trim_end().trim_end_matches(']');
            inside = section.ends_with("dependencies") && !section.contains("dev-dependencies");
            // `[dependencies.name]` is not used in this tree.
            return None;
        }
        let name = text.split(['.', '=', ' ']).next().filter(|name| !name.is_empty())?;
        (inside && !name.starts_with('#')).then_some((line, name))
    })
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    fn found(name: &str, manifest: &str) -> usize {
        let path = format!("crates/{name}/Cargo.toml");
        check(&tree(&[(&path, manifest)])).len()
    }

    #[test]
    fn arrows_point_down() {
        assert_eq!(found("niwaki-heap", "[dependencies]\nniwaki-txn.workspace = true\n"), 0);
        assert_eq!(found("niwaki-heap", "[dependencies]\nniwaki-table.workspace = true\n"), 1);
        assert_eq!(found("niwaki-heap", "[dependencies]\nniwaki-table = { path = \"x\" }\n"), 1);
        let build = "[build-dependencies]\nniwaki.workspace = true\n";
        assert_eq!(found("niwaki-heap", build), 1);
        let tests_only = "[dev-dependencies]\nniwaki-table.workspace = true\n";
        assert_eq!(found("niwaki-heap", tests_only), 0);
    }

    #[test]
    fn some_downward_arrows_are_forbidden() {
        assert_eq!(found("niwaki-nbtree", "[dependencies]\nniwaki-heap.workspace = true\n"), 1);
    }

    #[test]
    fn a_new_crate_needs_a_place() {
        assert_eq!(found("niwaki-utils", ""), 1);
    }
}
