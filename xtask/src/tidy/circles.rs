//! Modules that import each other in a circle: no reader can begin with one of them.
//!
//! [`super::imports`] says what counts as an import.

use std::collections::{BTreeMap, BTreeSet};

use super::imports::{Modules, Path, arrows, crates};
use super::{Finding, Tree};

/// The crates that have circles, and the files of the largest one. A change that makes it smaller
/// lowers the number.
const LARGEST: [(&str, usize); 13] = [
    ("niwaki-env", 2),
    ("niwaki-types", 4),
    ("niwaki-txn", 6),
    ("niwaki-catalog", 4),
    ("niwaki-settings", 2),
    ("niwaki-parse", 2),
    ("niwaki-expr", 12),
    ("niwaki-functions", 4),
    ("niwaki-analyze", 4),
    ("niwaki-plan", 7),
    ("niwaki-exec", 3),
    ("niwaki-sql", 6),
    ("niwaki-cli", 4),
];

/// The file with the limits.
const HERE: &str = "xtask/src/tidy/circles.rs";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (name, modules) in crates(tree) {
        let largest = circles(&modules).into_iter().max_by_key(Vec::len).unwrap_or_default();
        let limit =
            LARGEST.iter().find(|(limited, _)| *limited == name).map_or(0, |(_, size)| *size);
        let size = largest.len();
        if size > limit {
            let files = largest.join(", ");
            let what = format!("a circle of {size} files in {name}, at most {limit}: {files}");
            found.push(Finding::new(HERE, 0, what));
        } else if size < limit {
            let what =
                format!("{size} files in the largest circle of {name}: lower the limit of {limit}");
            found.push(Finding::new(HERE, 0, what));
        }
    }
    found
}

/// The circles of a crate, each as its sorted files.
fn circles(modules: &Modules) -> Vec<Vec<String>> {
    let arrows = arrows(modules);
    let reached: BTreeMap<&Path, BTreeSet<&Path>> =
        arrows.keys().map(|from| (*from, reachable(&arrows, from))).collect();
    let mut circles = Vec::new();
    let mut known = BTreeSet::new();
    for (from, tos) in &reached {
        if !tos.contains(from) || known.contains(from) {
            continue;
        }
        let circle: Vec<&Path> =
            tos.iter().copied().filter(|to| reached[to].contains(from)).collect();
        let mut files: Vec<_> = circle.iter().map(|path| modules[*path].file.clone()).collect();
        known.extend(circle);
        files.sort();
        circles.push(files);
    }
    circles
}

/// The modules to which arrows lead from one, in one step or more.
fn reachable<'a>(
    arrows: &BTreeMap<&'a Path, BTreeSet<&'a Path>>,
    from: &Path,
) -> BTreeSet<&'a Path> {
    let mut reached = BTreeSet::new();
    let mut waiting: Vec<&Path> = arrows[from].iter().copied().collect();
    while let Some(at) = waiting.pop() {
        if reached.insert(at) {
            waiting.extend(arrows[at].difference(&reached));
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    fn circles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let files: Vec<_> =
            files.iter().map(|(path, text)| (format!("crates/c/src/{path}"), *text)).collect();
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        circles(&crates(&tree(&files))["c"])
    }

    #[test]
    fn two_files_that_import_each_other_are_a_circle() {
        let lib = ("lib.rs", "mod a; mod b;");
        let a = ("a.rs", "use crate::b::B; struct A;");
        assert_eq!(circles_of(&[lib, a, ("b.rs", "struct B(super::a::A);")]).len(), 1);
        assert_eq!(circles_of(&[lib, a, ("b.rs", "struct B; // crate::a::A")]).len(), 0);
        let tests = "struct B;\n#[cfg(test)]\nmod tests { use crate::a::A; }";
        assert_eq!(circles_of(&[lib, a, ("b.rs", tests)]).len(), 0);
    }

    #[test]
    fn re_exports_lead_to_what_they_name() {
        let lib = ("lib.rs", "mod a; mod b; pub use a::A; pub(crate) use b::*;");
        let a = ("a.rs", "use crate::{B, other::C as D}; pub struct A;");
        let b = ("b.rs", "use crate::A; pub struct B;");
        let found = circles_of(&[lib, a, b]);
        assert_eq!(found, [["crates/c/src/a.rs", "crates/c/src/b.rs"]]);
    }

    #[test]
    fn a_list_of_a_use_has_paths_of_its_own() {
        let lib = ("lib.rs", "mod a; mod b; mod c;");
        let a = ("a.rs", "use crate::{b::{self, X}, c::Y}; use std::fmt; struct A;");
        let found = circles_of(&[lib, a, ("b.rs", ""), ("c.rs", "use crate::a::{A};")]);
        assert_eq!(found, [["crates/c/src/a.rs", "crates/c/src/c.rs"]]);
    }

    #[test]
    fn the_face_of_a_folder_with_code_of_its_own_is_a_file_of_the_circle() {
        let folder = ("f/mod.rs", "mod a; use a::A; struct F(A);");
        let found =
            circles_of(&[("lib.rs", "mod f;"), folder, ("f/a.rs", "use super::F; struct A;")]);
        assert_eq!(found, [["crates/c/src/f/a.rs", "crates/c/src/f/mod.rs"]]);
    }
}
