"""What acceptance steps share: running a command or a test suite, and measuring what a server does meanwhile."""

import mmap
import os
import pathlib
import re
import statistics
import subprocess

from servers import ROOT, Postgres18

TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
BINARY = pathlib.Path(os.environ.get("NIWAKI_BINARY", TARGET / "release" / "niwaki"))
# Everything in memory, few checkpoints, no vacuum: what updates alone do.
SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "8GB", "checkpoint_timeout": "15min", "synchronous_commit": "off",
            "autovacuum": "off", "max_connections": "100"}


def command(*arguments, env=None, timeout=None):
    """Runs a command in the project's folder; its output, or an error with the end of it."""
    done = subprocess.run(arguments, cwd=ROOT, env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=timeout)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, arguments))}: {done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout + done.stderr


def build_beside_postgres(_long):
    """The release binary, and PostgreSQL 18 beside it."""
    command("cargo", "build", "--release", "-p", "niwaki-cli")
    return True, str(Postgres18.fetch()), {}


def cargo_test(*arguments, env=None):
    """Number of tests that passed (an error if any failed or none ran), and the output."""
    output = command("cargo", "test", "--profile", "soak", *arguments, env={"NIWAKI_BINARY": str(BINARY), **(env or {})})
    passed = sum(int(n) for n in re.findall(r"test result: ok\. (\d+) passed", output))
    if passed == 0:
        raise RuntimeError(f"cargo test {' '.join(arguments)} ran no test")
    return passed, output


def pgbench(server, script, *, clients=8, transactions=None, seconds=None, rate=None, log=None, extra=()):
    """Runs a pgbench script, prepared; no transaction may fail. Latencies in ms, server CPU in us a transaction."""
    file = server.dir / "script.sql"
    file.write_text(script)
    length = ["-t", str(transactions // clients)] if transactions else ["-T", str(seconds)]
    pace = ["-R", str(rate)] if rate else []
    prefix = ["-l", "--log-prefix", str(server.dir / log)] if log else []
    cpu = server.cpu_seconds()
    output = server.client("pgbench", "-n", "-M", "prepared", "-c", str(clients), "-j", str(min(clients, 2)), *length, *pace, *prefix,
                           "-f", str(file), *extra).stdout
    cpu = server.cpu_seconds() - cpu
    if "number of failed transactions: 0 (" not in output:
        raise RuntimeError(output)
    count = int(re.search(r"transactions actually processed: (\d+)", output).group(1))
    result = {"transactions": count, "cpu_us": cpu * 1e6 / count, "tps": float(re.search(r"tps = ([\d.]+)", output).group(1)),
              "avg_ms": float(re.search(r"latency average = ([\d.]+)", output).group(1))}
    if log:
        times = []
        for part in server.dir.glob(f"{log}.*"):
            times += [int(line.split()[2]) / 1000 for line in part.read_text().splitlines()]
            part.unlink()
        times.sort()
        result |= {"p99_ms": times[len(times) * 99 // 100], "stddev_ms": statistics.pstdev(times), "max_ms": times[-1]}
    return result


def touch_memory(size):
    """Has the machine's host back this much memory with its own: where it takes free memory back after seconds, whoever touches
    new memory first waits milliseconds for each 2 MB, which would be measured instead of what a server does."""
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    for at in range(0, size, mmap.PAGESIZE):
        memory[at] = 1
    memory.close()


def instructions(server, script, *, clients, warm, transactions, extra=()):
    """Instructions a transaction, of the server, under valgrind, where nothing else on the machine counts. It is started
    again for that, and runs `warm` transactions first."""
    server.stop()
    out = server.dir / "callgrind"
    server.start(("valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}"))
    switch = lambda to: command("callgrind_control", "-i", to, str(server.process.pid))
    if warm:
        pgbench(server, script, clients=clients, transactions=warm, extra=extra)
    switch("on")
    count = pgbench(server, script, clients=clients, transactions=transactions, extra=extra)["transactions"]
    switch("off")
    server.stop()
    return int(re.search(r"^totals: (\d+)", out.read_text(), re.M).group(1)) / count


def calls(server, function):
    """How often a function whose name contains this was called while `instructions` counted."""
    names, count, counts = {}, 0, False
    for line in (server.dir / "callgrind").read_text().splitlines():
        if match := re.match(r"c?fn=\((\d+)\)(?: (.*))?", line):
            number, name = match.groups()
            names[number] = name or names[number]
            counts = line.startswith("cfn=") and function in names[number]
        elif counts and line.startswith("calls="):
            count += int(line[6:].split()[0])
    return count


def pages(server, *relations):
    """Size of each relation's main fork, in blocks of 8 KiB."""
    return {name: int(server.psql(f"select pg_relation_size('{name}')")) // 8192 for name in relations}


def index_stats(server):
    """The rows of niwaki_stat_indexes by index name, numbers as numbers."""
    lines = server.client("psql", "-X", "-A", "-F", "\t", "-P", "footer=off", "-v", "ON_ERROR_STOP=1",
                          "-c", "select * from niwaki_stat_indexes").stdout.splitlines()
    names = lines[0].split("\t")
    rows = [dict(zip(names, line.split("\t"))) for line in lines[1:]]
    number = lambda text: int(text) if re.fullmatch(r"-?\d+", text) else text
    return {row["indexrelname"]: {name: number(value) for name, value in row.items()} for row in rows}


def median_ratio(pairs):
    """Median of a / b over pairs, with the smallest and the largest."""
    ratios = sorted(a / b for a, b in pairs)
    return {"median": statistics.median(ratios), "low": ratios[0], "high": ratios[-1], "pairs": len(ratios)}
