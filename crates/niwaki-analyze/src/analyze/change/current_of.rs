//! WHERE CURRENT OF, with the cursor rows that it can mean.

use std::sync::Arc;

use niwaki_catalog::{Oid, Relation, RelationKind};
use niwaki_expr::expr::{Expr, ExprKind};
use niwaki_expr::query::{ItemKind, LockTarget};
use niwaki_parse::error::Result;
use niwaki_types::{ColumnType, Datum};
use pg_query::protobuf;

use crate::analyze::Analyzer;
use crate::analyze::names::scope::{Item, SYSTEM_COLUMNS};
use crate::analyze::query::targets::Target;

/// A table that supplies the rows of a cursor's query, alone or joined.
///
/// Behind the query's columns each row has two values for each such table. They are the row's TID,
/// and the OID of its table, which may be a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CursorTable {
    /// The table that the query names.
    pub table: Oid,
    /// True if FOR UPDATE or a similar clause locks the table's rows.
    pub locked: bool,
}

impl Analyzer<'_> {
    /// Returns the conditions that select the cursor's current row of `table`, the scope's first
    /// item.
    pub(crate) fn current_of(&mut self, cursor: &str, table: &Arc<Relation>) -> Result<Vec<Expr>> {
        let current = |ty| {
            let (cursor, table) = (Arc::from(cursor), Arc::clone(table));
            Expr::new(ExprKind::CurrentOf { cursor, table }, ty, -1)
        };
        let mut conditions = Vec::new();
        // Another partition may have a row with the same TID.
        let compared = if table.is_partitioned() { 2 } else { 1 };
        for (number, (_, ty, _)) in SYSTEM_COLUMNS.iter().enumerate().take(compared) {
            let own = Expr::slot(table.columns.len() + number, ColumnType::new(*ty));
            let own = self.use_column(own, 0, -1)?;
            conditions.push(self.operator("=", Some(own), current(*ty), -1)?);
        }
        Ok(conditions)
    }

    /// Adds the place of each row to the targets of a cursor's query, if its rows are rows of
    /// tables.
    pub(crate) fn add_places(
        &mut self,
        select: &protobuf::SelectStmt,
        targets: &mut Vec<Target>,
    ) -> Result<()> {
        let scope = self.scope()?;
        let one_table = match scope.sources.as_slice() {
            [only] => matches!(only.kind, ItemKind::Table(_)),
            _ => false,
        };
        let meant = one_table || !select.locking_clause.is_empty();
        if !meant || !self.gives_rows_of_tables(select)? {
            return Ok(());
        }
        let address = |item: &Item| {
            let relation = item.relation.as_ref()?;
            let is_table = relation.kind == RelationKind::Table;
            is_table.then(|| (relation.oid, item.start + relation.columns.len()))
        };
        let tables: Vec<(Oid, usize)> = self.scope()?.items.iter().filter_map(address).collect();
        for (table, first) in tables {
            for (number, (_, ty, _)) in SYSTEM_COLUMNS.iter().enumerate().take(2) {
                let expr =
                    self.use_column(Expr::slot(first + number, ColumnType::new(*ty)), 0, -1)?;
                targets.push(Target { expr, name: String::new(), origin: (0, 0), junk: true });
            }
            self.cursor_tables.push(CursorTable { table, locked: false });
        }
        Ok(())
    }

    /// Completes the work of [`Analyzer::add_places`], which added places behind `columns` targets.
    /// If the query's rows turned out not to be rows of tables, the places become NULL. Otherwise
    /// it notes which tables the query locks.
    pub(crate) fn settle_places(
        &mut self,
        select: &protobuf::SelectStmt,
        locks: &[LockTarget],
        targets: &mut [Target],
        columns: usize,
    ) -> Result<()> {
        let tables = self.cursor_tables.len();
        let places = targets.iter_mut().skip(columns).take(2 * tables);
        if !self.gives_rows_of_tables(select)? {
            for place in places {
                place.expr = Expr::constant(Datum::Null, place.expr.ty, -1);
            }
            self.cursor_tables.clear();
            return Ok(());
        }
        let addresses = places.step_by(2).map(|place| match place.expr.kind {
            ExprKind::Slot { slot, .. } => Some(slot),
            _ => None,
        });
        let is_locked = |address| {
            locks.iter().any(|lock| Some(lock.start + lock.relation.columns.len()) == address)
        };
        for (table, address) in self.cursor_tables.iter_mut().zip(addresses) {
            table.locked = is_locked(address);
        }
        Ok(())
    }

    /// Returns whether each row of the query is a row of a table in FROM, or joined from such rows,
    /// as far as known.
    fn gives_rows_of_tables(&mut self, select: &protobuf::SelectStmt) -> Result<bool> {
        let scope = self.scope()?;
        Ok(select.group_clause.is_empty()
            && select.having_clause.is_none()
            && select.distinct_clause.is_empty()
            && scope.aggregates.is_empty()
            && scope.windowing.is_empty()
            && scope.sets.is_empty())
    }
}
