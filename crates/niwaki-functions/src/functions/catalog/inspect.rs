//! Functions that inspect a table's stored form: `niwaki_chain_stats` and similar functions.
//!
//! A function with several columns is used as a table. Each function holds the inspected table in
//! ACCESS SHARE mode until the transaction ends. Each latches one page at a time.

use std::sync::Arc;

use niwaki_catalog::{Oid, Relation, of_table_number};
use niwaki_expr::context::ExecContext;
use niwaki_parse::error::{Result, SqlError};
use niwaki_storage::page::ItemState;
use niwaki_storage::{BlockNumber, Mixed, Xid};
use niwaki_table::{
    ChainStats, Distribution, LinePointer, PageVisibility, Retained, SnapshotRetention,
    StaleEntries, StoredTuple, Table, flags,
};
use niwaki_types::Datum;

use crate::functions::{EmitRow, Function, RowsFunction, T, functions};

fn number(value: u64) -> Datum {
    Datum::Int8(i64::try_from(value).unwrap_or(i64::MAX))
}

fn optional(value: Option<u64>) -> Datum {
    value.map_or(Datum::Null, number)
}

/// Returns the median, the 99th percentile and the maximum.
fn spread(numbers: &Distribution) -> [Datum; 3] {
    [numbers.percentile(50), numbers.percentile(99), numbers.max()].map(optional)
}

/// Returns the relation of a `regclass` argument, locked against changes of its definition. `None`
/// for an unknown number, which gives no rows.
fn locked(
    exec: &mut ExecContext<'_>,
    argument: &Datum,
) -> Result<Option<(Arc<Relation>, Arc<Table>)>> {
    let Datum::Oid(number) = argument else {
        return Err(SqlError::internal("a regclass of another type"));
    };
    let Some(relation) = exec.catalog.relation(Oid(*number)).cloned() else { return Ok(None) };
    let Some(table) = relation.table.clone() else {
        return Err(SqlError::new("42809", format!("\"{}\" is not a table", relation.name)));
    };
    exec.environment.lock_for_reading(*number)?;
    Ok(Some((relation, table)))
}

/// Visits every page of a table, with interrupt checks between pages.
fn chain_stats_of(exec: &mut ExecContext<'_>, table: &Table) -> Result<ChainStats> {
    let mut stats = ChainStats::default();
    for block in 0..table.blocks()? {
        exec.environment.check_interrupts()?;
        table.add_chain_stats(BlockNumber(block), &mut stats)?;
    }
    Ok(stats)
}

static CHAIN_STATS: RowsFunction = RowsFunction {
    columns: &[
        ("pages", T::INT8),
        ("chains", T::INT8),
        ("mixed_chains", T::INT8),
        ("versions_p50", T::INT8),
        ("versions_p99", T::INT8),
        ("versions_max", T::INT8),
        ("stubs", T::INT8),
        ("dead_line_pointers", T::INT8),
        ("free_bytes", T::INT8),
    ],
    body: chain_stats,
};

/// `niwaki_chain_stats(table)`: gives one row about the current HOT chains.
fn chain_stats(exec: &mut ExecContext<'_>, values: &[Datum], emit: EmitRow<'_>) -> Result<()> {
    let Some((_, table)) = locked(exec, &values[0])? else { return Ok(()) };
    let stats = chain_stats_of(exec, &table)?;
    let [p50, p99, max] = spread(&stats.versions);
    emit(vec![
        number(stats.pages),
        number(stats.versions.total()),
        number(stats.mixed),
        p50,
        p99,
        max,
        number(stats.stubs),
        number(stats.dead),
        number(stats.free_bytes),
    ])
}

static STALE_ENTRIES: RowsFunction = RowsFunction {
    columns: &[
        ("indexrelid", T::OID),
        ("indexrelname", T::NAME),
        ("entries", T::INT8),
        ("dead_entries", T::INT8),
        ("stale_entries", T::INT8),
        ("mixed_chains", T::INT8),
        ("stale_p50", T::INT8),
        ("stale_p99", T::INT8),
        ("stale_max", T::INT8),
    ],
    body: stale_entries,
};

/// `niwaki_stale_entries(table)`: gives a row for each index, and one without a name for all
/// indexes together.
fn stale_entries(exec: &mut ExecContext<'_>, values: &[Datum], emit: EmitRow<'_>) -> Result<()> {
    let Some((_, table)) = locked(exec, &values[0])? else { return Ok(()) };
    let mixed = chain_stats_of(exec, &table)?.mixed;
    let mut all = StaleEntries::default();
    let mut row = |names: [Datum; 2], found: &StaleEntries| {
        let mut per_chain = Distribution::default();
        found.by_root.values().for_each(|stale| per_chain.add(*stale, 1));
        // A chain that settled meanwhile is not mixed any more (no root with several keys).
        per_chain.add(0, mixed.saturating_sub(per_chain.total()));
        let counts = [found.entries, found.dead, found.stale, mixed].map(number);
        emit(names.into_iter().chain(counts).chain(spread(&per_chain)).collect())
    };
    for (index, definition) in table.definition().indexes.iter().enumerate() {
        let mut scan = table.stale_scan(index);
        while scan.next_leaf()? {
            exec.environment.check_interrupts()?;
        }
        let found = scan.found();
        let own = Datum::Oid(of_table_number(definition.id).1.0);
        row([own, Datum::text(&definition.name)], &found)?;
        all.entries += found.entries;
        all.dead += found.dead;
        all.stale += found.stale;
        for (root, stale) in found.by_root {
            *all.by_root.entry(root).or_default() += stale;
        }
    }
    row([Datum::Null, Datum::Null], &all)
}

static HEAP_PAGE: RowsFunction = RowsFunction {
    columns: &[
        ("lp", T::INT4),
        ("lp_state", T::TEXT),
        ("lp_off", T::INT4),
        ("lp_len", T::INT4),
        ("lp_target", T::INT4),
        ("mixed", T::TEXT),
        ("moved_in", T::BOOL),
        ("t_xmin", T::INT8),
        ("t_xmax", T::INT8),
        ("t_command", T::INT8),
        ("t_ctid", T::TID),
        ("t_root", T::INT4),
        ("t_flags", T::TEXT),
        ("heap_only", T::BOOL),
        ("stub", T::BOOL),
        ("t_natts", T::INT4),
        ("t_data", T::BYTEA),
    ],
    body: heap_page,
};

/// `niwaki_heap_page(table, block)`: gives a row for each line pointer of a page.
fn heap_page(exec: &mut ExecContext<'_>, values: &[Datum], emit: EmitRow<'_>) -> Result<()> {
    let [relation, Datum::Int8(asked)] = values else {
        return Err(SqlError::internal("a block number of another type"));
    };
    let Some((relation, table)) = locked(exec, relation)? else { return Ok(()) };
    let invalid = |message: String| SqlError::new("22023", message);
    let block = u32::try_from(*asked).map_err(|_| invalid("invalid block number".to_owned()))?;
    if block >= table.blocks()? {
        let name = &relation.name;
        return Err(invalid(format!(
            "block number {block} is out of range for relation \"{name}\""
        )));
    }
    let pointers = table.line_pointers(BlockNumber(block))?;
    pointers.iter().try_for_each(|line_pointer| emit(page_row(line_pointer)))
}

fn page_row(line_pointer: &LinePointer) -> Vec<Datum> {
    let small = |value: u16| Datum::Int4(value.into());
    let LinePointer { number, state, at, len, target, mixed, moved_in, tuple } = line_pointer;
    let state = match state {
        ItemState::Unused => "unused",
        ItemState::Normal => "normal",
        ItemState::Redirect => "redirect",
        ItemState::Dead => "dead",
    };
    let mixed = match mixed {
        Mixed::No => "no",
        Mixed::Cleaning => "cleaning",
        Mixed::Yes => "yes",
    };
    let mut row = vec![
        small(*number),
        Datum::text(state),
        small(*at),
        small(*len),
        target.map_or(Datum::Null, small),
        Datum::text(mixed),
        Datum::Bool(*moved_in),
    ];
    match tuple {
        Some(tuple) => row.extend(tuple_values(tuple)),
        None => row.resize(HEAP_PAGE.columns.len(), Datum::Null),
    }
    row
}

fn tuple_values(tuple: &StoredTuple) -> [Datum; 10] {
    let xid = |xid: Xid| if xid == Xid::INVALID { Datum::Null } else { number(xid.0) };
    let names: Vec<&str> = tuple.flag_names().collect();
    [
        xid(tuple.xmin),
        xid(tuple.xmax),
        Datum::Int8(tuple.command.into()),
        tuple.link.map_or(Datum::Null, |link| Datum::Tid(link.block.0, link.offset.0)),
        Datum::Int4(tuple.root.into()),
        Datum::text(&names.join(" ")),
        Datum::Bool(tuple.has(flags::HEAP_ONLY)),
        Datum::Bool(tuple.has(flags::STUB)),
        Datum::Int4(tuple.natts.into()),
        Datum::Bytea(tuple.data.as_slice().into()),
    ]
}

static SNAPSHOT_HOLDS: RowsFunction = RowsFunction {
    columns: &[
        ("pid", T::INT4),
        ("csn", T::LSN),
        ("versions", T::INT8),
        ("bytes", T::INT8),
        ("shared_versions", T::INT8),
        ("shared_bytes", T::INT8),
    ],
    body: snapshot_holds,
};

/// `niwaki_snapshot_holds(table)`: gives a row for each open snapshot, oldest first. A last row
/// without a session counts the versions that no snapshot needs.
fn snapshot_holds(exec: &mut ExecContext<'_>, values: &[Datum], emit: EmitRow<'_>) -> Result<()> {
    let Some((_, table)) = locked(exec, &values[0])? else { return Ok(()) };
    let holders = table.engine().transactions().registered_snapshots();
    let mut holds = SnapshotRetention::of(&holders);
    for block in 0..table.blocks()? {
        exec.environment.check_interrupts()?;
        table.add_snapshot_retention(BlockNumber(block), &holders, &mut holds)?;
    }
    let values = |held: &Retained| [number(held.versions), number(held.bytes)];
    for (at, snapshot) in holders.snapshots().iter().enumerate() {
        let names = [Datum::Int4(snapshot.session), Datum::Lsn(snapshot.csn.0)];
        let held = [values(&holds.alone[at]), values(&holds.shared[at])];
        emit(names.into_iter().chain(held.into_iter().flatten()).collect())?;
    }
    let nothing = || [Datum::Null, Datum::Null];
    let row = [nothing(), values(&holds.nobody), nothing()];
    emit(row.into_iter().flatten().collect())
}

static VISIBILITY_MAP: RowsFunction = RowsFunction {
    columns: &[("blkno", T::INT8), ("all_visible", T::BOOL), ("all_frozen", T::BOOL)],
    body: visibility_map,
};

/// `pg_visibility_map(table)`: gives a row for each page.
fn visibility_map(exec: &mut ExecContext<'_>, values: &[Datum], emit: EmitRow<'_>) -> Result<()> {
    let Some((_, table)) = locked(exec, &values[0])? else { return Ok(()) };
    for (block, said) in (0..).zip(table.visibility_map()?) {
        exec.environment.check_interrupts()?;
        let bits = [PageVisibility::AllVisible, PageVisibility::AllFrozen];
        let [visible, frozen] = bits.map(|bit| Datum::Bool(said >= bit));
        emit(vec![number(block), visible, frozen])?;
    }
    Ok(())
}

static VISIBILITY_SUMMARY: RowsFunction = RowsFunction {
    columns: &[("all_visible", T::INT8), ("all_frozen", T::INT8)],
    body: visibility_summary,
};

/// `pg_visibility_map_summary(table)`: counts the all-visible pages, and the all-frozen pages among
/// them, which name no transaction.
fn visibility_summary(
    exec: &mut ExecContext<'_>,
    values: &[Datum],
    emit: EmitRow<'_>,
) -> Result<()> {
    let Some((_, table)) = locked(exec, &values[0])? else { return Ok(()) };
    let (mut visible, mut frozen) = (0, 0);
    for said in table.visibility_map()? {
        exec.environment.check_interrupts()?;
        visible += u64::from(said >= PageVisibility::AllVisible);
        frozen += u64::from(said == PageVisibility::AllFrozen);
    }
    emit(vec![number(visible), number(frozen)])
}

/// `niwaki_visibility_map_memory(table)`: returns the bytes of memory of the table's visibility
/// map.
fn visibility_memory(exec: &mut ExecContext<'_>, values: &[Datum]) -> Result<Datum> {
    let Some((_, table)) = locked(exec, &values[0])? else { return Ok(Datum::Null) };
    Ok(number(table.visibility_map_bytes() as u64))
}

pub(crate) const FUNCTIONS: &[Function] = functions! {
    "niwaki_chain_stats" (REGCLASS) RECORD strict single volatile Rows(&CHAIN_STATS);
    "niwaki_stale_entries" (REGCLASS) RECORD strict single volatile Rows(&STALE_ENTRIES);
    "niwaki_heap_page" (REGCLASS, INT8) RECORD strict single volatile Rows(&HEAP_PAGE);
    "niwaki_snapshot_holds" (REGCLASS) RECORD strict single volatile Rows(&SNAPSHOT_HOLDS);
    "pg_visibility_map" (REGCLASS) RECORD strict single volatile Rows(&VISIBILITY_MAP);
    "pg_visibility_map_summary" (REGCLASS) RECORD strict single volatile Rows(&VISIBILITY_SUMMARY);
    "niwaki_visibility_map_memory" (REGCLASS) INT8 strict single volatile Context(visibility_memory);
};
