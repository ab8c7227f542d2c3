//! Generated columns and COPY: COPY computes them, and neither reads nor writes them.

mod common;

use common::{Lines, run};
use niwaki::Database;

fn copied(session: &mut niwaki::Session, sql: &str, data: &[u8]) -> Result<(), &'static str> {
    let mut lines = Lines::default();
    lines.copy.extend_from_slice(data);
    session.simple_query(sql, &mut lines).map_err(|error| {
        session.error();
        error.sqlstate
    })
}

#[test]
fn copy_leaves_generated_columns_out() {
    let database = Database::in_memory_without_threads().unwrap();
    let mut session = database.session();
    let setup =
        "create table g (a int, b int generated always as (a * 2) stored check (b < 100), c text)";
    assert_eq!(run(&mut session, setup), "");
    assert_eq!(copied(&mut session, "copy g from stdin", b"1\tx\n2\ty\n"), Ok(()));
    assert_eq!(copied(&mut session, "copy g (c, a) from stdin", b"z\t3\n"), Ok(()));
    assert_eq!(copied(&mut session, "copy g (a, b) from stdin", b"1\t2\n"), Err("42P10"));
    assert_eq!(copied(&mut session, "copy g (a) from stdin", b"50\n"), Err("23514"));
    assert_eq!(run(&mut session, "select * from g order by a"), "1|2|x\n2|4|y\n3|6|z");
}
