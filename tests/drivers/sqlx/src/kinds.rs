//! Types in both directions, in binary: PostgreSQL's own, and users' enumerated, composite and
//! domain types.

use std::fmt::Debug;

use bigdecimal::BigDecimal;
use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use sqlx::postgres::types::{Oid, PgInterval, PgTimeTz};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::types::{Json, Text};
use sqlx::{Arguments, Decode, Encode, FromRow, PgPool, Postgres, Row, Type};
use uuid::Uuid;

use crate::{bytes, show};

#[derive(Debug, Clone, PartialEq, Type)]
#[sqlx(type_name = "mood", rename_all = "lowercase")]
enum Mood {
    Sad,
    Fine,
}

#[derive(Debug, Type)]
#[sqlx(type_name = "pair")]
struct Pair {
    a: Option<i32>,
    b: Option<String>,
}

#[derive(Debug, Type)]
#[sqlx(type_name = "small")]
struct Small(i32);

#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Data {
    kinds: Vec<Option<String>>,
    #[serde(default)]
    more: f64,
}

#[derive(Debug, FromRow)]
#[expect(dead_code, reason = "shown")]
struct Item {
    title: String,
    price: BigDecimal,
    doubled: BigDecimal,
    state: Mood,
    states: Option<Vec<Mood>>,
    size: Option<Pair>,
    rank: Option<Small>,
    data: Json<Data>,
    tags: Vec<String>,
    made: DateTime<Utc>,
}

/// Sends a value, and reads it again, with the type that the server gives. A cached statement would
/// keep the type of the first value.
async fn both<T>(pool: &PgPool, value: T)
where
    T: Debug + Clone + Send + Unpin + 'static + Type<Postgres> + for<'q> Encode<'q, Postgres> + for<'r> Decode<'r, Postgres>,
{
    let sent = format!("{value:?}");
    let row = sqlx::query("SELECT $1, pg_typeof($1)::text, $1 IS NULL").persistent(false).bind(value).fetch_one(pool).await;
    show(&sent, row.and_then(|row| Ok((row.try_get::<T, _>(0)?, row.try_get::<String, _>(1)?, row.try_get::<bool, _>(2)?))));
}

pub(crate) async fn run(pool: &PgPool) {
    values(pool).await;
    let day = NaiveDate::from_ymd_opt(2024, 2, 29).unwrap();
    let time = NaiveTime::from_hms_micro_opt(12, 34, 56, 789_000).unwrap();
    both(pool, true).await;
    both(pool, -7i8).await;
    both(pool, i16::MIN).await;
    both(pool, i32::MAX).await;
    both(pool, i64::MIN).await;
    both(pool, f32::NAN).await;
    both(pool, f64::INFINITY).await;
    both(pool, "ünï".to_owned()).await;
    both(pool, vec![0u8, 255]).await;
    both(pool, Oid(5)).await;
    both(pool, day).await;
    both(pool, time).await;
    both(pool, day.and_time(time)).await;
    both(pool, day.and_time(time).and_utc()).await;
    both(pool, PgTimeTz { time, offset: chrono::FixedOffset::east_opt(7200).unwrap() }).await;
    both(pool, PgInterval { months: 14, days: -2, microseconds: 11_045_600_000 }).await;
    both(pool, Uuid::from_u128(7)).await;
    both(pool, serde_json::json!({"b": [1.5, null], "a": true})).await;
    both(pool, Text(std::net::Ipv4Addr::LOCALHOST)).await;
    for text in ["0", "1.50", "-12345678901234567890.000001", "1E20", "0.00001", "99999.9999"] {
        both(pool, text.parse::<BigDecimal>().unwrap()).await;
    }
    both(pool, vec![Some(1), None]).await;
    both(pool, Vec::<i64>::new()).await;
    both(pool, vec!["a,b".to_owned(), "\"".to_owned()]).await;
    both(pool, vec![Uuid::nil()]).await;
    both(pool, vec![day]).await;
    both(pool, vec!["1.5".parse::<BigDecimal>().unwrap()]).await;
    both(pool, vec![serde_json::json!([1])]).await;
    both(pool, None::<i32>).await;
    both(pool, None::<Vec<String>>).await;
    both(pool, Mood::Sad).await;
    both(pool, vec![Mood::Fine, Mood::Sad]).await;
    of_users(pool).await;
}

async fn values(pool: &PgPool) {
    for text in [
        "SELECT true, 1::int2, 2::int4, 3::int8, 1.5::float4, 2.5::float8, 'x'::text, 'v'::varchar(5), 'c'::char(3), 'n'::name, '\\x00ff'::bytea, 5::oid, 'q'::\"char\", null",
        "SELECT 0::numeric, 1.50::numeric, -12345678901234567890.000001::numeric, 'NaN'::numeric, 1e20::numeric, 0.00001::numeric",
        "SELECT '2024-02-29'::date, '12:34:56.789'::time, '10:00+02'::timetz, '2024-01-01 00:00:00.5'::timestamp, '2024-01-01 00:00+02'::timestamptz, '1 year -2 days 03:04:05.6'::interval, 'infinity'::date, '44-03-15 BC'::date",
        "SELECT '{1,NULL}'::int[], '{{a,b},{c,d}}'::text[], '{}'::int[], '[2:3]={1,2}'::int8[], '{\"a\": 1}'::json, '{\"b\":[1.50,null],\"a\":true}'::jsonb, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid, row(1, 'a'::text, null::int)",
        "SELECT 'int4'::regtype, 'lower(text)'::regprocedure, '(0,1)'::tid, 'sad'::mood, row(1, 'x')::pair, 5::small",
    ] {
        show(text, sqlx::query(text).fetch_one(pool).await.map(|row| bytes(&row)));
        // Without parameters and outside of a prepared statement everything comes as text.
        show("as text", sqlx::raw_sql(text).fetch_one(pool).await.map(|row| texts(&row)));
    }
}

fn texts(row: &PgRow) -> Vec<Option<String>> {
    use sqlx::ValueRef;
    (0..row.len()).map(|at| row.try_get_raw(at).unwrap()).map(|value| (!value.is_null()).then(|| value.as_str().unwrap().to_owned())).collect()
}

async fn of_users(pool: &PgPool) {
    let insert = "INSERT INTO items (title, price, state, states, size, rank, data, tags) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING title, price, doubled, state, states, size, rank, data, tags, made";
    let mut arguments = PgArguments::default();
    arguments.add("  first ").unwrap();
    arguments.add("12.5".parse::<BigDecimal>().unwrap()).unwrap();
    arguments.add(Mood::Sad).unwrap();
    arguments.add(vec![Mood::Fine, Mood::Sad]).unwrap();
    arguments.add(Pair { a: Some(1), b: None }).unwrap();
    arguments.add(Small(5)).unwrap();
    arguments.add(Json(Data { kinds: vec![Some("a".into()), None], more: 1.5 })).unwrap();
    arguments.add(vec!["x", "y z"]).unwrap();
    show("inserted", sqlx::query_as_with::<_, Item, _>(insert, arguments).fetch_one(pool).await);
    show("compared", sqlx::query_scalar::<_, i64>("SELECT count(*) FROM items WHERE state = $1 AND state < ANY ($2) AND size = $3 AND rank = $4").bind(Mood::Sad).bind(vec![Mood::Fine]).bind(Pair { a: Some(1), b: None }).bind(Small(5)).fetch_one(pool).await);
    show("out of a domain", sqlx::query("UPDATE items SET rank = $1").bind(Small(11)).execute(pool).await.map(drop));
    show("composites", sqlx::query_scalar::<_, Vec<Pair>>("SELECT array_agg(size) FROM items WHERE size IS NOT NULL").fetch_one(pool).await);
    show("records", sqlx::query_scalar::<_, (i32, String)>("SELECT (1, 'x'::text)").fetch_one(pool).await);
    show("json of rows", sqlx::query_scalar::<_, serde_json::Value>("SELECT to_jsonb(i) - 'id' FROM items i").fetch_all(pool).await);
    show("inside", sqlx::query_as::<_, (Option<String>, bool)>("SELECT data -> 'kinds' ->> $1, data @> $2 FROM items").bind(0).bind(Json(serde_json::json!({"more": 1.5}))).fetch_all(pool).await);
    show("none", sqlx::query_scalar::<_, Option<Mood>>("SELECT NULL::mood").fetch_one(pool).await);
    show("another label", sqlx::query("SELECT $1::mood").bind("grim").fetch_one(pool).await.map(drop));
}
