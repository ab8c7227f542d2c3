#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod check;
mod log;
mod serve;
mod shell;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use niwaki_allocator::Allocator;
use niwaki_env::memory::Counting;

/// Allocator that accounts for the memory of sessions.
#[global_allocator]
static ALLOCATOR: Counting<Allocator> = Counting(Allocator);

/// A PostgreSQL-compatible database whose tables and indexes keep their size.
#[derive(Debug, Parser)]
#[command(name = "niwaki", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve PostgreSQL's wire protocol.
    Serve(serve::Arguments),
    /// Run SQL on a data directory without a server; interactive when no SQL is given.
    Sql(shell::Arguments),
    /// Verify every invariant of a data directory that no server uses. Nothing is written there.
    Check(check::Arguments),
}

/// Place of the data and the way to open it, for all subcommands.
#[derive(Debug, Args)]
struct DataArguments {
    /// Data directory; created when absent.
    #[arg(long, value_name = "DIR", default_value = "./niwaki-data")]
    data_dir: PathBuf,
    /// A setting for this run, by its PostgreSQL name; may be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = name_and_value)]
    settings: Vec<(String, String)>,
}

fn name_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(format!("\"{text}\" is not of the form name=value")),
    }
}

impl DataArguments {
    /// Opens the database with these settings.
    fn open(&self) -> Result<niwaki::Database, String> {
        let lost = |why: &str| {
            log::line(&format!("{why}; stopping at once"));
            // The database may write nothing more, so this is no clean stop. The next start
            // recovers.
            std::process::exit(1);
        };
        let options = niwaki::Options::new().background(true).when_lost(lost);
        self.open_by(niwaki::Database::open_with, options)
    }

    /// Opens the database with these settings, and writes nothing to the directory.
    fn look_into(&self) -> Result<niwaki::Database, String> {
        self.open_by(niwaki::Database::look_into, niwaki::Options::new())
    }

    fn open_by(
        &self,
        open: fn(niwaki_env::Env, niwaki::Options) -> Result<niwaki::Database, niwaki::SqlError>,
        options: niwaki::Options,
    ) -> Result<niwaki::Database, String> {
        let mut options = options.log(log::line);
        for (name, value) in &self.settings {
            options = options.set(name, value);
        }
        open(niwaki_env::Env::os(&self.data_dir), options).map_err(|error| {
            format!("could not open \"{}\": {}", self.data_dir.display(), error.message)
        })
    }
}

/// Writes text for people. The reader may have gone, as with `niwaki sql … | head`. That is no
/// error.
macro_rules! show {
    ($stream:ident, $($text:tt)*) => {{
        use std::io::Write;
        let _ = write!(std::io::$stream().lock(), $($text)*);
    }};
}
pub(crate) use show;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Sql(arguments) => shell::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
    };
    outcome.unwrap_or_else(|message| {
        log::line(&message);
        ExitCode::FAILURE
    })
}
