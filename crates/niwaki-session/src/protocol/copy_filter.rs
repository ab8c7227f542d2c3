//! WHERE of COPY FROM, which selects the rows that are copied.

use std::sync::Arc;

use niwaki_catalog::Relation;
use niwaki_sql::{Result, RowExpression, SqlError};
use niwaki_types::Datum;

use crate::protocol::copy_lines::{CopyFilter, LineReader};
use crate::session::handle::Session;

impl Session {
    /// Reads a condition. Columns at `missing` get their values when rows are stored, after the
    /// condition was evaluated.
    pub(crate) fn copy_filter(
        &mut self,
        condition: &str,
        relation: &Arc<Relation>,
        missing: &[usize],
    ) -> Result<CopyFilter> {
        if relation.visible_columns().any(|(_, column)| column.domain.is_some()) {
            // Storing a row checks the values of domains, also of rows that the condition leaves
            // out.
            return Err(SqlError::unsupported("COPY … WHERE into a table with columns of domains"));
        }
        let condition = self.with_analysis(|context| {
            RowExpression::copy_condition(condition, relation, missing, context)
        })?;
        Ok(CopyFilter { condition, snapshot: self.open_transaction()?.snapshot()? })
    }

    /// Decides whether an input row is copied.
    pub(crate) fn passes(
        &mut self,
        reader: &LineReader<'_>,
        number: u64,
        line: &[u8],
        row: &[Datum],
    ) -> Result<bool> {
        let Some(CopyFilter { condition, snapshot }) = &reader.filter else { return Ok(true) };
        let judged = self.with_context(snapshot, &mut |context| condition.evaluate(context, row));
        let judged = judged.map_err(|error| error.within_context(reader.place(number, line)))?;
        Ok(matches!(judged, Datum::Bool(true)))
    }
}
