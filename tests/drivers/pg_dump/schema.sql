-- Everything that a dump can hold, as far as both servers have it.
create schema app;
comment on schema app is 'what an application keeps';
create type app.mood as enum ('sad', 'ok', 'it''s fine');
comment on type app.mood is 'how one feels';
create type app.address as (street text, zip varchar(10), floors int[]);
create domain app.positive as int constraint positive_check check (value > 0);
create domain app.email as varchar(100) default 'nobody@example.org' not null constraint has_at check (value ~ '@');
comment on domain app.positive is 'more than nothing';
create sequence app.tickets as int increment by 5 minvalue 10 maxvalue 1000 start 15 cycle;
create sequence app.cached cache 3;
comment on sequence app.tickets is 'numbers to wait with';
create function app.stamp() returns trigger language plpgsql as $$
begin
  NEW.changed := '2024-05-06 07:08:09'::timestamp;
  return NEW;
end
$$;
comment on function app.stamp() is 'when it was changed';

create table app.customers (
  id int generated always as identity (start with 10 increment by 2) primary key,
  name text not null,
  email app.email,
  feels app.mood default 'ok',
  lives app.address,
  score numeric(10,2) default 0.00 not null check (score >= 0),
  double_score numeric generated always as (score * 2) stored,
  tags text[] default '{}',
  changed timestamp,
  constraint customers_name_score_key unique (name, score),
  check (name <> '' and score < 1000000)
);
comment on table app.customers is 'those who pay';
comment on column app.customers.name is 'as on the letter''s head';
create table app.orders (
  id bigserial primary key,
  customer int not null references app.customers on delete cascade on update set null,
  parent bigint references app.orders (id) deferrable initially deferred,
  amount app.positive,
  note varchar(20) collate "C",
  at timestamp with time zone default '2024-01-01 00:00:00+00'
) with (fillfactor = 80);
comment on constraint orders_customer_fkey on app.orders is 'somebody has to pay';
create index orders_at on app.orders (at desc nulls last, customer) include (amount) where amount > 10;
create index orders_note_lower on app.orders (lower(note) text_pattern_ops, (amount % 7));
create unique index orders_parent on app.orders (parent) with (fillfactor = 70);
comment on index app.orders_at is 'the latest';
alter table app.orders add constraint amount_small check (amount < 100000) not valid;
create trigger stamp before update on app.customers for each row when (old.name is distinct from new.name) execute function app.stamp();
comment on trigger stamp on app.customers is 'keeps the time';
create trigger stamp_off before insert on app.customers for each row execute function app.stamp();
alter table app.customers disable trigger stamp_off;

create table public.kinds (
  b bool, i2 smallint, i4 int, i8 bigint, f4 real, f8 double precision, n numeric, np numeric(12,3), t text, v varchar, vn varchar(5), c char(3), bp char,
  nm name, by bytea, d date, ti time, tip time(2), tz timetz, ts timestamp, tsp timestamp(0), tstz timestamptz, iv interval, ivf interval day to second(2), u uuid, j json, jb jsonb,
  o oid, ch "char", ai int[], at text[], aa numeric[], ats timestamptz[], m app.mood, ma app.mood[], ad app.address, ada app.address[], p app.positive
);
insert into public.kinds values
  (true, 1, 2, 3, 1.5, 0.1, 'NaN', 1.25, E'tab\tback\\slash\nline', '', 'abc', 'x', 'y', 'a name', '\x00ff5c', '2024-02-29', '12:34:56.789', '01:02:03.456', '10:00:00+02', '2024-01-01 10:00:00.123456', '2024-01-01 10:00:00.5',
   '2024-06-01 12:00:00+02', '1 year 2 mons -3 days 04:05:06', '1 day 02:03:04.567', '00112233-4455-6677-8899-aabbccddeeff', '{"a" : [1, 2.50]}', '{"b": null, "a": [1, 2.50]}', 4294967295, 'q', '{1,NULL,3}',
   '{"a b","c\"d",NULL,""}', '{{1.10,2},{3,4}}', '{2024-01-01 00:00:00+00}', 'sad', '{ok,"it''s fine"}', row('Main "St"', '12', '{1,2}'), array[row('a', null, null)::app.address], 7),
  (false, -32768, -2147483648, -9223372036854775808, 'Infinity', '-Infinity', 1e100, -0.001, '\.', NULL, NULL, NULL, NULL, NULL, '', 'infinity', '24:00:00', NULL, NULL, '-infinity', NULL, '0044-03-15 12:00:00+00 BC', '0', NULL,
   NULL, 'null', 'null', 0, '', '{}', '{}', NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
insert into app.customers (name, email, lives, score) values ('Ann', 'ann@example.org', row('Elm', '1', null), 12.50), ('Bob', default, null, 3);
update app.customers set feels = 'sad' where name = 'Bob';
insert into app.orders (customer, amount, note, parent) values (10, 5, 'first', null), (12, 50, 'second', 1), (10, null, null, 2);
create table "Strange ""Names""" ("a b" int primary key, "Select" text default 'x''y', "ünï" int);
insert into "Strange ""Names""" values (1, 'q', 2);
create unlogged table public.lossy (a int);
create table public.nothing ();
create table public.identities (a smallint generated by default as identity, b serial, c int default nextval('app.tickets'));
insert into public.identities default values;
insert into public.identities default values;
alter sequence app.tickets owned by none;

create table app.events (id int not null, place text not null, at date default '2024-01-01', size int check (size > 0), constraint events_key primary key (id, place)) partition by range (id);
comment on table app.events is 'what happens';
create table app.events_low partition of app.events for values from (minvalue) to (100);
create table app.events_far (size int constraint events_size_check check (size > 0), place text not null, gone int, id int not null, at date default 'infinity') partition by list (place);
alter table app.events_far drop column gone;
alter table app.events attach partition app.events_far for values from (100) to (200);
create table app.events_here partition of app.events_far (at default '2025-05-05') for values in ('here', 'there');
create table app.events_else partition of app.events_far default;
create table app.events_hash partition of app.events for values from (200) to (maxvalue) partition by hash (id, place);
create table app.events_hash0 partition of app.events_hash for values with (modulus 2, remainder 0);
create table app.events_hash1 partition of app.events_hash for values with (modulus 2, remainder 1);
create index events_at on app.events (at desc, size) where size > 1;
comment on index app.events_at is 'over all of them';
create index events_low_size on app.events_low (size);
create index events_waits on only app.events (size);
alter index app.events_waits attach partition app.events_low_size;
create unique index on app.events (lower(place), id, place);
alter table app.events add constraint events_once unique (place, id) include (at);
insert into app.events (id, place, size) select n * 7 % 300, (array['here', 'there', 'nowhere'])[n % 3 + 1], n from generate_series(1, 40) n;
create table public.by_letter (letter "char", note text) partition by list (letter);
create table public.letter_a partition of by_letter for values in ('a', null);
insert into by_letter values ('a', 'x'), (null, 'y');
create view app.only_events as select id from only app.events;

create view app.rich as select c.id, c.name, c.score, (c.lives).street from app.customers c where c.score > 10;
comment on view app.rich is 'worth a call';
comment on column app.rich.street is 'where';
create view app.sums with (security_barrier) as
  select c.name, count(o.id) as orders, sum(o.amount) filter (where o.at > '2020-01-01') as total, rank() over (order by count(o.id) desc) as place
  from app.customers c left join app.orders o on o.customer = c.id group by c.name having count(*) > 0;
create view public.of_a_view as select name, score from app.rich where score < 1000 with local check option;
create materialized view app.busy with (fillfactor = 80) as select s.name, s.orders from app.sums s where s.orders > 0;
create unique index on app.busy (name) where orders > 1;
create unique index busy_key on app.busy (name, orders);
comment on materialized view app.busy is 'as of the last refresh';
comment on column app.busy.orders is 'how many';
refresh materialized view concurrently app.busy;
create materialized view public.later (n) as select count(*) from app.busy with no data;
create view public.over_busy as select name from app.busy;

-- Types where the search path finds them, which that of a dump does not.
create type size as enum ('small', 'large');
create type "Odd Pair" as (a int, s size);
create domain short as varchar(5) default 'ab' check (value <> 'no');
create function larger(a size, b short default 'x', all_s size[] default '{small}') returns setof size language sql as $$ select case when b = 'y' then a else 'large' end $$;
comment on function larger(size, short, size[]) is 'or not';
create table shirts (
  id int primary key, s size default 'small' not null, all_s size[] default '{small,large}', p "Odd Pair", p_s "Odd Pair"[], sh short,
  l text generated always as (case when s = 'large' then 'L' else 'S' end) stored,
  check (s <> 'large' or sh in ('big', 'ab'))
);
insert into shirts (id, s, p, p_s) values (1, 'small', '(1,large)', '{"(,small)"}'), (2, 'large', null, null);
create index on shirts (s desc, id) where s > 'small';
create trigger stamp_large before insert on shirts for each row when (new.s = 'large' and new.all_s is null) execute function app.stamp();
create view large_shirts as select id, s, p, (p).s as of_p, array[s, 'small'] as l, coalesce(sh, 'x'::short) as sh from shirts where s = any ('{large}');
create domain a_short as short check (length(value) < 3);

alter table app.orders alter column amount set default 3;
analyze;
