//! Types: their names, and how their values are stored.

use std::sync::Arc;

use niwaki_catalog::{CatalogState, Oid, Relation, StoredAttribute, TypeDefinition, builtin_types};
use niwaki_types::{ColumnType, Datum, TypeOid};

use crate::names::schema_name;
use crate::system_relation::{database_of, text};

/// Storage properties of a type's values, as in `pg_type` and `pg_attribute`.
#[derive(Clone, Copy)]
pub(crate) struct Storage {
    pub(crate) length: i16,
    pub(crate) by_value: bool,
    pub(crate) align: &'static str,
    pub(crate) storage: &'static str,
}

/// Storage of enums: PostgreSQL stores the number of a label.
const ENUM: Storage = Storage { length: 4, by_value: true, align: "i", storage: "p" };
pub(crate) const ENUM_ARRAY: Storage =
    Storage { length: -1, by_value: false, align: "i", storage: "x" };

/// Storage of composite types and their arrays: any field may require this alignment.
const COMPOSITE: Storage = Storage { length: -1, by_value: false, align: "d", storage: "x" };

/// Returns the storage properties of a type; `None` for an unknown type.
pub(crate) fn storage(oid: TypeOid) -> Option<Storage> {
    if oid.is_enum() {
        return Some(ENUM);
    }
    if oid.element().unwrap_or(oid).is_composite() {
        return Some(COMPOSITE);
    }
    if oid.user_number().is_some() {
        return Some(ENUM_ARRAY);
    }
    let kind = builtin_types().by_oid(oid.0)?;
    Some(Storage {
        length: kind.length,
        by_value: kind.by_value,
        align: kind.align,
        storage: kind.storage,
    })
}

/// Returns a user-defined type by its own number or by its array's.
pub(crate) fn user_type(state: &CatalogState, oid: TypeOid) -> Option<&Arc<TypeDefinition>> {
    state.user_type(Oid(oid.user_number()?))
}

/// Returns `typname`.
pub(crate) fn name(state: &CatalogState, oid: TypeOid) -> Option<String> {
    match user_type(state, oid) {
        Some(found) if oid.element().is_none() => Some(found.name.clone()),
        Some(found) => Some(array_name(&found.name)),
        None => builtin_types().by_oid(oid.0).map(|kind| kind.name.to_owned()),
    }
}

pub(crate) fn array_name(name: &str) -> String {
    format!("_{name}")
}

/// Returns the user-defined types in the order of their numbers.
pub(crate) fn in_order(state: &CatalogState) -> Vec<&Arc<TypeDefinition>> {
    let mut all: Vec<_> = state.user_types().collect();
    all.sort_unstable_by_key(|definition| definition.oid);
    all
}

/// Returns the type of a relation's rows, if the relation has one.
pub(crate) fn row_type(relation: &Relation) -> Option<TypeOid> {
    let has = relation.oid >= Oid::FIRST_USER && relation.kind.has_row_type();
    has.then(|| TypeOid::of_composite(relation.oid.0))
}

/// Returns the composite types with their attributes, in the order of their numbers.
pub(crate) fn composites(
    state: &CatalogState,
) -> impl Iterator<Item = (&Arc<TypeDefinition>, &[StoredAttribute])> {
    let all = in_order(state).into_iter();
    all.filter_map(|definition| Some((definition, definition.attributes()?)))
}

/// Returns the schema and the name of a type.
fn type_place(state: &CatalogState, of: ColumnType) -> (String, String) {
    let oid = of.declared();
    let schema = match user_type(state, oid) {
        Some(found) => schema_name(state, found.schema),
        None => "pg_catalog".to_owned(),
    };
    (schema, name(state, oid).unwrap_or_default())
}

/// Returns the database, schema and name of a type, as in `information_schema`.
pub(crate) fn udt(state: &CatalogState, of: ColumnType) -> [Datum; 3] {
    let (schema, name) = type_place(state, of);
    [database_of(state), text(schema), text(name)]
}

/// Returns the database, schema and name of a type's domain, if the type has one.
pub(crate) fn domain_of(state: &CatalogState, of: ColumnType) -> [Datum; 3] {
    let domain = of.domain.and_then(|domain| user_type(state, domain));
    match domain {
        Some(_) => udt(state, of),
        None => [Datum::Null, Datum::Null, Datum::Null],
    }
}
