//! The rule that some test plants every planted bug: a bug that no test plants proves nothing.

use super::{Finding, Tree};

/// Beginning of a bug's place; the bug's name follows in quotation marks.
const PLACE: &str = "seeded_bug!(";

/// The tests of the macro itself.
const MACRO: &str = "crates/niwaki-env/src/bugs.rs";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let rust = || tree.files.iter().filter(|file| file.path.ends_with(".rs"));
    let mut found = Vec::new();
    for file in rust().filter(|file| file.path != MACRO && !file.path.starts_with("xtask/")) {
        for (at, _) in file.text.match_indices(PLACE) {
            let rest = file.text[at + PLACE.len()..].trim_start();
            let Some((name, _)) = rest.strip_prefix('"').and_then(|rest| rest.split_once('"'))
            else {
                continue;
            };
            let planted = format!("\"{name}\"");
            // The name somewhere else than in a place of the bug.
            let is_planted = rust().any(|file| {
                file.text
                    .match_indices(&planted)
                    .any(|(at, _)| !file.text[..at].trim_end().ends_with(PLACE))
            });
            if !is_planted {
                let line = file.text[..at].lines().count();
                let what = format!("no test plants the bug {planted}");
                found.push(Finding::new(&file.path, line, what));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    #[test]
    fn a_bug_is_planted() {
        let place = ("crates/niwaki-heap/src/x.rs", "if seeded_bug!(\n    \"one\") { a(); }");
        assert_eq!(check(&tree(&[place])).len(), 1);
        let test = ("tests/seeded/main.rs", "plant(Some(\"one\"));");
        assert_eq!(check(&tree(&[place, test])).len(), 0);
    }
}
