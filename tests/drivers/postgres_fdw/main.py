"""postgres_fdw of a PostgreSQL 15: two nodes of the server under test lie under one partitioned table; what is pushed down, changed and refused is printed."""

import os
import subprocess

from servers import Niwaki, Postgres

KIND = {kind.name: kind for kind in (Postgres, Niwaki)}[os.environ["SERVER"]]


def psql(port, script, *options):
    done = subprocess.run(["psql", "-X", "-a", "-v", "VERBOSITY=verbose", "-P", "null=NULL", *options], env={**os.environ, "PGPORT": str(port)}, input=script, capture_output=True, text=True)
    merged = done.stdout + "".join(line + "\n" for line in done.stderr.splitlines() if not line.startswith(("LOCATION:", "psql:")))
    return merged


NODE = """
create type mood as enum ('sad', 'ok');
create table accounts_{n} (id int primary key, branch int not null, balance numeric(12,2) not null default 0, note text, at timestamptz default '2024-01-01', tags text[], j jsonb, check (branch % 2 = {n}));
create index on accounts_{n} (branch, balance);
create table kinds (b bool, i2 int2, i8 int8, f4 float4, f8 float8, n numeric, t text, v varchar(5), c char(4), by bytea, d date, ti time, ts timestamp, iv interval, u uuid, ai int[], e mood);
insert into kinds values (true, 1, 2, 1.1, 0.1, 1.10, E'tab\\t', 'v', 'c', '\\x00ff', '2024-02-29', '12:34:56.7', '2024-01-01 00:00:00.5', '1 year 2 days 03:04:05.6', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{{1,NULL}}', 'ok'), (null, null, null, 'NaN', '-Infinity', null, null, null, null, null, null, null, null, null, null, null, null);
create sequence s;
create table serials (id int default nextval('s') primary key, name text collate "C" not null, twice int generated always as (3 * 2) stored);
create view rich as select id, balance from accounts_{n} where balance > 50;
"""

HUB = """
create extension postgres_fdw;
create server node0 foreign data wrapper postgres_fdw options (host '127.0.0.1', port '{ports[0]}', dbname 'postgres');
create server node1 foreign data wrapper postgres_fdw options (host '127.0.0.1', port '{ports[1]}', dbname 'postgres', fetch_size '3', async_capable 'true');
create user mapping for public server node0 options (user 'postgres');
create user mapping for public server node1 options (user 'postgres');
create type mood as enum ('sad', 'ok');
create table accounts (id int not null, branch int not null, balance numeric(12,2) not null default 0, note text, at timestamptz default '2024-01-01', tags text[], j jsonb) partition by list (branch);
create foreign table accounts_0 partition of accounts for values in (0, 2, 4, 6) server node0;
create foreign table accounts_1 partition of accounts for values in (1, 3, 5, 7) server node1 options (batch_size '10');
create schema imported;
import foreign schema public except (accounts_0) from server node0 into imported options (import_default 'true', import_generated 'true');
"""

STATEMENTS = """
\\d imported.*
insert into accounts (id, branch, balance, note) select i, i % 8, i * 10, 'n' || i from generate_series(1, 40) i;
select count(*), sum(balance) from accounts;
explain (verbose, costs off) select count(*) from accounts where branch = 3 and balance > 20;
select count(*), max(note) from accounts where branch = 3 and balance > 20;
select * from accounts where id in (1, 2, 3) order by id;
select branch, sum(balance), count(*) filter (where id > 20) from accounts group by branch order by branch;
select a.id, b.id from accounts a join accounts b on a.id = b.id + 1 where a.id < 6 order by 1;
select a.id, k.t from accounts_0 a join imported.kinds k on k.i2 < a.id order by 1, 2 limit 3;
update accounts set balance = balance + 1, note = upper(note) where branch = 2 returning id, balance, note;
update accounts set tags = '{a,"b c"}', j = '{"a": [1]}' where id = 5 returning tags, j, at;
update accounts set note = (select max(i)::text from generate_series(1, 3) i) || random()::text::int4 where false;
update accounts set note = note || '!' where id % 3 = 0 and note <> coalesce(nullif(note, 'x'), 'y') || 'z' returning id;
delete from accounts where id > 38 returning id, branch;
delete from accounts_1 a using generate_series(35, 37) i where a.id = i returning a.id;
insert into accounts (id, branch) values (1, 1);
insert into accounts_0 (id, branch) values (100, 1);
insert into accounts_0 (id, branch) values (1, 0) on conflict do nothing;
insert into accounts_0 (id, branch) values (2, 0) on conflict do nothing returning id;
insert into accounts_0 (id, branch) values (2, 0) on conflict (id) do update set balance = 0;
select * from imported.kinds order by 1;
insert into imported.kinds select * from imported.kinds where b;
select count(*) from imported.kinds where d > '2024-01-01' and ti < '13:00' and ts < now() and iv > '1 day' and u is not null and ai @> '{1}' and v like 'v%' and e = 'ok' and n between 1 and 2 and lower(t) = t;
select f4, f8, n from imported.kinds where f8 = 0.1 and f4 = '1.1'::float4;
insert into imported.serials (id, name) values (1, 'x'), (2, 'y') returning *;
select * from imported.rich order by id limit 2;
begin;
savepoint a;
update accounts set balance = -1 where id = 2;
savepoint b;
insert into accounts (id, branch) values (1, 1);
rollback to b;
select balance from accounts where id = 2;
rollback to a;
select balance from accounts where id = 2;
update accounts set balance = 0 where id in (2, 3);
commit;
select id, balance from accounts where id in (2, 3) order by id;
begin isolation level repeatable read;
select count(*) from accounts;
commit;
begin;
declare c cursor for select id from accounts_1 order by id;
fetch 5 from c;
move 2 in c;
fetch 2 from c;
close c;
select id from accounts_0 where id < 5 order by id for update;
select id from accounts_1 where id < 6 order by id for share;
commit;
prepare p (int) as select id, balance from accounts where id = $1;
execute p (4);
execute p (5);
analyze accounts_0;
select reltuples from pg_class where relname = 'accounts_0';
alter server node0 options (add use_remote_estimate 'true');
select count(*) from accounts_0 where balance > 100;
select id from accounts_0 a where exists (select 1 from accounts_0 b where b.id = a.id + 8) order by id limit 2;
select distinct branch from accounts_0 order by branch desc;
select branch, avg(balance)::numeric(10,2), string_agg(note, ',' order by id) from accounts_0 group by branch having count(*) > 1 order by 1;
select id from accounts where note is null or at is distinct from '2024-01-01' order by id;
select 1 / (id - 4) from accounts_0 where id = 4;
select id from accounts_0 where 1 / (id - 4) > 0;
truncate accounts_0;
select count(*) from accounts;
\\c
select srvname from postgres_fdw_get_connections() order by 1;
copy accounts (id, branch, note) from stdin;
200\t1\tcopied
201\t2\t\\N
\\.
select tableoid::regclass, id, branch, note from accounts where id >= 200 order by id;
"""


def main():
    first = int(os.environ["PGPORT"])
    with KIND({}) as second, Postgres({}) as hub:
        ports = [first, second.port]
        for n, port in enumerate(ports):
            print(psql(port, NODE.format(n=n), "-q"))
        output = psql(hub.port, HUB.format(ports=ports), "-q") + psql(hub.port, STATEMENTS)
        for n, port in enumerate(ports):
            output = output.replace(f"'{port}'", f"'port {n}'")
        print(output)
        for n, port in enumerate(ports):
            print(psql(port, f"select id, branch, balance, note, tags, j from accounts_{n} order by id;"))
        script = hub.dir / "script.sql"
        script.write_text("\\set id random(300, 900)\n\\set branch :id % 8\nbegin;\ninsert into accounts (id, branch) select :id, :branch where not exists (select 1 from accounts where id = :id and branch = :branch);\nupdate accounts set balance = balance + 1 where id = :id and branch = :branch;\n"
                          "select count(*) from accounts where branch = :branch;\ncommit;\n")
        done = hub.client("pgbench", "-n", "-c", "1", "-t", "300", "-f", str(script))
        print([line for line in done.stdout.splitlines() if "failed" in line or "processed" in line])
        print(psql(hub.port, "select sum(balance) filter (where id >= 300) from accounts;"))


main()
