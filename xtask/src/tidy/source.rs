//! A Rust file taken apart into code, comments and strings, line by line.
//!
//! There is no syntax tree: the rules need only what a lexer can tell.

use std::ops::Range;

/// A comment or a string, with the line on which it begins, counted from 1.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) line: usize,
    pub(super) text: String,
}

/// A Rust file.
pub(super) struct Source {
    pub(super) path: String,
    /// The lines, with comments and the insides of strings blanked.
    pub(super) code: Vec<String>,
    pub(super) comments: Vec<Piece>,
    pub(super) strings: Vec<Piece>,
    /// Lines, from 1, of items that only tests compile.
    tests: Vec<Range<usize>>,
    /// The whole file is a test, a benchmark, an example or a tool for tests.
    pub(super) all_tests: bool,
}

impl Source {
    pub(super) fn new(path: &str, text: &str) -> Self {
        let mut lexer = Lexer { rest: text, line: 1, ..Lexer::default() };
        // Ends: every turn takes at least one character.
        while !lexer.rest.is_empty() {
            lexer.step();
        }
        let code: Vec<String> = lexer.code.split('\n').map(str::to_owned).collect();
        let tests = test_items(&code);
        let all_tests = is_test_path(path);
        let Lexer { comments, strings, .. } = lexer;
        Self { path: path.to_owned(), code, comments, strings, tests, all_tests }
    }

    /// Decides whether only tests compile this line.
    pub(super) fn is_test(&self, line: usize) -> bool {
        self.all_tests || self.tests.iter().any(|lines| lines.contains(&line))
    }

    /// Returns the files that this one declares as modules for tests only.
    pub(super) fn test_modules(&self) -> impl Iterator<Item = String> {
        let folder = ["/lib.rs", "/main.rs", "/mod.rs", ".rs"]
            .into_iter()
            .find_map(|end| self.path.strip_suffix(end))
            .unwrap_or_default();
        let lines = self.tests.iter().flat_map(|lines| &self.code[lines.start - 1..lines.end - 1]);
        lines.filter_map(move |line| {
            let name = line.trim().strip_suffix(';')?.rsplit_once("mod ")?.1;
            Some(format!("{folder}/{name}.rs"))
        })
    }

    /// Returns the code lines with their numbers, from 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.code.iter().map(String::as_str))
    }
}

fn is_test_path(path: &str) -> bool {
    let outside = ["tests/", "fuzz/", "xtask/", "crates/niwaki-testkit/"];
    let folder = ["/tests/", "/benches/", "/examples/"];
    outside.iter().any(|start| path.starts_with(start))
        || folder.iter().any(|part| path.contains(part))
        || path.ends_with("/tests.rs")
        || path.ends_with("_tests.rs")
}

/// Returns the lines of the items behind an attribute `#[cfg(test)]` or `#[cfg(all(test, …))]`.
fn test_items(code: &[String]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for (start, line) in code.iter().enumerate() {
        if !line.contains("#[cfg(test)]") && !line.contains("#[cfg(all(test") {
            continue;
        }
        // The item ends with the brace that closes its first one, or with a semicolon before any.
        let (mut depth, mut end) = (0_usize, code.len());
        'item: for (at, line) in code.iter().enumerate().skip(start) {
            let after = if at == start { line.rfind(']').map_or(0, |end| end + 1) } else { 0 };
            for character in line[after..].chars() {
                match character {
                    '{' => depth += 1,
                    '}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                if depth == 0 && matches!(character, '}' | ';') {
                    end = at + 1;
                    break 'item;
                }
            }
        }
        found.push(start + 1..end + 1);
    }
    found
}

#[derive(Default)]
struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    code: String,
    comments: Vec<Piece>,
    strings: Vec<Piece>,
}

impl<'a> Lexer<'a> {
    fn step(&mut self) {
        let rest = self.rest;
        if rest.starts_with("//") {
            let text = self.blank(rest.find('\n').unwrap_or(rest.len()));
            self.comments.push(Piece { line: self.line, text: text.to_owned() });
        } else if rest.starts_with("/*") {
            let line = self.line;
            let text = self.blank(block_comment_bytes(rest)).to_owned();
            self.comments.push(Piece { line, text });
        } else if let Some((prefix, hashes)) = raw_string(rest) {
            let end = format!("\"{}", "#".repeat(hashes));
            let length = rest[prefix..].find(&end).unwrap_or(rest.len() - prefix);
            self.string(prefix, length, end.len());
        } else if let Some(inside) = rest.strip_prefix('"') {
            let mut escaped = false;
            let length = inside.find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            self.string(1, length.unwrap_or(inside.len()), 1);
        } else if let Some(length) = character_bytes(rest) {
            self.blank(length);
        } else {
            // A whole word at once, so that the `r` at its end starts no raw string.
            let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let length =
                if word > 0 { word } else { rest.chars().next().map_or(1, char::len_utf8) };
            self.copy(length);
        }
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length.min(self.rest.len()));
        self.rest = rest;
        self.line += taken.matches('\n').count();
        taken
    }

    fn copy(&mut self, length: usize) {
        let taken = self.take(length);
        self.code.push_str(taken);
    }

    /// Takes text that is no code; its lines stay.
    fn blank(&mut self, length: usize) -> &'a str {
        let taken = self.take(length);
        self.code.extend(taken.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        taken
    }

    fn string(&mut self, before: usize, length: usize, after: usize) {
        self.copy(before);
        let line = self.line;
        let text = self.blank(length).to_owned();
        self.strings.push(Piece { line, text });
        self.copy(after);
    }
}

/// Returns the bytes of the (nested) comment at the front.
fn block_comment_bytes(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

/// Returns the bytes up to behind the opening quote of a raw string at the front, and its number of
/// `#`.
fn raw_string(text: &str) -> Option<(usize, usize)> {
    let letters = ["br", "cr", "r"].into_iter().find(|prefix| text.starts_with(prefix))?.len();
    let hashes = text[letters..].bytes().take_while(|byte| *byte == b'#').count();
    text[letters + hashes..].starts_with('"').then_some((letters + hashes + 1, hashes))
}

/// Returns the bytes of a character literal at the front; `None` for a lifetime.
fn character_bytes(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('\'')?;
    if inside.starts_with('\\') {
        // The escaped character itself may be a quote.
        return inside.get(2..)?.find('\'').map(|end| end + 4);
    }
    let first = inside.chars().next()?;
    inside[first.len_utf8()..].starts_with('\'').then_some(first.len_utf8() + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_comments_and_strings_are_told_apart() {
        let text = "let a = \"x // \\\" y\"; // say \"b\"\nlet c = r#\"d\"e\"#; /* f /* g */ h */ 'i';\n'\\'' 'a: 'b'";
        let source = Source::new("crates/x/src/lib.rs", text);
        let strings: Vec<_> = source.strings.iter().map(|s| (s.line, s.text.as_str())).collect();
        assert_eq!(strings, [(1, "x // \\\" y"), (2, "d\"e")]);
        let comments: Vec<_> = source.comments.iter().map(|s| (s.line, s.text.as_str())).collect();
        assert_eq!(comments, [(1, "// say \"b\""), (2, "/* f /* g */ h */")]);
        assert_eq!(source.code[0].trim_end(), "let a = \"         \";");
        assert!(!source.code[1].contains('g') && source.code[2].contains("'a:"));
    }

    #[test]
    fn items_of_tests_are_known() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n#[cfg(test)]\nmod d;\nfn e() {}";
        let source = Source::new("crates/x/src/lib.rs", text);
        let tests: Vec<_> = (1..=9).filter(|line| source.is_test(*line)).collect();
        assert_eq!(tests, [2, 3, 4, 5, 7, 8]);
        assert_eq!(source.test_modules().collect::<Vec<_>>(), ["crates/x/src/d.rs"]);
        assert!(Source::new("crates/x/tests/y.rs", "fn a() {}").is_test(1));
    }
}
