//! Tasks of this tree. `cargo xtask tidy` checks the rules that neither the compiler nor clippy can
//! check. `cargo xtask functions` writes `docs/functions.md` anew, and `cargo xtask settings`
//! writes `docs/guide/settings.md`.
#![forbid(unsafe_code)]

mod tidy;

use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy::main(),
        ["functions"] => rewrite("niwaki-functions", "the_document_is_up_to_date"),
        ["settings"] => rewrite("niwaki-settings", "the_settings_page_is_up_to_date"),
        _ => {
            eprintln!("usage: cargo xtask tidy | functions | settings");
            ExitCode::from(2)
        }
    }
}

/// Runs the test of a package that compares a document with the tables that it is made from, and
/// lets it write the document.
fn rewrite(package: &str, test: &str) -> ExitCode {
    let status = Command::new(env!("CARGO"))
        .args(["test", "-p", package, "--lib", test])
        .env("NIWAKI_REWRITE", "1")
        .status();
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cargo cannot be run: {error}");
            ExitCode::FAILURE
        }
    }
}
