//! Comments in plain words: nothing that makes a sentence a riddle.

use super::{Finding, Source, Tree};

/// Words that hide the subject of a sentence or stand for a number that has a name.
const RIDDLES: [&str; 14] = [
    "whoever",
    "somebody",
    "someone",
    "anybody",
    "nobody",
    "everybody",
    "of which",
    "of whom",
    "so many",
    "so much",
    "told of",
    "sees to",
    "see to",
    "that of",
];

/// First words of a documentation comment that name no thing and no deed.
const OPENINGS: [&str; 9] =
    ["What", "Who", "Whoever", "Where", "Of", "Whether", "How", "That", "Which"];

/// Columns of a line of a comment, its indent included.
const COLUMNS_MAX: usize = 100;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.sources.iter().flat_map(findings).collect()
}

fn findings(source: &Source) -> Vec<Finding> {
    let found = |line: usize, what: String| Finding::new(&source.path, line, what);
    let mut all = Vec::new();
    for comment in &source.comments {
        let riddles = riddles(&comment.text);
        let what = |riddle: &str| format!("`{riddle}` hides a subject or a number: name it");
        all.extend(riddles.map(|riddle| found(comment.line, what(riddle))));
        if source.code[comment.line - 1].chars().count() > COLUMNS_MAX {
            all.push(found(comment.line, format!("more than {COLUMNS_MAX} columns")));
        }
    }
    let what = "the documentation begins with no noun and no verb";
    all.extend(openings(source).into_iter().map(|line| found(line, what.to_owned())));
    all
}

/// The riddles in a text, each once.
pub(super) fn riddles(text: &str) -> impl Iterator<Item = &'static str> {
    let text = text.to_lowercase();
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let text = format!(" {} ", words.collect::<Vec<_>>().join(" "));
    RIDDLES.into_iter().filter(move |riddle| text.contains(&format!(" {riddle} ")))
}

/// First lines of documentation comments with a word of [`OPENINGS`] in front.
fn openings(source: &Source) -> Vec<usize> {
    let mut before = None;
    let mut found = Vec::new();
    for comment in &source.comments {
        let inside = ["///", "//!"].into_iter().find_map(|mark| comment.text.strip_prefix(mark));
        let Some(inside) = inside else { continue };
        let first = inside.split_whitespace().next().unwrap_or_default();
        if before != Some(comment.line - 1) && OPENINGS.contains(&first) {
            found.push(comment.line);
        }
        before = Some(comment.line);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::new("crates/niwaki-heap/src/x.rs", text)
    }

    fn lines(text: &str) -> Vec<usize> {
        findings(&source(text)).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn riddles_are_whole_words_of_comments() {
        assert_eq!(lines("// Whoever asks, of which\n// so many are."), [1, 1, 2]);
        assert_eq!(lines("// Someones see tokens.\nlet a = \"nobody\";"), []);
    }

    #[test]
    fn an_opening_is_the_first_word_of_a_documentation() {
        let text = "/// What it is.\n/// Where it is.\nfn a() {}\n/// Of it.";
        assert_eq!(lines(text), [1, 4]);
        assert_eq!(lines("/// Whatever.\n/// What it is.\n// What it is."), []);
    }

    #[test]
    fn a_wide_line_has_more_columns_than_code_may() {
        let comment = |columns: usize| format!("    // {}", "x".repeat(columns - 7));
        assert_eq!(lines(&comment(COLUMNS_MAX)), []);
        assert_eq!(lines(&comment(COLUMNS_MAX + 1)), [1]);
    }
}
