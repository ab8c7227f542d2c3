//! The rule that references to the project's own laws lead to an entry of a document.
//!
//! | reference | entry |
//! |---|---|
//! | rule `hop-check` | a heading or a *model* part of `docs/internals/invariants.md` |
//! | docs/internals/design.md, "Buffers" | a heading of `docs/internals/design.md` |
//! | thread `warm` | a heading of `docs/internals/threads.md` |
//!
//! References stand in comments of Rust files, and anywhere in Markdown and Python files. A number
//! in place of a name is a finding: the numbered lists are not in the tree.

use super::{Finding, Source, Tree};

const RULES: &str = "docs/internals/invariants.md";
const DESIGN: &str = "docs/internals/design.md";
const THREADS: &str = "docs/internals/threads.md";

/// Beginning of a reference to the design; the heading and a quotation mark follow.
const HEADING_OF: &str = "docs/internals/design.md, \"";

/// Separators of names in a list, longest first.
const SEPARATORS: [&str; 3] = [", and `", " and `", ", `"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut read = |path: &'static str, entries: fn(&str) -> Vec<&str>| {
        if let Some(file) = tree.file(path) {
            entries(&file.text)
        } else {
            found.push(Finding::new(path, 0, "is missing"));
            Vec::new()
        }
    };
    let rules = read(RULES, rules);
    let headings = read(DESIGN, headings);
    let threads = read(THREADS, names);
    for text in texts(tree) {
        let mut find = |at: usize, what: String| {
            found.push(Finding::new(text.path, text.line(at), what));
        };
        for (at, name) in named(&text.joined, "rule") {
            if !rules.contains(&name) {
                find(at, format!("{RULES} has no rule `{name}`"));
            }
        }
        for (at, name) in named(&text.joined, "thread") {
            if !threads.contains(&name) {
                find(at, format!("{THREADS} has no thread `{name}`"));
            }
        }
        for (at, heading) in of_the_design(&text.joined) {
            if !headings.contains(&heading) {
                find(at, format!("{DESIGN} has no heading \"{heading}\""));
            }
        }
        for (at, number) in numbers(&text.joined) {
            find(at, format!("{number} leads nowhere: name the rule, the heading or the thread"));
        }
    }
    found
}

/// Returns the names of headings that are one code span: `` ### `hop-check` ``.
fn names(document: &str) -> Vec<&str> {
    let headings = document.lines().filter_map(|line| line.strip_prefix("### `"));
    headings.filter_map(|rest| rest.strip_suffix('`')).collect()
}

/// Returns the names of the rules and of their parts.
fn rules(document: &str) -> Vec<&str> {
    let mut found = names(document);
    let mut inside = false;
    for line in document.lines() {
        if line.starts_with("- ") || line.is_empty() {
            inside = line.starts_with("- model:");
        }
        if inside {
            found.extend(line.split('`').skip(1).step_by(2));
        }
    }
    found
}

fn headings(document: &str) -> Vec<&str> {
    let lines = document.lines().filter(|line| line.starts_with('#'));
    lines.map(|line| line.trim_start_matches('#').trim()).collect()
}

/// The lines of a file that may have references, joined by blanks: a reference may be broken over
/// two lines. A line break stays where the lines are not neighbours.
struct Text<'a> {
    path: &'a str,
    joined: String,
    /// Offsets in `joined` at which lines begin, and the numbers of the lines.
    lines: Vec<(usize, usize)>,
}

impl<'a> Text<'a> {
    fn new(path: &'a str, lines: impl Iterator<Item = (usize, &'a str)>) -> Self {
        let mut text = Self { path, joined: String::new(), lines: Vec::new() };
        for (line, inside) in lines {
            if let Some((_, before)) = text.lines.last() {
                text.joined.push(if before + 1 == line { ' ' } else { '\n' });
            }
            text.lines.push((text.joined.len(), line));
            text.joined.push_str(inside);
        }
        text
    }

    /// Returns the number of the line at an offset.
    fn line(&self, at: usize) -> usize {
        let after = self.lines.partition_point(|(start, _)| *start <= at);
        self.lines[after - 1].1
    }
}

fn texts(tree: &Tree) -> impl Iterator<Item = Text<'_>> {
    let plain =
        tree.files.iter().filter(|file| [".md", ".py"].iter().any(|end| file.path.ends_with(end)));
    let plain =
        plain.map(|file| Text::new(&file.path, (1..).zip(file.text.lines().map(str::trim))));
    tree.sources.iter().map(comments).chain(plain)
}

fn comments(source: &Source) -> Text<'_> {
    let lines = source
        .comments
        .iter()
        .map(|comment| (comment.line, comment.text.trim_start_matches(['/', '!']).trim()));
    Text::new(&source.path, lines)
}

/// Returns the names behind a word or its plural, as in "rules `stub` and `recheck`", each with its
/// offset.
fn named<'a>(text: &'a str, word: &str) -> Vec<(usize, &'a str)> {
    let mut found = Vec::new();
    // The first letter may be a capital.
    let (first, tail) = word.split_at(1);
    for (at, _) in text.match_indices(tail) {
        let before = text[..at].char_indices().next_back();
        let Some((start, _)) =
            before.filter(|(start, _)| text[*start..at].eq_ignore_ascii_case(first))
        else {
            continue;
        };
        if text[..start].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &text[at + tail.len()..];
        let Some(mut rest) = rest.strip_prefix('s').unwrap_or(rest).strip_prefix(" `") else {
            continue;
        };
        // Ends: each turn takes a name from the rest.
        while let Some((name, after)) = rest.split_once('`').filter(|(name, _)| is_name(name)) {
            found.push((start, name));
            let next = SEPARATORS.iter().find_map(|separator| after.strip_prefix(separator));
            let Some(next) = next else { break };
            rest = next;
        }
    }
    found
}

/// Decides whether a code span is a name, and not code.
fn is_name(span: &str) -> bool {
    !span.is_empty() && span.chars().all(|c| c.is_ascii_lowercase() || c == '-')
}

/// Returns the headings that references to the design name.
fn of_the_design(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.match_indices(HEADING_OF)
        .filter_map(|(at, _)| Some((at, text[at + HEADING_OF.len()..].split_once('"')?.0)))
}

/// Returns references by number: of a rule, of a section of the design, of a thread.
fn numbers(text: &str) -> Vec<(usize, &str)> {
    let words: Vec<(usize, &str)> = words(text).collect();
    let mut found = Vec::new();
    for (n, (at, word)) in words.iter().enumerate() {
        let next = |ahead: usize| words.get(n + ahead).map_or("", |(_, word)| *word);
        let is_number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
        let ends = match word.to_ascii_lowercase().as_str() {
            "9b" => Some(0),
            "design" if matches!(next(1), "section" | "sections") && is_number(next(2)) => Some(2),
            "thread" | "threads" if next(1).len() == 3 && next(1).starts_with("00") => Some(1),
            _ => None,
        };
        if let Some((end, last)) = ends.and_then(|ahead| words.get(n + ahead)) {
            found.push((*at, &text[*at..end + last.len()]));
        }
    }
    found
}

/// Returns the words of a text with their offsets.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(|word| (word.as_ptr().addr() - text.as_ptr().addr(), word))
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    const LAW: &str = concat!(
        "## Rules\n### `hop-check`\n- model: `relink-xmax`,\n  `one-latch`\n- bugs: `x`\n\n",
        "### `stub`\n"
    );

    fn found(path: &str, text: &str) -> Vec<String> {
        let tree = tree(&[
            (RULES, LAW),
            (DESIGN, "# The design\n## A full leaf\n"),
            (THREADS, "### `warm`\n### `tid-key`\n"),
            (path, text),
        ]);
        check(&tree).into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn names_lead_to_entries() {
        let known = "Rule `stub`, rules `hop-check` and `one-latch`, thread `warm`'s, \
                     docs/internals/design.md, \"A full leaf\".";
        assert_eq!(found("docs/a.md", known), [""; 0]);
        assert_eq!(
            found("docs/a.md", "rule `x`"),
            ["docs/a.md:1: docs/internals/invariants.md has no rule `x`"]
        );
        assert_eq!(
            found("docs/a.md", "rules `stub` and `y`"),
            ["docs/a.md:1: docs/internals/invariants.md has no rule `y`"]
        );
        assert_eq!(
            found("bench/a.py", "\"\"\"Thread `hot`'s load.\"\"\""),
            ["bench/a.py:1: docs/internals/threads.md has no thread `hot`"]
        );
        assert_eq!(
            found("docs/a.md", "(docs/internals/design.md, \"Leaves\")"),
            ["docs/a.md:1: docs/internals/design.md has no heading \"Leaves\""]
        );
    }

    #[test]
    fn a_reference_may_be_broken_over_lines() {
        let broken =
            "/// Text (rule\n/// `y`), docs/internals/design.md, \"A\n/// full leaf\".\nfn f() {}";
        assert_eq!(
            found("crates/a/src/b.rs", broken),
            ["crates/a/src/b.rs:1: docs/internals/invariants.md has no rule `y`"]
        );
        // The comments are not neighbours.
        assert_eq!(found("crates/a/src/b.rs", "// a rule\nfn f() {}\n// `y` is"), [""; 0]);
    }

    #[test]
    fn a_number_is_no_name() {
        let numbered =
            concat!("// (rule 9", "b.3)\n// design sec", "tion 6; threads 0", "00 and 003");
        let found = found("crates/a/src/b.rs", numbered);
        assert_eq!(found.len(), 3);
        assert!(found.iter().all(|line| line.contains("leads nowhere")), "{found:?}");
    }

    #[test]
    fn code_is_no_name() {
        assert_eq!(found("docs/a.md", "the rule `a.rs`, a ruler `b`, overrule `c`"), [""; 0]);
        assert_eq!(found("crates/a/src/b.rs", "fn f() { g(\"rule `x`\") }"), [""; 0]);
    }
}
