//! Materialized views: their creation and their refresh.
//!
//! A materialized view is a view with stored rows: its query is read like a view's, and its rows
//! are stored like a table's. REFRESH gives the view new files and fills them with the query's
//! current rows, in one transaction. So a rollback or a crash restores the old files. The query is
//! planned before the exchange. So a function in the query that reads the view reads the old files.
//!
//! CONCURRENTLY keeps the files. It puts the query's rows into a table that no other session sees.
//! Then it changes only the rows that differ, so that other sessions go on reading.

use std::sync::Arc;

use niwaki_catalog::{
    Column, IndexEntry, Oid, Relation, RelationDefinition, RelationKind, RelationStats,
};
use niwaki_session::of_table;
use niwaki_sql::utility::{CreateTableAs, Name, Persistence, RowsOf};
use niwaki_sql::{
    Planned, Progress, Result, RowSink, SqlError, TEMP_CHUNK_BYTES, TuplestoreWriter,
    analyze_view_rows,
};
use niwaki_storage::Tid;
use niwaki_table::{InsertOptions, RowTarget, UpdateOutcome};
use niwaki_txn::TableLockMode;
use niwaki_types::{ColumnType, Datum, Record, TypeOid, form_row, quote_identifier, to_text};

use crate::column_rules::check_column_name;
use crate::definer::Definer;
use crate::options;
use crate::table::rewrite::{BATCH_ROWS, StoredRows, write_anew};
use crate::view::create_view::refuse_repeated;

/// Prefix of the name of a table that no query sees.
const UNNAMED: &str = "\u{1}created ";

impl Definer<'_> {
    /// Runs CREATE MATERIALIZED VIEW. Returns the number of its rows. Returns `None` for WITH NO
    /// DATA, and when the view exists and IF NOT EXISTS allows that.
    pub(crate) fn create_materialized_view(
        &mut self,
        spec: &CreateTableAs,
        source: &str,
    ) -> Result<Option<u64>> {
        let RowsOf::Query(query) = &spec.rows else {
            return Err(SqlError::internal("a materialized view without a query"));
        };
        let new = self.read_view(query, source, true)?;
        let temporary = self.state().temporary_schema();
        if new.relations.iter().any(|r| temporary == Some(r.schema)) {
            let message = "materialized views must not use temporary tables or views";
            return Err(SqlError::new("0A000", message));
        }
        let CreateTableAs { table, columns: names, with_data, .. } = spec;
        let schema = self.creation_schema(&table.name, Persistence::Permanent)?;
        let name = &table.name.name;
        if !self.name_is_free(schema, name, table.if_not_exists)? {
            return Ok(None);
        }
        if self.state().temporary_schema() == Some(schema) {
            return Err(SqlError::unsupported("a temporary materialized view"));
        }
        let columns = self.view_columns(&new, names, true)?;
        columns.iter().try_for_each(|column| check_column_name(&column.name))?;
        refuse_repeated(&columns)?;
        self.name_is_no_type(schema, name)?;
        let mut definition = RelationDefinition {
            file: self.new_file(true)?,
            columns,
            query: Some(new.definition),
            unpopulated: true,
            options: options::of_new_table(RelationKind::MaterializedView, &table.options)?,
            ..RelationDefinition::new(
                self.session.new_oid(),
                schema,
                name.clone(),
                RelationKind::MaterializedView,
            )
        };
        self.allot_values(&mut definition)?;
        let oid = definition.oid;
        self.create(definition)?;
        if !*with_data {
            return Ok(None);
        }
        let planned = self.plan_of_view(oid)?;
        let rows = self.fill_view(&planned, oid)?;
        self.is_populated(oid)?;
        Ok(Some(rows))
    }

    /// Runs REFRESH MATERIALIZED VIEW.
    pub(crate) fn refresh(
        &mut self,
        name: &Name,
        concurrently: bool,
        with_data: bool,
    ) -> Result<()> {
        let mode =
            if concurrently { TableLockMode::Exclusive } else { TableLockMode::AccessExclusive };
        let found = self.lock_relation(name, "relation", mode, false)?;
        let view = found.ok_or_else(|| SqlError::internal("a relation that may be missing"))?;
        refuse_no_view(&view)?;
        let word = "REFRESH MATERIALIZED VIEW";
        if concurrently {
            may_refresh_concurrently(&view, with_data)?;
            let key = self.key_of(&view)?;
            self.refuse_use(&view, word)?;
            return self.put_differences(&view, &key);
        }
        self.refuse_use(&view, word)?;
        self.fill_anew(&view, with_data)
    }

    /// Returns the plan of a view's query. The relations that it reads are locked.
    fn plan_of_view(&mut self, oid: Oid) -> Result<Arc<Planned>> {
        let view = self.current(oid)?;
        self.session.plan_until_locked(|context| analyze_view_rows(&view, context))
    }

    /// Gives a view new files, with the current rows of its query, and then fills its indexes.
    fn fill_anew(&mut self, view: &Relation, with_data: bool) -> Result<()> {
        let planned = if with_data { Some(self.plan_of_view(view.oid)?) } else { None };
        let mut definition = view.definition.clone();
        definition.unpopulated = true;
        // The old statistics of the columns are better than none.
        let columns =
            if with_data { std::mem::take(&mut definition.stats.columns) } else { Vec::new() };
        definition.stats = RelationStats { columns, ..RelationStats::default() };
        self.session.renew_file(definition)?;
        for index in &view.indexes {
            let mut definition = self.definition_to_change(index.oid)?;
            definition.stats = RelationStats::default();
            if let Some(index) = &mut definition.index {
                (index.ready, index.valid) = (false, false);
            }
            self.session.renew_file(definition)?;
        }
        self.session.note_created(view.oid);
        if let Some(planned) = planned {
            self.fill_view(&planned, view.oid)?;
            self.is_populated(view.oid)?;
        }
        for index in &view.indexes {
            self.change_index(index.oid, |index| (index.ready, index.valid) = (true, true))?;
            let progress = self.session.begin_progress("REFRESH MATERIALIZED VIEW");
            self.fill_index(index.oid, &progress)?;
        }
        Ok(())
    }

    /// Fills the new files of a view. As in PostgreSQL, every session that sees the files sees the
    /// rows.
    fn fill_view(&mut self, planned: &Arc<Planned>, into: Oid) -> Result<u64> {
        self.fill(planned, Vec::new(), into, InsertOptions { frozen: true })
    }

    /// Writes the rows of a query, with these parameters, into the new files of a relation, which
    /// no other session sees. Returns the number of rows.
    pub(crate) fn fill(
        &mut self,
        planned: &Arc<Planned>,
        parameters: Vec<Datum>,
        into: Oid,
        options: InsertOptions,
    ) -> Result<u64> {
        self.session.next_command()?;
        let into = self.current(into)?;
        let mut count = 0;
        let session = &mut *self.session;
        let mut running = session.start(planned, parameters)?;
        loop {
            let mut rows = StoredRows::default();
            let progress = session.advance(&mut running, BATCH_ROWS, &mut rows)?;
            write_anew(session, &into, &rows.rows, options)?;
            count += rows.rows.len() as u64;
            if matches!(progress, Progress::Complete(_)) {
                session.next_command()?;
                return Ok(count);
            }
        }
    }

    /// Marks a view as populated, so that it can be read.
    fn is_populated(&mut self, oid: Oid) -> Result<()> {
        let mut definition = self.current(oid)?.definition.clone();
        definition.unpopulated = false;
        self.update(definition)?;
        self.session.next_command()
    }
}

/// REFRESH MATERIALIZED VIEW CONCURRENTLY.
impl Definer<'_> {
    /// Returns the columns of a unique index, which identify the rows of a view.
    fn key_of(&mut self, view: &Relation) -> Result<Vec<String>> {
        let tells_apart = |entry: &&IndexEntry| {
            let index = &entry.definition;
            index.is_unique_at_once()
                && index.predicate.is_none()
                && index.key.iter().all(|key| key.expression.is_none())
        };
        let Some(index) = view.indexes.iter().find(tells_apart) else {
            let name = self.session.qualified_name(view);
            let message = format!("cannot refresh materialized view \"{name}\" concurrently");
            return Err(SqlError::new("55000", message).with_hint(
                "Create a unique index with no WHERE clause on one or more columns of the materialized view.",
            ));
        };
        let column = |column: u16| view.columns.get(usize::from(column));
        let names = index.definition.key.iter().filter_map(|key| column(key.column));
        Ok(names.map(|column| quote_identifier(&column.name)).collect())
    }

    /// Changes the rows of a view to the current rows of its query. `key` are columns that identify
    /// its rows.
    fn put_differences(&mut self, view: &Arc<Relation>, key: &[String]) -> Result<()> {
        let planned = self.plan_of_view(view.oid)?;
        let new = self.create_unseen(view)?;
        self.fill_view(&planned, new.oid)?;
        let names = [view, &new].map(|relation| self.session.qualified_name(relation));
        let Definer { session, out } = self;
        // The new rows are compared with the latest committed rows, whatever the transaction's
        // snapshot. The snapshot may be older than the last refresh, and a mixture of both would be
        // the rows of no moment.
        session.at_latest(|session| {
            let mut definer = Definer { session, out: &mut **out };
            definer.refuse_duplicates(view, &names[1], key)?;
            definer.write_differences(view, &names, key)
        })?;
        self.remove_with_files(new.oid)
    }

    /// Creates a table with the columns of a view, under a name that no query can have.
    fn create_unseen(&mut self, view: &Relation) -> Result<Arc<Relation>> {
        let oid = self.session.new_oid();
        let mut definition = RelationDefinition {
            oid,
            name: format!("{UNNAMED}{oid}"),
            kind: RelationKind::Table,
            file: self.new_file(true)?,
            values: None,
            comment: None,
            query: None,
            options: niwaki_catalog::RelationOptions::default(),
            stats: RelationStats::default(),
            ..view.definition.clone()
        };
        self.allot_values(&mut definition)?;
        self.create(definition)?;
        self.current(oid)
    }

    /// Fails with 21000 for two equal rows without NULLs: neither could be matched with a row of
    /// the view.
    fn refuse_duplicates(&mut self, view: &Relation, new: &str, key: &[String]) -> Result<()> {
        let (one, other) = (columns(view, "a"), columns(view, "b"));
        let sql = format!(
            "SELECT {one}, {other} FROM {new} a JOIN {new} b ON {} WHERE a.ctid < b.ctid",
            equal(key, "a", "b")
        );
        let width = view.columns.len();
        self.each_row(&sql, |definer, row| {
            let (one, other) = row.split_at(width);
            let whole = !one.iter().any(Datum::is_null);
            if whole && same(view, one, other) {
                let kinds: Vec<TypeOid> = view.columns.iter().map(|c| TypeOid(c.type_oid)).collect();
                let record = Datum::Record(
                    TypeOid::RECORD,
                    Arc::new(Record::new(kinds, one.to_vec())),
                );
                let shown = to_text(&record, TypeOid::RECORD, definer.session.text_settings());
                let message = format!(
                    "new data for materialized view \"{}\" contains duplicate rows without any null columns",
                    view.name
                );
                return Err(SqlError::new("21000", message).with_detail(format!("Row: {shown}")));
            }
            Ok(())
        })
    }

    /// Deletes the rows of a view that are not among the new ones. Then inserts the new rows that
    /// the view lacks.
    fn write_differences(
        &mut self,
        view: &Arc<Relation>,
        [old, new]: &[String; 2],
        key: &[String],
    ) -> Result<()> {
        let sql = format!(
            "SELECT v.ctid, {}, n.ctid, {} FROM {old} v FULL JOIN {new} n ON {} ORDER BY v.ctid",
            columns(view, "v"),
            columns(view, "n"),
            equal(key, "v", "n")
        );
        let work_mem = self.session.settings().hot().work_mem_bytes;
        let temp = Some(self.session.temporary_space().clone());
        let mut added = TuplestoreWriter::within(temp, TEMP_CHUNK_BYTES, work_mem);
        let mut last = None;
        self.each_row(&sql, |definer, row| {
            let (was, is) = row.split_at(view.columns.len() + 1);
            let (Some((tid, was)), Some((new, is))) = (was.split_first(), is.split_first()) else {
                return Err(SqlError::internal("a row without columns"));
            };
            let Datum::Tid(block, offset) = *tid else { return added.push(is) };
            let tid = Tid::new(block, offset);
            let again = last.replace(tid) == Some(tid);
            if again {
                // Two new rows have the same key. The index refuses the second one.
                return added.push(is);
            }
            if !new.is_null() && same(view, was, is) {
                return Ok(());
            }
            definer.delete_row(view, tid)?;
            if new.is_null() { Ok(()) } else { added.push(is) }
        })?;
        self.session.next_command()?;
        let mut added = added.finish()?.read();
        let mut rows = StoredRows::default();
        loop {
            let mut row = vec![Datum::Null; added.width()];
            let more = added.next(&mut row)?;
            if more {
                rows.push(row);
            }
            if !rows.rows.is_empty() && (rows.is_full() || !more) {
                self.insert_rows(view, &rows.rows)?;
                rows = StoredRows::default();
            }
            if !more {
                return self.session.next_command();
            }
        }
    }

    fn delete_row(&mut self, view: &Relation, tid: Tid) -> Result<()> {
        let transaction = self.transaction()?;
        let table = view.table.as_ref().ok_or_else(no_rows)?;
        let snapshot = transaction.snapshot_for_write()?;
        match table.delete(transaction, &snapshot, RowTarget::visible(tid))? {
            UpdateOutcome::Done { .. } => Ok(()),
            // The lock keeps all other sessions out.
            _ => Err(SqlError::internal("a row of a materialized view changed under its lock")),
        }
    }

    fn insert_rows(&mut self, view: &Relation, rows: &[Vec<Datum>]) -> Result<()> {
        let table = view.table.as_ref().ok_or_else(no_rows)?;
        let (transaction, work) = self.session.transaction_and_workspace()?;
        let written = table.insert_many(transaction, rows, InsertOptions::default(), work);
        written.map_err(|error| of_table(error, view, &self.session.state()))
    }

    /// Runs a query and passes its rows, in stored form, one by one to `take`.
    fn each_row(
        &mut self,
        sql: &str,
        mut take: impl FnMut(&mut Self, &[Datum]) -> Result<()>,
    ) -> Result<()> {
        let statements = niwaki_sql::parse::parse(sql)?;
        let statement = statements.first().ok_or_else(|| SqlError::internal("no statement"))?;
        let planned = self.session.plan_locked(statement, &[])?;
        let mut running = self.session.start(&planned, Vec::new())?;
        loop {
            let mut rows = StoredRows::default();
            let progress = self.session.advance(&mut running, BATCH_ROWS, &mut rows)?;
            for row in &rows.rows {
                take(self, row)?;
            }
            if matches!(progress, Progress::Complete(_)) {
                return Ok(());
            }
        }
    }
}

/// Refuses a relation that is not a materialized view.
fn refuse_no_view(relation: &Relation) -> Result<()> {
    let name = &relation.name;
    match relation.kind {
        RelationKind::MaterializedView => Ok(()),
        RelationKind::Table => {
            Err(SqlError::new("0A000", format!("\"{name}\" is not a materialized view")))
        }
        _ => {
            let message = format!("\"{name}\" is not a table or materialized view");
            Err(SqlError::new("42809", message))
        }
    }
}

fn may_refresh_concurrently(view: &Relation, with_data: bool) -> Result<()> {
    if view.unpopulated {
        let message = "CONCURRENTLY cannot be used when the materialized view is not populated";
        return Err(SqlError::new("0A000", message));
    }
    if !with_data {
        let message = "CONCURRENTLY and WITH NO DATA options cannot be used together";
        return Err(SqlError::new("42601", message));
    }
    Ok(())
}

/// Returns the columns of a view as a query names them for a FROM item of this name.
fn columns(view: &Relation, item: &str) -> String {
    let each = view.columns.iter().map(|c| format!("{item}.{}", quote_identifier(&c.name)));
    each.collect::<Vec<_>>().join(", ")
}

/// Returns the condition that two FROM items have the same key.
fn equal(key: &[String], one: &str, other: &str) -> String {
    let each = key.iter().map(|column| format!("{one}.{column} = {other}.{column}"));
    each.collect::<Vec<_>>().join(" AND ")
}

/// Returns whether rows of a view are stored as the same bytes.
fn same(view: &Relation, one: &[Datum], other: &[Datum]) -> bool {
    if one.iter().zip(other).all(|(one, other)| one.same_image(other)) {
        return true;
    }
    let types: Vec<ColumnType> = view.columns.iter().map(Column::column_type).collect();
    let [one, other] = [one, other].map(|row| {
        let mut bytes = Vec::new();
        form_row(&types, row, &mut bytes);
        bytes
    });
    one == other
}

fn no_rows() -> SqlError {
    SqlError::internal("a materialized view without rows")
}
