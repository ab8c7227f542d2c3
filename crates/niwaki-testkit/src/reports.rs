//! Tables beside a report whose one snapshot grows old while others write.
//!
//! The report's transaction must see at its end what it saw at its beginning.

use niwaki_env::Env;
use niwaki_table::HeapOnlyUpdates;
use niwaki_txn::{BeginOptions, Isolation, Transaction};

use crate::model::{Reply, Rows, Step};
use crate::tables::{TableDatabase, TestedTables};
use crate::tested_database::TestedDatabase;

/// Number of steps, of all sessions, that a report lasts.
const STEPS: u32 = 60;

/// A report, with the rows that it began with.
struct Report {
    tx: Transaction,
    saw: Rows,
}

/// Tables with a report open from the first step on. When one has ended, another begins.
pub struct TablesBesideReport {
    tested: TestedTables,
    report: Option<Report>,
    steps: u32,
}

impl Report {
    fn begin(database: &TableDatabase) -> Result<Self, String> {
        let tx = database.begin(BeginOptions {
            isolation: Isolation::RepeatableRead,
            ..BeginOptions::default()
        })?;
        let saw = database.sequential(&tx).map_err(|error| error.to_string())?;
        Ok(Self { tx, saw })
    }

    fn verify(&self, database: &TableDatabase) -> Result<(), String> {
        let sees = database.rows_as(&self.tx)?;
        if sees == self.saw {
            Ok(())
        } else {
            Err(format!("a report saw {:?}, and sees {sees:?}", self.saw))
        }
    }
}

impl TestedDatabase for TablesBesideReport {
    fn open(env: Env, full_page_writes: bool) -> Result<Self, String> {
        let tested = TestedTables::open_as(env, full_page_writes, HeapOnlyUpdates::default())?;
        Ok(Self { tested, report: None, steps: 0 })
    }

    fn step(&mut self, session: u32, step: &Step) -> Result<Reply, String> {
        let database = self.tested.database();
        self.steps += 1;
        if let Some(report) = &self.report
            && self.steps.is_multiple_of(STEPS)
        {
            report.verify(database)?;
            self.report = None;
        }
        if self.report.is_none() {
            self.report = Some(Report::begin(database)?);
        }
        self.tested.step(session, step)
    }

    fn rows(&mut self) -> Result<Rows, String> {
        self.tested.rows()
    }

    fn check(&mut self) -> Result<(), String> {
        if let Some(report) = &self.report {
            report.verify(self.tested.database())?;
        }
        self.tested.check()
    }
}
