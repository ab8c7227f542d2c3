//! The rule that the name of a file tells it from the other files of its crate.
//!
//! In one folder, no two names differ by a plural alone. In one crate, a name stands for one file.
//! Tests are free: their names repeat the names of the files that they test.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Tree};

/// Names of files that have their sense from the folder.
const OF_A_FOLDER: [&str; 9] =
    ["check", "error", "hostile", "lib", "main", "mod", "stats", "tests", "wal"];

/// Folders with a name beside its own plural. The list only shrinks.
const PLURALS: &[(&str, &str)] = &[];

/// Names that several files of one crate have. The list only shrinks.
const REPEATED: &[&str] = &[];

/// A folder whose files have the names of the files that they serve: readers of statements.
const MIRROR: &str = "crates/niwaki-parse/src/utility/read/";

/// The file with the lists.
const HERE: &str = "xtask/src/tidy/names.rs";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let files = Files::new(tree);
    let mut found = exceptions(files.plurals(), PLURALS, |(folder, name)| {
        Finding::new(folder, 0, format!("`{name}` stands beside its plural: rename one"))
    });
    found.extend(exceptions(files.repeated(), REPEATED, |name| {
        let places = files.places(name).join(", ");
        Finding::new(HERE, 0, format!("several files have the name `{name}`: {places}"))
    }));
    found
}

/// Returns a finding for each offender that the list has not, and for each entry of the list that
/// offends no more.
fn exceptions<T: Ord + Copy + std::fmt::Debug>(
    offenders: BTreeSet<T>,
    list: &[T],
    finding: impl Fn(&T) -> Finding,
) -> Vec<Finding> {
    let known: BTreeSet<T> = list.iter().copied().collect();
    let gone = known.difference(&offenders);
    let gone =
        gone.map(|entry| Finding::new(HERE, 0, format!("take {entry:?} off the list of names")));
    offenders.difference(&known).map(finding).chain(gone).collect()
}

/// The names of shipped files, without their ends.
#[derive(Default)]
struct Files<'a> {
    /// Each folder, with the names of its files and folders.
    folders: BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// Each crate and name, with the files.
    crates: BTreeMap<(&'a str, &'a str), Vec<&'a str>>,
}

impl<'a> Files<'a> {
    fn new(tree: &'a Tree) -> Self {
        let mut files = Self::default();
        for source in tree.sources.iter().filter(|source| !source.all_tests) {
            let path = source.path.trim_end_matches(".rs");
            let Some((name, inside)) =
                path.strip_prefix("crates/").and_then(|rest| rest.split_once("/src/"))
            else {
                continue;
            };
            let src = path.len() - inside.len();
            let ends = inside.match_indices('/').map(|(at, _)| src + at).chain([path.len()]);
            for end in ends {
                if let Some((folder, part)) = path[..end].rsplit_once('/') {
                    files.folders.entry(folder).or_default().insert(part);
                }
            }
            let file = path.rsplit('/').next().unwrap_or_default();
            if !OF_A_FOLDER.contains(&file) && !source.path.starts_with(MIRROR) {
                files.crates.entry((name, file)).or_default().push(&source.path);
            }
        }
        files
    }

    /// Returns the folders with a name beside its plural, and these names.
    fn plurals(&self) -> BTreeSet<(&'a str, &'a str)> {
        let mut found = BTreeSet::new();
        for (folder, names) in &self.folders {
            let doubled = names
                .iter()
                .filter(|name| plurals(name).iter().any(|plural| names.contains(plural.as_str())));
            found.extend(doubled.map(|name| (*folder, *name)));
        }
        found
    }

    /// Returns the names that several files of a crate have.
    fn repeated(&self) -> BTreeSet<&'a str> {
        let several = self.crates.iter().filter(|(_, files)| files.len() > 1);
        several.map(|((_, name), _)| *name).collect()
    }

    /// Returns the files that have the name of another file in their crate.
    fn places(&self, name: &str) -> Vec<&'a str> {
        let crates = self.crates.iter().filter(|((_, own), files)| *own == name && files.len() > 1);
        crates.flat_map(|(_, files)| files).copied().collect()
    }
}

/// Returns the forms that the plural of a name may have.
fn plurals(name: &str) -> Vec<String> {
    let mut forms = vec![format!("{name}s"), format!("{name}es")];
    forms.extend(name.strip_suffix('y').map(|stem| format!("{stem}ies")));
    forms
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    /// Findings on files of a crate, without the entries of the lists.
    fn found(files: &[&str]) -> Vec<String> {
        let files: Vec<_> = files.iter().map(|path| (*path, "")).collect();
        let all = check(&tree(&files)).into_iter().map(|finding| finding.to_string());
        all.filter(|finding| !finding.contains("off the list")).collect()
    }

    #[test]
    fn a_plural_does_not_tell_files_apart() {
        let what = "`x` stands beside its plural: rename one";
        let beside = found(&["crates/c/src/f/x.rs", "crates/c/src/f/xs.rs"]);
        assert_eq!(beside, [format!("crates/c/src/f: {what}")]);
        let folder = found(&["crates/c/src/x.rs", "crates/c/src/xs/y.rs"]);
        assert_eq!(folder, [format!("crates/c/src: {what}")]);
        assert_eq!(found(&["crates/c/src/f/y.rs", "crates/c/src/f/ies.rs"]).len(), 1);
        assert_eq!(found(&["crates/c/src/f/x.rs", "crates/c/src/g/xs.rs"]), [""; 0]);
        assert_eq!(found(&["crates/c/src/x.rs", "crates/c/src/x/y.rs"]), [""; 0]);
    }

    #[test]
    fn a_name_is_used_once_in_a_crate() {
        let (here, there) = ("crates/c/src/f/xyz.rs", "crates/c/src/g/xyz.rs");
        let what = format!("{HERE}: several files have the name `xyz`: {here}, {there}");
        assert_eq!(found(&[here, there, "crates/d/src/xyz.rs"]), [what]);
        assert_eq!(found(&[here, "crates/d/src/f/xyz.rs", "crates/c/src/tests/xyz.rs"]), [""; 0]);
        assert_eq!(found(&["crates/c/src/f/wal.rs", "crates/c/src/g/wal.rs"]), [""; 0]);
    }

    #[test]
    fn the_lists_only_shrink() {
        let all = check(&tree(&[])).into_iter().map(|finding| finding.to_string());
        assert_eq!(all.count(), PLURALS.len() + REPEATED.len());
    }
}
