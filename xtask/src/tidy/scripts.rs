//! The rule that a test script is run: some test names its file.

use super::{Finding, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let scripts = tree.files.iter().filter(|file| file.path.ends_with(".test"));
    let unnamed = scripts.filter(|script| {
        let file = script.path.rsplit('/').next().unwrap_or(&script.path);
        let quoted = format!("/{file}\"");
        let mut rust = tree.files.iter().filter(|file| file.path.ends_with(".rs"));
        !rust.any(|source| source.text.contains(&quoted))
    });
    unnamed.map(|script| Finding::new(&script.path, 0, "no test runs this script")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    #[test]
    fn a_script_without_a_test_is_found() {
        let script = ("crates/niwaki/testscripts/rows.test", "select 1\n----\n1");
        let named = "check(\"rows\", include_str!(\"../testscripts/rows.test\"));";
        let other = "check(\"rows\", include_str!(\"../testscripts/other_rows.test\"));";
        let found = |source| check(&tree(&[script, ("crates/niwaki/tests/scripts.rs", source)]));
        assert!(found(named).is_empty());
        assert_eq!(found(other).len(), 1);
    }
}
