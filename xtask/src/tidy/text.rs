//! The rules for the text of every file: no notes of unfinished work, no paths of one machine.
//!
//! Nor may a file have more lines than one idea needs.

use super::{File, Finding, Tree};

/// Notes of unfinished work. Spelled apart, since tidy reads itself too.
const UNFINISHED: [&str; 6] = [
    concat!("FIX", "ME"),
    concat!("TO", "DO"),
    concat!("XX", "X:"),
    concat!("HA", "CK"),
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
];

/// Beginnings of paths that exist on one machine only.
const OF_A_MACHINE: [&str; 4] =
    [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];

/// Lines from which a file must say at its top why one file is clearer: [`REASON`].
const LINES_MAX: usize = 1500;
/// Lines from which a file is worth a second look.
const LINES_LONG: usize = 800;
/// Beginning of the reason.
const REASON: &str = "Why one file:";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| file.path != "Cargo.lock") {
        for (line, text) in (1..).zip(file.text.lines()) {
            let mut find = |what: String| found.push(Finding::new(&file.path, line, what));
            if let Some(note) = UNFINISHED.into_iter().find(|note| has_word(text, note)) {
                find(format!("{note}: finish it, or put it into docs/plans"));
            }
            if let Some(path) = OF_A_MACHINE.into_iter().find(|path| has_path(text, path)) {
                find(format!("{path} is a path of one machine"));
            }
        }
        let lines = file.text.lines().count();
        if is_code(file) && lines > LINES_MAX && !file.text.lines().take(40).any(has_reason) {
            let what = format!("{lines} lines: split it, or say at its top \"{REASON} …\"");
            found.push(Finding::new(&file.path, 0, what));
        }
    }
    found
}

/// Returns the files that break no rule and are long.
pub(super) fn long_files(tree: &Tree) -> Vec<String> {
    let count = |file: &File| file.text.lines().count();
    let long = tree.files.iter().filter(|file| is_code(file) && count(file) > LINES_LONG);
    long.map(|file| format!("{} has {} lines", file.path, count(file))).collect()
}

fn is_code(file: &File) -> bool {
    file.path.ends_with(".rs") || file.path.ends_with(".py")
}

fn has_reason(line: &str) -> bool {
    line.contains(REASON)
}

/// Decides whether `note` stands in the line and is no part of a longer word.
fn has_word(line: &str, note: &str) -> bool {
    line.match_indices(note).any(|(at, _)| {
        let part = |c: char| c.is_alphanumeric() || c == '_';
        let before = line[..at].chars().next_back().is_some_and(part);
        let after = line[at + note.len()..].chars().next().is_some_and(part);
        !before && (!after || note.ends_with(['(', ':']))
    })
}

/// Decides whether an absolute path in the line begins with `path`; `target/work/x` does not.
fn has_path(line: &str, path: &str) -> bool {
    line.match_indices(path)
        .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-*}/".contains(c)))
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    fn found(text: &str) -> usize {
        check(&tree(&[("crates/niwaki-heap/src/x.rs", text)])).len()
    }

    #[test]
    fn nothing_is_left_for_later() {
        assert_eq!(found(&format!("// {}: later", UNFINISHED[1])), 1);
        assert_eq!(found(&format!("    {})", UNFINISHED[4])), 1);
        assert_eq!(found("// MASTODON todos"), 0);
    }

    #[test]
    fn nothing_names_a_machine() {
        assert_eq!(found(&format!("cd {}main", OF_A_MACHINE[0])), 1);
        assert_eq!(found(&format!("\"{}x\"", OF_A_MACHINE[2])), 1);
        assert_eq!(found(&format!("target{}x", OF_A_MACHINE[0])), 0);
    }

    #[test]
    fn a_long_file_has_a_reason() {
        let long = "// x\n".repeat(LINES_MAX + 1);
        assert_eq!(found(&long), 1);
        assert_eq!(found(&format!("//! {REASON} it is one table.\n{long}")), 0);
    }
}
