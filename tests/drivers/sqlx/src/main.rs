//! The driver sqlx against the server.
//!
//! Covered are migrations, a pool, types in binary, transactions, cached statements, COPY,
//! notifications and errors. So are the questions of sqlx's macros to a server while they are
//! compiled.

#![forbid(unsafe_code)]

mod compiled;
mod described;
mod kinds;

use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use futures_util::TryStreamExt;
use sqlx::migrate::{MigrateDatabase, MigrateError, Migrator};
use sqlx::postgres::{PgAdvisoryLock, PgConnectOptions, PgDatabaseError, PgListener, PgPoolCopyExt, PgPoolOptions, PgRow};
use sqlx::{Acquire, Connection, Either, Error, Executor, FromRow, PgConnection, PgPool, Postgres, QueryBuilder, Row, ValueRef};

static MIGRATIONS: Migrator = sqlx::migrate!("./migrations");

fn shown(error: &Error) -> String {
    match error.as_database_error().map(|e| (e.kind(), e.downcast_ref::<PgDatabaseError>())) {
        Some((kind, e)) => format!(
            "{:?} {} {} {kind:?} | {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
            e.severity(), e.code(), e.message(), e.detail(), e.hint(), e.position(), e.schema(), e.table(), e.column(), e.data_type(), e.constraint()
        ),
        None => error.to_string(),
    }
}

fn show<T: Debug>(label: &str, value: Result<T, Error>) {
    match value {
        Ok(value) => println!("{label}: {value:?}"),
        Err(error) => println!("{label}: {}", shown(&error)),
    }
}

fn migrated(label: &str, value: Result<(), MigrateError>) {
    match value {
        Err(MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _)) => println!("{label}: {}", shown(&error)),
        other => println!("{label}: {other:?}"),
    }
}

/// Returns a row's columns with their types and their bytes as they came.
fn bytes(row: &PgRow) -> Vec<String> {
    (0..row.len())
        .map(|at| {
            let value = row.try_get_raw(at).unwrap();
            let hex = |b: &[u8]| b.iter().map(|b| format!("{b:02x}")).collect::<String>();
            format!("{:?} {} {}", value.format(), value.type_info(), if value.is_null() { "NULL".into() } else { hex(value.as_bytes().unwrap()) })
        })
        .collect()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let options = PgConnectOptions::new().application_name("sqlx").options([("work_mem", "3MB")]);
    let url = format!("postgres://postgres@{}:{}/postgres?sslmode=disable", options.get_host(), options.get_port());
    let pool = PgPoolOptions::new()
        .max_connections(3)
        .acquire_timeout(Duration::from_millis(1500))
        .after_connect(|connection, _| Box::pin(async move { connection.execute("SET application_name = 'of a pool'").await.map(drop) }))
        .connect_with(options)
        .await?;
    println!("== migrations");
    migrations(&pool, &url).await;
    println!("== types");
    kinds::run(&pool).await;
    println!("== pool");
    pooled(&pool).await;
    println!("== transactions");
    transactions(&pool).await?;
    println!("== statements that are kept");
    kept(&url).await?;
    println!("== copying");
    copying(&pool).await?;
    println!("== notifications");
    notifications(&pool).await?;
    println!("== errors");
    errors(&pool).await;
    println!("== described");
    described::run(&pool).await?;
    println!("== macros");
    compiled::run(&url);
    println!("== back");
    migrated("undo", MIGRATIONS.undo(&pool, 0).await);
    show("left", sqlx::query_scalar::<_, String>("SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname IN ('items', 'owners', 'seen')").fetch_all(&pool).await);
    pool.close().await;
    show("closed", pool.acquire().await.map(drop));
    Ok(())
}

async fn migrations(pool: &PgPool, url: &str) {
    show("another database", Postgres::database_exists(&url.replace("/postgres?", "/nothing?")).await);
    migrated("run", MIGRATIONS.run(pool).await);
    migrated("again", MIGRATIONS.run(pool).await);
    show("kept", sqlx::query_as::<_, (i64, String, bool, i32)>("SELECT version, description, success, length(checksum) FROM _sqlx_migrations ORDER BY version").fetch_all(pool).await);
    migrated("undo to 2", MIGRATIONS.undo(pool, 2).await);
    migrated("undo to 1", MIGRATIONS.undo(pool, 1).await);
    migrated("forward", MIGRATIONS.run(pool).await);
    // A migration that fails leaves nothing, and a changed migration is found.
    let folder = Path::new("migrations");
    std::fs::create_dir_all(folder).unwrap();
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations")).unwrap().map(Result::unwrap) {
        std::fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
    }
    std::fs::write(folder.join("4_half.up.sql"), "CREATE TABLE half (a int);\nINSERT INTO half VALUES (1);\nSELECT 1 / (a - 1) FROM half;\n").unwrap();
    std::fs::write(folder.join("4_half.down.sql"), "").unwrap();
    alone("a failing one", folder, url).await;
    show("nothing of it", sqlx::query_as::<_, (Option<String>, i64)>("SELECT to_regclass('half')::text, max(version) FROM _sqlx_migrations").fetch_one(pool).await);
    std::fs::write(folder.join("4_half.up.sql"), "-- no-transaction\nCREATE UNIQUE INDEX CONCURRENTLY half ON nowhere (a);\n").unwrap();
    alone("without a transaction", folder, url).await;
    std::fs::write(folder.join("2_stamp.up.sql"), "SELECT 1").unwrap();
    alone("a changed one", folder, url).await;
}

/// Migrates on a separate connection: a failed migration keeps the migration lock until the
/// connection closes.
async fn alone(label: &str, folder: &Path, url: &str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    migrated(label, Migrator::new(folder).await.unwrap().run(&mut connection).await);
    connection.close().await.unwrap();
}

async fn pooled(pool: &PgPool) {
    show("settings", sqlx::query_as::<_, (String, String)>("SELECT current_setting('application_name'), current_setting('work_mem')").fetch_one(pool).await);
    show("table", pool.execute("CREATE TABLE counted (id int PRIMARY KEY, n int NOT NULL); INSERT INTO counted VALUES (1, 0)").await.map(|done| done.rows_affected()));
    let one = |_| async {
        let mut transaction = pool.begin().await?;
        let (n,): (i32,) = sqlx::query_as("SELECT n FROM counted WHERE id = $1 FOR UPDATE").bind(1).fetch_one(&mut *transaction).await?;
        sqlx::query("UPDATE counted SET n = $1 WHERE id = 1").bind(n + 1).execute(&mut *transaction).await?;
        transaction.commit().await
    };
    show("together", futures_util::future::try_join_all((0..20).map(one)).await.map(|done| done.len()));
    show("sum", sqlx::query_scalar::<_, i32>("SELECT n FROM counted").fetch_one(pool).await);
    show("connections", sqlx::query_scalar::<_, i64>("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'of a pool'").fetch_one(pool).await);
    let held = (pool.acquire().await, pool.acquire().await, pool.acquire().await);
    show("none is free", pool.acquire().await.map(drop));
    drop(held);
    show("one is free", pool.acquire().await.map(drop));
    // A transaction that is dropped is rolled back before its connection is used again.
    let mut dropped = pool.begin().await.unwrap();
    show("dropped", sqlx::query("DELETE FROM counted").execute(&mut *dropped).await.map(|done| done.rows_affected()));
    drop(dropped);
    show("still there", sqlx::query_scalar::<_, i64>("SELECT count(*) FROM counted").fetch_one(pool).await);
    // Reading is given up half way.
    {
        let mut rows = sqlx::query_scalar::<_, i32>("SELECT generate_series(1, 100000)").fetch(pool);
        show("a row", rows.try_next().await);
    }
    let mut sum = 0i64;
    let mut rows = sqlx::query_scalar::<_, i32>("SELECT generate_series(1, $1)").bind(100_000).fetch(pool);
    while let Ok(Some(row)) = rows.try_next().await {
        sum += i64::from(row);
    }
    println!("sum: {sum}");
}

async fn transactions(pool: &PgPool) -> Result<(), Error> {
    let mut outer = pool.begin().await?;
    show("insert", sqlx::query("INSERT INTO owners (name) VALUES ($1)").bind("Ann").execute(&mut *outer).await.map(|done| done.rows_affected()));
    let mut inner = outer.begin().await?;
    show("twice", sqlx::query("INSERT INTO owners (name) VALUES ($1)").bind("Ann").execute(&mut *inner).await.map(drop));
    show("aborted", sqlx::query("SELECT 1").execute(&mut *inner).await.map(drop));
    inner.rollback().await?;
    let mut inner = outer.begin().await?;
    show("another", sqlx::query("INSERT INTO owners (name) VALUES ($1)").bind("Bob").execute(&mut *inner).await.map(|done| done.rows_affected()));
    let mut innermost = inner.begin().await?;
    show("a third", sqlx::query("INSERT INTO owners (name) VALUES ($1)").bind("Cid").execute(&mut *innermost).await.map(|done| done.rows_affected()));
    drop(innermost);
    inner.commit().await?;
    outer.commit().await?;
    show("names", sqlx::query_scalar::<_, String>("SELECT name FROM owners ORDER BY id").fetch_all(pool).await);
    let mut level = pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
    show("level", sqlx::query_as::<_, (String, String)>("SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only')").fetch_one(&mut *level).await);
    show("read only", sqlx::query("DELETE FROM owners").execute(&mut *level).await.map(drop));
    level.rollback().await?;
    let mut connection = pool.acquire().await?;
    let answer = connection.transaction(|t| Box::pin(async move { sqlx::query("DELETE FROM owners WHERE name = $1").bind("Bob").execute(&mut **t).await?; sqlx::query("SELECT 1 / 0").execute(&mut **t).await })).await;
    show("a closure", answer.map(drop));
    show("names", sqlx::query_scalar::<_, String>("SELECT name FROM owners ORDER BY id").fetch_all(&mut *connection).await);
    let lock = PgAdvisoryLock::new("a lock");
    let guard = lock.acquire(pool.acquire().await?).await?;
    show("locked", lock.try_acquire(pool.acquire().await?).await.map(|tried| matches!(tried, Either::Left(_))));
    drop(guard.release_now().await?);
    show("free", lock.try_acquire(pool.acquire().await?).await.map(|tried| matches!(tried, Either::Left(_))));
    Ok(())
}

/// Statements stay prepared on a connection, so it must notice definitions that change meanwhile.
async fn kept(url: &str) -> Result<(), Error> {
    let options: PgConnectOptions = url.parse()?;
    let mut c = PgConnection::connect_with(&options.statement_cache_capacity(3)).await?;
    c.execute("CREATE TABLE k (a int, b text); INSERT INTO k VALUES (1, 'one'), (2, 'two')").await?;
    let star = "SELECT * FROM k WHERE a = $1";
    for (label, change) in [("first", ""), ("index", "CREATE INDEX ON k (a)"), ("column", "ALTER TABLE k ADD COLUMN c int DEFAULT 5"), ("cleared", ""), ("type", "ALTER TABLE k ALTER COLUMN a TYPE bigint"), ("dropped", "ALTER TABLE k DROP COLUMN b"),
                            ("renamed", "ALTER TABLE k RENAME COLUMN c TO d"), ("gone", "DROP TABLE k"), ("there again", "CREATE TABLE k (a int, b text); INSERT INTO k VALUES (1, 'anew')")] {
        c.execute(change).await?;
        if label == "cleared" {
            c.clear_cached_statements().await?;
        }
        show(label, sqlx::query(star).bind(1).fetch_all(&mut c).await.map(|rows| rows.iter().map(bytes).collect::<Vec<_>>()));
        show("again", sqlx::query(star).bind(1).fetch_all(&mut c).await.map(|rows| rows.len()));
        show("count", sqlx::query_scalar::<_, i64>("SELECT count(*) FROM k WHERE a < $1").bind(10i64).fetch_one(&mut c).await);
    }
    c.clear_cached_statements().await?;
    for n in 0..6 {
        show("closed when there are too many", sqlx::query(&format!("SELECT a + {n} FROM k WHERE a = $1")).bind(1).fetch_one(&mut c).await.map(|row| bytes(&row)));
    }
    println!("{}", c.cached_statements_size());
    show("prepared", c.fetch_one("SELECT count(*) FROM pg_prepared_statements").await.map(|row| row.get::<i64, _>(0)));
    show("not kept", sqlx::query("SELECT a FROM k WHERE a = $1").persistent(false).bind(1).fetch_one(&mut c).await.map(|row| bytes(&row)));
    show("still prepared", c.fetch_one("SELECT count(*) FROM pg_prepared_statements").await.map(|row| row.get::<i64, _>(0)));
    c.execute("DROP TABLE k").await?;
    // A cached statement has the types of the values that it was first given.
    show("a number", sqlx::query("SELECT $1 AS kept").bind(1i32).fetch_one(&mut c).await.map(|row| bytes(&row)));
    show("of another size", sqlx::query("SELECT $1 AS kept").bind(1i64).fetch_one(&mut c).await.map(|row| bytes(&row)));
    show("ping", c.ping().await);
    c.close().await
}

async fn copying(pool: &PgPool) -> Result<(), Error> {
    pool.execute("CREATE TABLE c (a int PRIMARY KEY, b text)").await?;
    let mut copy = pool.copy_in_raw("COPY c FROM STDIN").await?;
    println!("{} {} {}", copy.is_textual(), copy.num_columns(), copy.column_is_textual(0));
    copy.send(&b"1\tone\n2\t\\N\n3\tthr"[..]).await?;
    copy.send(&b"ee\n"[..]).await?;
    show("in", copy.finish().await);
    let mut copy = pool.copy_in_raw("COPY c (b, a) FROM STDIN (FORMAT csv, HEADER, DELIMITER ';')").await?;
    copy.read_from(&b"b;a\n\"se;ven\";7\n"[..]).await?;
    show("csv", copy.finish().await);
    let mut copy = pool.copy_in_raw("COPY c FROM STDIN").await?;
    copy.send(&b"1\ttwice\n"[..]).await?;
    show("twice", copy.finish().await);
    let mut copy = pool.copy_in_raw("COPY c FROM STDIN").await?;
    copy.send(&b"50\tgiven up\n"[..]).await?;
    show("given up", copy.abort("no more").await);
    show("none", pool.copy_in_raw("COPY nothing FROM STDIN").await.map(drop));
    for text in ["COPY c TO STDOUT", "COPY (SELECT b, a FROM c ORDER BY a DESC) TO STDOUT (FORMAT csv, HEADER, FORCE_QUOTE *)", "COPY c TO STDOUT (FORMAT binary)", "COPY (SELECT 1 / (a - 2) FROM c ORDER BY a) TO STDOUT"] {
        match pool.copy_out_raw(text).await {
            Ok(parts) => show(text, parts.try_collect::<Vec<_>>().await.map(|parts| String::from_utf8_lossy(&parts.concat()).into_owned())),
            Err(error) => println!("{text}: {}", shown(&error)),
        }
    }
    show("rows", sqlx::query_scalar::<_, i64>("SELECT count(*) FROM c").fetch_one(pool).await);
    Ok(())
}

async fn notifications(pool: &PgPool) -> Result<(), Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen_all(["first", "Odd \"channel\""]).await?;
    for (channel, payload) in [("first", "hello"), ("Odd \"channel\"", ""), ("unheard", "x"), ("first", "ünï")] {
        sqlx::query("SELECT pg_notify($1, $2)").bind(channel).bind(payload).execute(pool).await?;
    }
    for _ in 0..3 {
        show("heard", listener.recv().await.map(|n| format!("{} {:?}", n.channel(), n.payload())));
    }
    let mut transaction = pool.begin().await?;
    transaction.execute("NOTIFY first, 'rolled back'").await?;
    transaction.rollback().await?;
    listener.unlisten("Odd \"channel\"").await?;
    show("listens to", listener.fetch_all("SELECT pg_listening_channels()").await.map(|rows| rows.iter().map(|row| row.get::<String, _>(0)).collect::<Vec<_>>()));
    let mut transaction = pool.begin().await?;
    transaction.execute("NOTIFY first, 'once'; NOTIFY first, 'once'; NOTIFY first").await?;
    transaction.commit().await?;
    for _ in 0..2 {
        show("heard", listener.recv().await.map(|n| format!("{} {:?}", n.channel(), n.payload())));
    }
    println!("{}", listener.next_buffered().is_none());
    Ok(())
}

#[derive(Debug, FromRow)]
#[expect(dead_code, reason = "shown")]
struct Owner {
    id: i64,
    name: String,
    #[sqlx(default)]
    born: Option<chrono::NaiveDate>,
}

async fn errors(pool: &PgPool) {
    for text in ["SELEC 1", "SELECT nothing FROM items", "SELECT * FROM nowhere", "INSERT INTO items (id, title) VALUES ('00000000-0000-0000-0000-000000000001', NULL)", "INSERT INTO owners (name) VALUES ('Ann')", "INSERT INTO items (title) VALUES (repeat('x', 41))", "INSERT INTO items (title, owner) VALUES ('x', -1)",
                 "INSERT INTO items (id, title, price) VALUES ('00000000-0000-0000-0000-000000000001', 'x', -1)", "INSERT INTO items (title, rank) VALUES ('x', 10)", "INSERT INTO items (title, state) VALUES ('x', 'grim')", "INSERT INTO owners (id, name) VALUES (1, 'x')", "CREATE TABLE items (a int)", "SELECT 'x'::int", "SELECT 1 / 0", "SELECT 1; SELECT 2",
                 "", "SET statement_timeout = 'soon'", "SELECT 2147483647 + 1", "SELECT pg_sleep(5)"] {
        let mut connection = pool.acquire().await.unwrap();
        let _ = connection.execute("SET statement_timeout = 3000").await;
        show(text, sqlx::query(text).fetch_all(&mut *connection).await.map(|rows| rows.iter().map(bytes).collect::<Vec<_>>()));
        let _ = connection.execute("RESET statement_timeout").await;
    }
    show("one of none", sqlx::query("SELECT 1 WHERE false").fetch_one(pool).await.map(drop));
    show("another type", sqlx::query_scalar::<_, String>("SELECT 1").fetch_one(pool).await);
    show("null", sqlx::query_scalar::<_, i32>("SELECT NULL::int").fetch_one(pool).await);
    show("no such column", sqlx::query_as::<_, Owner>("SELECT 1::int8 AS id").fetch_all(pool).await);
    show("structures", sqlx::query_as::<_, Owner>("SELECT id, name FROM owners ORDER BY id").fetch_all(pool).await);
    show("several statements", sqlx::raw_sql("SELECT 1; UPDATE owners SET born = '2000-01-01' WHERE name = 'Ann'; SELECT 'x', NULL").fetch_many(pool).map_ok(|part| match part { Either::Left(done) => format!("{} rows", done.rows_affected()), Either::Right(row) => format!("{:?}", bytes(&row)) }).try_collect::<Vec<_>>().await);
    let mut builder = QueryBuilder::<Postgres>::new("INSERT INTO owners (name, born) ");
    builder.push_values((0..1000).map(|n| format!("many {n}")), |mut row, name| { row.push_bind(name).push("current_date"); });
    show("many values", builder.build().execute(pool).await.map(|done| done.rows_affected()));
    let names: Vec<_> = (0..1000).map(|n| format!("many {n}")).collect();
    show("arrays", sqlx::query("DELETE FROM owners WHERE name = ANY ($1)").bind(&names).execute(pool).await.map(|done| done.rows_affected()));
}
