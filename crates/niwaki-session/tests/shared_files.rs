//! A file that two relations name, within a database and between two.

use niwaki::{Database, Session};
use niwaki_catalog::RelationDefinition;

/// Breaks T6 on purpose, within a database and between two.
#[test]
fn a_file_of_two_relations_is_found() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut first = database.session();
    first.execute("create table t (a int)", ()).unwrap();
    first.execute("create database d template postgres", ()).unwrap();
    let mut other = database.session_as("postgres", "d", &[]).unwrap();
    other.execute("create table u (a int)", ()).unwrap();
    let found = || -> Vec<String> {
        let report = database.check().unwrap();
        report.violations.into_iter().map(|v| format!("{}: {}", v.invariant, v.detail)).collect()
    };
    assert_eq!(found(), Vec::<String>::new());
    let file_of = |session: &mut Session, name: &str| {
        let state = session.state();
        let table = state.relations().find(|relation| relation.name == name).cloned();
        table.unwrap().definition.clone()
    };
    let (here, there) = (file_of(&mut first, "t"), file_of(&mut other, "t"));
    assert_ne!(here.file, there.file, "a copy has files of its own");
    let own = file_of(&mut other, "u");
    for file in [there.file, here.file] {
        let broken = RelationDefinition { file, ..own.clone() };
        other.execute("begin", ()).unwrap();
        let (transaction, catalog) = other.transaction_and_catalog().unwrap();
        catalog.update(transaction, broken).unwrap();
        other.execute("commit", ()).unwrap();
        let found = found();
        assert!(found.iter().any(|v| v.starts_with("T6: belongs to two")), "{found:?}");
    }
}
