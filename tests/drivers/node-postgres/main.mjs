// node-postgres: parameters and results, prepared statements, cursors, streams, COPY, transactions, pools, notifications, errors.

import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { inspect } from "node:util";
import copy from "pg-copy-streams";
import pg from "pg";
import Cursor from "pg-cursor";
import QueryStream from "pg-query-stream";

const show = (label, value) => console.log(label + ":", inspect(value, { depth: 8, breakLength: 170, sorted: false }));
const client = new pg.Client({ connectionTimeoutMillis: 10000 });
await client.connect();

function result(found) {
  if (Array.isArray(found)) return found.map(result);
  return { command: found.command, count: found.rowCount, oid: found.oid, fields: found.fields.map((f) => [f.name, f.dataTypeID, f.dataTypeSize, f.dataTypeModifier, f.format, f.columnID]), rows: found.rows };
}

async function failing(label, promise) {
  try {
    show(label, ["no error", result(await promise)]);
  } catch (error) {
    const fields = ["severity", "code", "message", "detail", "hint", "position", "where", "schema", "table", "column", "dataType", "constraint"];
    show(label, Object.fromEntries(fields.filter((name) => error[name] !== undefined).map((name) => [name, error[name]])));
  }
}

async function simple() {
  show("create", result(await client.query("create table t (id serial primary key, name varchar(20) unique, n numeric(10,2), at timestamptz, j jsonb, a int[])")));
  show("several", result(await client.query("insert into t (name) values ('a'), ('b'); select * from t order by id; update t set n = 1; select 1 as x, 'y' as x")));
  show("empty", result(await client.query("")));
  show("arrays", (await client.query({ text: "select 1 as a, 2 as a", rowMode: "array" })).rows);
}

async function parameters() {
  const values = [null, true, 1, -1.5, 2 ** 53, 10n ** 20n, "text", "it's \\ \"ünï\"", Buffer.from([0, 1, 255]), new Date(Date.UTC(2024, 1, 29, 1, 2, 3, 4)), { a: [1, null] }, [1, 2, null], ["a,b", '"', null], [[1, 2], [3, 4]], []];
  const kinds = ["text", "bool", "int4", "float8", "int8", "numeric", "text", "text", "bytea", "timestamptz", "jsonb", "int[]", "text[]", "int[]", "text[]"];
  for (const [i, value] of values.entries()) {
    await failing(kinds[i], client.query(`select $1::${kinds[i]} as v, pg_typeof($1::${kinds[i]}) as t`, [value]));
  }
  for (const binary of [false, true]) {
    await failing("binary " + binary, client.query({ text: "select 1::int2, 2::int4, 3::int8, 1.5::float4, 2.5::float8, true, 'x'::text, '\\x00ff'::bytea, 'v'::varchar, '2024-01-01 00:00:00'::timestamp, '2024-01-01 00:00:00+00'::timestamptz, '{1,2}'::int[], 1.25::numeric, '{\"a\":1}'::json", values: [], binary }));
  }
  await failing("untyped", client.query("select $1 as a, $2 as b", ["x", null]));
  await failing("insert", client.query("insert into t (name, n, at, j, a) values ($1, $2, $3, $4, $5) returning *", ["p", "12.345", new Date(0), JSON.stringify([1]), [1, 2]]));
  await failing("any", client.query("select name from t where id = any($1) and name <> all($2) and n > $3 order by 1 limit $4", [[1, 2, 3], ["x"], 0, 5]));
  await failing("between", client.query("select count(*) from t where at between $1 and now() or n in ($2, $3) or name like $4", [new Date(0), 1, "2", "a%"]));
  await failing("too few", client.query("select $1::int + $2::int", [1]));
  await failing("too many", client.query("select $1::int", [1, 2]));
  await failing("bad", client.query("select $1::int", ["x"]));
  await failing("dates", client.query("select '2024-02-29'::date, '12:00'::time, '1 day 02:03:04.5'::interval, 'infinity'::timestamp, '44-03-15 BC'::date, '(1,2)'::text, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid, '{{1,2},{3,NULL}}'::int[], 'NaN'::float8, 1e20::numeric"));
}

async function prepared() {
  for (const id of [1, 2, 3]) show("named", result(await client.query({ name: "by id", text: "select id, name from t where id = $1", values: [id] })));
  await failing("another text", client.query({ name: "by id", text: "select 2", values: [] }));
  await failing("error in it", client.query({ name: "divides", text: "select 1 / $1::int", values: [0] }));
  show("again", (await client.query({ name: "divides", text: "select 1 / $1::int as q", values: [1] }).catch((error) => error.message)));
  await client.query("alter table t add extra int default 5");
  await failing("after a change", client.query({ name: "all", text: "select * from t where id = $1", values: [1] }));
  await client.query("alter table t drop extra");
  await failing("after another", client.query({ name: "all", text: "select * from t where id = $1", values: [1] }));
  show("queued", await Promise.all([1, 2, 3].map((i) => client.query("select $1::int as i", [i]).then((r) => r.rows[0].i))));
}

async function cursors() {
  const cursor = client.query(new Cursor("select i, i * 2 as d from generate_series(1, $1) i", [7]));
  show("read", [await cursor.read(3), await cursor.read(3), await cursor.read(3), await cursor.read(3)]);
  await cursor.close();
  const early = client.query(new Cursor("select generate_series(1, 1000000)"));
  show("early", await early.read(1));
  await early.close();
  const rows = [];
  for await (const row of client.query(new QueryStream("select generate_series(1, $1) as i", [25], { batchSize: 4 }))) rows.push(row.i);
  show("stream", rows);
  const broken = client.query(new Cursor("select 1 / (3 - i) from generate_series(1, 5) i"));
  await failing("broken", (async () => [await broken.read(2), await broken.read(2)].map((rows) => ({ command: "", fields: [], rows })))());
}

async function copying() {
  await client.query("create table c (a int, b text)");
  const into = client.query(copy.from("copy c from stdin"));
  await pipeline(Readable.from(["1\tone\n2\t", "two\n", "3\t\\N\n"]), into);
  show("in", into.rowCount);
  const out = client.query(copy.to("copy c to stdout with (format csv, header)"));
  let text = "";
  for await (const part of out) text += part;
  show("out", [text, out.rowCount]);
  await failing("bad", pipeline(Readable.from(["x\ty\n"]), client.query(copy.from("copy c from stdin"))));
  show("after", result(await client.query("select count(*) from c")));
}

async function transactions() {
  await client.query("begin");
  await client.query("insert into t (name) values ('in')");
  await client.query("savepoint s");
  await failing("unique", client.query("insert into t (name) values ('in')"));
  await failing("aborted", client.query("select 1"));
  await client.query("rollback to s");
  show("count", (await client.query("select count(*) from t where name = 'in'")).rows);
  show("commit", result(await client.query("commit")));
  const pool = new pg.Pool({ max: 3 });
  show("pool", (await Promise.all([1, 2, 3, 4, 5].map((i) => pool.query("select $1::int as i, pg_backend_pid() > 0 as p", [i])))).map((r) => r.rows[0]));
  const other = await pool.connect();
  await client.query("begin; update t set n = 5 where id = 1");
  await failing("locked", other.query("select * from t where id = 1 for update nowait"));
  await client.query("rollback");
  other.release();
  const late = new pg.Client({ statement_timeout: 100, application_name: "late", options: "-c datestyle=iso,dmy" });
  await late.connect();
  await failing("late", late.query("select pg_sleep(10)"));
  show("options", (await late.query("select current_setting('application_name') as a, current_setting('datestyle') as d")).rows);
  await late.end();
  await pool.end();
}

async function messages() {
  const other = new pg.Client();
  await other.connect();
  const heard = new Promise((resolve) => other.once("notification", (n) => resolve([n.channel, n.payload])));
  await other.query("listen there");
  await client.query("select pg_notify('there', $1)", ["hello"]);
  show("notification", await heard);
  await other.end();
  const notices = [];
  client.on("notice", (n) => notices.push([n.severity, n.code, n.message]));
  await client.query("drop table if exists none; create table if not exists t (a int)");
  show("notices", notices);
  await failing("null", client.query("insert into c (b) values (1, 2)"));
  await failing("not null", client.query("insert into t (id) values (null)"));
  await failing("too long", client.query("insert into t (name) values ($1)", ["x".repeat(21)]));
  await failing("syntax", client.query("selec 1"));
  await failing("column", client.query("select nothing from t"));
  await failing("overflow", client.query("select $1::int + 1", [2147483647]));
}

for (const part of [simple, parameters, prepared, cursors, copying, transactions, messages]) {
  console.log("== " + part.name);
  try {
    await part();
  } catch (error) {
    console.log(part.name, "ended:", error.code, error.message);
  }
}
await client.end();
