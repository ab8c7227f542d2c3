//! The rule for the names of `docs/internals/invariants.md`.
//!
//! Each name stands in an assertion or a check, and in a test. No other name is used as one.
//!
//! The macro `invariant!(X2, …)` asserts its first argument. Other assertions and checks name their
//! invariant in a string: the whole string is the name (a finding of `niwaki check`), or the string
//! begins with it and a colon (the message of an assertion). A finer check has a letter behind a
//! dot, `H1.a`. A test may name it in a string or a comment. A row that says "not built yet" needs
//! neither, and must lose those words when there is one.

use super::source::{Piece, Source};
use super::{Finding, Tree};

const DOCUMENT: &str = "docs/internals/invariants.md";
const NOT_BUILT: &str = "not built yet";
/// Beginning of a call of the macro that asserts an invariant.
const MACRO: &str = "invariant!(";

struct Invariant {
    line: usize,
    name: String,
    built: bool,
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(document) = tree.file(DOCUMENT) else {
        return vec![Finding::new(DOCUMENT, 0, "is missing")];
    };
    let invariants = table(&document.text);
    let mut found = Vec::new();
    for invariant in &invariants {
        let Invariant { line, name, built } = invariant;
        let checked =
            tree.sources.iter().any(|source| uses(source).iter().any(|(_, used)| used == name));
        let tested = tree.sources.iter().any(|source| {
            let mut pieces = source.strings.iter().chain(&source.comments);
            pieces.any(|piece| source.is_test(piece.line) && names(&piece.text).any(|n| n == name))
        });
        let mut find = |what: String| found.push(Finding::new(DOCUMENT, *line, what));
        match (*built, checked, tested) {
            (true, false, _) => find(format!("{name} has no assertion and no check")),
            (true, true, false) => find(format!("{name} has no test that names it")),
            (false, true, _) => find(format!("{name} is checked: take \"{NOT_BUILT}\" away")),
            _ => {}
        }
    }
    for source in &tree.sources {
        found.extend(strangers(source, &invariants));
    }
    found
}

/// Returns the names that are used as invariants and that the document does not have.
fn strangers(source: &Source, invariants: &[Invariant]) -> Vec<Finding> {
    let known = |name: &str| invariants.iter().any(|invariant| invariant.name == name);
    let strangers = uses(source).into_iter().filter(|(_, name)| !known(name));
    strangers
        .map(|(line, name)| {
            Finding::new(&source.path, line, format!("{name} is not in {DOCUMENT}"))
        })
        .collect()
}

/// Returns the names in assertions and checks outside of tests, with their lines.
fn uses(source: &Source) -> Vec<(usize, String)> {
    let strings = source.strings.iter();
    let strings =
        strings.filter_map(|Piece { line, text }| Some((*line, asserted(text)?.to_owned())));
    let all = strings.chain(macros(source));
    all.filter(|(line, _)| !source.is_test(*line)).collect()
}

/// Returns the first arguments of the macro `invariant!`, with the lines of the calls.
fn macros(source: &Source) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, text) in (1..).zip(&source.code) {
        for (call, _) in text.match_indices(MACRO) {
            if text[..call].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
                continue;
            }
            // The argument may stand on the next line.
            let next = source.code.get(at).map_or("", String::as_str);
            let rest = format!("{} {next}", &text[call + MACRO.len()..]);
            let name = rest.trim_start().split(|c: char| !c.is_alphanumeric() && c != '_').next();
            found.push((at, name.unwrap_or_default().to_owned()));
        }
    }
    found
}

/// Reads the rows of the table: `| **NAME** | what holds |`.
fn table(document: &str) -> Vec<Invariant> {
    let rows = (1..).zip(document.lines()).filter_map(|(line, row)| {
        let (name, text) = row.strip_prefix("| **")?.split_once("** |")?;
        Some(Invariant {
            line,
            name: name.to_owned(),
            built: !text.to_lowercase().contains(NOT_BUILT),
        })
    });
    rows.collect()
}

/// Decides whether a word is a name: the letter of a family and a digit.
fn is_name(word: &str) -> bool {
    matches!(
        word.as_bytes(),
        [b'H' | b'X' | b'B' | b'V' | b'F' | b'W' | b'S' | b'G' | b'D' | b'T', b'0'..=b'9']
    )
}

/// Returns the name that an assertion's message or a finding carries.
fn asserted(text: &str) -> Option<&str> {
    let (name, rest) = text.split_at_checked(2)?;
    let rest = match rest.as_bytes() {
        [b'.', b'a'..=b'z', ..] => &rest[2..],
        _ => rest,
    };
    (is_name(name) && (rest.is_empty() || rest.starts_with(": "))).then_some(name)
}

/// Returns the names in a text.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| is_name(word))
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    const TABLE: &str =
        "| name | what |\n|---|---|\n| **B1** | In order. |\n| **V1** | Later; not built yet. |\n";
    const CODE: (&str, &str) = ("crates/a/src/lib.rs", "fn f() { assert!(true, \"B1: order\"); }");
    const TEST: (&str, &str) = ("crates/a/tests/t.rs", "/// B1 is broken.\nfn t() {}");

    fn found(document: &str, files: &[(&str, &str)]) -> Vec<String> {
        let files = [&[(DOCUMENT, document)], files].concat();
        check(&tree(&files)).into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn a_name_needs_a_check_and_a_test() {
        assert_eq!(found(TABLE, &[CODE, TEST]), [""; 0]);
        assert_eq!(
            found(TABLE, &[CODE]),
            ["docs/internals/invariants.md:3: B1 has no test that names it"]
        );
        let nowhere = ["docs/internals/invariants.md:3: B1 has no assertion and no check"];
        assert_eq!(found(TABLE, &[TEST]), nowhere);
        let in_a_test = [TEST, ("crates/a/tests/u.rs", CODE.1)];
        assert_eq!(found(TABLE, &in_a_test), nowhere);
        let in_a_comment = [TEST, ("crates/a/src/b.rs", "// \"B1: order\"")];
        assert_eq!(found(TABLE, &in_a_comment), nowhere);
    }

    #[test]
    fn a_name_needs_a_row() {
        let stranger =
            ("crates/a/src/b.rs", "fn f() {}\nfn g() { wrong(\"X7\", \"X8 is no check\") }");
        let expected = ["crates/a/src/b.rs:2: X7 is not in docs/internals/invariants.md"];
        assert_eq!(found(TABLE, &[CODE, TEST, stranger]), expected);
    }

    #[test]
    fn the_macro_asserts_its_first_argument() {
        let code = ("crates/a/src/lib.rs", "fn f() { niwaki_env::invariant!(B1, x, \"y\") }");
        assert_eq!(found(TABLE, &[code, TEST]), [""; 0]);
        let broken = ("crates/a/src/lib.rs", "fn f() {\n    invariant!(\n        B1,\n x) }");
        assert_eq!(found(TABLE, &[broken, TEST]), [""; 0]);
        let stranger = ("crates/a/src/b.rs", "fn f() {\n invariant!(X9, x); my_invariant!(Y) }");
        let expected = ["crates/a/src/b.rs:2: X9 is not in docs/internals/invariants.md"];
        assert_eq!(found(TABLE, &[CODE, TEST, stranger]), expected);
        let in_a_test = ("crates/a/src/b.rs", "#[cfg(test)]\nmod tests { invariant!(X9, x); }");
        assert_eq!(found(TABLE, &[CODE, TEST, in_a_test]), [""; 0]);
    }

    #[test]
    fn what_is_built_says_so() {
        let early = ("crates/a/src/b.rs", "fn f() { wrong(\"V1.a\") }");
        let expected =
            ["docs/internals/invariants.md:4: V1 is checked: take \"not built yet\" away"];
        assert_eq!(found(TABLE, &[CODE, TEST, early]), expected);
    }
}
