//! Complete reads of every system relation.

use std::sync::Arc;

use niwaki_catalog::{CatalogState, Error, Key, NoSystem, builtin_relations};
use niwaki_env::Env;
use niwaki_session::Directory;
use niwaki_types::{Datum, TypeOid};

use super::catalogs::{CATALOGS, INFORMATION, RECORDED, REFUSED};

/// Decides whether a value belongs to a type.
fn fits(value: &Datum, kind: TypeOid) -> bool {
    match value {
        Datum::Null => true,
        Datum::Bool(_) => kind == TypeOid::BOOL,
        Datum::Int2(_) => kind == TypeOid::INT2,
        Datum::Int4(_) => kind == TypeOid::INT4,
        Datum::Int8(_) => kind == TypeOid::INT8,
        Datum::Float4(_) => kind == TypeOid::FLOAT4,
        Datum::Float8(_) => kind == TypeOid::FLOAT8,
        Datum::Oid(_) => kind.is_number_of_object() || kind == TypeOid(29),
        Datum::Array(element, _) => kind.element() == Some(*element),
        Datum::Text(_) => matches!(
            kind,
            TypeOid::TEXT
                | TypeOid::NAME
                | TypeOid::CHAR
                | TypeOid::VARCHAR
                | TypeOid::PG_NODE_TREE
        ),
        _ => false,
    }
}

/// Returns an open directory, and its definitions of objects of many kinds.
fn definitions() -> (Directory, Arc<CatalogState>) {
    let env = Env::memory();
    let database = niwaki::Database::open_with(env.clone(), niwaki::Options::new()).unwrap();
    let mut session = database.session();
    let script = "create table t (a serial primary key, b text not null default 'x', c int[] unique, check (a > 0));
        create index on t (lower(b), a desc) include (c) where a > 1;
        create table u (i int generated always as identity);
        create table v (x int references t on delete set null (x), y bigint generated always as (x + 1) stored);
        create domain price as numeric(8, 2) default 9.99 not null check (value > 0);
        create domain prices as numeric(8, 2)[] constraint few check (array_length(value, 1) < 9);
        create domain low as price check (value < 10) check (value > 1);
        create table w (p price, l low default 5, a prices);
        create type couple as (a int, b varchar(9)[]);
        comment on domain low is 'e'; comment on constraint few on domain prices is 'f';
        comment on table v is 'c'; comment on column v.x is 'd';
        create sequence s; analyze t";
    for statement in script.split(';') {
        session.execute(statement, ()).unwrap();
    }
    drop(session);
    database.close().unwrap();
    // The interface for programs does not show definitions.
    let directory = Directory::open_with(env, niwaki::Options::new()).unwrap();
    let state = directory.databases().all()[0].catalog().state_arc();
    (directory, state)
}

#[test]
fn what_is_declared_to_be_filled_is_there() {
    for (computed, schema) in CATALOGS
        .iter()
        .map(|computed| (computed, niwaki_catalog::PG_CATALOG))
        .chain(INFORMATION.iter().map(|computed| (computed, niwaki_catalog::INFORMATION_SCHEMA)))
    {
        let relation = builtin_relations()
            .iter()
            .find(|relation| relation.name == computed.name && relation.schema == schema)
            .unwrap_or_else(|| panic!("{} is no relation", computed.name));
        let names: Vec<&str> = relation.columns.iter().map(|column| column.name).collect();
        for column in computed.columns.iter().chain(computed.keys) {
            assert!(names.contains(column), "{}.{column}", computed.name);
        }
    }
    for name in RECORDED.iter().chain(REFUSED) {
        assert!(builtin_relations().iter().any(|relation| relation.name == *name), "{name}");
    }
}

#[test]
fn rows_have_the_types_of_their_columns() {
    let (_directory, state) = definitions();
    let mut filled = 0;
    for relation in state.relations() {
        let Some(view) = &relation.view else { continue };
        let found = view.rows(&state, &NoSystem, None, &mut |row| {
            assert_eq!(row.len(), relation.columns.len(), "{}", relation.name);
            for (value, column) in row.iter().zip(&relation.columns) {
                let kind = TypeOid(column.type_oid);
                assert!(fits(value, kind), "{}.{}: {value:?}", relation.name, column.name);
                let absent = value.is_null() && column.not_null;
                assert!(!absent, "{}.{} is NULL", relation.name, column.name);
            }
            filled += 1;
            Ok(())
        });
        match found {
            Ok(()) => {}
            Err(Error::Unsupported { .. }) => assert!(REFUSED.contains(&relation.name.as_str())),
            Err(error) => panic!("{}: {error}", relation.name),
        }
    }
    assert!(filled > 5000, "{filled}");
}

#[test]
fn a_key_gives_what_all_rows_have() {
    let (_directory, state) = definitions();
    let mut tried = 0;
    for relation in state.relations() {
        let Some(view) = &relation.view else { continue };
        for column in (0..relation.columns.len()).filter(|column| view.has_key(*column)) {
            let mut all: Vec<Vec<Datum>> = Vec::new();
            let read = view.rows(&state, &NoSystem, None, &mut |row| {
                all.push(row.to_vec());
                Ok(())
            });
            read.unwrap();
            // Reading everything for each of thousands of rows would take long.
            for wanted in all.iter().step_by(all.len() / 20 + 1) {
                let value = &wanted[column];
                let same = |row: &Vec<Datum>| row[column].same_image(value);
                let mut found = Vec::new();
                let read = view.rows(&state, &NoSystem, Some(Key { column, value }), &mut |row| {
                    found.push(row.to_vec());
                    Ok(())
                });
                read.unwrap();
                found.retain(same);
                let expected: Vec<_> = all.iter().filter(|row| same(row)).collect();
                let shown = (&relation.name, &relation.columns[column].name, value);
                assert_eq!(found.len(), expected.len(), "{shown:?}");
                assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{shown:?}");
                tried += 1;
            }
        }
    }
    assert!(tried > 200, "{tried}");
}
