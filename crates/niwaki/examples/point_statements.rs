//! Time of short prepared statements through the library, without a server:
//! `cargo run --release -p niwaki --example point_statements`.

use niwaki::Database;

const ROWS: i32 = 100_000;
const ROUNDS: u32 = 200_000;

fn main() -> niwaki::Result<()> {
    let database = Database::in_memory_without_threads()?;
    let clock = database.env().clock.clone();
    let mut session = database.session();
    session.execute("create table t (a int primary key, b int, f char(84))", ())?;
    let fill = format!("insert into t select x, 0, 'x' from generate_series(1, {ROWS}) as g(x)");
    session.execute(fill.as_str(), ())?;
    // Each key has ten rows, which name rows anywhere in the table.
    session.execute("create table ten (k int, a int)", ())?;
    let fill = format!(
        "insert into ten select i, (i * 7919 + j * 104729) % {ROWS} + 1 from generate_series(1, {ROWS} / 10) i, generate_series(1, 10) j"
    );
    session.execute(fill.as_str(), ())?;
    session.execute("create index on ten (k)", ())?;
    session.execute("analyze", ())?;
    let statements = [
        ("select", "select b from t where a = $1"),
        ("update", "update t set b = b + 1 where a = $1"),
        (
            "join of ten rows",
            "select ten.a, t.b from ten join t on t.a = ten.a where k = $1 / 10 + 1",
        ),
    ];
    for (name, sql) in statements {
        let prepared = session.prepare(sql)?;
        for transaction in [false, true] {
            if transaction {
                session.execute("begin", ())?;
            }
            let start = clock.monotonic();
            for round in 0..ROUNDS {
                let key = i32::try_from(round % 100_000)
                    .unwrap_or(0)
                    .wrapping_mul(7_919)
                    .rem_euclid(ROWS)
                    + 1;
                session.query(&prepared, (key,))?;
            }
            let elapsed = clock.monotonic().saturating_sub(start);
            if transaction {
                session.execute("commit", ())?;
            }
            let nanoseconds = (elapsed / ROUNDS).as_nanos();
            let where_ = if transaction { "in one transaction" } else { "on its own" };
            println!("{name} {where_}: {nanoseconds} ns");
        }
    }
    Ok(())
}
