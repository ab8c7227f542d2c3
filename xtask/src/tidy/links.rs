//! The rule that targets in Markdown files exist.
//!
//! Targets are links, and paths in code spans. Such a path begins with a folder of the root, with a
//! folder of that name beside the file, or with the name of a crate. In a crate's README, each path
//! of a folder or of a Rust file counts. It may begin below the crate's folder or its `src`.

use super::{Finding, Tree};

/// Folders of the root whose paths are looked up when a code span names them.
const FOLDERS: [&str; 8] =
    ["bench/", "crates/", "docs/", "fuzz/", "scripts/", "tests/", "xtask/", ".cargo/"];

/// Folders of a data directory, which are not in the tree.
const OF_DATA: [&str; 4] = ["aside/", "base/", "tmp/", "wal/"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        let mut fenced = false;
        for (line, text) in (1..).zip(file.text.lines()) {
            if text.trim_start().starts_with("```") {
                fenced = !fenced;
            }
            if fenced {
                continue;
            }
            for target in links(text) {
                if let Err(what) = follow(tree, &file.path, target) {
                    found.push(Finding::new(&file.path, line, what));
                }
            }
            for path in paths(text) {
                let own = file.path.rsplit_once('/').map(|(folder, _)| format!("{folder}/{path}"));
                let of_crate = format!("crates/{path}");
                let places = [Some(path.to_owned()), own, Some(of_crate)];
                if !places.into_iter().flatten().any(|place| exists(tree, &place)) {
                    found.push(Finding::new(&file.path, line, format!("there is no {path}")));
                }
            }
            let Some(own) = crate_of(&file.path) else { continue };
            for path in partial_paths(text).filter(|path| !exists_for(tree, own, path)) {
                found.push(Finding::new(&file.path, line, format!("there is no {path}")));
            }
        }
    }
    found
}

/// Returns the targets of `[text](target)`, except in code spans.
fn links(line: &str) -> Vec<&str> {
    let outside = line.split('`').step_by(2);
    outside
        .flat_map(|part| part.split("](").skip(1).filter_map(|rest| rest.split(')').next()))
        .collect()
}

/// Returns the code spans that are a path of the root or of a crate.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    spans(line).filter(|path| is_whole(path))
}

/// Returns the other code spans that are a Rust file or a folder.
fn partial_paths(line: &str) -> impl Iterator<Item = &str> {
    spans(line).filter(|path| {
        (path.ends_with(".rs") || path.ends_with('/')) && !is_whole(path) && !OF_DATA.contains(path)
    })
}

/// Returns the code spans that may be paths; placeholders (`NAME`, `*`, `…`) may not.
fn spans(line: &str) -> impl Iterator<Item = &str> {
    let spans = line.split('`').skip(1).step_by(2);
    spans.filter_map(|span| span.split_whitespace().next()).filter(|path| {
        path.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "./_-".contains(c))
            && !path.contains("/target/")
            // Results of a run are not in the tree.
            && !path.starts_with("bench/results")
    })
}

fn is_whole(path: &str) -> bool {
    let of_crate = path.starts_with("niwaki-") && path.contains("/src/");
    of_crate || FOLDERS.iter().any(|folder| path.starts_with(folder))
}

/// Returns the folder of the crate whose README this is.
fn crate_of(readme: &str) -> Option<&str> {
    let own = readme.strip_suffix("/README.md")?;
    let name = own.strip_prefix("crates/")?;
    (!name.contains('/')).then_some(own)
}

/// Returns whether the README of the crate at `own` may name this path. A file without a folder may
/// be anywhere.
fn exists_for(tree: &Tree, own: &str, path: &str) -> bool {
    let places = [format!("{own}/{path}"), format!("{own}/src/{path}"), format!("crates/{path}")];
    if path.contains('/') {
        return places.iter().any(|place| exists(tree, place)) || exists(tree, path);
    }
    let end = format!("/{path}");
    tree.files.iter().any(|file| file.path.ends_with(&end))
}

fn exists(tree: &Tree, path: &str) -> bool {
    let path = path.trim_end_matches(['/', '.']);
    let folder = format!("{path}/");
    tree.files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
}

fn follow(tree: &Tree, from: &str, target: &str) -> Result<(), String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(());
    }
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = if path.is_empty() { from.to_owned() } else { join(from, path) };
    if !exists(tree, &path) {
        return Err(format!("dead link {target}"));
    }
    let Some(file) = tree.file(&path).filter(|_| !heading.is_empty()) else { return Ok(()) };
    let headings = file.text.lines().filter(|line| line.starts_with('#'));
    let known = headings.map(|line| slug(line.trim_start_matches('#').trim()));
    if known.into_iter().any(|slug| slug == heading) {
        return Ok(());
    }
    Err(format!("{path} has no heading #{heading}"))
}

/// Returns the path that `relative` means in a file at `from`.
fn join(from: &str, relative: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in relative.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    parts.join("/")
}

/// Returns a heading in the form of a fragment.
fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    fn found(line: &str) -> Vec<String> {
        found_in("docs/a.md", line)
    }

    fn found_in(path: &str, line: &str) -> Vec<String> {
        let tree = tree(&[
            (path, line),
            ("crates/x/tests/y.rs", ""),
            ("docs/b.md", "# One thing: two\n"),
            ("crates/x/README.md", "text"),
            ("crates/niwaki-x/src/a.rs", ""),
            ("crates/niwaki-x/src/flow/gate.rs", ""),
        ]);
        check(&tree).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn links_lead_somewhere() {
        let alive =
            "[b](b.md) [c](../crates/x) [d](b.md#one-thing-two) [e](https://a.b/c) `[f](g)`";
        assert_eq!(found(alive), [""; 0]);
        assert_eq!(found("[b](c.md)"), ["dead link c.md"]);
        assert_eq!(found("[b](b.md#three)"), ["docs/b.md has no heading #three"]);
    }

    #[test]
    fn paths_in_code_spans_exist() {
        assert_eq!(found("`docs/b.md` `crates/*/src` `crates/x/` `docs/NNNN.md`"), [""; 0]);
        assert_eq!(found_in("crates/x/a.md", "`tests/y.rs`"), [""; 0]);
        assert_eq!(found_in("crates/x/a.md", "`tests/z.rs`"), ["there is no tests/z.rs"]);
        assert_eq!(found("`niwaki-x/src/a.rs`"), [""; 0]);
        assert_eq!(found("`niwaki-x/src/b.rs`"), ["there is no niwaki-x/src/b.rs"]);
        assert_eq!(found("`docs/c.md --help`"), ["there is no docs/c.md"]);
        assert_eq!(found("```text\n`docs/c.md`\n```"), [""; 0]);
    }

    #[test]
    fn a_readme_names_files_below_its_crate() {
        let readme = "crates/niwaki-x/README.md";
        let alive =
            "`a.rs` `src/a.rs` `flow/gate.rs` `flow/` `x/tests/y.rs` `y.rs` `aside/` `a/B.rs`";
        assert_eq!(found_in(readme, alive), [""; 0]);
        assert_eq!(found_in(readme, "`c.rs`"), ["there is no c.rs"]);
        assert_eq!(found_in(readme, "`gate/`"), ["there is no gate/"]);
        assert_eq!(found_in(readme, "`flow/a.rs`"), ["there is no flow/a.rs"]);
        assert_eq!(found_in("docs/a.md", "`flow/a.rs`"), [""; 0]);
    }
}
