"""Issue 01: real pgbench runs, a commit survives kill -9, crash images, speed beside PostgreSQL 15."""

import json
import pathlib
import re
import subprocess
import tempfile
import time

from servers import Niwaki
from steps import TARGET, cargo_test, command

def build(_long):
    """The release binary, under 15 MB."""
    command("cargo", "build", "--release", "-p", "niwaki-cli")
    size = (TARGET / "release" / "niwaki").stat().st_size
    with tempfile.NamedTemporaryFile() as stripped:
        command("strip", "-o", stripped.name, TARGET / "release" / "niwaki")
        size = min(size, pathlib.Path(stripped.name).stat().st_size)
    return size < 15e6, f"{size / 1e6:.1f} MB stripped", {"bytes": size}


SCRIPT = """\\set aid1 random_gaussian(1, 100000 * :scale, 2.0)
\\set aid2 random_gaussian(1, 100000 * :scale, 2.5)
\\set aid3 random_gaussian(1, 100000 * :scale, 2.2)
\\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid1;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid2;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid3;
END;
"""


def balances(server, every):
    """The four sums; equal where only TPC-B-like transactions ran."""
    sums = {name: int(server.psql(f"select coalesce(sum({column}), 0) from {table}") or 0) for name, table, column in (
        ("accounts", "pgbench_accounts", "abalance"), ("tellers", "pgbench_tellers", "tbalance"),
        ("branches", "pgbench_branches", "bbalance"), ("history", "pgbench_history", "delta"))}
    agree = sums["accounts"] == sums["history"] and sums["tellers"] == sums["branches"]
    if not agree or (every and len(set(sums.values())) != 1):
        raise RuntimeError(f"the sums do not agree: {sums}")
    return sums


def pgbench(long):
    """pgbench -i -s 10, then every mode and built-in script and the threads' own: no error, equal sums, a clean check."""
    seconds = "60" if long else "20"
    runs = {}
    with Niwaki({"shared_buffers": "256MB"}) as server:
        server.client("pgbench", "-i", "-s", "10")
        script = server.dir / "gaussian.sql"
        script.write_text(SCRIPT)
        for kind, more in (("tpcb", []), ("simple-update", ["-N"]), ("select-only", ["-S"]), ("gaussian", ["-f", script])):
            for mode in ("simple", "extended", "prepared"):
                vacuum = [] if kind == "tpcb" and mode == "simple" else ["-n"]
                output = server.client("pgbench", "-c", "8", "-j", "2", "-T", seconds, "-M", mode, *vacuum, *more).stdout
                if "number of failed transactions: 0 (" not in output:
                    raise RuntimeError(output)
                runs[f"{kind} {mode}"] = float(re.search(r"tps = ([\d.]+)", output).group(1))
                if kind == "gaussian":
                    continue
                balances(server, kind == "tpcb")
        server.stop()
        command(TARGET / "release" / "niwaki", "check", "--data-dir", server.dir / "data")
    return True, f"{len(runs)} runs without an error, sums agree, check is clean", {"tps": runs}


def clients(_long):
    """psql, pgbench and raw wire messages; two sessions; malformed input."""
    passed, _ = cargo_test("-p", "niwaki-tests", "--test", "clients", "--test", "isolation", "--test", "bad_input")
    return True, f"{passed} tests", {"passed": passed}


def kill(long):
    """kill -9 in the middle of work, some rounds again during recovery."""
    rounds = 100 if long else 15
    _, output = cargo_test("-p", "niwaki-tests", "--test", "kill", "--", "--nocapture", env={"NIWAKI_KILL_ROUNDS": str(rounds)})
    commits = re.findall(r"(\d+) commits are there", output)
    return len(commits) == rounds, f"{rounds} rounds, {commits[-1]} commits, none lost", {"rounds": rounds}


def crash(long):
    """Crash images of every I/O of a short workload, recovery included."""
    images = 400_000 if long else 20_000
    _, output = cargo_test("-p", "niwaki-testkit", "--test", "crash", "--", "--nocapture", env={"NIWAKI_CRASH_IMAGES": str(images)})
    found = max(map(int, re.findall(r"(\d+) images", output)))
    return found >= images, f"{found} images, each recovers to a state the model allows", {"images": found}


def models(_long):
    """The snapshot protocol under loom; the engine under the deterministic scheduler."""
    loom, _ = cargo_test("-p", "niwaki-txn", "--features", "loom", "--lib", "model")
    schedules, _ = cargo_test("-p", "niwaki-txn", "--features", "shuttle", "--tests")
    engine, _ = cargo_test("-p", "niwaki-testkit", "--features", "shuttle", "--test", "sim", "--test", "sim_storage", "--test", "sim_tables")
    return True, f"{loom} loom models, {schedules + engine} scheduler suites", {}


def seeded(_long):
    """Planted bugs: each is found by a suite."""
    _, output = cargo_test("-p", "niwaki-testkit", "--features", "shuttle", "--test", "seeded", "--", "--nocapture")
    return True, "every planted bug is found", {"output": output[-4000:]}


def locks(_long):
    """FOR UPDATE over 5 million rows takes less than 64 MB."""
    with Niwaki({"shared_buffers": "64MB", "max_wal_size": "8GB"}) as server:
        server.psql("create table big (a int); insert into big select g from generate_series(1, 5000000) g; checkpoint")
        server.psql("select count(*) from big")
        before = server.resident_bytes()
        script = server.dir / "lock.sql"
        script.write_text("\\set FETCH_COUNT 10000\nbegin;\n\\o /dev/null\nselect a from big for update;\n\\o\n"
                          "select pg_sleep(3);\ncommit;\n")
        locking = subprocess.Popen(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", script], env=server.environment(), stdout=subprocess.DEVNULL)
        largest = before
        while locking.poll() is None:
            largest = max(largest, server.resident_bytes())
            time.sleep(0.05)
        if locking.returncode != 0:
            raise RuntimeError("the locking statement failed")
    grown = (largest - before) / 2**20
    return grown < 64, f"{grown:.1f} MiB", {"bytes": largest - before}


def speed(long):
    """TPC-B-like and select-only, prepared, 1 and 8 clients, beside PostgreSQL 15."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        seconds, rounds = ("30", "5") if long else ("15", "5")
        command("bench/compare", "--seconds", seconds, "--rounds", rounds, "--json", file.name)
        result = json.loads(pathlib.Path(file.name).read_text())
    rows, missed = [], []
    for case, row in result["summary"].items():
        rows.append(f"{case} {row['tps']['ratio']:.2f}x TPS {row['cpu_us']['ratio']:.2f}x CPU")
        if row["cpu_us"]["ratio"] > 1.0:
            missed.append(f"{case}: CPU {row['cpu_us']['ratio']:.2f}")
        if case.endswith("c8") and row["tps"]["ratio"] < 0.9:
            missed.append(f"{case}: TPS {row['tps']['ratio']:.2f}")
    if result["memory"]["niwaki"] > (256 + 150) * 2**20:
        missed.append(f"memory: {result['memory']['niwaki'] / 2**20:.0f} MiB")
    return not missed, "; ".join(rows) + (f"; missed: {', '.join(missed)}" if missed else ""), result


STEPS = {"build": build, "pgbench": pgbench, "clients": clients, "kill": kill, "crash": crash, "models": models, "seeded": seeded, "locks": locks, "speed": speed}
