//! A system relation: PostgreSQL's columns over rows that fill some of them.

use std::fmt;
use std::sync::Arc;

use niwaki_catalog::{
    BuiltinColumn, CatalogState, Error, Key, Oid, Relation, RelationDefinition, RelationKind,
    SearchPath, SystemSource, VirtualTable, builtin_rows, builtin_value,
};
use niwaki_types::{ColumnType, Datum, TypeOid};

use crate::roles::OWNER_NAME;

pub(crate) type Result<T> = niwaki_catalog::Result<T>;
/// Function that takes one row, in the order of the columns of its [`Computed`].
pub(crate) type Emit<'e> = &'e mut dyn FnMut(&[Datum]) -> Result<()>;

/// Source of computed rows, with the one key value that the query asks for.
pub(crate) struct Reader<'r> {
    pub(crate) state: &'r CatalogState,
    /// The session's search path.
    pub(crate) path: Option<&'r SearchPath>,
    key: Option<(&'r str, &'r Datum)>,
    source: &'r dyn SystemSource,
}

impl Reader<'_> {
    /// Returns the search path for showing names: the session's, or the usual one.
    pub(crate) fn shown_path(&self) -> SearchPath {
        let usual = || self.state.search_path(&["public".to_owned()], OWNER_NAME);
        self.path.cloned().unwrap_or_else(usual)
    }

    /// Returns the name of the database.
    pub(crate) fn database(&self) -> Datum {
        database_of(self.state)
    }

    /// Returns `datfrozenxid` and `relfrozenxid`: the next transaction number, so that its `age` is
    /// 0. Transaction numbers of 64 bits do not run out, and require no vacuum.
    pub(crate) fn frozen_xid(&self) -> Datum {
        let low = u32::try_from(self.source.next_xid() & u64::from(u32::MAX)).unwrap_or(0);
        // Lower numbers have special meanings.
        Datum::Oid(low.max(3))
    }

    /// Returns the number that the query asks for in this column.
    pub(crate) fn wanted_oid(&self, column: &str) -> Option<u32> {
        match self.key {
            Some((name, Datum::Oid(number))) if name == column => Some(*number),
            _ => None,
        }
    }

    /// Returns the text that the query asks for in this column.
    pub(crate) fn wanted_text(&self, column: &str) -> Option<&str> {
        match self.key {
            Some((name, Datum::Text(text))) if name == column => Some(text),
            _ => None,
        }
    }
}

/// Rows that a function computes from the catalog.
pub(crate) struct Computed {
    pub(crate) name: &'static str,
    /// The filled columns. Other columns are NULL, or 0, false or empty where they may not be NULL.
    pub(crate) columns: &'static [&'static str],
    /// Columns by which a query can ask for one value.
    pub(crate) keys: &'static [&'static str],
    pub(crate) rows: fn(&Reader<'_>, Emit<'_>) -> Result<()>,
}

/// Source of a relation's rows.
pub(crate) enum Rows {
    /// The relation has no rows.
    None,
    /// The relation has rows that cannot be shown.
    Refused(&'static str),
    Computed(&'static Computed),
    /// Rows of the session's source under this name, which fill these columns.
    Source(&'static str, Vec<&'static str>),
    /// Recorded rows of the relation of this name whose numbers pass the filter, and the computed
    /// rows beside them.
    Recorded(&'static str, fn(u32) -> bool, Option<&'static Computed>),
}

/// A system relation with rows.
pub(crate) struct SystemTable {
    columns: Vec<(&'static str, TypeOid)>,
    /// A row with no column filled.
    empty: Vec<Datum>,
    /// The column of each value of a computed row.
    places: Vec<usize>,
    rows: Rows,
}

impl fmt::Debug for SystemTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemTable").finish_non_exhaustive()
    }
}

impl SystemTable {
    pub(crate) fn new(columns: &[&BuiltinColumn], rows: Rows) -> Self {
        let filled: &[&str] = match &rows {
            Rows::Computed(computed) | Rows::Recorded(_, _, Some(computed)) => computed.columns,
            Rows::Source(_, filled) => filled,
            Rows::None | Rows::Refused(_) | Rows::Recorded(..) => &[],
        };
        let place = |name: &&str| columns.iter().position(|column| column.name == *name);
        // A name that is no column would shift all later values. A test checks that there is no
        // such name.
        let places = filled.iter().filter_map(place).collect();
        Self {
            columns: columns.iter().map(|column| (column.name, column.type_oid)).collect(),
            empty: columns.iter().map(|column| nothing(column)).collect(),
            places,
            rows,
        }
    }

    /// Gives the recorded rows. Each read converts them anew, because reads are rare and mostly by
    /// key.
    fn recorded(
        &self,
        catalog: &str,
        wanted: fn(u32) -> bool,
        key: Option<Key<'_>>,
        row: Emit<'_>,
    ) -> Result<()> {
        let Some(recorded) = builtin_rows(catalog) else { return Ok(()) };
        let key = key.and_then(|key| {
            let text = match key.value {
                Datum::Oid(number) => number.to_string(),
                Datum::Text(text) => text.to_string(),
                _ => return None,
            };
            Some((key.column, text))
        });
        for cells in recorded.rows() {
            let cells: Vec<Option<&str>> = cells.collect();
            if key.as_ref().is_some_and(|(at, text)| cells.get(*at) != Some(&Some(text))) {
                continue;
            }
            let number = cells.first().copied().flatten().and_then(|text| text.parse().ok());
            if !number.is_some_and(wanted) {
                continue;
            }
            let values: Vec<Datum> = cells
                .iter()
                .zip(&self.columns)
                .map(|(cell, (_, kind))| builtin_value(*cell, *kind))
                .collect();
            row(&values)?;
        }
        Ok(())
    }
}

/// Returns the value of a column that no source fills.
fn nothing(column: &BuiltinColumn) -> Datum {
    if !column.not_null {
        return Datum::Null;
    }
    match column.type_oid {
        TypeOid::BOOL => Datum::Bool(false),
        TypeOid::INT2 => Datum::Int2(0),
        TypeOid::INT4 => Datum::Int4(0),
        TypeOid::INT8 => Datum::Int8(0),
        TypeOid::FLOAT4 => Datum::Float4(0.0),
        TypeOid::FLOAT8 => Datum::Float8(0.0),
        kind if kind.is_number_of_object() => Datum::Oid(0),
        TypeOid::NAME | TypeOid::TEXT | TypeOid::CHAR => Datum::text(""),
        kind => match kind.element() {
            Some(element) => Datum::array(element, []),
            None => Datum::Null,
        },
    }
}

impl VirtualTable for SystemTable {
    fn rows(
        &self,
        state: &CatalogState,
        source: &dyn SystemSource,
        key: Option<Key<'_>>,
        row: &mut dyn FnMut(&[Datum]) -> Result<()>,
    ) -> Result<()> {
        if let Rows::Recorded(name, wanted, _) = &self.rows {
            self.recorded(name, *wanted, key, row)?;
        }
        let mut whole = self.empty.clone();
        let mut emit = |values: &[Datum]| {
            debug_assert_eq!(values.len(), self.places.len(), "of {:?}", self.columns.first());
            for (place, value) in self.places.iter().zip(values) {
                if let Some(slot) = whole.get_mut(*place) {
                    slot.clone_from(value);
                }
            }
            row(&whole)
        };
        match &self.rows {
            Rows::None | Rows::Recorded(_, _, None) => Ok(()),
            Rows::Refused(name) => Err(Error::Unsupported { what: format!("relation {name}") }),
            Rows::Source(name, _) => source.view_rows(name, state, &mut emit),
            Rows::Computed(computed) | Rows::Recorded(_, _, Some(computed)) => {
                let key = key.and_then(|key| {
                    let (name, _) = self.columns.get(key.column)?;
                    Some((*name, key.value))
                });
                let reader = Reader { state, path: source.search_path(), key, source };
                (computed.rows)(&reader, &mut emit)
            }
        }
    }

    fn has_key(&self, column: usize) -> bool {
        let Some((name, _)) = self.columns.get(column) else { return false };
        match &self.rows {
            Rows::Computed(computed) => computed.keys.contains(name),
            Rows::Recorded(..) => column < 2,
            Rows::None | Rows::Refused(_) | Rows::Source(..) => false,
        }
    }
}

pub(crate) fn text(value: impl AsRef<str>) -> Datum {
    Datum::Text(value.as_ref().into())
}

/// Returns the name of the database whose catalog this is.
pub(crate) fn database_of(state: &CatalogState) -> Datum {
    optional(state.database().as_ref().map(|database| &database.name))
}

pub(crate) fn optional(value: Option<impl AsRef<str>>) -> Datum {
    value.map_or(Datum::Null, text)
}

pub(crate) fn small(value: usize) -> Datum {
    Datum::Int2(i16::try_from(value).unwrap_or(i16::MAX))
}

pub(crate) fn int4(value: usize) -> Datum {
    Datum::Int4(i32::try_from(value).unwrap_or(i32::MAX))
}

pub(crate) fn number(oid: Oid) -> Datum {
    Datum::Oid(oid.0)
}

/// Builds an array of one dimension.
pub(crate) fn array(element: TypeOid, values: impl IntoIterator<Item = Datum>) -> Datum {
    Datum::array(element, values.into_iter().collect::<Vec<_>>())
}

/// Builds an `int2vector` or `oidvector`.
pub(crate) fn vector(element: TypeOid, values: impl IntoIterator<Item = Datum>) -> Datum {
    Datum::vector(element, values.into_iter().collect::<Vec<_>>())
}

/// Returns a `yes_or_no` of `information_schema`.
pub(crate) fn yes_or_no(value: bool) -> Datum {
    Datum::text(if value { "YES" } else { "NO" })
}

/// Returns a system relation with these columns and rows.
pub(crate) fn view(
    oid: Oid,
    schema: Oid,
    name: &str,
    columns: &[&BuiltinColumn],
    rows: Rows,
) -> Relation {
    let definition = RelationDefinition {
        columns: columns
            .iter()
            .map(|column| {
                let kind = ColumnType::with_typmod(column.type_oid, column.typmod);
                niwaki_catalog::Column {
                    not_null: column.not_null,
                    ..niwaki_catalog::Column::new(column.name, kind)
                }
            })
            .collect(),
        ..RelationDefinition::new(oid, schema, name.to_owned(), RelationKind::View)
    };
    Relation::of_view(definition, Arc::new(SystemTable::new(columns, rows)))
}
