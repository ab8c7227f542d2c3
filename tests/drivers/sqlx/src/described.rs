//! Descriptions that the macros ask for: parameters, columns and their types, and nullability.
//!
//! For nullability the macros read a plan.

use sqlx::{Column, Error, Executor, PgPool, TypeInfo};

use crate::shown;

const STATEMENTS: &[&str] = &[
    "SELECT * FROM items WHERE id = $1",
    "SELECT i.title, o.name, o.born FROM items i LEFT JOIN owners o ON o.id = i.owner",
    "SELECT i.title, o.name FROM items i RIGHT JOIN owners o ON o.id = i.owner WHERE o.name = $1",
    "SELECT i.title, o.name FROM items i FULL JOIN owners o ON o.id = i.owner",
    "SELECT i.title, o.name FROM items i JOIN owners o ON o.id = i.owner",
    "SELECT a.name, b.name AS other, c.title FROM owners a LEFT JOIN owners b ON b.id = a.id + $1 LEFT JOIN items c ON c.owner = b.id ORDER BY a.name",
    "SELECT * FROM seen",
    "SELECT count(*), sum(price), max(title), coalesce(max(made), now()) FROM items GROUP BY state HAVING count(*) > $1",
    "SELECT title, row_number() OVER (PARTITION BY owner ORDER BY price) FROM items LIMIT $1 OFFSET $2",
    "SELECT title FROM items UNION ALL SELECT name FROM owners",
    "WITH t AS (SELECT id, name FROM owners WHERE born > $1) SELECT t.name, (SELECT count(*) FROM items i WHERE i.owner = t.id) FROM t",
    "SELECT title FROM items WHERE owner IN (SELECT id FROM owners WHERE name LIKE $1) AND tags && $2 AND data @> $3 AND state = $4 AND size = $5",
    "SELECT o.name FROM owners o WHERE EXISTS (SELECT 1 FROM items WHERE owner = o.id AND title = ANY ($1))",
    "SELECT o.name, best.title FROM owners o LEFT JOIN LATERAL (SELECT title FROM items WHERE owner = o.id ORDER BY price DESC LIMIT 1) best ON true",
    "SELECT $1::int + 1 AS next, $2 || 'x' AS text, NULL AS nothing, 1 AS one",
    "SELECT * FROM unnest($1::int[], $2::text[]) AS u (a, b)",
    "SELECT n FROM generate_series(1, $1::int) n",
    "VALUES (1, 'a'), ($1, $2)",
    "INSERT INTO owners (name, born) VALUES ($1, $2) RETURNING id, born",
    "INSERT INTO items (title, price) SELECT unnest($1::text[]), unnest($2::numeric[]) ON CONFLICT (id) DO UPDATE SET price = excluded.price + $3 RETURNING *",
    "UPDATE items SET price = price * $1, made = $2 WHERE id = $3 RETURNING price, owner",
    "UPDATE items i SET title = o.name FROM owners o WHERE o.id = i.owner AND o.id = $1 RETURNING i.title, o.born",
    "DELETE FROM items WHERE made < $1",
    "SELECT title FROM items WHERE id = $1 FOR UPDATE SKIP LOCKED",
    "SELECT DISTINCT ON (owner) owner, title FROM items ORDER BY owner, price DESC",
    "CREATE TABLE never (a int)",
    "SELECT pg_notify($1, $2)",
    "SELECT nothing FROM items",
    "SELECT $1",
];

pub(crate) async fn run(pool: &PgPool) -> Result<(), Error> {
    let mut connection = pool.acquire().await?;
    // The macros read from a plan which side of a join is filled with NULL. So every planner must
    // choose the same plan.
    connection.execute("INSERT INTO items (title) SELECT 'item ' || i FROM generate_series(1, 2000) i; ANALYZE items, owners").await?;
    for text in STATEMENTS {
        match connection.describe(text).await {
            Ok(found) => {
                let parameters: Vec<_> = found.parameters().and_then(|p| p.left().map(|types| types.iter().map(|t| t.name().to_owned()).collect::<Vec<_>>())).unwrap_or_default();
                println!("{text}: {parameters:?}");
                for (at, column) in found.columns().iter().enumerate() {
                    println!("   {} {} {}", column.name(), column.type_info().name(), match found.nullable(at) { Some(true) => "may be NULL", Some(false) => "never NULL", None => "unknown" });
                }
            }
            Err(error) => println!("{text}: {}", shown(&error)),
        }
    }
    Ok(())
}
