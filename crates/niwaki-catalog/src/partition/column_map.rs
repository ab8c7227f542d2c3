//! Rows of one table in the columns of another.

use niwaki_types::Datum;

use crate::definition::relation_definition::RelationDefinition;

/// Map from the columns of one table to the columns of another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnMap {
    /// Position in the second table of each column of the first; `None` for a dropped column.
    /// Absent when all columns have the same positions.
    to: Option<Vec<Option<usize>>>,
    /// Number of columns of the second table.
    width: usize,
}

impl ColumnMap {
    /// Maps the columns of `from` to the columns of `to` with the same names.
    pub fn between(from: &RelationDefinition, to: &RelationDefinition) -> Self {
        let width = to.columns.len();
        let same = from.columns.len() == width
            && from
                .columns
                .iter()
                .zip(&to.columns)
                .all(|(a, b)| a.dropped == b.dropped && (a.dropped || a.name == b.name));
        if same {
            return Self { to: None, width };
        }
        let place = |name: &str| to.columns.iter().position(|c| !c.dropped && c.name == name);
        let places = from
            .columns
            .iter()
            .map(|column| if column.dropped { None } else { place(&column.name) });
        Self { to: Some(places.collect()), width }
    }

    /// Returns the map that applies this one, then `next`.
    pub fn then(&self, next: &Self) -> Self {
        let Some(first) = &self.to else { return next.clone() };
        let to = first.iter().map(|place| place.and_then(|place| next.place(place))).collect();
        Self { to: Some(to), width: next.width }
    }

    /// Decides whether all columns have the same positions.
    pub fn is_same(&self) -> bool {
        self.to.is_none()
    }

    /// Returns the position of a column in the second table.
    pub fn place(&self, column: usize) -> Option<usize> {
        match &self.to {
            None => (column < self.width).then_some(column),
            Some(to) => to.get(column).copied().flatten(),
        }
    }

    /// Converts a row of the first table to one of the second. Columns only in the second are NULL.
    pub fn forward(&self, row: &[Datum]) -> Vec<Datum> {
        let Some(to) = &self.to else { return row.to_vec() };
        let mut out = vec![Datum::Null; self.width];
        for (value, place) in row.iter().zip(to) {
            if let Some(place) = place {
                out[*place] = value.clone();
            }
        }
        out
    }

    /// Converts a row of the second table to one of the first.
    pub fn backward(&self, row: &[Datum]) -> Vec<Datum> {
        let Some(to) = &self.to else { return row.to_vec() };
        let value = |place: &Option<usize>| place.and_then(|place| row.get(place)).cloned();
        to.iter().map(|place| value(place).unwrap_or(Datum::Null)).collect()
    }
}
