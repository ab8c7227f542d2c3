"""SQLite's sqllogictest suites on PostgreSQL 15 and on Niwaki: what passes on the one must pass on the other.

A file is a list of records, with empty lines between them:

    statement ok | statement error      then the statement
    query TYPES SORT [LABEL]            then the query, `----`, and its values, one a line, or `N values hashing to MD5`
    skipif NAME | onlyif NAME           before a record: whom it is not, or only, for
    hash-threshold N | halt             how the file was written; the end

TYPES has a letter for each column: I for integers, R for numbers that are shown with three digits behind the point, T for texts. SORT says in
which order values are compared: as they come (nosort), by rows (rowsort), all of them sorted (valuesort).
"""

import concurrent.futures
import dataclasses
import hashlib
import itertools
import shutil
import subprocess
import zipfile

import wire
from servers import ROOT, Niwaki, Postgres

SOURCE = "net.hydromatic:sql-logic-test:0.3:jar"
SHA256 = "801efc1904e802795a20ce30559025c0b5a7a21840114722717c0466089c13f0"
SUITES = ("test/select1.test", "test/select2.test", "test/select3.test", "test/select4.test", "test/select5.test", "test/index")
# The name under which the files know PostgreSQL and its like.
NAME = "postgresql"


@dataclasses.dataclass
class Record:
    line: int
    kind: str  # ok, error or query
    sql: str
    types: str = ""
    sort: str = "nosort"
    expected: tuple = ()


def fetch():
    """The folder of the suites, out of the package that has them, fetched once into the checkout's .cache."""
    folder = ROOT / ".cache" / "sqllogictest"
    if not (folder / "ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        subprocess.run(["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={SOURCE}", f"-DoutputDirectory={folder}"], check=True, cwd=folder)
        package = next(folder.glob("*.jar"))
        found = hashlib.sha256(package.read_bytes()).hexdigest()
        if found != SHA256:
            raise RuntimeError(f"{SOURCE} has the checksum {found}, not {SHA256}")
        with zipfile.ZipFile(package) as archive:
            archive.extractall(folder, [name for name in archive.namelist() if name.startswith(SUITES)])
        package.unlink()
        (folder / "ready").touch()
    return folder


def files(folder):
    """The test files of the suites, in a fixed order."""
    for suite in SUITES:
        path = folder / suite
        yield from sorted(path.rglob("*.test")) if path.is_dir() else [path]


def records(text):
    """The records of a file that are for PostgreSQL."""
    wanted, lines = True, iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        words = line.split()
        if not words or line.startswith("#") or words[0] == "hash-threshold":
            continue
        if words[0] in ("skipif", "onlyif"):
            wanted = wanted and (words[1] == NAME) == (words[0] == "onlyif")
            continue
        if words[0] == "halt":
            if wanted:
                return
            wanted = True
            continue
        body = [line for _, line in itertools.takewhile(lambda pair: pair[1].strip(), lines)]
        if wanted:
            yield record(number, words, body)
        wanted = True


def record(number, words, body):
    if words[0] == "statement":
        return Record(number, words[1], "\n".join(body))
    if words[0] != "query":
        raise ValueError(f"line {number}: {' '.join(words)}")
    cut = body.index("----") if "----" in body else len(body)
    sort = words[2] if len(words) > 2 else "nosort"
    return Record(number, "query", "\n".join(body[:cut]), words[1], sort, tuple(body[cut + 1:]))


def shown(value, letter):
    """A value as the files have it."""
    if value is None:
        return "NULL"
    text = value.decode()
    if letter == "I":
        try:
            return str(int(text))
        except ValueError:
            return str(int(float(text)))
    if letter == "R":
        return f"{float(text):.3f}"
    return "".join(c if " " <= c <= "~" else "@" for c in text) or "(empty)"


def difference(record, answers):
    """What is not as the record says; None for nothing."""
    failure = next((answer for answer in answers if isinstance(answer, wire.Failure)), None)
    if record.kind == "error":
        return None if failure else "no error"
    if failure:
        return f"{failure.sqlstate}: {failure.message}"
    if record.kind == "ok":
        return None
    result = answers[-1]
    if len(result.columns) != len(record.types):
        return f"{len(result.columns)} columns"
    try:
        rows = [[shown(value, letter) for value, letter in zip(row, record.types)] for row in result.rows]
    except ValueError as error:
        return str(error)
    if record.sort == "rowsort":
        rows.sort()
    values = [value for row in rows for value in row]
    if record.sort == "valuesort":
        values.sort()
    if len(record.expected) == 1 and " values hashing to " in record.expected[0]:
        digest = hashlib.md5("".join(value + "\n" for value in values).encode()).hexdigest()
        found = f"{len(values)} values hashing to {digest}"
        return None if found == record.expected[0] else f"{found}: {values[:20]}"
    return None if tuple(values) == record.expected else f"{values[:20]}"


def run_file(client, path):
    """How many records there are, and those that do not pass: {line: (statement, what is not as it says)}."""
    for answer in client.query("drop schema if exists public cascade; create schema public"):
        if isinstance(answer, wire.Failure):
            raise RuntimeError(answer.message)
    count, failed = 0, {}
    for one in records(path.read_text()):
        count += 1
        found = difference(one, client.query(one.sql))
        if found:
            failed[one.line] = (one.sql, found)
    return count, failed


def run_on(server, paths):
    """`run_file` of each, on a fresh server, in their order."""
    with server() as running:
        client = wire.Client(running.port)
        return [run_file(client, path) for path in paths]


def theirs():
    return Postgres({"fsync": "off"})


def ours():
    return Niwaki({})


@dataclasses.dataclass
class Outcome:
    path: str
    records: int
    passed: int  # on PostgreSQL
    wrong: list  # that do not on Niwaki: (line, statement, what it gave)


def compare(folder, paths, progress=lambda outcome: None, at_once=8):
    """An Outcome for each file. Both servers run beside each other, some files at a time."""
    outcomes = []
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        for first in range(0, len(paths), at_once):
            some = paths[first:first + at_once]
            runs = [pool.submit(run_on, server, some) for server in (theirs, ours)]
            for path, (count, their_failed), (_, our_failed) in zip(some, *(run.result() for run in runs)):
                wrong = [(line, *failure) for line, failure in our_failed.items() if line not in their_failed]
                outcomes.append(Outcome(str(path.relative_to(folder)), count, count - len(their_failed), wrong))
                progress(outcomes[-1])
    return outcomes
