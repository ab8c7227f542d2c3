"""Sequences of protocol messages, drawn from a seed, and what two servers answer to each.

A sequence begins with a connection (its startup message is drawn, too), has up to a dozen messages, right and wrong
ones in any order, and ends with a marker: CopyFail, Sync, and a query for a constant. What came before the answer of the
marker is what a client sees. Compared is every message byte for byte, but for what has to differ: a server's version,
process numbers and secret keys, oids of tables, and the place in the source that an error names.
"""

import random
import socket
import struct

PROTOCOL_3 = 3 << 16
SSL, GSS, CANCEL = 80877103, 80877104, 80877102

SETUP = """
drop table if exists w;
create table w (id int primary key, n numeric, note text);
insert into w select i, i / 4.0, 'note ' || i from generate_series(1, 5) i
"""

QUERIES = [
    "", ";", "select 1", "select 1; select 2", "select 1; select 1/0; select 3", "select", "selec", "select 'open",
    "begin", "commit", "rollback", "begin; select 1; commit", "savepoint s", "rollback to s", "release s",
    "insert into w values (10, 1, 'x')", "insert into w values (1, 1, 'x')", "insert into w values (11, 1, 'x') returning id, note",
    "update w set note = note where id < 3", "delete from w where id = 99", "select * from w order by id",
    "select id, n, note from w where id < 4 order by id", "copy w to stdout", "copy w (id, note) to stdout (format csv, header)",
    "copy (select 1, null) to stdout (format binary)", "copy w (id) from stdin", "copy w from stdin (format csv)",
    "copy w from stdin; select 5", "copy w from stdin (format binary)",
    "declare c cursor for select id from w order by id", "fetch 2 from c", "move 1 in c", "close c", "show work_mem",
    "set work_mem = '1MB'", "reset work_mem", "prepare p as select $1::int", "execute p(3)", "deallocate p", "deallocate all",
    "drop table if exists nothing_here", "set client_encoding = 'LATIN1'", "set client_encoding = 'UTF8'",
    "set application_name = 'me'", "set datestyle = 'German'", "reset all", "discard all", "listen ch", "notify ch, 'x'",
    "explain (costs off) select 1", "vacuum w", "select nothing from w", "select null::int, ''::text, true, 1.5::float8",
    "lock table w", "values (1, 'a'), (2, 'b')", "do", "select pg_sleep(0)", "create temp table tt (a int)", "drop table tt",
]
STATEMENTS = [
    "select 1", "select $1::int", "select $1::int + $2::int", "select $1", "select $2::text", "select id, note from w where id < $1 order by id",
    "insert into w values ($1, $2, $3)", "insert into w values (20, 1, 'x') returning id", "update w set note = $1 where id = $2", "", ";",
    "select 1; select 2", "selec", "begin", "commit", "rollback", "show work_mem", "copy w to stdout", "copy w (id) from stdin", "set work_mem = '2MB'",
    "fetch 2 from c", "declare c cursor for select id from w order by id", "explain (costs off) select 1", "select generate_series(1, 6)",
    "select $1::numeric, $2::text, $3::bool", "select 1/0", "select 1/$1::int", "delete from w where id = $1 returning *", "values (1), (2), (3)",
    "execute p(3)", "prepare p as select $1::int", "savepoint s", "rollback to s", "vacuum w", "select nothing",
]
TYPES = [0, 0, 0, 23, 25, 20, 16, 1700, 701, 705, 2249, 99999, 1114]
NAMES = ["", "", "", "a", "b"]
VALUES = [None, b"", b"1", b"2", b"-7", b"x", b"\0\0\0\1", b"\0\0\0\2", b"\0\0\0\0\0\0\0\5", b"t", b"1.5", b"\xff\xfe", b"a\0b", b"note"]
COPY_DATA = [b"30\n", b"31\t1\tx\n", b"32,1,x\n", b"\\.\n", b"", b"x\n", b"30\n31\n", b"33", b"PGCOPY\n\xff\r\n\0", b"\0\0\0\0\0\0\0\0", b"\xff\xff"]


def text(value):
    return value.encode() + b"\0"


def message(kind, body=b""):
    return kind + struct.pack("!I", len(body) + 4) + body


def parse(rng):
    types = [rng.choice(TYPES) for _ in range(rng.choice([0, 0, 0, 1, 2, 3]))]
    return message(b"P", text(rng.choice(NAMES)) + text(rng.choice(STATEMENTS)) + struct.pack(f"!H{len(types)}I", len(types), *types))


def bind(rng):
    count = rng.choice([0, 0, 0, 1, 1, 2, 3])
    # Formats are none, one for all, one for each, or as many as do not fit.
    formats = lambda most: [rng.choice([0, 0, 0, 1, 1, 2]) if rng.random() < 0.3 else rng.choice([0, 1]) for _ in range(rng.choice([0, 0, 1, most, most + 1]))]
    parameters = formats(count)
    body = text(rng.choice(NAMES)) + text(rng.choice(NAMES)) + struct.pack(f"!H{len(parameters)}H", len(parameters), *parameters)
    body += struct.pack("!H", count)
    for _ in range(count):
        value = rng.choice(VALUES)
        body += struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value
    results = formats(rng.choice([1, 2, 3]))
    return message(b"B", body + struct.pack(f"!H{len(results)}H", len(results), *results))


def named(kind):
    return lambda rng: message(kind, rng.choice([b"S", b"P", b"P", b"P" if kind == b"D" else b"S"]) + text(rng.choice(NAMES)))


def execute(rng):
    return message(b"E", text(rng.choice(NAMES)) + struct.pack("!i", rng.choice([0, 0, 0, 1, 2, 3, -1, 100])))


def extended(rng):
    """What drivers send: all of it for one statement."""
    name, portal = rng.choice(NAMES), rng.choice(NAMES)
    sql = rng.choice([sql for sql in STATEMENTS if "$" not in sql])
    limit = rng.choice([0, 0, 1, 2])
    parts = [message(b"P", text(name) + text(sql) + b"\0\0"), message(b"B", text(portal) + text(name) + b"\0\0\0\0\0\0")]
    if rng.random() < 0.5:
        parts.append(message(b"D", b"P" + text(portal)))
    parts += [message(b"E", text(portal) + struct.pack("!i", limit))] * rng.choice([1, 1, 2, 4])
    return b"".join(parts)


def broken(rng):
    """A message whose inside does not hold what its kind asks. The length is right: else the stream is lost."""
    whole = rng.choice([parse, bind, execute, named(b"D"), named(b"C"), query])(rng)
    kind, body = whole[:1], whole[5:]
    how = rng.randrange(4)
    if how == 0:
        body = body[:rng.randrange(len(body) + 1)]
    elif how == 1:
        body += bytes(rng.randrange(256) for _ in range(rng.choice([1, 2, 4])))
    elif how == 2 and body:
        at = rng.randrange(len(body))
        body = body[:at] + bytes([rng.randrange(256)]) + body[at + 1:]
    elif kind in (b"D", b"C"):
        body = b"Q" + body[1:]
    return message(kind, body)


def query(rng):
    return message(b"Q", text(rng.choice(QUERIES)))


def function_call(rng):
    """Of `int4pl`, `lower`, and one that is not there."""
    oid = rng.choice([177, 870, 1, 0])
    values = [rng.choice(VALUES) for _ in range(rng.choice([0, 1, 2]))]
    body = struct.pack("!IHH", oid, 1, rng.choice([0, 1])) + struct.pack("!H", len(values))
    for value in values:
        body += struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value
    return message(b"F", body + struct.pack("!H", rng.choice([0, 1])))


KINDS = [
    (query, 10), (extended, 10), (parse, 8), (bind, 8), (named(b"D"), 5), (execute, 8), (named(b"C"), 3), (lambda _: message(b"S"), 6), (lambda _: message(b"H"), 3),
    (lambda rng: message(b"d", rng.choice(COPY_DATA)), 4), (lambda _: message(b"c"), 3), (lambda rng: message(b"f", text("no more")), 1),
    (broken, 2), (function_call, 1),
]
# The end of the connection, said or not, and what is no message.
ENDS = [lambda _: message(b"X"), lambda _: message(b"z"), lambda _: b"Q\0\0\0\1", lambda _: b"Q\x7f\xff\xff\xff", lambda _: message(b"p", text("secret"))]


def draw(seed, number):
    """The startup and the messages of a sequence."""
    rng = random.Random(seed * 1_000_003 + number)
    kinds, weights = zip(*KINDS)
    messages = [rng.choices(kinds, weights)[0](rng) for _ in range(rng.randint(1, 12))]
    if rng.random() < 0.04:
        messages.append(rng.choice(ENDS)(rng))
    return startup(rng), messages


def startup(rng):
    usual = {"user": "postgres", "database": "postgres"}
    if rng.random() < 0.85:
        return [pairs(PROTOCOL_3, usual)]
    return rng.choice([
        lambda: [struct.pack("!II", 8, SSL), pairs(PROTOCOL_3, usual)],
        lambda: [struct.pack("!II", 8, GSS), struct.pack("!II", 8, SSL), pairs(PROTOCOL_3, usual)],
        lambda: [pairs(PROTOCOL_3 + rng.choice([1, 2, 7]), usual)],
        lambda: [pairs(PROTOCOL_3 + rng.choice([0, 1]), {**usual, "_pq_.thing": "1", "_pq_.other": "2"})],
        lambda: [pairs(rng.choice([2 << 16, 4 << 16, 1234 << 16, 0]), usual)],
        lambda: [pairs(PROTOCOL_3, {"user": "postgres"})],
        lambda: [pairs(PROTOCOL_3, {"database": "postgres"})],
        lambda: [pairs(PROTOCOL_3, {**usual, "database": "nothing_here"})],
        lambda: [pairs(PROTOCOL_3, {**usual, "user": "nobody_here"})],
        lambda: [pairs(PROTOCOL_3, {**usual, "options": "-c work_mem=64 -c search_path=pg_catalog"})],
        lambda: [pairs(PROTOCOL_3, {**usual, "options": "-c work_mem"})],
        lambda: [pairs(PROTOCOL_3, {**usual, "application_name": "käse", "client_encoding": "UTF8"})],
        lambda: [pairs(PROTOCOL_3, {**usual, "client_encoding": "nothing"})],
        lambda: [pairs(PROTOCOL_3, {**usual, "no_such_setting": "1"})],
        lambda: [pairs(PROTOCOL_3, {**usual, "work_mem": "many"})],
        lambda: [pairs(PROTOCOL_3, usual)[:-1] + b"x"],
        lambda: [struct.pack("!II", 8, PROTOCOL_3)],
        lambda: [struct.pack("!I", 4)],
        lambda: [struct.pack("!II", 1 << 30, PROTOCOL_3)],
    ])()


def pairs(version, parameters):
    body = b"".join(text(name) + text(value) for name, value in parameters.items()) + b"\0"
    return struct.pack("!II", len(body) + 8, version) + body


MARKER = b"the end of the sequence"


class Ended(Exception):
    """The server closed the connection."""


class Line:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def take(self, count):
        while len(self.buffer) < count:
            try:
                got = self.socket.recv(1 << 16)
            except ConnectionResetError:
                got = b""
            if not got:
                raise Ended
            self.buffer += got
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def send(self, data):
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # What the server said before is read all the same.

    def answer(self):
        head = self.take(5)
        return head[:1], self.take(struct.unpack("!I", head[1:])[0] - 4)


def play(port, opening, messages):
    """What a server answers: a line a message."""
    line, log = Line(port), []
    try:
        for first in opening:
            line.send(first)
            if len(first) == 8 and struct.unpack("!I", first[4:])[0] in (SSL, GSS):
                log.append(f"one byte {line.take(1)}")
        if not logged_in(line, log):
            return log
        line.send(b"".join(messages))
        line.send(message(b"f", text("the end")) + message(b"S") + message(b"Q", text("rollback")) + message(b"Q", text(f"select '{MARKER.decode()}'")))
        while True:
            kind, body = line.answer()
            if kind == b"D" and MARKER in body:
                return log
            log.append(shown(kind, body))
    except Ended:
        log.append("closed")
    except TimeoutError:
        log.append("no answer within 20 s")
    finally:
        line.socket.close()
    return log


def logged_in(line, log):
    while True:
        kind, body = line.answer()
        log.append(shown(kind, body))
        if kind == b"Z":
            return True


# Of what a server reports at the start: its own.
OWN_PARAMETERS = (b"server_version\0", b"TimeZone\0", b"IntervalStyle\0")


def shown(kind, body):
    if kind in b"EN":
        fields = sorted(field.decode(errors="backslashreplace") for field in body.split(b"\0") if field and field[:1] not in b"FLR")
        return f"{kind.decode()} {' | '.join(fields)}"
    if kind == b"K":
        return "K"
    if kind == b"S" and body.startswith(OWN_PARAMETERS):
        return f"S {body.split(bytes(1))[0].decode()}"
    if kind == b"A":
        return f"A {body[4:]}"
    if kind == b"T":
        return f"T {columns(body)}"
    return f"{kind.decode(errors='backslashreplace')} {body}"


def columns(body):
    """Names, and all but the table's oid."""
    count, at, found = struct.unpack_from("!H", body)[0], 2, []
    for _ in range(count):
        end = body.index(b"\0", at)
        table, *rest = struct.unpack_from("!IHIhih", body, end + 1)
        found.append((body[at:end].decode(errors="backslashreplace"), table > 0, *rest))
        at = end + 19
    return found


def told(data):
    """A message in words."""
    return f"{data[:1].decode(errors='backslashreplace')} {data[5:]}"
