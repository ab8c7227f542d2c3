//! Markdown in plain words: narrow lines, short sentences, short paragraphs, no riddles.

use super::words::riddles;
use super::{File, Finding, Tree};

/// Columns of a line. Tables, headings and blocks of code may be wider.
const COLUMNS_MAX: usize = 100;
/// Words of a sentence.
const SENTENCE_WORDS_MAX: usize = 40;
/// Words of a paragraph, or of an item of a list.
const PARAGRAPH_WORDS_MAX: usize = 120;

/// Pages that commands write from tables of the code: `cargo xtask functions` and `settings`.
const GENERATED: [&str; 2] = ["docs/functions.md", "docs/guide/settings.md"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let prose =
        |file: &&File| file.path.ends_with(".md") && !GENERATED.contains(&file.path.as_str());
    tree.files.iter().filter(prose).flat_map(findings).collect()
}

fn findings(file: &File) -> Vec<Finding> {
    let found = |line: usize, what: String| Finding::new(&file.path, line, what);
    let mut all = Vec::new();
    for paragraph in paragraphs(&file.text) {
        for (line, text) in &paragraph {
            if text.chars().count() > COLUMNS_MAX {
                all.push(found(*line, format!("more than {COLUMNS_MAX} columns")));
            }
        }
        let line = paragraph[0].0;
        let text = paragraph.iter().map(|(_, text)| text.trim()).collect::<Vec<_>>().join(" ");
        all.extend(riddles(&spoken(&text)).map(|riddle| found(line, hides(riddle))));
        let longest = sentences(&text).map(words).max().unwrap_or_default();
        for (what, count, limit) in [
            ("sentence", longest, SENTENCE_WORDS_MAX),
            ("paragraph", words(&text), PARAGRAPH_WORDS_MAX),
        ] {
            if count > limit {
                all.push(found(line, format!("a {what} of {count} words, at most {limit}")));
            }
        }
    }
    let rows = (1..).zip(file.text.lines()).filter(|(_, text)| text.starts_with('|'));
    for (line, cell) in rows.flat_map(|(line, row)| row.split('|').map(move |cell| (line, cell))) {
        all.extend(riddles(&spoken(cell)).map(|riddle| found(line, hides(riddle))));
    }
    all
}

/// Returns a text without its code spans: names are free.
fn spoken(text: &str) -> String {
    text.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

fn hides(riddle: &str) -> String {
    format!("`{riddle}` hides a subject or a number: name it")
}

/// Returns the paragraphs, and the items of lists, as lines with their numbers. None is empty.
fn paragraphs(text: &str) -> Vec<Vec<(usize, &str)>> {
    let mut found: Vec<Vec<(usize, &str)>> = vec![Vec::new()];
    let mut fenced = false;
    for (line, text) in (1..).zip(text.lines()) {
        let inside = text.trim_start();
        let fence = inside.starts_with("```");
        fenced ^= fence;
        let begins = found.last().is_none_or(Vec::is_empty);
        let code = fence || fenced || (begins && text.starts_with("    "));
        let ends = code || inside.is_empty() || inside.starts_with(['#', '|']);
        if ends || is_item(inside) {
            found.push(Vec::new());
        }
        if let Some(paragraph) = found.last_mut().filter(|_| !ends) {
            paragraph.push((line, text));
        }
    }
    found.retain(|paragraph| !paragraph.is_empty());
    found
}

/// Decides whether a line begins an item of a list.
fn is_item(line: &str) -> bool {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    ["- ", "* ", "+ "].iter().any(|mark| line.starts_with(mark))
        || (number.len() < line.len() && number.starts_with(". "))
}

/// Returns the sentences of a paragraph. A colon ends none.
fn sentences(paragraph: &str) -> impl Iterator<Item = &str> {
    let mut before = ' ';
    paragraph.split_inclusive(move |c: char| {
        let ends = c == ' ' && matches!(before, '.' | '!' | '?');
        // Emphasis and brackets close behind the stop.
        if !matches!(c, '*' | ')') {
            before = c;
        }
        ends
    })
}

fn words(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let all = check(&tree(&[("docs/a.md", text)]));
        all.into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn a_wide_line_is_outside_of_code_and_tables() {
        let wide = "x".repeat(COLUMNS_MAX + 1);
        assert_eq!(found(&wide), ["docs/a.md:1: more than 100 columns"]);
        assert_eq!(found(&format!("Text.\n    {wide}")).len(), 1);
        for code in ["```\n{}\n```", "Text.\n\n    {}", "| {} |", "# {}"] {
            assert_eq!(found(&code.replace("{}", &wide)), [""; 0]);
        }
        assert_eq!(found(&wide[1..]), [""; 0]);
    }

    #[test]
    fn a_sentence_is_short() {
        let words = |count: usize| "a\n".repeat(count);
        let long = format!("Text.\n{}b.", words(SENTENCE_WORDS_MAX));
        assert_eq!(found(&long), ["docs/a.md:1: a sentence of 41 words, at most 40"]);
        let short = format!("(Text.)\n{}b: `c.d`.", words(SENTENCE_WORDS_MAX - 2));
        assert_eq!(found(&short), [""; 0]);
        let items = format!("- {}- {}1. a", words(30), words(30));
        assert_eq!(found(&items), [""; 0]);
    }

    #[test]
    fn a_paragraph_is_short() {
        let sentences = |count: usize| "A b c d e.\n".repeat(count);
        let long = sentences(PARAGRAPH_WORDS_MAX / 5 + 1);
        assert_eq!(found(&long), ["docs/a.md:1: a paragraph of 125 words, at most 120"]);
        assert_eq!(found(&format!("{}\n{0}", sentences(PARAGRAPH_WORDS_MAX / 5))), [""; 0]);
    }

    #[test]
    fn riddles_are_those_of_comments() {
        let what = "docs/a.md:1: `of which` hides a subject or a number: name it";
        assert_eq!(found("A page of\nwhich `x`."), [what]);
        assert_eq!(found("| a page of which | x |"), [what]);
        assert_eq!(found("| a page of | which | `of_which` |"), [""; 0]);
    }
}
