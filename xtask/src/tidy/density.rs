//! The rule that assertions do not get rarer in the engine.
//!
//! The measure is assertions in a thousand lines of code. Blank lines, comments, tests and fuzz
//! targets count for nothing.

use super::{Finding, Tree};

/// Macros that assert.
const ASSERTIONS: [&str; 7] = [
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "invariant",
];

/// The crates, and the fewest assertions in a thousand lines of code. A floor only rises.
const FLOORS: [(&str, usize); 5] = [
    ("niwaki-storage", 39),
    ("niwaki-txn", 40),
    ("niwaki-heap", 40),
    ("niwaki-nbtree", 40),
    ("niwaki-table", 39),
];

/// Assertions in a thousand lines that every crate shall have. No floor needs to be higher.
const GOAL: usize = 40;
/// Assertions in a thousand lines above its floor, from which a crate gets a higher floor.
const STEP: usize = 4;

/// The file with the floors.
const HERE: &str = "xtask/src/tidy/density.rs";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    FLOORS.iter().filter_map(|(name, floor)| finding(tree, name, *floor)).collect()
}

fn finding(tree: &Tree, name: &str, floor: usize) -> Option<Finding> {
    let folder = format!("crates/{name}/src/");
    let shipped = |path: &str| path.starts_with(&folder) && !path.ends_with("/hostile.rs");
    let sources = tree.sources.iter().filter(|source| shipped(&source.path));
    let (mut lines, mut assertions) = (0, 0);
    for source in sources {
        let code =
            source.lines().filter(|(line, text)| !text.trim().is_empty() && !source.is_test(*line));
        for (_, text) in code {
            lines += 1;
            assertions += assertions_in(text);
        }
    }
    if lines == 0 {
        return None;
    }
    let density = assertions * 1000 / lines;
    let measured = format!("{name} has {density} assertions in a thousand lines");
    let what = if density < floor {
        format!("{measured}, at least {floor}")
    } else if floor < GOAL && density.min(GOAL) >= (floor + STEP).min(GOAL) {
        format!("{measured}: raise the floor of {floor}")
    } else {
        return None;
    };
    Some(Finding::new(HERE, 0, what))
}

/// Counts the assertions in a line of code.
fn assertions_in(line: &str) -> usize {
    let before = line.match_indices('!').map(|(at, _)| &line[..at]);
    let names =
        before.filter_map(|text| text.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next());
    names.filter(|name| ASSERTIONS.contains(name)).count()
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    /// Findings on a crate of `lines` lines. The first `assertions` lines have the text.
    fn found(text: &str, assertions: usize, lines: usize, floor: usize) -> Vec<String> {
        let code = format!("{text}\n").repeat(assertions) + &"f();\n".repeat(lines - assertions);
        let tree = tree(&[("crates/c/src/a.rs", &code)]);
        finding(&tree, "c", floor).into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn a_floor_holds_and_rises() {
        let assertion = "invariant!(X1, true);";
        let few = format!("{HERE}: c has 9 assertions in a thousand lines, at least 10");
        assert_eq!(found(assertion, 9, 1000, 10), [few]);
        assert_eq!(found(assertion, 13, 1000, 10), [""; 0]);
        let many =
            format!("{HERE}: c has 14 assertions in a thousand lines: raise the floor of 10");
        assert_eq!(found(assertion, 14, 1000, 10), [many]);
        assert_eq!(found(assertion, 40, 1000, 39).len(), 1);
        assert_eq!(found(assertion, 90, 1000, GOAL), [""; 0]);
    }

    #[test]
    fn an_assertion_is_a_macro_of_its_name() {
        let all = ASSERTIONS.map(|name| format!("{name}!(x);")).concat();
        assert_eq!(assertions_in(&all), ASSERTIONS.len());
        assert_eq!(assertions_in("if !assert { my_assert!(x != invariant) }"), 0);
    }

    #[test]
    fn tests_and_comments_count_for_nothing() {
        let text = "fn f() { assert!(x) }\n// assert!(x)\n\n#[cfg(test)]\nmod t { assert!(x); }";
        let tree = tree(&[("crates/c/src/a.rs", text), ("crates/c/src/tests.rs", "assert!(x);")]);
        assert_eq!(finding(&tree, "c", 1000), None);
    }
}
