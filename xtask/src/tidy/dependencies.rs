//! The rule that a package uses each crate under `[dependencies]` of its manifest.
//!
//! A file of the package names the crate, or a feature of the package sets a feature of the crate.

use super::layers::dependencies;
use super::{File, Finding, Tree};

/// Crates whose name in code is not their name in a manifest.
const RENAMED: [(&str, &str); 1] = [("md-5", "md5")];

/// Packages outside of `crates/`.
const OTHERS: [&str; 2] = ["tests/Cargo.toml", "xtask/Cargo.toml"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let manifest = |file: &&File| {
        let of_crate = file.path.starts_with("crates/") && file.path.ends_with("/Cargo.toml");
        of_crate || OTHERS.contains(&file.path.as_str())
    };
    let mut found = Vec::new();
    for file in tree.files.iter().filter(manifest) {
        let folders = folders(file);
        for (line, dependency) in dependencies(&file.text) {
            let sets_a_feature = file.text.contains(&format!("\"{dependency}/"));
            if !sets_a_feature && !is_named(tree, &folders, &name(dependency)) {
                let what = format!("no file of the package names {dependency}");
                found.push(Finding::new(&file.path, line, what));
            }
        }
    }
    found
}

/// Returns the folders of a package: its own, and those of tests beside the crates.
fn folders(manifest: &File) -> Vec<String> {
    let own = manifest.path.trim_end_matches("Cargo.toml");
    let targets = manifest.text.lines().filter_map(|line| {
        let path = line.strip_prefix("path = \"../../")?;
        Some(format!("{}/", path.rsplit_once('/')?.0))
    });
    std::iter::once(own.to_owned()).chain(targets).collect()
}

/// Returns the name of a crate in code.
fn name(dependency: &str) -> String {
    let renamed = RENAMED.iter().find(|(package, _)| *package == dependency);
    renamed.map_or_else(|| dependency.replace('-', "_"), |(_, name)| (*name).to_owned())
}

fn is_named(tree: &Tree, folders: &[String], name: &str) -> bool {
    let inside = |path: &str| folders.iter().any(|folder| path.starts_with(folder.as_str()));
    let sources = tree.sources.iter().filter(|source| inside(&source.path));
    let mut lines = sources.flat_map(|source| &source.code);
    lines
        .any(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name))
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    fn found(manifest: &str, code: &str) -> Vec<String> {
        let code = ("crates/c/src/lib.rs", code);
        let elsewhere = ("crates/d/src/lib.rs", "use md5::x; use niwaki_env::x;");
        let beside = ("tests/crash/main.rs", "use niwaki_txn::x;");
        let all = check(&tree(&[("crates/c/Cargo.toml", manifest), code, elsewhere, beside]));
        all.into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn code_names_each_dependency() {
        let manifest = "[dependencies]\nniwaki-env.workspace = true\nmd-5.workspace = true\n";
        assert_eq!(found(manifest, "use niwaki_env::a; md5::b()"), [""; 0]);
        let expected = [2, 3].map(|line| {
            let name = ["niwaki-env", "md-5"][line - 2];
            format!("crates/c/Cargo.toml:{line}: no file of the package names {name}")
        });
        assert_eq!(found(manifest, "// niwaki_env\nlet my_md5 = \"md5\";"), expected);
    }

    #[test]
    fn dependencies_of_tests_are_free() {
        assert_eq!(found("[dev-dependencies]\nproptest.workspace = true\n", ""), [""; 0]);
    }

    #[test]
    fn a_feature_uses_a_crate() {
        let manifest = "[features]\nsim = [\"niwaki-env/sim\"]\n[dependencies]\nniwaki-env = 1\n";
        assert_eq!(found(manifest, ""), [""; 0]);
        let manifest = "[features]\nsim = [\"dep:niwaki-env\"]\n[dependencies]\nniwaki-env = 1\n";
        assert_eq!(found(manifest, "").len(), 1);
    }

    #[test]
    fn tests_beside_the_crates_belong_to_the_package() {
        let dependency = "[dependencies]\nniwaki-txn.workspace = true\n";
        assert_eq!(found(dependency, "").len(), 1);
        let target = format!("[[test]]\npath = \"../../tests/crash/main.rs\"\n\n{dependency}");
        assert_eq!(found(&target, ""), [""; 0]);
    }
}
