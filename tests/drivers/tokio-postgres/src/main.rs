//! The driver tokio-postgres against the server.
//!
//! Covered are prepared statements, types in binary, portals, COPY, pipelined queries,
//! transactions, cancellation, notifications and errors.

#![forbid(unsafe_code)]

use std::fmt::Debug;
use std::time::{Duration, SystemTime};

use client::types::{FromSql, Kind, ToSql, Type};
use client::{AsyncMessage, Client, Config, Error, NoTls, Row, SimpleQueryMessage};
use futures_util::{SinkExt, StreamExt, TryStreamExt, pin_mut};

fn shown(error: &Error) -> String {
    match error.as_db_error() {
        Some(e) => format!(
            "{} {} {} | {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
            e.severity(), e.code().code(), e.message(), e.detail(), e.hint(), e.position(), e.table(), e.column(), e.datatype(), e.constraint()
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

/// Returns a type without its number, which differs between servers for user types.
fn named(of: &Type) -> String {
    match of.kind() {
        Kind::Enum(labels) => format!("{} enum {labels:?}", of.name()),
        Kind::Array(member) => format!("{} of {}", of.name(), member.name()),
        Kind::Domain(base) => format!("{} domain over {}", of.name(), base.name()),
        Kind::Composite(fields) => format!("{} composite {:?}", of.name(), fields.iter().map(|f| (f.name(), f.type_().name())).collect::<Vec<_>>()),
        _ => of.name().to_owned(),
    }
}

/// The bytes of a value as they come, of any type.
struct Bytes(Vec<u8>);

impl<'a> FromSql<'a> for Bytes {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(raw.to_vec()))
    }
    fn accepts(_: &Type) -> bool {
        true
    }
}

fn bytes(row: &Row) -> Vec<String> {
    let one = |at: usize| {
        let mut value: Option<Bytes> = row.get(at);
        // An array has the number of a user's type behind its dimensions and flags. This number
        // differs between servers.
        if let (Kind::Array(member), Some(Bytes(bytes))) = (row.columns()[at].type_().kind(), &mut value)
            && member.oid() >= 16384
        {
            bytes[8..12].fill(0);
        }
        let hex = |b: Bytes| b.0.iter().map(|b| format!("{b:02x}")).collect::<String>();
        format!("{} {} {}", row.columns()[at].name(), named(row.columns()[at].type_()), value.map_or("NULL".to_owned(), hex))
    };
    (0..row.len()).map(one).collect()
}

async fn query(client: &Client, text: &str, parameters: &[&(dyn ToSql + Sync)]) {
    let statement = match client.prepare(text).await {
        Ok(statement) => statement,
        Err(error) => return println!("{text}: {}", shown(&error)),
    };
    let kinds: Vec<_> = statement.params().iter().map(named).collect();
    match client.query(&statement, parameters).await {
        Ok(rows) => {
            println!("{text}: {kinds:?}");
            rows.iter().for_each(|row| println!("   {:?}", bytes(row)));
        }
        Err(error) => println!("{text}: {kinds:?} {}", shown(&error)),
    }
}

#[derive(Debug, ToSql, FromSql, PartialEq)]
#[postgres(name = "mood", rename_all = "lowercase")]
enum Mood {
    Sad,
    Fine,
}

#[derive(Debug, ToSql, FromSql)]
#[postgres(name = "pair")]
struct Pair {
    a: Option<i32>,
    b: Option<String>,
}

#[derive(Debug, ToSql, FromSql)]
#[postgres(name = "small")]
struct Small(i32);

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut config = Config::new();
    config.host("127.0.0.1").port(std::env::var("PGPORT").unwrap().parse().unwrap()).user("postgres").dbname("postgres").application_name("tokio");
    let (mut client, mut connection) = config.connect(NoTls).await.unwrap();
    let (sender, mut heard) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        let messages = futures_util::stream::poll_fn(move |context| connection.poll_message(context));
        pin_mut!(messages);
        while let Some(Ok(message)) = messages.next().await {
            let _ = sender.send(message);
        }
    });
    println!("== types");
    types(&client).await;
    println!("== types of users");
    types_of_users(&client).await;
    println!("== portals");
    portals(&mut client).await;
    println!("== copying");
    copying(&client).await;
    println!("== transactions");
    transactions(&mut client, &config).await;
    println!("== messages");
    show("listen", client.batch_execute("listen there; notify there, 'hello'; drop table if exists none").await);
    show("a query after it", client.query_one("select 1", &[]).await.map(|row| row.get::<_, i32>(0)));
    while let Ok(message) = heard.try_recv() {
        match message {
            AsyncMessage::Notification(n) => println!("{} {}", n.channel(), n.payload()),
            AsyncMessage::Notice(n) => println!("{} {} {}", n.severity(), n.code().code(), n.message()),
            _ => {}
        }
    }
    for text in ["selec 1", "select nothing from t", "select * from nowhere", "insert into t (name) values (null)", "insert into t (name) values ('one')", "insert into t (name) values (repeat('x', 21))", "create table t (a int)",
                 "select 'x'::int", "select 1 / 0", "", "select $1 + $2"] {
        query(&client, text, &[]).await;
    }
    show("types that are given", client.query_typed("select $1 + 1, $2", &[(&5i32, Type::INT4), (&"x", Type::TEXT)]).await.map(|rows| bytes(&rows[0])));
    match client.simple_query("select 1 as a, null as b; update t set name = name; select 'x' where false; ").await {
        Ok(messages) => messages.iter().for_each(|message| match message {
            SimpleQueryMessage::Row(row) => println!("row {:?} {:?}", row.get(0), row.try_get(1).ok()),
            SimpleQueryMessage::CommandComplete(n) => println!("complete {n}"),
            SimpleQueryMessage::RowDescription(columns) => println!("columns {:?}", columns.iter().map(|c| c.name()).collect::<Vec<_>>()),
            _ => println!("another"),
        }),
        Err(error) => println!("{}", shown(&error)),
    }
}

async fn types(client: &Client) {
    show("create", client.execute("create table t (id serial primary key, name varchar(20) unique not null, n numeric(10,2), at timestamptz, j jsonb, a int[])", &[]).await);
    query(client, "select true, 1::int2, 2::int4, 3::int8, 1.5::float4, 2.5::float8, 'x'::text, 'v'::varchar(5), 'c'::char(3), 'n'::name, '\\x00ff'::bytea, 5::oid, 'q'::\"char\", null", &[]).await;
    query(client, "select 0::numeric, 1.50::numeric, -12345678901234567890.000001::numeric, 'NaN'::numeric, 'Infinity'::numeric, 1e20::numeric, 0.00001::numeric", &[]).await;
    query(client, "select '2024-02-29'::date, '12:34:56.789'::time, '10:00+02'::timetz, '2024-01-01 00:00:00.5'::timestamp, '2024-01-01 00:00+02'::timestamptz, '1 year -2 days 03:04:05.6'::interval, 'infinity'::date, '-infinity'::timestamptz, '44-03-15 BC'::date", &[]).await;
    query(client, "select '{1,NULL}'::int[], '{{a,b},{c,d}}'::text[], '{}'::int[], '[2:3]={1,2}'::int8[], '{\"a\": 1}'::json, '{\"b\":[1.50,null],\"a\":true}'::jsonb, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid, row(1, 'a'::text, null::int)", &[]).await;
    query(client, "select 'pg_class'::regclass, 'int4'::regtype, '1 2'::int2vector, '3 4'::oidvector, '(0,1)'::tid, array[row(1)], 'x', version() is null, void_is_not_there()", &[]).await;
    let at = SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_000);
    let day = chrono::NaiveDate::from_ymd_opt(2024, 2, 29).unwrap();
    let parameters: &[&(dyn ToSql + Sync)] = &[&"one", &at, &serde_json::json!({"a": [1, null]}), &vec![1, 2]];
    query(client, "insert into t (name, at, j, a) values ($1, $2, $3, $4) returning *", parameters).await;
    query(client, "select $1::date, $2::uuid, $3::bool, $4::int2, $5::int8, $6::float4, $7::bytea, $8::text[], $9::timestamp, $10::time, $11::json",
        &[&day, &uuid::Uuid::from_u128(7), &true, &5i16, &6i64, &1.5f32, &vec![0u8, 255], &vec![Some("a"), None], &day.and_hms_opt(1, 2, 3).unwrap(), &chrono::NaiveTime::from_hms_opt(4, 5, 6).unwrap(), &serde_json::json!([1])]).await;
    query(client, "select name from t where id = $1 and at > $2 and a && $3 and j @> $4 and name = any($5) limit $6", &[&1i32, &SystemTime::UNIX_EPOCH, &vec![2], &serde_json::json!({}), &vec!["one"], &5i64]).await;
    query(client, "select n + $1 is null, coalesce(name, $2), $3 || 'x', id between $4 and $5 from t", &[&None::<i32>, &"x", &"y", &0i32, &9i32]).await;
    query(client, "select $1::int", &[&"x"]).await;
    let (a, b, c) = (client.query_one("select 1", &[]), client.query_one("select 1 / 0", &[]), client.query_one("select 3", &[]));
    let (a, b, c) = tokio::join!(a, b, c);
    show("pipelined", a.map(|row| bytes(&row)));
    show("pipelined", b.map(|row| bytes(&row)));
    show("pipelined", c.map(|row| bytes(&row)));
}

async fn types_of_users(client: &Client) {
    show("create", client.batch_execute("create type mood as enum ('sad', 'fine'); create type pair as (a int, b text); create domain small as int check (value < 10); create table u (m mood, ms mood[], p pair, ps pair[], s small)").await);
    query(client, "insert into u values ($1, $2, $3, $4, $5) returning *", &[&Mood::Sad, &vec![Mood::Fine, Mood::Sad], &Pair { a: Some(1), b: None }, &vec![Pair { a: None, b: Some("x,y".into()) }], &Small(5)]).await;
    match client.query_one("select m, ms, p, ps, s from u", &[]).await {
        Ok(row) => println!("{:?} {:?} {:?} {:?}", row.get::<_, Mood>(0), row.get::<_, Vec<Mood>>(1), row.get::<_, Pair>(2), row.get::<_, Vec<Pair>>(3)),
        Err(error) => println!("{}", shown(&error)),
    }
    query(client, "insert into u (s) values ($1)", &[&Small(10)]).await;
    query(client, "select count(*) from u where m = $1 and m < any($2) and p = $3", &[&Mood::Sad, &vec![Mood::Fine], &Pair { a: Some(1), b: None }]).await;
}

async fn portals(client: &mut Client) {
    let transaction = client.transaction().await.unwrap();
    let statement = transaction.prepare("select generate_series(1, $1::int)").await.unwrap();
    let portal = transaction.bind(&statement, &[&5i32]).await.unwrap();
    for _ in 0..4 {
        show("portal", transaction.query_portal(&portal, 2).await.map(|rows| rows.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>()));
    }
    show("all", transaction.query_portal(&portal, 0).await.map(|rows| rows.len()));
    show("commit", transaction.commit().await);
    let parameters: [i32; 1] = [100_000];
    let rows = client.query_raw("select generate_series(1, $1::int)", parameters).await.unwrap();
    pin_mut!(rows);
    let mut sum = 0i64;
    while let Some(row) = rows.try_next().await.unwrap() {
        sum += i64::from(row.get::<_, i32>(0));
    }
    println!("sum {sum} {:?}", rows.rows_affected());
}

async fn copying(client: &Client) {
    show("create", client.batch_execute("create table c (a int, b text)").await);
    let sink = client.copy_in::<_, &[u8]>("copy c from stdin").await.unwrap();
    pin_mut!(sink);
    sink.send(b"1\tone\n2\t\\N\n").await.unwrap();
    show("in", sink.finish().await);
    let sink = client.copy_in::<_, &[u8]>("copy c from stdin (format csv)").await.unwrap();
    pin_mut!(sink);
    sink.send(b"x,one\n").await.unwrap();
    show("bad", sink.finish().await);
    let sink = client.copy_in("copy c from stdin binary").await.unwrap();
    let writer = client::binary_copy::BinaryCopyInWriter::new(sink, &[Type::INT4, Type::TEXT]);
    pin_mut!(writer);
    writer.as_mut().write(&[&7i32, &"seven"]).await.unwrap();
    show("binary", writer.finish().await);
    for text in ["copy c to stdout", "copy (select a, b from c order by a desc) to stdout (format csv, header)", "copy c to stdout binary"] {
        let out = client.copy_out(text).await.unwrap();
        let parts: Vec<_> = out.try_collect().await.unwrap();
        println!("{text}: {:?}", String::from_utf8_lossy(&parts.concat()));
    }
    show("dropped", client.copy_in::<_, &[u8]>("copy c from stdin").await.map(drop));
    show("count", client.query_one("select count(*) from c", &[]).await.map(|row| row.get::<_, i64>(0)));
}

async fn transactions(client: &mut Client, config: &Config) {
    let mut transaction = client.build_transaction().isolation_level(client::IsolationLevel::RepeatableRead).deferrable(false).start().await.unwrap();
    show("level", transaction.query_one("show transaction_isolation", &[]).await.map(|row| row.get::<_, String>(0)));
    show("insert", transaction.execute("insert into t (name) values ('tx')", &[]).await);
    let inner = transaction.savepoint("s").await.unwrap();
    show("again", inner.execute("insert into t (name) values ('tx')", &[]).await);
    show("aborted", inner.execute("select 1", &[]).await);
    show("rollback", inner.rollback().await);
    show("commit", transaction.commit().await);
    let transaction = client.build_transaction().read_only(true).start().await.unwrap();
    show("read only", transaction.execute("delete from t", &[]).await);
    drop(transaction);
    show("left", client.query_one("select count(*) from t", &[]).await.map(|row| row.get::<_, i64>(0)));
    let token = client.cancel_token();
    let cancelling = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        token.cancel_query(NoTls).await
    };
    let (slept, cancelled) = tokio::join!(client.execute("select pg_sleep(20)", &[]), cancelling);
    show("slept", slept);
    show("cancelled", cancelled);
    let mut config = config.clone();
    config.options("-c work_mem=3MB -c datestyle=iso,dmy");
    let (other, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    query(&other, "select current_setting('work_mem'), current_setting('datestyle'), current_setting('application_name')", &[]).await;
    config.dbname("nothing");
    show("no database", config.connect(NoTls).await.map(drop));
}
