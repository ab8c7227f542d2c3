//! The rules of the tree: each looks at the tree as it would be committed and gives findings.
//!
//! One finding fails the command.

mod bugs;
mod circles;
mod density;
mod dependencies;
mod imports;
mod invariants;
mod layers;
mod links;
mod names;
mod panics;
mod prose;
mod references;
mod scripts;
mod seams;
mod source;
mod text;
mod wings;
mod words;

use std::fmt::{Display, Formatter};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use source::Source;

/// A place that breaks a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    /// The line, counted from 1; 0 when the finding concerns the whole file.
    line: usize,
    what: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl Display for Finding {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

/// A file of the tree: its path from the root, with `/`, and its text.
struct File {
    path: String,
    text: String,
}

/// The files of the tree.
struct Tree {
    files: Vec<File>,
    /// The Rust files of the tree, taken apart.
    sources: Vec<Source>,
}

impl Tree {
    fn new(files: Vec<File>) -> Self {
        let rust = files.iter().filter(|file| file.path.ends_with(".rs"));
        let mut sources: Vec<_> = rust.map(|file| Source::new(&file.path, &file.text)).collect();
        let tests: Vec<String> = sources.iter().flat_map(Source::test_modules).collect();
        for source in &mut sources {
            source.all_tests |= tests.contains(&source.path);
        }
        Self { files, sources }
    }

    /// Reads the files that git knows and the files that it would add: neither build products nor
    /// ignored files.
    fn read(root: &Path) -> Result<Self, String> {
        let listing = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .map_err(|error| format!("could not run git: {error}"))?;
        if !listing.status.success() {
            return Err(format!("git: {}", String::from_utf8_lossy(&listing.stderr)));
        }
        let mut files = Vec::new();
        for path in String::from_utf8_lossy(&listing.stdout).split_terminator('\0') {
            // A file that is removed and not yet committed is listed. A file that is not UTF-8 is
            // data.
            let Ok(bytes) = std::fs::read(root.join(path)) else { continue };
            let Ok(text) = String::from_utf8(bytes) else { continue };
            files.push(File { path: path.to_owned(), text });
        }
        Ok(Self::new(files))
    }

    fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }
}

/// Runs all rules on the tree.
fn findings(tree: &Tree) -> Vec<Finding> {
    let rules: [fn(&Tree) -> Vec<Finding>; 16] = [
        bugs::check,
        circles::check,
        density::check,
        dependencies::check,
        invariants::check,
        layers::check,
        links::check,
        names::check,
        panics::check,
        prose::check,
        references::check,
        scripts::check,
        seams::check,
        text::check,
        wings::check,
        words::check,
    ];
    let mut found: Vec<_> = rules.iter().flat_map(|rule| rule(tree)).collect();
    found.sort();
    found
}

/// Runs the command: prints every finding, and notes other places that break no rule.
pub(crate) fn main() -> ExitCode {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let tree = match Tree::read(&root) {
        Ok(tree) => tree,
        Err(error) => {
            eprintln!("tidy: {error}");
            return ExitCode::FAILURE;
        }
    };
    for note in text::long_files(&tree) {
        println!("note: {note}");
    }
    let found = findings(&tree);
    for finding in &found {
        println!("{finding}");
    }
    println!("tidy: {} files, {} findings", tree.files.len(), found.len());
    if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
fn tree(files: &[(&str, &str)]) -> Tree {
    let file = |(path, text): &(&str, &str)| File { path: (*path).into(), text: (*text).into() };
    Tree::new(files.iter().map(file).collect())
}
