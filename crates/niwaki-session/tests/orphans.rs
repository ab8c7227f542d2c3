//! Rows that refer to no row, which `Database::check_foreign_keys` finds.

use niwaki::Database;

#[test]
fn a_row_that_refers_to_none_is_found() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    let mut run = |sql: &str| session.execute(sql, ()).unwrap();
    run("create table parent (a int, b text, primary key (a, b))");
    run("create table child (a int, b text, n int)");
    run("insert into parent values (1, 'one')");
    run("insert into child values (1, 'one', 1), (2, null, 2)");
    run("alter table child add constraint known foreign key (a, b) references parent");
    assert_eq!(database.check_foreign_keys().unwrap(), []);
    run("alter table child drop constraint known");
    run("insert into child values (2, 'two', 3)");
    run("alter table child add constraint known foreign key (a, b) references parent not valid");
    assert_eq!(database.check_foreign_keys().unwrap(), [], "nobody says that it holds");
    // Marks the constraint as proved.
    run("begin");
    let state = session.state();
    let known = state.tables().find(|table| table.name == "child").unwrap();
    let mut definition = known.definition.clone();
    definition.foreign_keys[0].not_valid = false;
    let (transaction, catalog) = session.transaction_and_catalog().unwrap();
    catalog.update(transaction, definition).unwrap();
    session.execute("commit", ()).unwrap();
    let found = database.check_foreign_keys().unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((&*found[0].invariant, &*found[0].file), ("known", "child"));
    assert_eq!(found[0].detail, "Key (a, b)=(2, two) is not present in table \"parent\".");
}
