"""A small client of PostgreSQL's protocol: simple queries, COPY both ways, cancel, prepared statements. It keeps what libpq hides: type oids, tags, SQLSTATEs."""

import dataclasses
import socket
import struct


class Lost(Exception):
    """The server closed the connection, or did not answer a cancel request."""


@dataclasses.dataclass
class Result:
    """Of one statement: columns as (name, type oid), rows as tuples of bytes or None, the command tag."""
    columns: list = dataclasses.field(default_factory=list)
    rows: list = dataclasses.field(default_factory=list)
    tag: str = ""


@dataclasses.dataclass
class Failure:
    sqlstate: str
    message: str


class Client:
    def __init__(self, port, *, user="postgres", database="postgres", host="127.0.0.1", settings=None, timeout=60):
        self.address, self.timeout, self.status = (host, port), timeout, b"I"
        self.socket = socket.create_connection(self.address, timeout)
        # Messages of one request are sent one by one: without it each waits for the acknowledgement of the one before.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        startup = {"user": user, "database": database, **(settings or {})}
        text = b"".join(f"{name}\0{value}\0".encode() for name, value in startup.items()) + b"\0"
        self.socket.sendall(struct.pack("!II", len(text) + 8, 3 << 16) + text)
        while True:
            kind, body = self.message()
            if kind == b"K":
                self.key = body
            elif kind == b"E":
                raise ConnectionError(failure(body))
            elif kind == b"R" and body[:4] != b"\0\0\0\0":
                raise ConnectionError("the server asks for a password")
            elif kind == b"Z":
                return

    def close(self):
        self.socket.close()

    def take(self, count):
        while len(self.buffer) < count:
            got = self.socket.recv(1 << 16)
            if not got:
                raise Lost("the server closed the connection")
            self.buffer += got
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def message(self):
        try:
            head = self.take(5)
            return head[:1], self.take(struct.unpack("!I", head[1:])[0] - 4)
        except ConnectionResetError as error:
            raise Lost(str(error)) from None

    def send(self, kind, body=b""):
        try:
            self.socket.sendall(kind + struct.pack("!I", len(body) + 4) + body)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Lost(str(error)) from None

    def cancel(self):
        with socket.create_connection(self.address, self.timeout) as other:
            other.sendall(struct.pack("!II", 16, 80877102) + self.key)

    def query(self, sql, copy_data=None):
        """What the statements in `sql` answer: Results, and at the end of them a Failure if one failed. `copy_data()` gives the bytes
        for COPY FROM STDIN, once."""
        self.send(b"Q", sql.encode() + b"\0")
        return self.answers(copy_data)

    def prepare(self, name, sql):
        """A Failure, or None when the statement is there."""
        self.send(b"P", f"{name}\0{sql}\0".encode() + b"\0\0")
        self.send(b"S")
        found = self.answers()
        return found[0] if found else None

    def execute(self, name, values=(), *, binary=False):
        """As `query` answers; values are texts or None, what comes back is text or binary."""
        taken = b"".join(struct.pack("!i", -1) if value is None else struct.pack("!i", len(value.encode())) + value.encode() for value in values)
        self.send(b"B", b"\0" + name.encode() + b"\0" + struct.pack("!HH", 0, len(values)) + taken + struct.pack("!HH", 1, int(binary)))
        self.send(b"D", b"P\0")
        self.send(b"E", b"\0" + struct.pack("!I", 0))
        self.send(b"S")
        return self.answers()

    def answers(self, copy_data=None):
        """What comes until the server is ready."""
        found, current, cancelled = [], Result(), False
        while True:
            try:
                kind, body = self.message()
            except TimeoutError:
                if cancelled:
                    raise Lost("no answer to a cancel request") from None
                self.cancel()
                cancelled = True
                continue
            if kind == b"T":
                current.columns = columns(body)
            elif kind == b"D":
                current.rows.append(row(body))
            elif kind == b"d":
                current.rows.append((body,))
            elif kind == b"G":
                if copy_data is None:
                    self.send(b"f", b"no data\0")
                else:
                    self.send(b"d", copy_data())
                    self.send(b"c")
            elif kind == b"C":
                current.tag = body[:-1].decode()
                found.append(current)
                current = Result()
            elif kind == b"I":
                found.append(Result(tag="(empty)"))
            elif kind == b"E":
                found.append(failure(body))
                current = Result()
            elif kind == b"Z":
                self.status = body
                return found


def columns(body):
    count, at, found = struct.unpack_from("!H", body)[0], 2, []
    for _ in range(count):
        end = body.index(b"\0", at)
        found.append((body[at:end].decode(), struct.unpack_from("!I", body, end + 7)[0]))
        at = end + 19
    return found


def row(body):
    count, at, values = struct.unpack_from("!H", body)[0], 2, []
    for _ in range(count):
        length = struct.unpack_from("!i", body, at)[0]
        at += 4
        values.append(None if length < 0 else body[at:at + length])
        at += max(length, 0)
    return tuple(values)


def failure(body):
    fields = {part[:1]: part[1:].decode(errors="replace") for part in body.split(b"\0") if part}
    return Failure(fields.get(b"C", ""), fields.get(b"M", ""))
