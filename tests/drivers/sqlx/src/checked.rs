//! The macros of sqlx, which ask the server for types and nullability while they are compiled.
//!
//! With the feature `wrong` the program must not compile, and the compiler must give the server's
//! error.

#![forbid(unsafe_code)]

use sqlx::types::{BigDecimal, Json, Uuid};
use sqlx::{Connection, PgConnection};

#[derive(Debug, PartialEq, sqlx::Type)]
#[sqlx(type_name = "mood", rename_all = "lowercase")]
enum Mood {
    Sad,
    Fine,
}

#[derive(Debug)]
#[expect(dead_code, reason = "shown")]
struct Item {
    id: Uuid,
    title: String,
    price: BigDecimal,
    state: Mood,
    data: Json<serde_json::Value>,
    owner: Option<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> sqlx::Result<()> {
    let mut connection = PgConnection::connect(&std::env::var("DATABASE_URL").unwrap()).await?;
    let mut changes = connection.begin().await?;
    let c = &mut *changes;
    let (id, name, price) = (Uuid::from_u128(77), "Macro", BigDecimal::from(3));
    let owner = sqlx::query!("INSERT INTO owners (name, born) VALUES ($1, '2000-02-29') RETURNING id, name, born", name).fetch_one(&mut *c).await?;
    println!("{:?} {:?}", owner.name, owner.born);
    let done = sqlx::query!("INSERT INTO items (id, owner, title, price, state, tags) VALUES ($1, $2, $3, $4, $5, $6)", id, owner.id, "  of a macro ", price, Mood::Sad as Mood, &["a".to_owned()][..]).execute(&mut *c).await?;
    println!("{}", done.rows_affected());
    let select = sqlx::query_as!(Item, r#"SELECT i.id, title, price, state AS "state: Mood", data AS "data: Json<serde_json::Value>", o.name AS "owner?" FROM items i LEFT JOIN owners o ON o.id = i.owner WHERE i.id = $1"#, id);
    println!("{:?}", select.fetch_one(&mut *c).await?);
    let mut nullable: Vec<Option<String>> = sqlx::query_scalar!("SELECT o.name FROM items i LEFT JOIN owners o ON o.id = i.owner").fetch_all(&mut *c).await?;
    nullable.sort();
    let nullable = nullable.last();
    let count: Option<i64> = sqlx::query_scalar!("SELECT count(*) FROM items").fetch_one(&mut *c).await?;
    let counted: i64 = sqlx::query_scalar!(r#"SELECT count(*) AS "count!" FROM items WHERE price > $1"#, price).fetch_one(&mut *c).await?;
    println!("{nullable:?} {count:?} {counted}");
    let both = sqlx::query!(r#"WITH t AS (SELECT owner, sum(price) AS total, array_agg(title) AS titles FROM items GROUP BY owner) SELECT t.*, o.born FROM t JOIN owners o ON o.id = t.owner WHERE o.id = ANY ($1)"#, &[owner.id][..]).fetch_all(&mut *c).await?;
    println!("{:?}", both.iter().map(|r| (&r.total, &r.titles, r.born)).collect::<Vec<_>>());
    let pairs = sqlx::query!("SELECT * FROM unnest($1::int[], $2::text[]) AS u (a, b)", &[1, 2][..], &["x".to_owned(), "y".to_owned()][..]).fetch_all(&mut *c).await?;
    println!("{pairs:?}");
    let changed = sqlx::query!("UPDATE items SET price = price + $2, tags = tags || $3::text WHERE id = $1 RETURNING price, doubled, tags, made", id, BigDecimal::from(1), "b").fetch_one(&mut *c).await?;
    println!("{changed:?}");
    let file = sqlx::query_file!("src/of_owner.sql", owner.id).fetch_optional(&mut *c).await?;
    println!("{:?}", file.map(|r| (r.title, r.share)));
    sqlx::query!("DELETE FROM owners WHERE id = $1", owner.id).execute(&mut *c).await?;
    println!("{:?}", sqlx::query_scalar!("SELECT id FROM items WHERE id = $1", id).fetch_optional(&mut *c).await?);
    #[cfg(feature = "wrong")]
    {
        sqlx::query!("SELECT nothing FROM items").fetch_all(&mut *c).await?;
        sqlx::query!("SELECT * FROM nowhere").fetch_all(&mut *c).await?;
        sqlx::query!("SELEC 1").fetch_all(&mut *c).await?;
        sqlx::query!("SELECT title FROM items WHERE price > $1", 1).fetch_all(&mut *c).await?;
        sqlx::query!("SELECT 1 WHERE $1 AND $2", true).fetch_all(&mut *c).await?;
        let _: i64 = sqlx::query_scalar!("SELECT title FROM items").fetch_one(&mut *c).await?;
    }
    changes.rollback().await
}
