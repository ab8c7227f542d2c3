"""Issue 08: ahead everywhere: bulk changes, statements that are not prepared, loads, index-only scans, one hot row, recovery. Beside PostgreSQL 18."""

import re
import signal
import statistics
import time

import accept_06
from accept_04 import INDEX_ONLY, milliseconds, shuffled
from servers import Niwaki, Postgres18
from steps import SETTINGS, build_beside_postgres as build, instructions, pages

SERVERS = [Niwaki, Postgres18]
MEMORY = {**SETTINGS, "shared_buffers": "2GB"}


def seconds(server, sql):
    begun = time.monotonic()
    server.psql(sql)
    return time.monotonic() - begun


def logged(server, before=None):
    """The position in the log, or the bytes since an earlier one."""
    position = server.psql("select pg_current_wal_insert_lsn()")
    return position if before is None else int(server.psql(f"select pg_wal_lsn_diff('{position}', '{before}')::bigint"))


def bulk(long):
    """Thread `bottom-up-deletion`'s bulk updates of 1 M rows, three times over, and VACUUM: at most 0.6x of PostgreSQL 18's time and log."""
    rows = 1_000_000 if long else 300_000
    found = {}
    for kind in SERVERS:
        with kind(MEMORY) as server:
            server.psql("create table t1 (c1 int, c2 int, c3 int, c4 int)")
            took, log = {}, {}

            def run(name, sql):
                before = logged(server)
                took[name] = seconds(server, sql)
                log[name] = logged(server, before)

            run("insert", f"insert into t1 select g, 1, g % 100, g from generate_series(1, {rows}) g")
            for column in ("c1", "c2", "c3"):
                server.psql(f"create index t_{column} on t1 ({column})")
            for turn in (1, 2, 3):
                run(f"update {turn}", f"update t1 set c2 = {turn + 1}")
            run("vacuum", "vacuum t1")
            run("delete", "delete from t1 where c1 % 2 = 0")
            found[kind.name] = {"seconds": took, "log": log, "pages": pages(server, "t1", "t_c1", "t_c2", "t_c3")}
    ours, theirs = found["niwaki"], found["postgres18"]
    ratios = {name: (ours["seconds"][name] / theirs["seconds"][name], ours["log"][name] / max(theirs["log"][name], 1)) for name in ours["seconds"]}
    updates = [ratios[f"update {turn}"] for turn in (1, 2, 3)]
    held = all(time <= 0.6 and log <= 0.6 for time, log in updates)
    return held, ", ".join(f"{name} {time:.2f}x ({ours['seconds'][name]:.1f} s), log {log:.2f}x" for name, (time, log) in ratios.items()), found


def unprepared(long):
    """Statements that are not prepared: TPS of simple and extended protocol at 1, 4, 16 clients at least 1.5x; at most 25,000 instructions above prepared."""
    length, rounds = (20, 5) if long else (5, 3)
    ratios = {}
    with Niwaki(MEMORY) as ours, Postgres18(MEMORY) as theirs:
        for server in (ours, theirs):
            server.client("pgbench", "-i", "-q", "-s", "10")
        for protocol in ("simple", "extended"):
            for script in ("tpcb-like", "select-only"):
                for clients in (1, 4, 16):
                    pairs = []
                    for number in range(rounds):
                        tps = {}
                        for server in (ours, theirs) if number % 2 == 0 else (theirs, ours):
                            output = server.client("pgbench", "-n", "-M", protocol, "-b", script, "-c", str(clients), "-j", "2", "-T", str(length)).stdout
                            tps[server.name] = float(re.search(r"tps = ([\d.]+)", output).group(1))
                        pairs.append(tps["niwaki"] / tps["postgres18"])
                    ratios[f"{protocol} {script} c{clients}"] = statistics.median(pairs)
    counts = {}
    for protocol in ("simple", "extended", "prepared"):
        with Niwaki(accept_06.SETTINGS) as server:
            server.psql(accept_06.TABLES)
            server.psql("vacuum counted")
            counts[protocol] = instructions(server, accept_06.SCRIPTS["select"], clients=1, warm=500, transactions=500,
                                            extra=("--random-seed=7", f"--protocol={protocol}"))
    above = max(counts["simple"], counts["extended"]) - counts["prepared"]
    held = min(ratios.values()) >= 1.5 and above <= 25_000
    shown = ", ".join(f"{name} {ratio:.2f}x" for name, ratio in ratios.items())
    return held, f"{shown}; simple {counts['simple']:.0f}, extended {counts['extended']:.0f}, prepared {counts['prepared']:.0f} instructions", {"ratios": ratios, "instructions": counts}


def load(long):
    """COPY of narrow rows at most 0.4x of the time; index builds over sequential and random keys at most 0.5x, on one core."""
    rows = 5_000_000 if long else 1_000_000
    found = {}
    for kind in SERVERS:
        with kind({**MEMORY, "max_parallel_maintenance_workers": "0", "maintenance_work_mem": "512MB"}) as server:
            file = server.dir / "rows"
            with open(file, "w") as out:
                out.writelines(f"{n}\t{n * 7919 % 2000003}\t{n % 1000}\n" for n in range(rows))
            server.psql("create table t (id int, k int, a int)")
            took = {"copy": seconds(server, f"\\copy t from '{file}'")}
            took["sequential"] = seconds(server, "create index t_id on t (id)")
            took["random"] = seconds(server, "create index t_k on t (k)")
            found[kind.name] = took
    ratios = {name: found["niwaki"][name] / found["postgres18"][name] for name in found["niwaki"]}
    held = ratios["copy"] <= 0.4 and ratios["sequential"] <= 0.5 and ratios["random"] <= 0.5
    return held, ", ".join(f"{name} {ratio:.2f}x ({found['niwaki'][name]:.2f} s)" for name, ratio in ratios.items()), found


def index_scans(long):
    """An index-only scan of 2 M rows at most 0.5x of the time; ranges of 100 rows at 4 clients at least 1.5x of the TPS."""
    rows, turns, length = 2_000_000, 9 if long else 5, 20 if long else 8
    found = {}
    for kind in SERVERS:
        with kind({**MEMORY, "max_parallel_workers_per_gather": "0"}) as server:
            shuffled(server, rows)
            times = [milliseconds(server, INDEX_ONLY + "select count(k) from t where k > 0") for _ in range(turns)]
            script = server.dir / "range.sql"
            script.write_text("\\set n random(1, 1990000)\nselect sum(k) from t where k between :n and :n + 99;\n")
            output = server.client("pgbench", "-n", "-M", "prepared", "-c", "4", "-j", "2", "-T", str(length), "-f", str(script)).stdout
            found[kind.name] = {"ms": statistics.median(times), "tps": float(re.search(r"tps = ([\d.]+)", output).group(1))}
    ours, theirs = found["niwaki"], found["postgres18"]
    whole, ranges = ours["ms"] / theirs["ms"], ours["tps"] / theirs["tps"]
    return whole <= 0.5 and ranges >= 1.5, f"whole {whole:.2f}x ({ours['ms']:.0f} ms), ranges {ranges:.2f}x of the TPS ({ours['tps']:.0f})", found


def one_row(long):
    """16 clients that update one row, each a transaction, synchronous_commit on: at least 10x of PostgreSQL 18's TPS, half of its p99."""
    length, rounds = (20, 5) if long else (8, 3)
    found = {}
    with Niwaki({**MEMORY, "synchronous_commit": "on"}) as ours, Postgres18({**MEMORY, "synchronous_commit": "on"}) as theirs:
        for server in (ours, theirs):
            server.psql("create table hot (id int primary key, v bigint)")
            server.psql("insert into hot values (1, 0)")
            (server.dir / "hot.sql").write_text("update hot set v = v + 1 where id = 1;\n")
        for number in range(rounds):
            for server in (ours, theirs) if number % 2 == 0 else (theirs, ours):
                prefix = server.dir / "latency"
                output = server.client("pgbench", "-n", "-M", "prepared", "-c", "16", "-j", "2", "-T", str(length), "-l", "--log-prefix", str(prefix),
                                       "-f", str(server.dir / "hot.sql")).stdout
                times = []
                for part in server.dir.glob("latency.*"):
                    times += [int(line.split()[2]) / 1000 for line in part.read_text().splitlines()]
                    part.unlink()
                times.sort()
                row = {"tps": float(re.search(r"tps = ([\d.]+)", output).group(1)), "p99_ms": times[len(times) * 99 // 100]}
                found.setdefault(server.name, []).append(row)
    median = {name: {key: statistics.median(row[key] for row in rows) for key in ("tps", "p99_ms")} for name, rows in found.items()}
    tps, p99 = (median["niwaki"][key] / median["postgres18"][key] for key in ("tps", "p99_ms"))
    return tps >= 10 and p99 <= 0.5, f"{tps:.2f}x of the TPS ({median['niwaki']['tps']:.0f}), p99 {p99:.2f}x ({median['niwaki']['p99_ms']:.1f} ms)", found


def recovery(long):
    """From kill -9 to the first query with gigabytes of log: 2 s with 4 GB, all of it at least 2x PostgreSQL 18's speed."""
    rows, turns = (2_000_000, 6) if long else (500_000, 3)
    found = {}
    for kind in SERVERS:
        with kind({**MEMORY, "max_wal_size": "32GB", "checkpoint_timeout": "1h", "synchronous_commit": "on"}) as server:
            server.psql("create table t (id int primary key, a int, filler text)")
            server.psql("checkpoint")
            before = logged(server)
            server.psql(f"insert into t select g, 0, repeat('x', 100) from generate_series(1, {rows}) g")
            for turn in range(turns):
                server.psql(f"update t set a = {turn + 1}")
            size = logged(server, before)
            server.process.send_signal(signal.SIGKILL if kind is Niwaki else signal.SIGQUIT)
            server.process.wait(120)
            begun = time.monotonic()
            server.start()
            server.psql("select a from t where id = 1")
            found[kind.name] = {"seconds": time.monotonic() - begun, "log_mb": size / 1e6}
    speed = {name: row["log_mb"] / row["seconds"] for name, row in found.items()}
    ratio = speed["niwaki"] / speed["postgres18"]
    ours = found["niwaki"]
    held = ours["seconds"] <= 2 * max(1, ours["log_mb"] / 4000) and ratio >= 2
    return held, f"{ours['seconds']:.1f} s with {ours['log_mb']:.0f} MB of log, {speed['niwaki']:.0f} MB a second ({ratio:.2f}x)", found


STEPS = {"build": build, "bulk": bulk, "unprepared": unprepared, "load": load, "index-scans": index_scans, "one-row": one_row, "recovery": recovery}
