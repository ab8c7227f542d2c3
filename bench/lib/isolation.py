"""PostgreSQL's own isolation specifications, run by its own isolationtester on Niwaki, unmodified.

Each specification comes to one of these:

    same      isolationtester prints what PostgreSQL expects, to the letter
    refused   what differs begins with something that Niwaki refuses by name (SQLSTATE 0A000)
    known     it differs for a reason that stands in isolation_known.txt
    differs   it prints something else
    stuck     it did not end within the time that is given
"""

import dataclasses
import difflib
import pathlib
import re
import subprocess

import postgres_source
from servers import POSTGRES

TESTER = POSTGRES.parent / "lib/pgxs/src/test/isolation/isolationtester"
SECONDS = 60
KNOWN = pathlib.Path(__file__).with_name("isolation_known.txt")
KINDS = ("same", "refused", "known", "differs", "stuck")
# How Niwaki words what it does not have.
REFUSED = re.compile(r"ERROR: .*(not supported|is not implemented|does not exist)")


def fetch():
    """The folder of the specifications and of what they are expected to print."""
    return postgres_source.fetch("postgres15-isolation", r"[^/]+/src/test/isolation/((?:specs|expected)/[^/]+|isolation_schedule)$")


def schedule(folder):
    """The specifications, in PostgreSQL's order."""
    return postgres_source.schedule(folder / "isolation_schedule")


def known():
    """Specification → why it differs."""
    found, reason = {}, ""
    for line in KNOWN.read_text().splitlines():
        if line.startswith("# "):
            reason = line[2:]
        elif line.strip():
            found[line.strip()] = reason
    return found


@dataclasses.dataclass
class Verdict:
    kind: str
    name: str
    why: str = ""
    diff: str = ""


def expected(folder, name):
    """What PostgreSQL may print: the usual output, and its variants."""
    return [file.read_text() for file in sorted((folder / "expected").glob(f"{name}*.out"))
            if re.fullmatch(rf"{re.escape(name)}(_\d+)?\.out", file.name)]


def fresh(server):
    """An empty database of the name that the specifications are run in."""
    server.psql("drop database if exists isolation_regression")
    server.psql("create database isolation_regression")


def run(server, folder, name, reasons):
    """Runs one specification in a database of its own."""
    fresh(server)
    spec = (folder / "specs" / f"{name}.spec").read_text()
    address = f"host=127.0.0.1 port={server.port} user=postgres dbname=isolation_regression"
    # PostgreSQL's driver sets the same; the outputs depend on it.
    environment = {**server.environment(), "PGTZ": "PST8PDT", "PGDATESTYLE": "Postgres, MDY"}
    try:
        done = subprocess.run([TESTER, address], input=spec, env=environment, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired as late:
        return Verdict("stuck", name, diff=str(late.stdout or b"")[-2000:])
    wanted = expected(folder, name)
    if done.stdout in wanted and done.returncode == 0:
        return Verdict("same", name)
    closest = max(wanted, key=lambda text: difflib.SequenceMatcher(None, text[:4000], done.stdout[:4000]).quick_ratio())
    diff = "".join(difflib.unified_diff(closest.splitlines(True), done.stdout.splitlines(True), "PostgreSQL", "Niwaki"))
    text = diff + done.stderr
    if name in reasons:
        return Verdict("known", name, reasons[name], text)
    first = next((line for line in text.splitlines() if REFUSED.search(line)), None)
    return Verdict("refused" if first else "differs", name, first or "", text)
