//! The rule that shipping code panics with a reason only: `expect` gives a reason, `unwrap` gives
//! none.

use super::{Finding, Tree};

/// Calls that panic without a reason.
const WITHOUT_REASON: [&str; 6] = [
    ".unwrap()",
    ".unwrap_err()",
    ".expect(\"\")",
    "panic!()",
    "unreachable!()",
    "unwrap_unchecked",
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in tree.sources.iter().filter(|source| source.path.starts_with("crates/")) {
        for (line, code) in source.lines().filter(|(line, _)| !source.is_test(*line)) {
            if let Some(what) = WITHOUT_REASON.into_iter().find(|what| code.contains(what)) {
                let what = format!("{what}: an error, or an expect that says why it cannot fail");
                found.push(Finding::new(&source.path, line, what));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    fn found(code: &str) -> usize {
        check(&tree(&[("crates/niwaki-heap/src/x.rs", code)])).len()
    }

    #[test]
    fn a_panic_has_a_reason() {
        assert_eq!(found("let a = b.unwrap();"), 1);
        assert_eq!(found("let a = b.expect(\"\");"), 1);
        assert_eq!(found("let a = b.expect(\"the list has one\");"), 0);
        assert_eq!(found("let a = b.unwrap_or(1); // .unwrap()"), 0);
        assert_eq!(found("#[cfg(test)]\nmod tests { fn f() { a.unwrap() } }"), 0);
    }
}
