//! Statements on tables and their results, recorded from PostgreSQL 15.
//!
//! A script holds blocks: a statement, `----`, what it gives. Rows are one line each, values
//! separated by `|`; errors are `error SQLSTATE: message` with lines for their other fields.

mod common;

use common::run;
use niwaki::Database;

fn check(name: &str, script: &str) {
    let database = Database::in_memory().unwrap();
    let mut session = database.session();
    let mut failures = Vec::new();
    let mut checked = 0;
    for block in script.split("\n\n") {
        let Some((statement, expected)) = block.split_once("\n----") else { continue };
        checked += 1;
        let found = run(&mut session, statement.trim());
        if found.trim_end() != expected.trim() {
            failures
                .push(format!("{statement}\n expected: {}\n found:    {found}", expected.trim()));
        }
    }
    assert!(checked > 10, "script {name} has too few statements");
    assert!(
        failures.is_empty(),
        "{} of {checked} differ:\n\n{}",
        failures.len(),
        failures.join("\n\n")
    );
}

#[test]
fn tables() {
    check("tables", include_str!("../testscripts/tables.test"));
}

#[test]
fn indexes() {
    check("indexes", include_str!("../testscripts/indexes.test"));
}

#[test]
fn plans() {
    check("plans", include_str!("../testscripts/plans.test"));
}

#[test]
fn catalog() {
    check("catalog", include_str!("../testscripts/catalog.test"));
}

#[test]
fn columns() {
    check("columns", include_str!("../testscripts/columns.test"));
}

#[test]
fn array_keys() {
    check("array_keys", include_str!("../testscripts/array_keys.test"));
}

#[test]
fn index_definitions() {
    check("index_definitions", include_str!("../testscripts/index_definitions.test"));
}

#[test]
fn deferred_constraints() {
    check("deferred_constraints", include_str!("../testscripts/deferred_constraints.test"));
}

#[test]
fn index_maintenance() {
    check("index_maintenance", include_str!("../testscripts/index_maintenance.test"));
}
