//! Tasks of this tree. `cargo xtask tidy` checks the rules that neither the compiler nor clippy can
//! check. `cargo xtask functions` writes `docs/functions.md` anew.
#![forbid(unsafe_code)]

mod tidy;

use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy::main(),
        ["functions"] => functions(),
        _ => {
            eprintln!("usage: cargo xtask tidy | functions");
            ExitCode::from(2)
        }
    }
}

/// Runs the test that compares `docs/functions.md` with the tables of functions, and lets it write
/// the file.
fn functions() -> ExitCode {
    let status = Command::new(env!("CARGO"))
        .args(["test", "-p", "niwaki-sql", "--lib", "the_document_is_up_to_date"])
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
