//! The table that stores the definitions (`docs/internals/format.md`, catalog).
//!
//! ```text
//! oid int8 | part int4 | schema int8 | name text | kind int2 | definition text
//! ```
//!
//! A definition is JSON text. A definition that is too long for a row is cut into parts. The rows
//! of parts from 1 on have NULL as schema and name. The table is unique on (oid, part) and on
//! (schema, name). Because of the latter, a transaction that creates a name waits for another one
//! that is creating the same name.

use std::sync::Arc;

use niwaki_storage::{RelFile, RelFileId, Tid};
use niwaki_table::{
    Engine, Error as TableError, HeapOnlyUpdates, IndexDefinition, KeyColumn, Lookup, RowTarget,
    Table, TableDefinition, UpdateOutcome, Workspace,
};
use niwaki_txn::{Isolation, Snapshot, TableId, Transaction};
use niwaki_types::{ColumnMask, ColumnType, Datum, KeyOrder, TypeOid, encode_key};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::rows::oid::Oid;
use crate::rows::scan::for_each_row;

/// Number of the table in its database. The first database's file has the same number, as with the
/// indexes below.
pub(crate) const OBJECTS_TABLE: Oid = Oid(2);
const BY_OID: u64 = 3;
const BY_NAME: u64 = 4;

/// The files of one catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogFiles {
    /// File of the definitions.
    pub objects: u64,
    /// File of their index on (oid, part).
    pub by_oid: u64,
    /// File of their index on (schema, name).
    pub by_name: u64,
}

impl CatalogFiles {
    /// Files of the first database. File 1 holds the states of transactions.
    pub const FIRST: Self = Self { objects: 2, by_oid: 3, by_name: 4 };

    /// Returns all files of the catalog.
    pub fn all(self) -> [RelFile; 3] {
        [self.objects, self.by_oid, self.by_name].map(logged)
    }

    pub(crate) fn first() -> Self {
        Self::FIRST
    }

    pub(crate) fn is_first(&self) -> bool {
        *self == Self::FIRST
    }
}

fn logged(number: u64) -> RelFile {
    RelFile { id: RelFileId(number), logged: true }
}

/// Longest part of a definition in one row, in bytes.
const PART_BYTES: usize = 4000;

const OID: usize = 0;
const PART: usize = 1;
const SCHEMA: usize = 2;
const NAME: usize = 3;
const KIND: usize = 4;
const DEFINITION: usize = 5;
const COLUMNS: usize = 6;

/// Kind of a stored object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    Relation = 0,
    Schema = 1,
    /// A database. Its number and name are independent of all schemas.
    Database = 2,
    Type = 3,
    /// A function. The types of its arguments follow its name, in brackets; see
    /// [`Object::stored_schema`].
    Function = 4,
}

/// A stored object, its parts joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) oid: Oid,
    /// 0 for a schema.
    pub(crate) schema: Oid,
    pub(crate) name: String,
    pub(crate) kind: ObjectKind,
    pub(crate) definition: String,
}

impl Object {
    /// Returns the schema's number as the row has it: negative for a function, whose name must not
    /// collide with a relation's or type's.
    fn stored_schema(&self) -> i64 {
        let schema = i64::from(self.schema.0);
        if self.kind == ObjectKind::Function { -schema } else { schema }
    }

    /// Reads an object from its first row and the first part of its definition.
    fn of_row(oid: u32, row: &[Datum], definition: &str) -> Result<Self> {
        let schema = match row.get(SCHEMA) {
            Some(Datum::Int8(schema)) => *schema,
            _ => 0,
        };
        let object = Self {
            oid: Oid(oid),
            schema: Oid(u32::try_from(schema.unsigned_abs()).unwrap_or(0)),
            name: match row.get(NAME) {
                Some(Datum::Text(t)) => t.to_string(),
                _ => return Err(damaged(oid, "no name")),
            },
            kind: match row.get(KIND) {
                Some(Datum::Int2(0)) => ObjectKind::Relation,
                Some(Datum::Int2(1)) => ObjectKind::Schema,
                Some(Datum::Int2(2)) => ObjectKind::Database,
                Some(Datum::Int2(3)) => ObjectKind::Type,
                Some(Datum::Int2(4)) => ObjectKind::Function,
                other => return Err(damaged(oid, &format!("unknown kind {other:?}"))),
            },
            definition: definition.to_owned(),
        };
        if object.stored_schema() != schema {
            return Err(damaged(oid, &format!("the schema {schema}")));
        }
        Ok(object)
    }
}

/// The table of definitions.
#[derive(Debug)]
pub(crate) struct Objects {
    table: Arc<Table>,
}

fn column(oid: TypeOid) -> ColumnType {
    ColumnType::new(oid)
}

fn ascending(oid: TypeOid) -> KeyOrder {
    KeyOrder { oid, descending: false, nulls_first: false }
}

/// Returns the table's definition. The layout never changes without a new format version.
fn definition(id: TableId, files: CatalogFiles) -> TableDefinition {
    let key = |columns: &[(usize, TypeOid)]| {
        columns.iter().map(|(c, t)| KeyColumn::column(*c, ascending(*t))).collect()
    };
    let index = |id: TableId, file: u64, name: &str, key| IndexDefinition {
        unique: true,
        ..IndexDefinition::new(id, name, logged(file), key)
    };
    TableDefinition {
        id,
        name: "niwaki_objects".to_owned(),
        file: logged(files.objects),
        // Definitions are cut into parts that fit, so no value is large.
        values: None,
        fillfactor: 70,
        heap_only_updates: HeapOnlyUpdates::default(),
        columns: vec![
            column(TypeOid::INT8),
            column(TypeOid::INT4),
            column(TypeOid::INT8),
            column(TypeOid::TEXT),
            column(TypeOid::INT2),
            column(TypeOid::TEXT),
        ],
        missing: Vec::new(),
        indexes: vec![
            index(
                TableId(BY_OID),
                files.by_oid,
                "niwaki_objects_oid_index",
                key(&[(OID, TypeOid::INT8), (PART, TypeOid::INT4)]),
            ),
            index(
                TableId(BY_NAME),
                files.by_name,
                "niwaki_objects_name_index",
                key(&[(SCHEMA, TypeOid::INT8), (NAME, TypeOid::TEXT)]),
            ),
        ],
    }
}

/// View for REPEATABLE READ transactions too: the catalog is read and changed in its present state,
/// not in the state of the transaction's snapshot. Table locks already exclude other changes of the
/// same object.
struct CurrentView<'t> {
    transaction: &'t Transaction,
    isolation: Isolation,
}

impl<'t> CurrentView<'t> {
    fn new(transaction: &'t Transaction) -> Result<Self> {
        let isolation = transaction.isolation();
        transaction.set_isolation(Isolation::ReadCommitted)?;
        Ok(Self { transaction, isolation })
    }

    fn snapshot(&self) -> Result<Snapshot> {
        Ok(self.transaction.snapshot_for_write()?)
    }
}

impl Drop for CurrentView<'_> {
    fn drop(&mut self) {
        // This cannot fail, because the transaction had this level before.
        let _ = self.transaction.set_isolation(self.isolation);
    }
}

impl Objects {
    /// Opens the table with this number among all tables.
    pub(crate) fn open(engine: &Arc<Engine>, id: TableId, files: CatalogFiles) -> Self {
        Self { table: Table::open(engine, definition(id, files)) }
    }

    /// Reads all objects that a new snapshot sees.
    pub(crate) fn read_all(&self, transaction: &Transaction) -> Result<Vec<Object>> {
        let snapshot = transaction.snapshot()?;
        let mut parts: Vec<(u32, i32, Vec<Datum>)> = Vec::new();
        for_each_row(&self.table, transaction, &snapshot, COLUMNS, &mut |row| {
            let oid = row.first().and_then(as_oid).ok_or_else(|| damaged(0, "no oid"))?;
            let Some(Datum::Int4(part)) = row.get(PART) else {
                return Err(damaged(oid, "no part number"));
            };
            parts.push((oid, *part, row.to_vec()));
            Ok(())
        })?;
        parts.sort_by_key(|(oid, part, _)| (*oid, *part));
        let mut objects: Vec<Object> = Vec::new();
        let mut next_part = 0;
        for (oid, part, row) in parts {
            let Some(Datum::Text(text)) = row.get(DEFINITION) else {
                return Err(damaged(oid, "no definition"));
            };
            if part == 0 {
                next_part = 1;
                objects.push(Object::of_row(oid, &row, text)?);
                continue;
            }
            match objects.last_mut() {
                Some(last) if last.oid.0 == oid && part == next_part => {
                    last.definition.push_str(text);
                    next_part += 1;
                }
                _ => return Err(damaged(oid, &format!("part {part} without the one before"))),
            }
        }
        Ok(objects)
    }

    /// Stores a new object.
    pub(crate) fn insert(&self, transaction: &Transaction, object: &Object) -> Result<()> {
        let mut work = Workspace::default();
        for row in rows_of(object) {
            self.table.insert(transaction, &row, &mut work).map_err(|e| duplicate(e, object))?;
        }
        transaction.next_command()?;
        Ok(())
    }

    /// Replaces an object.
    pub(crate) fn update(&self, transaction: &Transaction, object: &Object) -> Result<()> {
        let current = CurrentView::new(transaction)?;
        let mut work = Workspace::default();
        let mut lookup = Lookup::default();
        let rows = rows_of(object);
        let mut part = 0;
        loop {
            let found = self.find(transaction, &current, object.oid, part, &mut lookup)?;
            let new = usize::try_from(part).ok().and_then(|p| rows.get(p));
            match (found, new) {
                (None, None) if part > 0 => break,
                (None, None) => return Err(damaged(object.oid.0, "no row to change")),
                (None, Some(new)) => {
                    if part == 0 {
                        return Err(damaged(object.oid.0, "no row to change"));
                    }
                    self.table.insert(transaction, new, &mut work)?;
                }
                (Some((tid, old)), Some(new)) => {
                    let snapshot = current.snapshot()?;
                    let outcome = self
                        .table
                        .update(
                            transaction,
                            &snapshot,
                            RowTarget::visible(tid),
                            &old,
                            new,
                            &mut work,
                        )
                        .map_err(|e| duplicate(e, object))?;
                    done(&outcome, object.oid)?;
                }
                (Some((tid, _)), None) => self.remove(transaction, &current, object.oid, tid)?,
            }
            part += 1;
        }
        transaction.next_command()?;
        Ok(())
    }

    /// Stores an object in place of the one that is there, if any.
    pub(crate) fn put(&self, transaction: &Transaction, object: &Object) -> Result<()> {
        let current = CurrentView::new(transaction)?;
        match self.find(transaction, &current, object.oid, 0, &mut Lookup::default())? {
            Some(_) => self.update(transaction, object),
            None => self.insert(transaction, object),
        }
    }

    /// Removes an object.
    pub(crate) fn delete(&self, transaction: &Transaction, oid: Oid) -> Result<()> {
        let current = CurrentView::new(transaction)?;
        let mut lookup = Lookup::default();
        let mut part = 0;
        while let Some((tid, _)) = self.find(transaction, &current, oid, part, &mut lookup)? {
            self.remove(transaction, &current, oid, tid)?;
            part += 1;
        }
        if part == 0 {
            return Err(damaged(oid.0, "no row to remove"));
        }
        transaction.next_command()?;
        Ok(())
    }

    fn find(
        &self,
        transaction: &Transaction,
        current: &CurrentView<'_>,
        oid: Oid,
        part: i32,
        lookup: &mut Lookup,
    ) -> Result<Option<(Tid, Vec<Datum>)>> {
        let mut key = Vec::new();
        encode_key(&Datum::Int8(i64::from(oid.0)), ascending(TypeOid::INT8), &mut key);
        encode_key(&Datum::Int4(part), ascending(TypeOid::INT4), &mut key);
        let mut row = vec![Datum::Null; COLUMNS];
        let needed = ColumnMask::all(COLUMNS);
        let snapshot = current.snapshot()?;
        let tid =
            self.table.fetch_unique(transaction, &snapshot, 0, &key, &needed, &mut row, lookup)?;
        Ok(tid.map(|tid| (tid, row)))
    }

    fn remove(
        &self,
        transaction: &Transaction,
        current: &CurrentView<'_>,
        oid: Oid,
        tid: Tid,
    ) -> Result<()> {
        let snapshot = current.snapshot()?;
        let target = RowTarget::visible(tid);
        let outcome = self.table.delete(transaction, &snapshot, target)?;
        done(&outcome, oid)
    }

    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }
}

fn rows_of(object: &Object) -> Vec<Vec<Datum>> {
    let mut pieces = Vec::new();
    let mut rest = object.definition.as_str();
    while rest.len() > PART_BYTES {
        let mut end = PART_BYTES;
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (piece, after) = rest.split_at(end);
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
        .into_iter()
        .zip(0..)
        .map(|(piece, part)| {
            let first = part == 0;
            let or_null = |value: Datum| if first { value } else { Datum::Null };
            vec![
                Datum::Int8(i64::from(object.oid.0)),
                Datum::Int4(part),
                or_null(Datum::Int8(object.stored_schema())),
                or_null(Datum::Text(object.name.as_str().into())),
                Datum::Int2(object.kind as i16),
                Datum::Text(piece.into()),
            ]
        })
        .collect()
}

fn as_oid(value: &Datum) -> Option<u32> {
    match value {
        Datum::Int8(v) => u32::try_from(*v).ok(),
        _ => None,
    }
}

/// Fails for every outcome but success. The locks that are held make all others impossible.
fn done(outcome: &UpdateOutcome, oid: Oid) -> Result<()> {
    match outcome {
        UpdateOutcome::Done { .. } => Ok(()),
        _ => Err(Error::ConcurrentChange { oid: oid.0 }),
    }
}

fn duplicate(error: TableError, object: &Object) -> Error {
    match error {
        TableError::UniqueViolation(_) => Error::Duplicate {
            kind: match object.kind {
                ObjectKind::Relation => "relation",
                ObjectKind::Schema => "schema",
                ObjectKind::Type => "type",
                ObjectKind::Function => "function",
                ObjectKind::Database => "database",
            },
            name: object.name.clone(),
        },
        other => other.into(),
    }
}

pub(crate) fn damaged(oid: u32, detail: &str) -> Error {
    Error::Damaged { oid, detail: detail.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sign_of_a_schema_says_whether_it_is_a_function() {
        for kind in [ObjectKind::Relation, ObjectKind::Type, ObjectKind::Function] {
            let (oid, schema, name) = (Oid(16_384), Oid(2200), "f()".to_owned());
            let object = Object { oid, schema, name, kind, definition: "{}".to_owned() };
            let mut row = rows_of(&object).swap_remove(0);
            let read = Object::of_row(16_384, &row, "{}").unwrap();
            assert_eq!((read.schema, read.kind), (schema, kind));
            let Datum::Int8(stored) = row[SCHEMA] else { panic!("{row:?}") };
            for wrong in [-stored, 0, i64::from(u32::MAX) + 1 + stored] {
                row[SCHEMA] = Datum::Int8(wrong);
                let read = Object::of_row(16_384, &row, "{}");
                assert_eq!(read.is_err(), wrong != 0, "{kind:?} in {wrong}");
            }
        }
    }
}
