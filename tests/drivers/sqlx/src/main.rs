//! sqlx: queries with parameters, what its macros ask when they describe a query, types in binary, transactions, COPY, LISTEN, migrations' lock, errors.

#![forbid(unsafe_code)]

use std::fmt::Debug;

use futures_util::TryStreamExt;
use sqlx::postgres::types::PgInterval;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions, PgRow};
use sqlx::types::chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};
use sqlx::types::{BigDecimal, Json, Uuid};
use sqlx::{Acquire, Column, ConnectOptions, Connection, Error, Executor, FromRow, PgConnection, Row, Statement, TypeInfo, ValueRef};

fn shown(error: &Error) -> String {
    match error.as_database_error() {
        Some(e) => format!("{:?} {} {:?} {:?} {:?}", e.code(), e.message(), e.kind(), e.table(), e.constraint()),
        None => error.to_string(),
    }
}

fn show<T: Debug>(label: &str, value: Result<T, Error>) {
    match value {
        Ok(value) => println!("{label}: {value:?}"),
        Err(error) => println!("{label}: {}", shown(&error)),
    }
}

fn columns(row: &PgRow) -> Vec<String> {
    let one = |at: usize| {
        let value = row.try_get_raw(at).unwrap();
        let bytes = if value.is_null() { "NULL".to_owned() } else { value.as_bytes().unwrap().iter().map(|b| format!("{b:02x}")).collect() };
        format!("{} {} {bytes}", row.columns()[at].name(), row.columns()[at].type_info().name())
    };
    (0..row.len()).map(one).collect()
}

#[derive(Debug, sqlx::Type)]
#[sqlx(type_name = "mood", rename_all = "lowercase")]
enum Mood {
    Sad,
    Fine,
}

#[derive(Debug, sqlx::Type)]
#[sqlx(type_name = "pair")]
struct Pair {
    a: Option<i32>,
    b: Option<String>,
}

#[derive(Debug, FromRow)]
#[expect(dead_code, reason = "it is printed")]
struct Person {
    id: i32,
    name: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let options: PgConnectOptions = std::env::var("PGPORT").map(|port| PgConnectOptions::new().host("127.0.0.1").port(port.parse().unwrap()).username("postgres").database("postgres")).unwrap();
    let mut c = options.connect().await.unwrap();
    println!("== queries");
    queries(&mut c).await;
    println!("== described");
    described(&mut c).await;
    println!("== transactions");
    transactions(&mut c).await;
    println!("== copying");
    copying(&mut c).await;
    println!("== pool");
    let pool = PgPoolOptions::new().max_connections(2).connect_with(options.clone()).await.unwrap();
    show("pool", sqlx::query_scalar::<_, i32>("select 1").fetch_one(&pool).await);
    let mut listener = PgListener::connect_with(&pool).await.unwrap();
    show("listen", listener.listen("there").await);
    show("notify", sqlx::query("select pg_notify('there', $1)").bind("hello").execute(&pool).await.map(|r| r.rows_affected()));
    show("heard", listener.recv().await.map(|n| (n.channel().to_owned(), n.payload().to_owned())));
    drop(listener);
    pool.close().await;
    show("ping", c.ping().await);
    show("close", c.close().await);
}

async fn queries(c: &mut PgConnection) {
    show("create", c.execute("create table t (id serial primary key, name varchar(20) unique not null, n numeric(10,2), at timestamptz default now(), j jsonb, a int[], check (id > 0)); create type mood as enum ('sad', 'fine'); create type pair as (a int, b text); create domain small as int check (value < 10); create table u (m mood, ms mood[], p pair, s small)").await.map(|r| r.rows_affected()));
    let at = DateTime::<Utc>::from_timestamp(1_700_000_000, 5000).unwrap();
    let day = NaiveDate::from_ymd_opt(2024, 2, 29).unwrap();
    let inserted = sqlx::query("insert into t (name, n, at, j, a) values ($1, $2, $3, $4, $5) returning *").bind("one").bind("1.50".parse::<BigDecimal>().unwrap()).bind(at).bind(Json(vec![1, 2])).bind(vec![Some(1), None]).fetch_one(&mut *c).await;
    show("insert", inserted.map(|row| columns(&row)));
    show("people", sqlx::query_as::<_, Person>("select id, name from t where id = any($1)").bind([1, 2].as_slice()).fetch_all(&mut *c).await);
    let values = sqlx::query("select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14").bind(true).bind(1i16).bind(2i32).bind(3i64).bind(1.5f32).bind(2.5f64).bind("x").bind(vec![0u8, 255]).bind(day).bind(NaiveTime::from_hms_opt(1, 2, 3).unwrap())
        .bind(NaiveDateTime::new(day, NaiveTime::MIN)).bind(Uuid::from_u128(9)).bind(PgInterval { months: 1, days: -2, microseconds: 3 }).bind(None::<String>).fetch_one(&mut *c).await;
    show("values", values.map(|row| columns(&row)));
    let users = sqlx::query("insert into u values ($1, $2, $3, $4) returning *").bind(Mood::Sad).bind(vec![Mood::Fine, Mood::Sad]).bind(Pair { a: Some(1), b: None }).bind(5).fetch_one(&mut *c).await;
    show("types of users", users.map(|row| columns(&row)));
    show("enum", sqlx::query_scalar::<_, Mood>("select m from u").fetch_one(&mut *c).await);
    show("composite", sqlx::query_scalar::<_, Pair>("select p from u").fetch_one(&mut *c).await);
    show("update", sqlx::query("update t set n = n + $1 where id = $2").bind(BigDecimal::from(1)).bind(1i64).execute(&mut *c).await.map(|r| r.rows_affected()));
    show("optional", sqlx::query("select 1 where false").fetch_optional(&mut *c).await.map(|row| row.is_some()));
    show("stream", sqlx::query_scalar::<_, i32>("select generate_series(1, $1)").bind(5).fetch(&mut *c).try_collect::<Vec<_>>().await);
    show("several", sqlx::raw_sql("select 1 as a; select 'x' as b; update t set n = 0").fetch_many(&mut *c).map_ok(|found| found.either(|r| format!("{} rows", r.rows_affected()), |row| format!("{:?}", row.columns()[0].name()))).try_collect::<Vec<_>>().await);
    let mut builder = sqlx::QueryBuilder::new("insert into t (name, n) ");
    builder.push_values(0..3, |mut row, i| {
        row.push_bind(format!("name{i}")).push_bind(BigDecimal::from(i));
    });
    show("built", builder.build().execute(&mut *c).await.map(|r| r.rows_affected()));
    show("unnest", sqlx::query("insert into t (name, n) select * from unnest($1::text[], $2::numeric[]) returning name").bind(["u1", "u2"].as_slice()).bind(vec![BigDecimal::from(1), BigDecimal::from(2)]).fetch_all(&mut *c).await.map(|rows| rows.len()));
    for text in ["selec 1", "select nothing from t", "select * from nowhere", "insert into t (name) values (null)", "insert into t (name) values ('one')", "insert into t (id, name) values (-1, 'x')", "insert into t (name) values (repeat('x', 21))", "select 1 / 0", ""] {
        show(text, sqlx::query(text).fetch_all(&mut *c).await.map(|rows| rows.len()));
    }
}

/// What the macros ask: the types of parameters and columns, and whether columns may be NULL.
async fn described(c: &mut PgConnection) {
    for text in ["select id, name, n, j, a from t where id = $1 and name like $2", "insert into t (name, a) values ($1, $2) returning id, at", "select t.id, u.m, u.p, u.s from t left join u on true", "select count(*), max(n), 1 as one, name || 'x' from t group by name",
                 "update t set n = $1 where a = $2", "select * from generate_series($1, 2)"] {
        let found = c.describe(text).await;
        show(text, found.map(|d| {
            let named: Vec<_> = d.columns.iter().map(|column| (column.name().to_owned(), column.type_info().name().to_owned())).collect();
            (named, d.nullable, format!("{:?}", d.parameters.map(|p| p.left().map(|kinds| kinds.iter().map(|kind| kind.name().to_owned()).collect::<Vec<_>>()))))
        }));
        show("prepared", c.prepare(text).await.map(|s| s.columns().len()));
    }
}

async fn transactions(c: &mut PgConnection) {
    let mut transaction = c.begin().await.unwrap();
    show("insert", sqlx::query("insert into t (name) values ('tx')").execute(&mut *transaction).await.map(|r| r.rows_affected()));
    let mut inner = transaction.begin().await.unwrap();
    show("unique", sqlx::query("insert into t (name) values ('tx')").execute(&mut *inner).await.map(|r| r.rows_affected()));
    show("rollback", inner.rollback().await);
    show("commit", transaction.commit().await);
    show("dropped", c.begin().await.map(drop));
    let read_only = c.begin_with("begin isolation level repeatable read read only").await;
    match read_only {
        Ok(mut read_only) => show("read only", sqlx::query("delete from t").execute(&mut *read_only).await.map(|r| r.rows_affected())),
        Err(error) => println!("{}", shown(&error)),
    }
    show("lock", sqlx::query("select pg_advisory_lock($1)").bind(5i64).execute(&mut *c).await.map(|r| r.rows_affected()));
    show("unlock", sqlx::query_scalar::<_, bool>("select pg_advisory_unlock($1)").bind(5i64).fetch_one(&mut *c).await);
    show("count", sqlx::query_scalar::<_, i64>("select count(*) from t where name = 'tx'").fetch_one(&mut *c).await);
}

async fn copying(c: &mut PgConnection) {
    let mut copy = c.copy_in_raw("copy t (name, n) from stdin (format csv)").await.unwrap();
    copy.send("c1,1\nc2,2\n".as_bytes()).await.unwrap();
    show("in", copy.finish().await);
    let mut copy = c.copy_in_raw("copy t (name) from stdin").await.unwrap();
    copy.send("c1\n".as_bytes()).await.unwrap();
    show("unique", copy.finish().await);
    let copy = c.copy_in_raw("copy t (name) from stdin").await.unwrap();
    show("given up", copy.abort("no more").await);
    let out: Result<Vec<_>, _> = c.copy_out_raw("copy (select name, n from t where name like 'c_') to stdout").await.unwrap().try_collect().await;
    show("out", out.map(|parts| parts.concat()));
}
