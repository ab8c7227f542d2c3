//! Tables that cursors read, and the row that a cursor is on (WHERE CURRENT OF).

use niwaki_catalog::{CatalogState, Oid, Relation};
use niwaki_sql::{CommandTag, CursorTable, Result, SqlError};
use niwaki_storage::Tid;
use niwaki_types::Datum;

use crate::session::handle::Session;
use crate::session::portal::PortalState;
use crate::session::state::portals::Portals;
use crate::session::statement::Action;

impl Session {
    /// Returns whether a cursor, or another begun portal, reads the rows of a relation.
    pub fn is_read_by_cursor(&self, relation: Oid) -> bool {
        self.portals.all().any(|(_, portal)| match &portal.statement.action {
            Action::Query(planned) => {
                let begun = matches!(portal.state, PortalState::Begun | PortalState::Done);
                begun && !portal.held && planned.relations().iter().any(|(r, _)| r.oid == relation)
            }
            _ => false,
        })
    }
}

/// Returns the table and the address of the row of `table` that a cursor is on. The row may be in a
/// partition of `table`. `None` when `table` is a partition and the row is in another one.
///
/// As in PostgreSQL, a query that locks rows must lock `table`. Any other query must read `table`
/// exactly once.
///
/// # Errors
/// 34000, 24000.
pub(crate) fn row_of_cursor(
    portals: &Portals,
    state: &CatalogState,
    cursor: &str,
    table: &Relation,
) -> Result<Option<(Oid, Tid)>> {
    let refused = |why: String| Err(SqlError::new("24000", format!("cursor \"{cursor}\" {why}")));
    let portal = portals.get(cursor).ok_or_else(|| no_cursor(cursor))?;
    match &portal.statement.action {
        Action::Query(planned) if planned.tag() == CommandTag::Select => {}
        _ => return refused("is not a SELECT query".to_owned()),
    }
    if portal.held {
        return refused("is held from a previous transaction".to_owned());
    }
    let locks = portal.tables().iter().any(|table| table.locked);
    let is_meant =
        |(_, from): &(usize, &CursorTable)| from.locked == locks && is_in(state, table, from.table);
    let mut meant = portal.tables().iter().enumerate().filter(is_meant);
    let name = &table.name;
    let number = match (meant.next(), meant.next()) {
        (Some((number, _)), None) => number,
        (Some(_), Some(_)) => {
            return refused(format!(
                "has multiple FOR UPDATE/SHARE references to table \"{name}\""
            ));
        }
        _ if locks => {
            return refused(format!(
                "does not have a FOR UPDATE/SHARE reference to table \"{name}\""
            ));
        }
        _ => return refused(format!("is not a simply updatable scan of table \"{name}\"")),
    };
    match portal.addresses().and_then(|mut rows| rows.nth(number)) {
        Some((Datum::Tid(block, offset), Datum::Oid(oid))) => {
            let row = (Oid(*oid), Tid::new(*block, *offset));
            Ok((table.is_partitioned() || row.0 == table.oid).then_some(row))
        }
        _ => refused("is not positioned on a row".to_owned()),
    }
}

/// Returns whether `table` is `whole`, or a partition of it at any depth.
fn is_in(state: &CatalogState, table: &Relation, whole: Oid) -> bool {
    let above = table.partition_of.as_ref().and_then(|of| state.relation(of.parent));
    table.oid == whole || above.is_some_and(|above| is_in(state, above, whole))
}

/// Returns the error 34000.
pub(crate) fn no_cursor(name: &str) -> SqlError {
    SqlError::new("34000", format!("cursor \"{name}\" does not exist"))
}
