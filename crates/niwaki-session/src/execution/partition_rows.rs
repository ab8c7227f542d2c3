//! Test whether the rows of a partition belong to it.

use std::sync::Arc;

use niwaki_catalog::{ColumnMap, Oid, Relation};
use niwaki_sql::{Result, RowSink, SqlError};
use niwaki_types::{Datum, quote_identifier};

use crate::session::handle::Session;

impl Session {
    /// Checks whether all rows of a partition belong to it.
    ///
    /// # Errors
    /// Read errors; errors of the partition key's expressions.
    pub fn belongs(&mut self, oid: Oid) -> Result<bool> {
        let state = self.catalog.state();
        let gone = || SqlError::internal("a partition or its table has gone");
        let relation = state.relation(oid).cloned().ok_or_else(gone)?;
        let mut bounds = Vec::new();
        let mut inner = Arc::clone(&relation);
        while let Some(of) = &inner.partition_of {
            let parent = state.relation(of.parent).cloned().ok_or_else(gone)?;
            let columns = ColumnMap::between(&parent.definition, &inner.definition);
            bounds.push((Arc::clone(&parent), inner.oid, columns));
            inner = parent;
        }
        let mut names = Vec::new();
        let mut places = Vec::new();
        for (place, column) in relation.visible_columns() {
            names.push(quote_identifier(&column.name));
            places.push(place);
        }
        let sql = format!("SELECT {} FROM {}", names.join(", "), self.qualified_name(&relation));
        let statements = niwaki_sql::parse::parse(&sql)?;
        let statement = statements.first().ok_or_else(|| SqlError::internal("no statement"))?;
        let row = vec![Datum::Null; relation.columns.len()];
        let mut rows = Belonging { bounds, places, row, all: true };
        self.at_latest(|session| session.run_query(statement, &mut rows))?;
        Ok(rows.all)
    }
}

/// Row sink that checks for each row whether it belongs to the partition.
struct Belonging {
    /// Each ancestor table, with the number of its member on the way to the partition.
    bounds: Vec<(Arc<Relation>, Oid, ColumnMap)>,
    /// Positions of the columns that incoming rows have.
    places: Vec<usize>,
    row: Vec<Datum>,
    all: bool,
}

impl RowSink for Belonging {
    fn row(&mut self, row: &[Datum]) -> Result<()> {
        for (value, place) in row.iter().zip(&self.places) {
            self.row[*place] = value.clone();
        }
        let mut inner = self.row.clone();
        for (parent, member, columns) in &self.bounds {
            inner = columns.backward(&inner);
            let found = parent
                .partitions
                .as_ref()
                .and_then(|partitions| partitions.members.get(partitions.member_of(&inner)?));
            self.all &= found.is_some_and(|found| found.relation.oid == *member);
        }
        Ok(())
    }

    fn takes_numbers(&self, _column: usize) -> bool {
        true
    }
}
