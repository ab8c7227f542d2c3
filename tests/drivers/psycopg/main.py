"""psycopg 3: parameters and results of every type in text and binary, prepared statements, cursors, COPY, pipelines, transactions, notifications, errors."""

import datetime
import decimal
import ipaddress
import uuid

import psycopg
from psycopg import sql
from psycopg.rows import class_row, dict_row, namedtuple_row
from psycopg.types.composite import CompositeInfo, register_composite
from psycopg.types.enum import EnumInfo, register_enum
from psycopg.types.json import Json, Jsonb

connection = psycopg.connect(autocommit=True)


def show(label, value):
    print(f"{label}: {value!r}")


def failing(label, function, *arguments):
    """Runs what should fail, and prints the error as a program may see it."""
    try:
        shown = function(*arguments)
        print(f"{label}: no error: {getattr(shown, 'statusmessage', shown)}")
    except psycopg.Error as error:
        diagnostic = error.diag
        fields = ("sqlstate", "message_primary", "message_detail", "message_hint", "statement_position", "schema_name", "table_name", "column_name", "datatype_name", "constraint_name", "context")
        found = {name: getattr(diagnostic, name) for name in fields if getattr(diagnostic, name)}
        print(f"{label}: {type(error).__name__} {found or str(error).splitlines()[0]}")


def columns(cursor):
    return [(c.name, c.type_code, c.display_size, c.internal_size, c.precision, c.scale, c.null_ok) for c in cursor.description or []]


class Mood(__import__("enum").Enum):
    sad = "sad"
    fine = "it's fine"


def basics():
    info = connection.info
    show("status", (info.server_version // 10000, info.encoding, info.transaction_status.name, info.pipeline_status.name))
    for name in ("server_encoding", "client_encoding", "DateStyle", "IntervalStyle", "TimeZone", "integer_datetimes", "standard_conforming_strings", "is_superuser", "session_authorization",
                 "application_name", "in_hot_standby", "default_transaction_read_only"):
        show(name, info.parameter_status(name))
    cursor = connection.execute("create table t (id int generated always as identity primary key, name varchar(20) not null, n numeric(10,2), at timestamptz)")
    show("create", (cursor.statusmessage, cursor.rowcount))
    cursor = connection.execute("insert into t (name, n) values (%s, %s), (%s, %s) returning *", ("one", decimal.Decimal("1.50"), "two", None))
    show("insert", (cursor.statusmessage, cursor.rowcount, columns(cursor), cursor.fetchall()))
    cursor = connection.execute("update t set n = n + %(more)s where id = %(id)s", {"more": 2, "id": 1})
    show("update", (cursor.statusmessage, cursor.rowcount, cursor.description))
    with connection.cursor() as cursor:
        cursor.executemany("insert into t (name, n) values (%s, %s) returning id", [(f"name{i}", i) for i in range(5)], returning=True)
        found = [cursor.fetchall()]
        while cursor.nextset():
            found.append(cursor.fetchall())
        show("executemany", (cursor.rowcount, found))
    show("several statements", [r for r in results("select 1; select 'a', 2; update t set n = 0 where false; select 3 where false")])
    show("empty", [r for r in results("")])
    show("comment", [r for r in results("-- nothing")])
    show("dict", connection.cursor(row_factory=dict_row).execute("select * from t order by id limit 1").fetchone())
    show("namedtuple", connection.cursor(row_factory=namedtuple_row).execute("select 1 as a, 2 as b").fetchone())
    show("client side", psycopg.ClientCursor(connection).execute("select %s, %s, %s::int[], %b", ("it's \\ 'q'", None, [1, 2], b"\x00\xff")).fetchone())
    show("raw", psycopg.RawCursor(connection).execute("select $1::int + $2", (1, 2)).fetchone())
    query = sql.SQL("select {column} from {table} where {key} = {value}").format(column=sql.Identifier("name"), table=sql.Identifier("public", "t"), key=sql.Identifier("id"), value=sql.Literal(1))
    show("composed", (query.as_string(connection), connection.execute(query).fetchone()))
    show("delete", connection.execute("delete from t where id > 3").statusmessage)
    show("with", connection.execute("with gone as (delete from t returning id) select array_agg(id order by id) from gone").fetchone())


def results(query):
    cursor = connection.execute(query)
    while True:
        yield cursor.statusmessage, cursor.rowcount, cursor.fetchall() if cursor.description else None
        if not cursor.nextset():
            return


VALUES = [
    None, True, False, 0, 1, -32768, 32768, -2147483649, 9223372036854775807, 9223372036854775808, -10**30, 0.0, -0.5, 1e300, float("inf"), float("-inf"), "", "text", "ünï \U0001f333 \\ ' \"", b"", b"\x00\x01\xff",
    decimal.Decimal("0"), decimal.Decimal("-1.50"), decimal.Decimal("1E+20"), decimal.Decimal("NaN"), decimal.Decimal("0.000000000001"), decimal.Decimal("123456789012345678901234567890.123456789"),
    datetime.date(2024, 2, 29), datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.time(23, 59, 59, 999999), datetime.time(1, 2, 3, tzinfo=datetime.timezone.utc),
    datetime.datetime(2024, 1, 2, 3, 4, 5, 678901), datetime.datetime(2024, 6, 1, 12, tzinfo=datetime.timezone(datetime.timedelta(hours=2))), datetime.datetime(1970, 1, 1),
    datetime.timedelta(days=3, seconds=4, microseconds=5), datetime.timedelta(days=-1), datetime.timedelta(0), uuid.UUID(int=0x00112233445566778899aabbccddeeff),
    [1, 2, None, 4], [[1, 2], [3, 4]], ["a", "b,c", '"', None, "NULL", ""], [], [True, False], [1.5, None], [decimal.Decimal("1.10"), decimal.Decimal("2")], [datetime.date(2024, 1, 1)], [b"a", b"\xff"], [uuid.UUID(int=1)],
    [datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc), None], [300, 1], [2**40], Json({"a": [1, 2.5, None, "x"]}), Jsonb({"b": {"c": True}}), Jsonb(None), [Jsonb([1]), Jsonb("x")],
]

CASTS = ["bool", "int2", "int4", "int8", "float4", "float8", "numeric", "numeric(6,2)", "text", "varchar", "varchar(3)", "char(5)", "name", "bytea", "date", "time", "time(3)", "timetz", "timestamp", "timestamptz", "interval",
         "uuid", "json", "jsonb", "oid", "\"char\"", "int4[]", "text[]", "numeric[]", "regclass", "regtype"]
TEXTS = {"bool": ["t", "off"], "int2": ["-7"], "int4": ["123"], "int8": ["-9007199254740993"], "float4": ["1.1", "NaN", "-0"], "float8": ["0.1", "1e-320", "Infinity"], "numeric": ["1.10", "NaN", "Infinity", "1e-10"], "numeric(6,2)": ["1.005"],
         "text": ["x"], "varchar": ["y"], "varchar(3)": ["abc"], "char(5)": ["ab"], "name": ["n"], "bytea": ["\\x00ff", "a\\001b"], "date": ["2024-02-29", "0001-01-01"], "time": ["12:34:56.7", "24:00"], "time(3)": ["01:02:03.45678"],
         "timetz": ["10:00:00+02", "10:00:00-03:30"], "timestamp": ["2024-01-01 00:00:00.000001"], "timestamptz": ["2024-07-01 12:00+05:30"], "interval": ["1 day 02:03:04.5", "-3 hours"], "uuid": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
         "json": ['{"a": 1 }', "[1, 2]"], "jsonb": ['{"b":1,"a":[true]}', '"s"'], "oid": ["4294967295"], "\"char\"": ["c"], "int4[]": ["{1,NULL,3}", "{{1,2},{3,4}}", "[0:1]={5,6}"], "text[]": ['{a,"b c",NULL}'], "numeric[]": ["{1.10,NaN}"],
         "regclass": ["pg_class"], "regtype": ["int4"]}


def types():
    """Every value as parameter in each format, its type found by the server where the query does not say it; every type as a result."""
    for value in VALUES:
        for mark in ("%t", "%b"):
            for binary in (False, True):
                try:
                    cursor = connection.cursor(binary=binary).execute(f"select {mark}, pg_typeof({mark})", (value, value))
                    row = cursor.fetchone()
                    print(f"{mark} {binary:d} {value!r}: {row!r} {[c.type_code for c in cursor.description]}")
                except (psycopg.Error, OverflowError) as error:
                    print(f"{mark} {binary:d} {value!r}: {type(error).__name__} {getattr(error, 'sqlstate', None)} {str(error).splitlines()[0]}")
    for kind in CASTS:
        for text in TEXTS[kind]:
            for binary in (False, True):
                try:
                    cursor = connection.cursor(binary=binary).execute(f"select %s::{kind}", (text,), prepare=True)
                    print(f"{kind} {text} {binary:d}: {cursor.fetchone()!r} {columns(cursor)}")
                except (psycopg.Error, ValueError) as error:
                    print(f"{kind} {text} {binary:d}: {type(error).__name__} {str(error).splitlines()[0]}")
    failing("an address", connection.execute, "select %s", (ipaddress.ip_address("::1"),))


def table_of_types():
    """Parameters take the types of columns; a table of all types goes in and out in both formats."""
    connection.execute("""create table kinds (b bool, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, n numeric, t text, v varchar(10), c char(4), by bytea, d date, ti time, tz timetz, ts timestamp, tstz timestamptz, iv interval,
                          u uuid, j json, jb jsonb, ai int[], at text[])""")
    row = (True, 1, 2, 3, 1.5, 2.5, decimal.Decimal("1.10"), "text", "v", "c", b"\x00\xff", datetime.date(2024, 1, 1), datetime.time(1, 2, 3), datetime.time(1, 2, 3, tzinfo=datetime.timezone.utc), datetime.datetime(2024, 1, 1),
           datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc), datetime.timedelta(days=1), uuid.UUID(int=5), Json([1]), Jsonb({"a": 1}), [1, 2], ["a", None])
    for mark in ("%s", "%t", "%b"):
        marks = ", ".join([mark] * len(row))
        show(f"insert {mark}", connection.execute(f"insert into kinds values ({marks})", row).statusmessage)
    for binary in (False, True):
        cursor = connection.cursor(binary=binary).execute("select * from kinds")
        show("columns", columns(cursor))
        show("rows", cursor.fetchall())
    show("in arrays", connection.execute("select count(*) from kinds where i4 = any(%s) and t = any(%s) and u <> all(%s)", ([1, 2, 3], ["text", "x"], [uuid.UUID(int=6)])).fetchone())
    show("limits", connection.execute("select i4 from kinds where i8 = %s and i2 = %s and n > %s order by 1 limit %s offset %s", (3, 1, 1, 2, 1)).fetchall())
    for condition in ("d > %s", "ts > %s", "tstz <= %s", "iv < %s", "f8 > %s", "jb @> %s", "jb->>%s = '1'", "v like %s", "%s || t = 'xtext'", "coalesce(t, %s) = 't'", "i4 between %s and 5", "i4 in (%s, 2)"):
        value = {"d": datetime.date(2023, 1, 1), "ts": datetime.datetime(2023, 1, 1), "tstz": datetime.datetime(2024, 1, 1), "iv": datetime.timedelta(days=2), "f8": 1, "jb": Jsonb({"a": 1}), "jb->>%s": "a", "v": "v%", "%s": "x",
                 "coalesce(t,": "x", "i4": 1}[condition.split()[0]]
        failing(condition, connection.execute, f"select 1 from kinds where {condition}", (value,))


def users_types():
    connection.execute("create type mood as enum ('sad', 'it''s fine')")
    connection.execute("create type pair as (a int, b text)")
    connection.execute("create domain small as int check (value < 10)")
    info = EnumInfo.fetch(connection, "mood")
    show("enum", (info.name, info.regtype, info.labels, info.oid > 16383, info.array_oid > 16383))
    register_enum(info, connection, Mood)
    info = CompositeInfo.fetch(connection, "pair")
    show("composite", (info.name, info.regtype, info.field_names, info.field_types))
    register_composite(info, connection)
    pair = info.python_type
    show("no such type", EnumInfo.fetch(connection, "no_such_type"))
    connection.execute("create table users (m mood, ms mood[], p pair, ps pair[], s small)")
    for mark in ("%s", "%b"):
        connection.execute(f"insert into users values ({mark}, {mark}, {mark}, {mark}, {mark})", (Mood.sad, [Mood.fine, Mood.sad], pair(1, "x"), [pair(2, None), pair(3, "a,b")], 5))
    for binary in (False, True):
        cursor = connection.cursor(binary=binary).execute("select *, row(1, 'a'::text, null::int) as r from users")
        show("rows", cursor.fetchall())
    failing("a bad label", connection.execute, "select %s::mood", ("glad",))
    failing("a bad domain", connection.execute, "insert into users (s) values (%s)", (10,))


def prepared():
    connection.execute("create table p (a int, b text)")
    connection.prepare_threshold = 2
    for i in range(5):
        cursor = connection.execute("insert into p values (%s, %s) returning a", (i, str(i)))
        show("run", (i, cursor.fetchone()))
    connection.execute("alter table p add c int default 7")
    show("after a change", connection.execute("select * from p where a = %s", (1,), prepare=True).fetchone())
    connection.execute("alter table p drop b")
    failing("after another", connection.execute, "select * from p where a = %s", (1,))
    connection.execute("prepare mine (int) as select a, c from p where a >= $1 order by a")
    show("execute", connection.execute("execute mine (3)").fetchall())
    failing("once more", connection.execute, "prepare mine as select 1")
    show("deallocate", connection.execute("deallocate mine").statusmessage)
    failing("gone", connection.execute, "execute mine (3)")
    show("deallocate all", connection.execute("deallocate all").statusmessage)
    failing("untyped", connection.execute, "select %t is null", (None,))


def cursors():
    with connection.transaction():
        with connection.cursor("c") as cursor:
            cursor.itersize = 3
            cursor.execute("select i, i::text as t from generate_series(1, 10) i where i > %s", (1,))
            show("description", columns(cursor))
            show("some", (cursor.fetchone(), cursor.fetchmany(2), [row for row in cursor]))
        with connection.cursor("n", scrollable=False) as cursor:
            cursor.execute("select generate_series(1, 3)")
            show("not scrollable", cursor.fetchall())
        with connection.cursor("b", binary=True) as cursor:
            cursor.execute("select 1.5::numeric, 'x'::text, now() is null")
            show("binary", cursor.fetchall())

    def scrolling():
        with connection.transaction(), connection.cursor("s", scrollable=True) as cursor:
            cursor.execute("select generate_series(1, 10)")
            cursor.scroll(5)
            found = cursor.fetchone()
            cursor.scroll(-3)
            return found, cursor.fetchone()
    failing("scrolling", scrolling)
    failing("held", lambda: connection.cursor("h", withhold=True).execute("select generate_series(1, 4)").fetchall())
    failing("outside", connection.cursor("o").execute, "select 1")
    show("stream", [row for row in connection.cursor().stream("select i, repeat('x', i) from generate_series(1, %s) i", (4,))])


def copying():
    connection.execute("create table c (a int, b text, d date, n numeric, j jsonb)")
    rows = [(1, "one", datetime.date(2024, 1, 1), decimal.Decimal("1.5"), Jsonb([1])), (2, None, None, None, None), (3, "tab\t nl\n back\\ \\N", None, None, None)]
    cursor = connection.cursor()
    with cursor.copy("copy c from stdin") as copy:
        for row in rows:
            copy.write_row(row)
    show("in", (cursor.statusmessage, cursor.rowcount))
    with cursor.copy("copy c from stdin (format binary)") as copy:
        copy.set_types(["int4", "text", "date", "numeric", "jsonb"])
        for row in rows:
            copy.write_row(row)
    show("in, binary", cursor.statusmessage)
    with cursor.copy("copy c (b, a) from stdin (format csv, header)") as copy:
        copy.write('b,a\n"x,""y""",4\n,5\n')
    show("in, csv", cursor.statusmessage)
    for query in ("copy c to stdout", "copy (select * from c order by a desc) to stdout (format csv, header, force_quote *)", "copy c (a, j) to stdout (null 'none', delimiter '|')"):
        with cursor.copy(query) as copy:
            show(query, b"".join(bytes(block) for block in copy))
    with cursor.copy("copy c to stdout (format binary)") as copy:
        copy.set_types(["int4", "text", "date", "numeric", "jsonb"])
        show("out, binary", list(copy.rows()))

    def bad(text, query="copy c from stdin"):
        with cursor.copy(query) as copy:
            copy.write(text)
    failing("too few", bad, "1\n")
    failing("no number", bad, "x\ta\t\\N\t\\N\t\\N\n")
    failing("too many", bad, "1\ta\t\\N\t\\N\t\\N\t5\n")
    failing("csv", bad, '1,"open', "copy c from stdin csv")

    def breaking():
        with cursor.copy("copy c from stdin") as copy:
            copy.write_row(rows[0])
            raise ZeroDivisionError
    try:
        breaking()
    except ZeroDivisionError:
        show("given up", (connection.info.transaction_status.name, connection.execute("select count(*) from c").fetchone()))
    failing("no copy", bad, "", "select 1")


def pipelines():
    connection.execute("create table l (a int primary key)")
    with connection.pipeline() as pipeline:
        first = connection.execute("insert into l values (1) returning a")
        second = connection.execute("select %s::int + a from l", (10,))
        cursor = connection.cursor()
        cursor.executemany("insert into l values (%s)", [(i,) for i in range(2, 6)])
        show("inside", (first.fetchone(), second.fetchone()))
        pipeline.sync()
        show("count", connection.execute("select count(*) from l").fetchone())
    try:
        with connection.pipeline():
            connection.execute("insert into l values (100)")
            connection.execute("insert into l values (1)")
            connection.execute("insert into l values (101)")
    except psycopg.Error as error:
        show("fails", (type(error).__name__, error.sqlstate))
    show("after", connection.execute("select array_agg(a order by a) from l").fetchone())
    with connection.pipeline() as pipeline:
        with connection.transaction():
            connection.execute("insert into l values (200)")
            try:
                with connection.transaction():
                    connection.execute("insert into l values (200)").rowcount
                    pipeline.sync()
            except psycopg.Error as error:
                show("inner", error.sqlstate)
    show("after", connection.execute("select array_agg(a order by a) from l").fetchone())


def transactions():
    connection.execute("create table x (a int primary key, b int references x deferrable initially deferred, check (a > 0))")
    with connection.transaction() as outer:
        connection.execute("insert into x values (1)")
        try:
            with connection.transaction():
                connection.execute("insert into x values (2)")
                connection.execute("insert into x values (1)")
        except psycopg.errors.UniqueViolation as error:
            show("unique", (error.diag.constraint_name, error.diag.message_detail))
        with connection.transaction(force_rollback=True):
            connection.execute("insert into x values (3)")
        show("status", connection.info.transaction_status.name)
    show("kept", connection.execute("select * from x").fetchall())
    failing("check", connection.execute, "insert into x values (-1)")
    failing("not null", connection.execute, "insert into x values (null)")
    failing("foreign key", connection.execute, "insert into x values (7, 99)")
    connection.execute("begin")
    connection.execute("insert into x values (8, 99)")
    failing("at commit", connection.execute, "commit")
    show("status", connection.info.transaction_status.name)
    connection.execute("begin")
    failing("fails", connection.execute, "select 1/0")
    failing("is aborted", connection.execute, "select 1")
    show("commit", (connection.info.transaction_status.name, connection.execute("commit").statusmessage))
    for level in psycopg.IsolationLevel.READ_COMMITTED, psycopg.IsolationLevel.REPEATABLE_READ:
        with psycopg.connect() as other:
            other.isolation_level = level
            other.read_only = True
            other.deferrable = False
            show(level.name, (other.execute("show transaction_isolation").fetchone(), other.execute("show transaction_read_only").fetchone()))
            failing("read only", other.execute, "insert into x values (50)")
    with psycopg.connect() as other:
        other.execute("insert into x values (60)")
        other.commit()
        other.execute("insert into x values (61)")
        other.rollback()
        other.execute("set local statement_timeout = 50")
        failing("timeout", other.execute, "select pg_sleep(20)")
    show("kept", connection.execute("select array_agg(a order by a) from x").fetchone())
    with psycopg.connect() as one, psycopg.connect() as two:
        one.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        one.execute("select * from x")
        two.execute("update x set b = null where a = 1")
        two.commit()
        failing("serialization", one.execute, "update x set b = null where a = 1")
        one.rollback()
        two.execute("select * from x where a = 1 for update")
        failing("nowait", one.execute, "select * from x where a = 1 for update nowait")
        one.rollback()
        show("skip locked", one.execute("select a from x order by a for update skip locked").fetchall())


def two_phases():
    other = psycopg.connect()

    def begin():
        other.tpc_begin(other.xid(1, "gtrid", "bqual"))
        other.execute("select 1")
        other.tpc_prepare()
    failing("prepare", begin)
    other.close()
    show("recover", connection.tpc_recover())


def messages():
    with psycopg.connect(autocommit=True) as other:
        other.execute("listen there")
        connection.execute("notify there, 'hello'")
        connection.execute("select pg_notify('there', %s)", ("again",))
        for notice in other.notifies(timeout=10, stop_after=2):
            show("notify", (notice.channel, notice.payload))
    connection.add_notice_handler(lambda diagnostic: show("notice", (diagnostic.severity, diagnostic.sqlstate, diagnostic.message_primary)))
    connection.execute("drop table if exists none")
    connection.execute("create table if not exists t (a int)")
    connection.execute("commit")
    for query in ("selec 1", "select nothing", "select * from nowhere", "select f(1)", "select 1 + 'x'::text", "select 'x'::int", "select 2147483647 + 1", "insert into t (name) values (repeat('x', 21))", "create table t (a int)",
                  "select * from t t1, t t2 where id = 1", "select count(*) from t group by", "set nothing = 1", "set work_mem = 'x'", "select 1 from t having id = 1", "select sum(name) from t", "select lower(1, 2)"):
        failing(query, connection.execute, query)


for part in (basics, types, table_of_types, users_types, prepared, cursors, copying, pipelines, transactions, two_phases, messages):
    print(f"== {part.__name__}")
    try:
        part()
    except Exception as error:  # the rest is to be seen too
        print(f"{part.__name__} ended: {type(error).__name__}: {error}")
        if connection.closed:
            connection = psycopg.connect(autocommit=True)
        connection.execute("rollback")
