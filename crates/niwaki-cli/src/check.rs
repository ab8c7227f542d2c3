//! `niwaki check`: tests every invariant of a data directory, and writes nothing there.

use std::process::ExitCode;

use crate::DataArguments;
use crate::show;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    data: DataArguments,
    /// One JSON object instead of text.
    #[arg(long)]
    json: bool,
    /// Also looks for rows that refer to a row that is not there (foreign keys).
    #[arg(long)]
    foreign_keys: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    if !arguments.data.data_dir.exists() {
        return Err(format!("\"{}\" does not exist", arguments.data.data_dir.display()));
    }
    let database = arguments.data.look_into()?;
    let mut report = database.check().map_err(|error| error.to_string())?;
    if arguments.foreign_keys {
        let found = database.check_foreign_keys().map_err(|error| error.to_string())?;
        report.violations.extend(found);
    }
    let problems = &report.violations;
    if arguments.json {
        let list: Vec<_> = problems
            .iter()
            .map(|problem| {
                serde_json::json!({
                    "file": problem.file,
                    "block": problem.block,
                    "item": problem.item,
                    "invariant": problem.invariant,
                    "detail": problem.detail,
                })
            })
            .collect();
        show!(
            stdout,
            "{}\n",
            serde_json::json!({
                "ok": problems.is_empty(),
                "tables": report.tables,
                "indexes": report.indexes,
                "blocks": report.blocks,
                "invalid_indexes": report.invalid_indexes,
                "problems": list,
            })
        );
    } else {
        for problem in problems {
            let block = problem.block.map_or(String::new(), |block| format!(" block {block}"));
            let item = problem.item.map_or(String::new(), |item| format!(" item {item}"));
            let (file, invariant) = (&problem.file, &problem.invariant);
            show!(stdout, "{file}{block}{item}: {invariant} violated: {}\n", problem.detail);
        }
        for index in &report.invalid_indexes {
            show!(
                stdout,
                "{index} is not valid, so no query uses it: CREATE INDEX, REINDEX or DROP INDEX \
                 CONCURRENTLY did not end. Drop it, or rebuild it with REINDEX.\n"
            );
        }
        show!(
            stdout,
            "{} tables, {} indexes, {} blocks: {}\n",
            report.tables,
            report.indexes,
            report.blocks,
            match problems.len() {
                0 => "every invariant holds".to_owned(),
                1 => "1 problem".to_owned(),
                n => format!("{n} problems"),
            }
        );
    }
    let clean = problems.is_empty();
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
