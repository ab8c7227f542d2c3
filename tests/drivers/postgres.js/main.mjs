// postgres.js: tagged queries, types found on connecting, helpers for inserts and updates, cursors, COPY, transactions, pipelines, notifications, errors.

import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { inspect } from "node:util";
import postgres from "postgres";

const show = (label, value) => console.log(label + ":", inspect(value, { depth: 8, breakLength: 170 }));
const notices = [];
const sql = postgres({ host: process.env.PGHOST, port: process.env.PGPORT, user: "postgres", database: "postgres", max: 1, onnotice: (n) => notices.push([n.severity, n.code, n.message]) });

function result(found) {
  return { command: found.command, count: found.count, columns: (found.columns ?? []).map((c) => [c.name, c.type < 16384 ? c.type : "of a user", c.number]), rows: [...found] };
}

async function failing(label, query) {
  try {
    show(label, ["no error", result(await query)]);
  } catch (error) {
    const fields = ["severity", "code", "message", "detail", "hint", "position", "where", "schema_name", "table_name", "column_name", "constraint_name"];
    show(label, Object.fromEntries(fields.filter((name) => error[name] !== undefined).map((name) => [name, error[name]])));
  }
}

async function queries() {
  show("create", result(await sql`create table t (id int generated always as identity primary key, name text not null, n numeric, at timestamptz, j jsonb, a int[], ts text[], u uuid, b bytea, f bool)`));
  show("insert", result(await sql`insert into t ${sql([{ name: "one", n: 1.5, f: true }, { name: "two", n: null, f: false }])} returning *`));
  const row = { name: "three", n: "12.30", at: new Date(Date.UTC(2024, 0, 2)), j: { a: [1, null] }, a: [1, 2], ts: ["x,y", null], u: "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", b: Buffer.from([0, 255]), f: null };
  await failing("all types", sql`insert into t ${sql({ ...row, j: sql.json(row.j) })} returning *`);
  await failing("update", sql`update t set ${sql({ name: "ONE", n: 2 }, "name", "n")} where id = ${1} returning id, name, n`);
  await failing("in", sql`select id from t where id in ${sql([1, 2, 5])} order by id`);
  await failing("any", sql`select id from t where name = any(${["ONE", "two"]}) and id > ${0} order by id limit ${5}`);
  await failing("names", sql`select ${sql(["id", "name"])} from ${sql("t")} order by ${sql("id")} desc`);
  const condition = (n) => (n ? sql`and n > ${n}` : sql``);
  await failing("fragments", sql`select name from t where true ${condition(1)} ${condition()} order by 1`);
  await failing("values", sql`select * from (values ${sql([[1, "a"], [2, "b"]])}) v (a, b)`);
  await failing("update from", sql`update t set name = v.name from (values ${sql([[1, "first"], [2, "second"]])}) v (id, name) where t.id = v.id::int and t.id = 1 returning t.id, t.name`);
  await failing("types", sql`select 1::int2 a, 2::int8 b, 1.5::float8 c, 'x'::char(3) d, '2024-01-01'::date e, '1 day'::interval f, '{1,2}'::int8[] g, '{a,b}'::text[] h, '{"a":1}'::json i, null j, '{{1,2},{3,4}}'::int[] k, '12:00'::time l, '{t,f}'::bool[] m`);
  await failing("unsafe", sql.unsafe("select $1::int + 1 as a", [5]));
  await failing("several", sql.unsafe("select 1 as a; select 2 as b").simple());
  show("rows of arrays", [...(await sql`select 1 as a, 2 as a`.values())]);
  show("raw", [...(await sql`select 1 as a, 'x' as b`.raw())]);
  show("described", await sql`select id, name from t where id = ${1}`.describe().then((d) => [d.types, d.columns.map((c) => [c.name, c.type])]));
  show("pipelined", (await Promise.all([1, 2, 3, 4].map((i) => sql`select ${i}::int as i`))).map((r) => r[0].i));
}

async function cursors() {
  const seen = [];
  await sql`select generate_series(1, 10) as i`.cursor(4, (rows) => { seen.push(rows.map((r) => r.i)); });
  show("cursor", seen);
  const some = [];
  for await (const [row] of sql`select generate_series(1, 5) as i`.cursor()) { some.push(row.i); if (row.i === 3) break; }
  show("iterated", some);
  const each = [];
  await sql`select generate_series(1, 3) as i`.forEach((row) => each.push(row.i));
  show("for each", each);
}

async function copying() {
  await sql`create table c (a int, b text)`;
  const into = await sql`copy c from stdin`.writable();
  await pipeline(Readable.from(["1\tone\n", "2\t\\N\n"]), into);
  let text = "";
  for await (const part of await sql`copy c to stdout (format csv)`.readable()) text += part;
  show("out", text);
}

async function transactions() {
  await sql.begin(async (sql) => {
    await sql`insert into t (name) values ('in')`;
    await sql.savepoint(async (sql) => { await sql`insert into t (name) values ('inner')`; throw new Error("no"); }).catch((error) => show("inner", error.message));
    show("count", (await sql`select count(*)::int from t where name in ('in', 'inner')`)[0]);
    return 1;
  });
  await failing("rolled back", sql.begin(async (sql) => { await sql`insert into t (name) values ('gone')`; await sql`select 1 / 0`; }));
  show("read only", await sql.begin("read only", (sql) => sql`insert into t (name) values ('x')`).catch((error) => error.code));
  show("pipelined", (await sql.begin((sql) => [sql`select 1 as a`, sql`select 2 as a`])).map((r) => r[0].a));
  show("left", (await sql`select array_agg(name order by id) as names from t`)[0]);
  const slow = sql`select pg_sleep(20)`.execute();
  setTimeout(() => slow.cancel(), 200);
  await failing("cancelled", slow);
}

async function messages() {
  let heard;
  const hearing = new Promise((resolve) => { heard = resolve; });
  const listening = await sql.listen("there", (payload) => heard(payload));
  await sql.notify("there", "hello");
  show("heard", [await hearing, listening.state.pid > 0]);
  await listening.unlisten();
  await sql`drop table if exists none`;
  show("notices", notices);
  for (const text of ["selec 1", "select nothing from t", "insert into t (id) values (1)", "insert into t (name) values (null)", "select 'x'::int", "select * from nowhere", "create table t (a int)"]) await failing(text, sql.unsafe(text));
  await failing("bad parameter", sql`select ${"x"}::int`);
  await failing("undefined", sql`select ${null}::text as a`);
}

async function users_types() {
  await sql`create type mood as enum ('sad', 'fine')`;
  await sql`create table m (a mood, b mood[], c numeric[])`;
  await sql.end();
  const other = postgres({ host: process.env.PGHOST, port: process.env.PGPORT, user: "postgres", database: "postgres", max: 1 });
  await failing("enum", other`insert into m values (${"sad"}, ${["fine", "sad"]}, ${[1.5, null]}) returning *`);
  await failing("bad", other`insert into m (a) values (${"glad"})`);
  await other.end();
}

for (const part of [queries, cursors, copying, transactions, messages, users_types]) {
  console.log("== " + part.name);
  try {
    await part();
  } catch (error) {
    console.log(part.name, "ended:", error.code, error.message);
  }
}
