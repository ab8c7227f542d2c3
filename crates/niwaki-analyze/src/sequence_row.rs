//! Presents a sequence as a relation of one row.

use std::sync::Arc;

use niwaki_catalog::{
    CatalogState, Key, Oid, Relation, SEQUENCE_COLUMNS, SystemSource, VirtualTable,
};
use niwaki_types::Datum;

/// Gives the row of the sequence with this number.
#[derive(Debug)]
struct SequenceRow(Oid);

impl VirtualTable for SequenceRow {
    fn rows(
        &self,
        state: &CatalogState,
        _source: &dyn SystemSource,
        _key: Option<Key<'_>>,
        row: &mut dyn FnMut(&[Datum]) -> niwaki_catalog::Result<()>,
    ) -> niwaki_catalog::Result<()> {
        let generator = state.relation(self.0).and_then(|found| found.number_generator.as_ref());
        let Some(generator) = generator else { return Ok(()) };
        let (last, is_called) = generator.state()?;
        // `log_cnt` is always 0: the count of numbers already logged ahead is not shown.
        row(&[Datum::Int8(last), Datum::Int8(0), Datum::Bool(is_called)])
    }
}

/// Returns the relation that FROM reads for this sequence.
pub(crate) fn relation_of(sequence: &Arc<Relation>) -> Relation {
    let mut definition = sequence.definition.clone();
    definition.columns = sequence.shown_columns(&CatalogState::default());
    debug_assert_eq!(definition.columns.len(), SEQUENCE_COLUMNS.len(), "a sequence");
    Relation::of_view(definition, Arc::new(SequenceRow(sequence.oid)))
}
