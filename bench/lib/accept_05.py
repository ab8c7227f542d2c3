"""Issue 05: PostgreSQL's clients feel at home."""

import dataclasses
import re
import statistics
import time

import clients as drivers
import differential as generated
import logictest
import regress as scripts
import tpcc as shop
import tpch as reports
from servers import Niwaki, Postgres, Postgres18
from steps import BINARY, build_beside_postgres as build, cargo_test, command
from wire import Client


def clients(_long):
    """psql, pgbench, and the statements and wire traces that were captured from other clients, with PostgreSQL's answers."""
    passed, _ = cargo_test("-p", "niwaki-tests", "--test", "clients")
    return True, f"{passed} tests", {}


def regress(_long):
    """PostgreSQL's regression scripts: no wrong answer, no crash, at least half of the statements the same, the rest refused by name."""
    folder = scripts.fetch()
    with Postgres({"fsync": "off"}) as theirs, Niwaki({}) as ours:
        comparer = scripts.Comparer(ours, theirs, folder)
        for name in scripts.schedule(folder):
            comparer.run_script(name)
    found = scripts.totals(comparer.verdicts)
    count = len(comparer.verdicts)
    unnamed = sum(found[kind] for kind in ("code", "fails", "accepts", "shape", "slow"))
    held = found["wrong"] == found["crash"] == unnamed == 0 and found["same"] >= 0.5 * count
    shown = ", ".join(f"{number} {kind}" for kind, number in found.items() if number)
    return held, f"{count} statements: {shown}; the same {found['same'] / count:.1%}", [dataclasses.asdict(verdict) for verdict in comparer.verdicts if verdict.kind != "same"]


def driver(name):
    """A step that installs a client and runs its program on both servers."""
    def step(_long):
        result = drivers.check(name)
        return not result.unknown, str(result), result.unknown
    step.__doc__ = f"{name}, as it comes from its registry: on Niwaki it prints what it prints on PostgreSQL 15."
    return step


def differential(seed):
    """A step of 20,000 generated statements; one that was cut off costs no other."""
    def step(_long):
        with Postgres({"fsync": "off"}) as theirs, Niwaki({}) as ours:
            comparer = generated.Comparer(ours, theirs, seed)
            comparer.run(20_000)
        held = not any(comparer.counted[kind] for kind in generated.DIFFERENCES)
        return held, comparer.summary(), [dataclasses.asdict(finding) for finding in comparer.findings]
    step.__doc__ = f"20,000 generated statements (seed {seed}): none that differs from PostgreSQL's answer without a reason."
    return step


def sqllogictest(_long):
    """SQLite's select and index suites: every record that passes on PostgreSQL passes."""
    folder = logictest.fetch()
    outcomes = logictest.compare(folder, list(logictest.files(folder)))
    wrong = sum(len(outcome.wrong) for outcome in outcomes)
    records, passed = sum(outcome.records for outcome in outcomes), sum(outcome.passed for outcome in outcomes)
    return wrong == 0, f"{len(outcomes)} files, {records} records, {passed} pass on PostgreSQL, {wrong} of these not", [dataclasses.asdict(outcome) for outcome in outcomes if outcome.wrong]


def tpch(long):
    """TPC-H (scale 1 in the long form): all 22 queries right, in at most PostgreSQL's time in all, inside 4 GB."""
    settings = {"shared_buffers": "1GB", "work_mem": "64MB", "max_wal_size": "8GB"}
    with Postgres(settings) as theirs, Niwaki(settings) as ours:
        found = reports.compare(ours, theirs, 1 if long else 0.05)
    mine, other = sum(query.ours for query in found), sum(query.theirs for query in found)
    wrong, most = [query.number for query in found if not query.same], max(query.resident for query in found)
    held = not wrong and mine <= other and most < 4 << 30
    return held, f"{mine:.1f} s, PostgreSQL {other:.1f}; {most >> 20} MB at most; other rows: {wrong or 'none'}", [dataclasses.asdict(query) for query in found]


def tpcc(long):
    """A load like TPC-C (ten minutes in the long form): its consistency conditions hold, and every invariant of the files."""
    with Niwaki({"shared_buffers": "1GB", "max_wal_size": "4GB", "synchronous_commit": "off"}) as server:
        found = shop.load_and_run(server, seconds=600 if long else 60)
        server.stop()
        command(BINARY, "check", "--data-dir", server.dir / "data")
    done = ", ".join(f"{count} {kind}" for kind, count in sorted(found.counts.items()))
    return not found.violations, f"{found.orders_a_minute:.0f} orders a minute, p99 {found.p99_ms:.0f} ms ({done}); violated: {found.violations or 'none'}", dataclasses.asdict(found)


def short_statements(_long):
    """Prepared statements in the library: a row by its key in at most 6 us, a join by key of ten rows in at most 60 us."""
    shown = command("cargo", "run", "-q", "--release", "-p", "niwaki", "--example", "point_statements")
    found = {name: int(ns) / 1000 for name, ns in re.findall(r"^(.+): (\d+) ns$", shown, re.M)}
    point, join = found["select on its own"], found["join of ten rows on its own"]
    return point <= 6 and join <= 60, f"{point:.1f} us a row, {join:.1f} us a join of ten rows", found


# 350 MB: 2.8 million rows of 124 bytes with their headers.
COUNTED = "create table counted (a int, b text); insert into counted select i, repeat('x', 90) from generate_series(1, 2800000) i"


def count_rows(_long):
    """count(*) of 350 MB in memory, by one core: at least 3x as fast as PostgreSQL 18."""
    settings = {"shared_buffers": "1GB", "max_wal_size": "8GB", "autovacuum": "off", "max_parallel_workers_per_gather": "0"}
    times = {}
    with Postgres18(settings) as theirs, Niwaki(settings) as ours:
        clients = {"ours": Client(ours.port, timeout=600), "theirs": Client(theirs.port, timeout=600)}
        sizes = {}
        for name, client in clients.items():
            for statement in (*COUNTED.split("; "), "vacuum analyze counted", "select count(*) from counted"):
                client.query(statement)
            sizes[name] = int(client.query("select pg_relation_size('counted')")[-1].rows[0][0]) >> 20
        for _ in range(9):
            for name, client in clients.items():
                begun = time.monotonic()
                rows = client.query("select count(*) from counted")[-1].rows
                times.setdefault(name, []).append(time.monotonic() - begun)
                if int(rows[0][0]) != 2_800_000:
                    raise RuntimeError(f"{name}: {rows}")
    mine, other = (statistics.median(times[name]) for name in ("ours", "theirs"))
    return other / mine >= 3, f"{mine * 1000:.0f} ms of {sizes['ours']} MB, PostgreSQL 18 {other * 1000:.0f} ms of {sizes['theirs']} MB: {other / mine:.2f}x as fast", times


STEPS = {"build": build, "short-statements": short_statements, "count": count_rows, "clients": clients, **{name: driver(name) for name in drivers.names()}, "regress": regress, "sqllogictest": sqllogictest, "tpch": tpch, "tpcc": tpcc, "differential": differential(1)}
# With that one, the 300,000.
LONG_STEPS = {f"differential-{seed}": differential(seed) for seed in range(2, 16)}
