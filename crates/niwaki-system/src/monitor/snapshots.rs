//! `niwaki_snapshots`: the open snapshots, with the versions that each of them keeps from removal.

use std::sync::Arc;

use niwaki_catalog::{CatalogState, Result};
use niwaki_table::Retained;
use niwaki_txn::{RegisteredSnapshot, TransactionManager};
use niwaki_types::{Datum, TypeOid, datetime};

use crate::monitor::activity::Activities;

/// Name of the view.
pub const SNAPSHOTS: &str = "niwaki_snapshots";

/// The view's columns.
pub(crate) const COLUMNS: &[(&str, TypeOid)] = &[
    ("pid", TypeOid::INT4),
    ("csn", TypeOid::PG_LSN),
    ("age", TypeOid::INTERVAL),
    ("may_follow", TypeOid::BOOL),
    ("versions_held", TypeOid::INT8),
    ("bytes_held", TypeOid::INT8),
    ("usename", TypeOid::NAME),
    ("application_name", TypeOid::TEXT),
    ("state", TypeOid::TEXT),
    ("query", TypeOid::TEXT),
];

/// Gives a row for each open snapshot, oldest first. A snapshot's counts are the versions and bytes
/// that passes over pages could not remove because of this snapshot alone. They cover the tables of
/// this catalog. No page is read for them.
///
/// # Errors
/// The errors of `row`.
pub fn rows(
    transactions: &TransactionManager,
    activities: &Activities,
    state: &CatalogState,
    row: &mut dyn FnMut(&[Datum]) -> Result<()>,
) -> Result<()> {
    let holders = transactions.registered_snapshots();
    let mut alone = vec![Retained::default(); holders.snapshots().len()];
    for table in state.with_rows().filter_map(|relation| relation.table.as_ref()) {
        table.add_noted_retention(&holders, &mut alone);
    }
    let now_us = transactions.env().clock.now_unix_us();
    for (snapshot, held) in holders.snapshots().iter().zip(alone) {
        row(&values(activities, snapshot, held, now_us))?;
    }
    Ok(())
}

fn values(
    activities: &Activities,
    snapshot: &RegisteredSnapshot,
    held: Retained,
    now_us: i64,
) -> [Datum; COLUMNS.len()] {
    let number = |value: u64| Datum::Int8(i64::try_from(value).unwrap_or(i64::MAX));
    // The clock may have been set back.
    let age = datetime::subtract_timestamps(now_us.max(snapshot.taken_us), snapshot.taken_us);
    let activity = activities.of(snapshot.session).unwrap_or_default();
    [
        Datum::Int4(snapshot.session),
        Datum::Lsn(snapshot.csn.0),
        Datum::Interval(Arc::new(age.unwrap_or_default())),
        Datum::Bool(snapshot.may_follow),
        number(held.versions),
        number(held.bytes),
        Datum::text("postgres"),
        Datum::text(&activity.application_name),
        Datum::text(activity.state.word()),
        Datum::text(&activity.query),
    ]
}
