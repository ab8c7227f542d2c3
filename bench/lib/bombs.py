"""Statements and sessions that ask for more memory or time than there is: about 90, of every kind that a client can send.

A bomb is a text of SQL, or a function of a `Drained` client and of the moment when it is to stop. It is judged by what happens
around it: the server lives, a session beside it gets its `SELECT 1` within 100 ms, a new connection too, and the memory is back
when the bombs have ended. What the bomb itself answers is told, not judged: rows, 53200, 54000, 57014 are all right. DO and
bit strings are not among them: Niwaki has neither, and a bomb that is refused at once shows nothing.

The server is in a memory cgroup (v1 or v2) of its own where one can be made, which takes root; elsewhere its resident memory is
watched, and passing the limit counts as being killed.
"""

import contextlib
import dataclasses
import multiprocessing
import os
import pathlib
import queue
import random
import signal
import socket
import struct
import threading
import time

from servers import Niwaki
from wire import Client, Failure, Lost, Result, failure

MEGABYTE = 1 << 20
# The longest that anybody else's `SELECT 1` may take.
PROBE_MS_MAX = 100
PROBE_EVERY_SECONDS = 0.02
CONNECT_EVERY_SECONDS = 1.0
# How much longer than its statement_timeout a bomb may take to answer before it is called stuck.
GRACE_SECONDS = 20
# Settings that fit the memory: pages, sorts and hash tables of a hundred sessions, and files that a disk of today holds.
SETTINGS = {
    512: {"shared_buffers": "64MB", "work_mem": "4MB", "maintenance_work_mem": "32MB", "temp_file_limit": "2GB", "max_server_memory": "-1"},
    3072: {"shared_buffers": "512MB", "work_mem": "16MB", "maintenance_work_mem": "128MB", "temp_file_limit": "4GB", "max_server_memory": "-1"},
}


class Drained(Client):
    """A client that throws rows away while they arrive, whatever their size."""

    # Of the last error: it says what the account of memory was.
    detail = ""

    def answers(self, copy_data=None):
        found = []
        while True:
            head = self.take(5)
            kind, length = head[:1], struct.unpack("!I", head[1:])[0] - 4
            if kind in b"EZCGIA":
                body = self.take(length)
            else:
                self.skip(length)
                continue
            if kind == b"G":
                self.send_copy(copy_data)
            elif kind == b"C":
                found.append(Result(tag=body[:-1].decode()))
            elif kind == b"E":
                found.append(failure(body))
                self.detail = next((part[1:].decode() for part in body.split(b"\0") if part[:1] == b"D"), "")
            elif kind == b"Z":
                self.status = body
                return found

    def send_copy(self, parts):
        """COPY data from an iterator of bytes; an error of the server ends it."""
        if parts is None:
            return self.send(b"f", b"no data\0")
        for part in parts:
            self.send(b"d", part)
        self.send(b"c")

    def skip(self, length):
        at_hand = min(length, len(self.buffer))
        self.buffer, length = self.buffer[at_hand:], length - at_hand
        while length:
            got = self.socket.recv(min(length, 1 << 18))
            if not got:
                raise Lost("the server closed the connection")
            length -= len(got)

    def first_failure(self, sql, copy_data=None):
        return next((one for one in self.query(sql, copy_data) if isinstance(one, Failure)), None)


def failed(client, sql, copy_data=None):
    """The SQLSTATE of the first statement that fails, or None."""
    found = client.first_failure(sql, copy_data)
    return found.sqlstate if found else None


def until_failure(client, end, texts):
    """Sends statements until one fails or the time is over; how many went, and the SQLSTATE."""
    count = 0
    for text in texts:
        state = failed(client, text)
        if state:
            return f"{state} after {count}"
        count += 1
        if time.monotonic() > end:
            break
    return f"ok, {count}"


def parts_of(text, count, size=200):
    """`count` statements, `size` a query."""
    for at in range(0, count, size):
        yield ";".join(text.format(n) for n in range(at, min(at + size, count)))


SERIES = "generate_series(1, {rows}) i"
VALUES = {
    "repeat": "select length(repeat('x', 1000000000))",
    "repeat_too_long": "select length(repeat('xxxxxxxxxx', 1000000000))",
    "repeat_rows": "select max(length(repeat('x', 10000000 + i))) from generate_series(1, 1000) i",
    "repeat_kept": "select count(*) from (select repeat('x', 10000000 + i) t from generate_series(1, 300) i order by 1 offset 0) s",
    "lpad": "select length(lpad('x', 1000000000, 'ab'))",
    "replace": "select length(replace(repeat('a', 40000), 'a', repeat('b', 20000)))",
    "replace_too_long": "select length(replace(repeat('a', 100000), 'a', repeat('b', 100000)))",
    "string_agg": f"select length(string_agg(repeat('x', 1000), ',')) from {SERIES}",
    "string_agg_groups": "select count(*) from (select i % 100 g, string_agg(repeat('x', 1000), ',') from {series} group by 1) s",
    "string_agg_bytes": f"select length(string_agg(repeat('x', 1000)::bytea, ','::bytea)) from {SERIES}",
    "array_agg": "select cardinality(array_agg(i)) from generate_series(1, 100000000) i",
    "array_agg_texts": f"select cardinality(array_agg(repeat('x', 100))) from {SERIES}",
    "array_agg_ordered": f"select cardinality(array_agg(distinct repeat('x', 50) || i order by repeat('x', 50) || i)) from {SERIES}",
    "array_doubled": "with recursive r(a, n) as (select array[1], 1 union all select a || a, n + 1 from r where n < 40) select max(cardinality(a)) from r",
    "array_fill": "select cardinality(array_fill(1, array[120000000]))",
    "array_of_query": "select cardinality(array(select i from generate_series(1, 100000000) i))",
    "array_unnested": "select count(*) from unnest(array_fill(1, array[20000000])) u order by 1",
    "format": "select length(format('%s%s%s%s', a, a, a, a)) from (select repeat('x', 200000000) a) s",
    "concat": "select length(concat(a, a, a, a)) from (select repeat('x', 200000000) a) s",
    "concat_operator": "select length(a || a || a || a || a || a || a) from (select repeat('x', 150000000) a) s",
    "concat_ws": "select length(concat_ws(',', a, a, a, a)) from (select repeat('x', 200000000) a) s",
    "columns_large": "select a, a, a, a, a, a, a, a from (select repeat('x', 100000000) a) s",
    "record_large": "select length(row(a, a, a, a, a, a)::text) from (select repeat('x', 150000000) a) s",
    "json_agg": f"select length(json_agg(i)::text) from {SERIES}",
    "jsonb_agg": f"select jsonb_array_length(jsonb_agg(i)) from {SERIES}",
    "jsonb_object_agg": f"select length(jsonb_object_agg(i, i)::text) from {SERIES}",
    "jsonb_string": "select length(('\"' || repeat('x', 200000000) || '\"')::jsonb::text)",
    "jsonb_array": "select jsonb_array_length(('[' || repeat('1,', 50000000) || '1]')::jsonb)",
    "jsonb_doubled": "with recursive r(a, n) as (select '[1]'::jsonb, 1 union all select a || a, n + 1 from r where n < 40) select max(jsonb_array_length(a)) from r",
    "jsonb_built": "select jsonb_array_length(jsonb_build_array(variadic array(select i from {series})))",
    "jsonb_of_text": "select repeat('x', 500000000)::jsonb",
    "to_jsonb": f"select length(to_jsonb(array(select i from {SERIES}))::text)",
    "text_doubled": "with recursive r(a, n) as (select 'x'::text, 1 union all select a || a, n + 1 from r where n < 40) select max(length(a)) from r",
    "text_grown": "with recursive r(a, n) as (select repeat('x', 1000000), 1 union all select a || repeat('y', 1000000), n + 1 from r where n < 900) select max(length(a)) from r",
    "regexp_replace": "select length(regexp_replace(repeat('a', 900000), 'a', repeat('b', 1000), 'g'))",
    "regexp_split": "select cardinality(regexp_split_to_array(repeat('a,', 10000000), ','))",
    "regexp_matches": "select count(*) from regexp_matches(repeat('ab', 3000000), '(a)(b)', 'g')",
    "string_to_array": "select cardinality(string_to_array(repeat('a,', 50000000), ','))",
    "string_to_table": "select count(*) from string_to_table(repeat('a,', 50000000), ',')",
    "upper": "select length(upper(reverse(repeat('x', 400000000))))",
    "hashed": "select md5(repeat('x', 900000000))",
    "encoded": "select length(encode(repeat('x', 400000000)::bytea, 'hex'))",
    "power": "select length((10::numeric ^ 100000)::text)",
    "factorial": "select length(factorial(30000)::text)",
    "numeric_squared": "with recursive r(a, n) as (select 12345678.9::numeric, 1 union all select a * a, n + 1 from r where n < 40) select max(scale(a)) from r",
    "numeric_series": "select count(*) from generate_series(1::numeric, 10000000, 0.5) i",
}
STATEMENTS = {
    "sort": f"select count(*) from (select i from {SERIES} order by md5(i::text) offset 0) s",
    "sort_wide": f"select count(*) from (select i, repeat('x', 500) from {SERIES} order by i desc offset 0) s",
    "join_hash": "select count(*) from {series} join generate_series(1, {rows}) j on i = j",
    "join_one_key": "select count(*) from {series} join generate_series(1, {rows}) j on i % 2 = j % 2",
    "aggregate": f"select count(*) from (select i from {SERIES} group by i offset 0) s",
    "aggregate_arrays": f"select count(*) from (select i % 1000000, array_agg(i) from {SERIES} group by 1 offset 0) s",
    "aggregate_sets": f"select count(*) from (select i, i % 1000, count(*) from {SERIES} group by cube (i, i % 1000, i % 7) offset 0) s",
    "distinct": f"select count(*) from (select distinct i::text || 'x' from {SERIES} offset 0) s",
    "count_distinct": f"select count(distinct i::text) from {SERIES}",
    "percentile": f"select percentile_cont(0.5) within group (order by i), mode() within group (order by i) from {SERIES}",
    "window": f"select max(s) from (select sum(i) over (order by i) s from {SERIES}) t",
    "window_whole": f"select max(s) from (select last_value(i) over (order by i rows between unbounded preceding and unbounded following) s from {SERIES}) t",
    "window_arrays": f"select max(cardinality(s)) from (select array_agg(i) over (order by i) s from {SERIES}) t",
    "union": "select count(*) from (select i from {series} union select i + 5 from {series}) s",
    "except": "select count(*) from (select i from {series} except select i + 5 from {series}) s",
    "recursive": "with recursive r(n) as (select 1 union all select n + 1 from r where n < {rows}) select count(*) from r",
    "recursive_distinct": "with recursive r(n) as (select 1 union select n + 1 from r where n < {rows}) select count(*) from r",
    "recursive_explosion": "with recursive r(n) as (select 1 union all select n + k from r, (values (1), (2), (3)) v(k)) select count(*) from r",
    "cte_materialized": f"with c as materialized (select i, repeat('x', 100) t from {SERIES}) select count(*) from c a join c b using (i)",
    "cross_join": "select count(*) from generate_series(1, 1000000) a, generate_series(1, 1000000) b",
    "cross_join_sorted": "select * from generate_series(1, 100000) a, generate_series(1, 100000) b order by a # b limit 1 offset 100000000",
    "not_in_query": "select count(*) from {series} where i not in (select j + 1000000000 from generate_series(1, {rows}) j)",
    "any_array": "select count(*) from generate_series(1, 1000000) i where i = any (array(select j from generate_series(1, {rows}) j))",
    "sets_in_targets": "select count(*) from (select generate_series(1, {rows}), unnest(array_fill(1, array[1000000]))) s",
    "result_large": f"select i, repeat('x', 100) from {SERIES}",
}
SESSIONS = {
    "cursor_hold": f"begin; declare c cursor with hold for select i, repeat('x', 100) from {SERIES}; commit; close c",
    "cursor_scroll": f"begin; declare c scroll cursor for select i, repeat('x', 100) from {SERIES}; move last in c; move first in c; commit",
    "insert_large": f"create temp table t (i int, v text); insert into t select i, repeat('x', 200) from {SERIES}",
    "conflicts": "create temp table t (i int primary key, v text); insert into t select i, 'x' from {series}; insert into t select i, repeat('y', 100) from {series} on conflict (i) do update set v = t.v || excluded.v",
    "deferred": "create temp table t (i int unique deferrable initially deferred); begin; insert into t select i from {series}; update t set i = i + 1; commit",
    "deferred_keys": "create temp table p (i int primary key); create temp table f (i int references p deferrable initially deferred); begin; insert into f select i from {series}; rollback",
    "row_locks": "create temp table t as select i from {series}; begin; select count(*) from (select i from t for update offset 0) s; rollback",
    "advisory_locks": "begin; select count(pg_advisory_xact_lock(i)) from {series}; rollback",
    "index_build": "create temp table t as select i, md5(i::text) m from {series}; create index on t (m); create index on t (m, i)",
}


def in_list(client, _end):
    return failed(client, "select count(*) from generate_series(1, 1000) i where i in (" + ",".join(map(str, range(1_000_000))) + ")")


def values_list(client, _end):
    return failed(client, "select count(*) from (values " + ",".join(f"({n},'v{n}')" for n in range(500_000)) + ") v")


def text_of_60_mb(client, _end):
    return failed(client, "select length('" + "x" * (60 * MEGABYTE) + "')")


def operators(client, _end):
    return failed(client, "select 1" + "+1" * (10 * MEGABYTE))


def parentheses(client, _end):
    return failed(client, "select " + "(" * (20 * MEGABYTE) + "1" + ")" * (20 * MEGABYTE))


def brackets(client, _end):
    return failed(client, "select " + "array[" * (2 * MEGABYTE) + "1" + "]" * (2 * MEGABYTE))


def json_depth(client, _end):
    return failed(client, "select repeat('[', 50000000)::jsonb") or failed(client, "select repeat('{\"a\":', 50000000)::json")


def unions(client, _end):
    return failed(client, " union all ".join(["select 1"] * 500_000))


def statements_in_one(client, _end):
    return failed(client, "select 1;" * 3_000_000)


def target_list(client, _end):
    return failed(client, "select " + ",".join(["1"] * 10_000_000))


def prepared(client, end):
    """By messages, as drivers do, 1,000 a round."""
    count = 0
    while count < 200_000 and time.monotonic() < end:
        for number in range(count, count + 1000):
            text = f"select i from generate_series(1, $1::int) i where i % 7 = {number % 7} and i > {number}"
            client.send(b"P", f"s{number}\0{text}\0".encode() + b"\0\0")
        client.send(b"S")
        found = client.answers()
        if found:
            return f"{found[0].sqlstate} after {count}"
        count += 1000
    return f"ok, {count}"


def prepared_large(client, end):
    lists = ",".join(map(str, range(20_000)))
    return until_failure(client, end, (f"prepare l{n} as select $1::int in ({lists})" for n in range(20_000)))


def portals(client, end):
    failed(client, "begin")
    return until_failure(client, end, parts_of("declare c{0} cursor for select i from generate_series(1, 1000) i order by i desc; fetch 1 from c{0}", 100_000))


def cursors_hold(client, end):
    return until_failure(client, end, (f"declare c{n} cursor with hold for select repeat('x', 1000) from generate_series(1, 3000) i" for n in range(10_000)))


def savepoints(client, end):
    failed(client, "create temp table t (i int); begin")
    return until_failure(client, end, parts_of("savepoint s{0}; insert into t values ({0})", 500_000))


def temp_tables(client, end):
    return until_failure(client, end, parts_of("create temp table t{0} (i int primary key, v text)", 50_000, 20))


def tables_in_a_transaction(client, end):
    failed(client, "begin")
    state = until_failure(client, end, parts_of("create table bomb_t{0} (i int)", 50_000, 20))
    failed(client, "rollback")
    return state


def settings(client, end):
    return until_failure(client, end, (f"set bomb.s{n} = '" + "x" * (10 * MEGABYTE) + "'" for n in range(200)))


def notifications(client, end):
    """A queue that nobody reads: the session that listens is this one, in a transaction."""
    failed(client, "listen bomb")
    with contextlib.closing(Drained(client.address[1], timeout=60)) as other:
        failed(client, "begin; select 1")
        payload = "x" * 7900
        return until_failure(other, end, parts_of("select pg_notify('bomb', '{0}" + payload + "')", 50_000, 100))


def notifications_in_one(client, _end):
    return failed(client, "begin; select count(pg_notify('bomb', repeat('x', 7000) || i)) from generate_series(1, 1000000) i; rollback")


def copy_line(client, _end):
    return failed(client, "create temp table t (v text); copy t from stdin", (b"x" * (4 * MEGABYTE) for _ in range(300)))


def copy_line_csv(client, _end):
    return failed(client, "create temp table t (v text); copy t from stdin (format csv)", (b'"' * (n == 0) + b"x\n" * (2 * MEGABYTE) for n in range(300)))


def copy_out(client, _end):
    return failed(client, "copy (select repeat('x', 100000000), repeat('y', 100000000), repeat('z', 100000000) from generate_series(1, 5)) to stdout")


def unread(client, end):
    """A client that asks for much and reads nothing."""
    client.send(b"Q", b"select repeat('x', 1000000) from generate_series(1, 10000)\0")
    with contextlib.suppress(Lost):
        while time.monotonic() < end:
            threading.Event().wait(0.5)
    return "not read"


def pipeline_unread(client, end):
    """Requests in a pipeline whose answers nobody reads, and no Sync."""
    client.socket.settimeout(1)
    sent = 0
    try:
        while time.monotonic() < end:
            text = b"select repeat('x', 10000)"
            parse, bind = b"\0" + text + b"\0\0\0", b"\0\0" + struct.pack("!HHH", 0, 0, 0)
            for kind, body in ((b"P", parse), (b"B", bind), (b"E", b"\0" + struct.pack("!I", 0))):
                client.send(kind, body)
            sent += 1
    except (TimeoutError, Lost):
        pass
    return f"not read, {sent}"


def bound_large(client, end):
    """Portals that each hold a parameter of 50 MB."""
    client.send(b"P", b"p\0select length($1)\0" + struct.pack("!HI", 1, 25))
    value = b"x" * (50 * MEGABYTE)
    for number in range(60):
        client.send(b"B", f"b{number}\0p\0".encode() + struct.pack("!HHi", 0, 1, len(value)) + value + struct.pack("!H", 0))
        client.send(b"H")
        if time.monotonic() > end:
            break
    client.send(b"S")
    found = client.answers()
    return f"{found[0].sqlstate}" if found else "ok"


def announced(client, end):
    """A message whose announced length never comes, from as many connections as are let in."""
    others = []
    try:
        for _ in range(60):
            other = Drained(client.address[1], timeout=10)
            other.socket.sendall(b"Q" + struct.pack("!I", 60 * MEGABYTE) + b"x" * (2 * MEGABYTE))
            others.append(other)
            if time.monotonic() > end:
                break
    except (OSError, Lost):
        pass
    for other in others:
        other.close()
    return f"{len(others)} connections"


def sessions_after_sorts(client, end):
    """Sessions that stay after each has sorted."""
    others, state = [], None
    try:
        while len(others) < 30 and time.monotonic() < end and not state:
            others.append(Drained(client.address[1], timeout=60))
            state = failed(others[-1], "select count(*) from (select i, repeat('x', 100) from generate_series(1, 100000) i order by i desc offset 0) s")
    finally:
        count = len(others)
        for other in others:
            other.close()
    return f"{state or 'ok'}, {count} sessions"


WIRE = {one.__name__: one for one in (
    in_list, values_list, text_of_60_mb, operators, parentheses, brackets, json_depth, unions, statements_in_one, target_list, prepared,
    prepared_large, portals, cursors_hold, savepoints, temp_tables, tables_in_a_transaction, settings, notifications, notifications_in_one,
    copy_line, copy_line_csv, copy_out, unread, pipeline_unread, bound_large, announced, sessions_after_sorts)}


def drawn(seed, rows, only=None):
    """All bombs as (name, SQL or function), in an order that the seed draws."""
    texts = {**VALUES, **STATEMENTS, **SESSIONS}
    series = SERIES.format(rows=rows)
    found = [(name, text.replace("{series}", series).replace("{rows}", str(rows)).replace("{{", "{").replace("}}", "}")) for name, text in texts.items()]
    found += WIRE.items()
    random.Random(seed).shuffle(found)
    return [one for one in found if not only or one[0] in only]


class Group:
    """A memory cgroup for one server; `None` for `procs` where none can be made."""

    def __init__(self, limit_bytes):
        root, name = pathlib.Path("/sys/fs/cgroup"), f"niwaki-bombs-{os.getpid()}-{limit_bytes >> 20}"
        self.procs, self.why = None, ""
        try:
            if (root / "memory").is_dir():
                self.path, bound, swap = root / "memory" / name, "memory.limit_in_bytes", "memory.swappiness"
            else:
                self.path, bound, swap = root / name, "memory.max", "memory.swap.max"
                with contextlib.suppress(OSError):
                    (root / "cgroup.subtree_control").write_text("+memory")
            self.path.mkdir()
            (self.path / bound).write_text(str(limit_bytes))
            with contextlib.suppress(OSError):
                (self.path / swap).write_text("0")
            self.procs = self.path / "cgroup.procs"
        except OSError as error:
            self.why = str(error)

    def under(self):
        """A command that runs another one in the group."""
        return ("sh", "-c", f'echo $$ > {self.procs} && exec "$0" "$@"') if self.procs else ()

    def killed(self):
        """How often the kernel killed for want of memory."""
        for name in ("memory.events", "memory.oom_control") if self.procs else ():
            with contextlib.suppress(OSError):
                for line in (self.path / name).read_text().splitlines():
                    if line.startswith("oom_kill "):
                        return int(line.split()[1])
        return 0

    def remove(self):
        if self.procs:
            with contextlib.suppress(OSError):
                self.path.rmdir()


def resident(pid):
    """Resident bytes of a process, and the most there ever were; (0, 0) when it has ended."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0, 0
    values = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.startswith(("VmRSS", "VmHWM"))}
    return values.get("VmRSS", 0), values.get("VmHWM", 0)


def probe(port, pid, stop, out):
    """In a process of its own, so that no client's work delays it: what `SELECT 1` and a new connection take, and resident memory.
    Sends (kind, begun, milliseconds or bytes)."""
    with contextlib.suppress(OSError):
        os.nice(-10)
    client, connected = Client(port), time.monotonic()
    while not stop.is_set():
        begun = time.monotonic()
        try:
            answer = client.query("select 1")
            if isinstance(answer[0], Failure):
                out.put(("refused", begun, answer[0].sqlstate))
            out.put(("select", begun, (time.monotonic() - begun) * 1000))
        except (OSError, Lost) as error:
            out.put(("lost", begun, str(error)))
            return
        out.put(("resident", begun, resident(pid)[0]))
        if begun - connected >= CONNECT_EVERY_SECONDS:
            connected = begun = time.monotonic()
            try:
                with contextlib.closing(Client(port)) as other:
                    other.query("select 1")
                out.put(("connect", begun, (time.monotonic() - begun) * 1000))
            except (OSError, Lost) as error:
                out.put(("unconnected", begun, str(error)))
        stop.wait(PROBE_EVERY_SECONDS)


@dataclasses.dataclass
class Outcome:
    name: str
    answer: str
    seconds: float
    begun: float
    ended: float
    select_ms: float = 0
    connect_ms: float = 0
    resident: int = 0
    detail: str = ""


def explode(port, name, bomb, limit_seconds):
    """Runs one bomb in a session of its own."""
    begun, client = time.monotonic(), None
    try:
        with contextlib.closing(Drained(port, timeout=limit_seconds + GRACE_SECONDS, settings={"application_name": name})) as client:
            client.query(f"set statement_timeout = '{limit_seconds}s'")
            end = time.monotonic() + limit_seconds
            answer = (bomb(client, end) if callable(bomb) else failed(client, bomb)) or "ok"
    except TimeoutError:
        answer = "STUCK"
    except (OSError, Lost) as error:
        answer = f"lost: {error}"
    except MemoryError:
        answer = "the client is out of memory"
    ended = time.monotonic()
    return Outcome(name, answer, ended - begun, begun, ended, detail=client.detail if client else "")


def run(limit_mb, *, seed=1, only=None, rows=10_000_000, seconds=10, together=4, latency_ms=PROBE_MS_MAX, say=print):
    """All bombs against a server of `limit_mb`; the outcomes, and what was wrong. With `latency_ms` of 0 others may wait."""
    limit = limit_mb * MEGABYTE
    group, wrong = Group(limit), []
    if not group.procs:
        say(f"no memory cgroup can be made ({group.why}): resident memory is watched instead")
    settings = dict(SETTINGS.get(limit_mb) or SETTINGS[512 if limit_mb < 2048 else 3072])
    if not group.procs:
        # What the server takes by itself where a group tells it the limit.
        settings["max_server_memory"] = f"{(limit_mb - 96) * 3 // 4}MB"
    server = Niwaki({**settings, "max_connections": "200"})
    outcomes = []
    try:
        server.start(group.under())
        pid = server.process.pid
        # A session of each kind has been there before memory is compared.
        explode(server.port, "warm", "select count(*) from generate_series(1, 100000) i", 10)
        before = resident(pid)[0]
        told, stop = multiprocessing.Queue(), multiprocessing.Event()
        beside = multiprocessing.Process(target=probe, args=(server.port, pid, stop, told), daemon=True)
        beside.start()
        waiting, done = queue.Queue(), queue.Queue()
        for one in drawn(seed, rows, only):
            waiting.put(one)

        def work():
            while server.process.poll() is None:
                try:
                    name, bomb = waiting.get_nowait()
                except queue.Empty:
                    return
                done.put(explode(server.port, name, bomb, seconds))

        threads = [threading.Thread(target=work, daemon=True) for _ in range(together)]
        for thread in threads:
            thread.start()
        seen = []

        def gather():
            while True:
                # Not waited for: the probe may be faster than any wait.
                try:
                    seen.append(told.get_nowait())
                except queue.Empty:
                    return

        def judge(outcome):
            for kind, begun, value in seen:
                if outcome.begun - 0.1 <= begun <= outcome.ended + 0.1:
                    if kind == "select":
                        outcome.select_ms = max(outcome.select_ms, value)
                    elif kind == "connect":
                        outcome.connect_ms = max(outcome.connect_ms, value)
                    elif kind == "resident":
                        outcome.resident = max(outcome.resident, value)
            outcomes.append(outcome)
            say(f"{outcome.name:24} {outcome.answer[:40]:40} {outcome.seconds:6.1f} s   select 1 {outcome.select_ms:7.1f} ms   "
                f"connect {outcome.connect_ms:7.1f} ms   resident {outcome.resident >> 20:5} MB   {outcome.detail}")

        while any(thread.is_alive() for thread in threads) or not done.empty():
            gather()
            with contextlib.suppress(queue.Empty):
                judge(done.get(timeout=0.1))
        stop.set()
        gather()
        beside.join(5)
        for kind, _begun, value in seen:
            if kind in ("lost", "unconnected", "refused"):
                wrong.append(f"the probe was {kind}: {value}")
            elif kind == "resident" and not group.procs and value > limit:
                wrong.append(f"resident memory was {value >> 20} MB")
        if latency_ms:
            wrong += [f"{one.name}: select 1 took {one.select_ms:.0f} ms" for one in outcomes if one.select_ms > latency_ms]
        wrong += [f"{one.name}: {one.answer}" for one in outcomes if one.answer == "STUCK"]
        if server.process.poll() is not None:
            code = server.process.returncode
            wrong.append(f"the server has ended ({signal.Signals(-code).name if code < 0 else code}), killed for memory {group.killed()} times")
            wrong.append((server.dir / "log").read_text(errors="replace")[-2000:])
        else:
            # Sessions end after their sockets do.
            end = time.monotonic() + 15
            after = resident(pid)[0]
            while time.monotonic() < end and after > before + allowed(settings):
                threading.Event().wait(0.2)
                after = resident(pid)[0]
            say(f"resident {before >> 20} MB before, {after >> 20} MB after, at most {resident(pid)[1] >> 20} MB")
            if after > before + allowed(settings):
                wrong.append(f"resident memory stays at {after >> 20} MB after {before >> 20} MB")
            with contextlib.closing(Client(server.port)) as client:
                if client.query("select 1")[0].rows != [(b"1",)]:
                    wrong.append("select 1 does not answer")
    finally:
        with contextlib.suppress(ValueError):
            server.__exit__()
        group.remove()
    return outcomes, list(dict.fromkeys(wrong))


def allowed(settings):
    """Bytes that may be resident besides what was before: the pages that are now in shared buffers, and as much again as a
    server of no clients takes."""
    return int(settings["shared_buffers"][:-2]) * MEGABYTE + 64 * MEGABYTE
