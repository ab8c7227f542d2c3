"""pg_dump, pg_restore and psql of PostgreSQL 15: a database of every kind of object is dumped in each format and restored into new servers of both kinds.

The transcript has the dump itself, so that the two servers' dumps are compared line by line, and whether the dump of what was restored is the same again.
"""

import os
import pathlib
import re
import subprocess
import tempfile

from servers import Niwaki, Postgres

SCHEMA = pathlib.Path(__file__).parent / "schema.sql"


def run(*command, port=None):
    environment = {**os.environ, **({"PGPORT": str(port)} if port else {})}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    for line in done.stderr.splitlines():
        print(f"{command[0]}: {line}")
    if done.returncode != 0:
        print(f"{command[0]}: exit code {done.returncode}")
    return done.stdout


def dump(*options, port=None):
    """A plain dump without what differs by its nature: the versions in comments, a random word that psql is given."""
    text = run("pg_dump", *options, port=port)
    return re.sub(r"^(-- Dumped (from|by)|\\(un)?restrict ).*\n", "", text, flags=re.M)


def main():
    print(run("pg_dump", "--version").split()[2].split(".")[0])
    run("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", str(SCHEMA))
    first = dump()
    print(first)
    print("--- as INSERT statements")
    print(dump("--inserts", "--rows-per-insert=2", "--data-only"))
    print("--- as INSERT statements with columns")
    print(dump("--column-inserts", "--table=app.orders", "--section=data"))
    print("--- what --clean --if-exists --no-owner says")
    print(dump("--clean", "--if-exists", "--no-owner", "--no-privileges", "--schema-only"))
    with tempfile.TemporaryDirectory() as folder:
        run("pg_dump", "-Fc", "-f", f"{folder}/custom")
        run("pg_dump", "-Fd", "-f", f"{folder}/directory")
        run("pg_dump", "-Ft", "-f", f"{folder}/tar")
        print("--- the archive's contents")
        print(re.sub(r"^(;.*\n)|^\d+; \d+ \d+ ", "", run("pg_restore", "-l", f"{folder}/custom"), flags=re.M))
        print("--- by several workers")
        run("pg_dump", "-Fd", "-j2", "-f", f"{folder}/parallel")
        pathlib.Path(f"{folder}/plain.sql").write_text(run("pg_dump"))
        for kind in (Postgres, Niwaki):
            for form in ("plain", "custom", "directory", "tar"):
                with kind({}) as server:
                    if form == "plain":
                        run("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-o", "/dev/null", "-f", f"{folder}/plain.sql", port=server.port)
                    else:
                        run("pg_restore", "-d", "postgres", "--exit-on-error", *(["-j2"] if form == "directory" else []), f"{folder}/{form}", port=server.port)
                    again = dump(port=server.port)
                    print(f"restored from {form} into {kind.name}:", "the same" if again == first else "different")
                    if form == "custom":
                        run("pg_restore", "-d", "postgres", "--clean", "--if-exists", f"{folder}/{form}", port=server.port)
                        print(f"restored once more into {kind.name}:", "the same" if dump(port=server.port) == first else "different")
                    print(run("psql", "-X", "-A", "-t", "-c", "select (select count(*) from app.customers), (select sum(amount) from app.orders), (select max(id) from app.rich), (select count(*) from app.events), (select sum(id) from app.events_far), (select count(*) from app.only_events)", port=server.port), end="")


main()
