//! Comments and documents in plain words: counts of what makes a sentence a riddle may only fall.

use std::cmp::Ordering;

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

/// A count over the whole tree, and its limit. A change that lowers the count lowers the limit.
struct Ratchet {
    name: &'static str,
    limit: usize,
    count: fn(&Source) -> usize,
}

const RATCHETS: [Ratchet; 3] = [
    Ratchet { name: "riddle words in comments", limit: 1, count: riddles },
    Ratchet { name: "doc comments that begin with no noun or verb", limit: 2, count: openings },
    Ratchet { name: "comment lines over 100 columns", limit: 4, count: wide_lines },
];

/// The file with the limits.
const HERE: &str = "xtask/src/tidy/words.rs";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let count = |ratchet: &Ratchet| tree.sources.iter().map(ratchet.count).sum();
    RATCHETS.iter().filter_map(|ratchet| judge(ratchet, count(ratchet))).collect()
}

/// A count above its limit is a finding, and so is a limit above its count.
fn judge(ratchet: &Ratchet, count: usize) -> Option<Finding> {
    let Ratchet { name, limit, .. } = ratchet;
    let what = match count.cmp(limit) {
        Ordering::Equal => return None,
        Ordering::Greater => format!("{count} {name}, at most {limit}: say it plainly"),
        Ordering::Less => format!("{count} {name}: lower the limit of {limit}"),
    };
    Some(Finding::new(HERE, 0, what))
}

fn riddles(source: &Source) -> usize {
    let within = |text: &str| {
        let text = text.to_lowercase();
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        let text = format!(" {} ", words.collect::<Vec<_>>().join(" "));
        RIDDLES.iter().map(|riddle| text.matches(&format!(" {riddle} ")).count()).sum::<usize>()
    };
    source.comments.iter().map(|comment| within(&comment.text)).sum()
}

/// First lines of documentation comments with a word of [`OPENINGS`] in front.
fn openings(source: &Source) -> usize {
    let mut before = None;
    let mut count = 0;
    for comment in &source.comments {
        let inside = ["///", "//!"].into_iter().find_map(|mark| comment.text.strip_prefix(mark));
        let Some(inside) = inside else { continue };
        let first = inside.split_whitespace().next().unwrap_or_default();
        count += usize::from(before != Some(comment.line - 1) && OPENINGS.contains(&first));
        before = Some(comment.line);
    }
    count
}

fn wide_lines(source: &Source) -> usize {
    let wide = |line: usize| source.code[line - 1].chars().count() > COLUMNS_MAX;
    source.comments.iter().filter(|comment| wide(comment.line)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::new("crates/niwaki-heap/src/x.rs", text)
    }

    #[test]
    fn riddles_are_whole_words_of_comments() {
        assert_eq!(riddles(&source("// Whoever asks, of which so many are: anybody's.")), 4);
        assert_eq!(riddles(&source("// Someones see tokens.\nlet a = \"nobody\";")), 0);
    }

    #[test]
    fn an_opening_is_the_first_word_of_a_documentation() {
        assert_eq!(
            openings(&source("/// What it is.\n/// Where it is.\nfn a() {}\n/// Of it.")),
            2
        );
        assert_eq!(openings(&source("/// Whatever.\n/// What it is.\n// What it is.")), 0);
    }

    #[test]
    fn a_wide_line_has_more_columns_than_code_may() {
        let comment = |columns: usize| format!("    // {}", "x".repeat(columns - 7));
        assert_eq!(wide_lines(&source(&comment(COLUMNS_MAX))), 0);
        assert_eq!(wide_lines(&source(&comment(COLUMNS_MAX + 1))), 1);
    }

    #[test]
    fn a_limit_is_the_count() {
        let ratchet = Ratchet { name: "words", limit: 2, count: riddles };
        assert_eq!(judge(&ratchet, 2), None);
        assert!(judge(&ratchet, 1).is_some_and(|found| found.what.contains("lower")));
        assert!(judge(&ratchet, 3).is_some_and(|found| found.what.contains("plainly")));
    }
}
