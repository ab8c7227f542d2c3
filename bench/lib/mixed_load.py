"""Thread `bottom-up-deletion`'s mixed load: rows whose time of change is indexed, a queue, a report over what changed lately, and a snapshot that is always open."""

import statistics
import subprocess
import sys
import threading
import time

from accept_03 import Held, windows
from servers import Niwaki, Postgres, Postgres18
from steps import BINARY, command
from wire import Client, Failure

# 9 and 11 November 2020, 3 January 2021; what the trigger did there is in the UPDATE.
INDEXES = {"accounts_pkey": "unique index accounts_pkey on accounts (aid)", "accounts_mtime": "index accounts_mtime on accounts (mtime, aid)",
           "tenner": "index tenner on accounts ((aid - (aid % 10)))", "fiver": "index fiver on accounts ((aid - (aid % 5)))",
           "score": "index score on accounts ((aid - (aid % 20)))"}
UPDATE = """\\set aid random(1, {rows})
\\set delta random(-5000, 5000)
BEGIN;
UPDATE accounts SET abalance = abalance + :delta, mtime = now() WHERE aid = :aid;
SELECT abalance FROM accounts WHERE aid = :aid;
END;
"""
QUEUE = """INSERT INTO queue (payload) VALUES ('work');
DELETE FROM queue WHERE id = (SELECT id FROM queue ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED);
"""
REPORT = "select count(*), sum(abalance) from (select aid, abalance from accounts where mtime > now() - interval '{seconds} s' order by aid) s"
CLIENTS = {"update": 4, "queue": 2}
# A process that does nothing but sleep: what keeps it from running keeps others too. Seconds since 1970 when it was late, and how late.
CONTROL = """
import time
while True:
    before = time.time()
    time.sleep(0.001)
    late = time.time() - before - 0.001
    if late > 0.005:
        print(before, late, flush=True)
"""


def fill(server, rows):
    server.psql("create table accounts (aid bigint, bid int, abalance int, filler char(84), mtime timestamp default now())")
    server.psql(f"insert into accounts (aid, bid, abalance, filler) select g, 1, 0, '' from generate_series(1, {rows}) g")
    for definition in INDEXES.values():
        server.psql(f"create {definition}")
    server.psql("create table queue (id bigserial primary key, payload text)")
    # What waits in it: each job lives for seconds, not for the life of a snapshot.
    server.psql(f"insert into queue (payload) select 'work' from generate_series(1, {rows // 10}) g")


def start(server, name, seconds, rate=None):
    pace = ["-R", str(rate)] if rate else []
    log = ["-l", "--log-prefix", str(server.dir / name)] if rate else []
    return subprocess.Popen(["pgbench", "-n", "-M", "prepared", "-c", str(CLIENTS[name]), "-T", str(seconds), *pace, *log, "-f", str(server.dir / f"{name}.sql")],
                            env=server.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def ended(run):
    output = run.communicate()[0]
    if "number of failed transactions: 0 (" not in output:
        raise RuntimeError(output)
    return int(output.split("transactions actually processed: ")[1].split()[0].split("/")[0])


def transactions(server, name):
    """When each began and ended, in seconds since 1970."""
    found = []
    for part in server.dir.glob(f"{name}.[0-9]*"):
        for line in part.read_text().splitlines():
            fields = line.split()
            end = int(fields[4]) + int(fields[5]) / 1e6
            found.append((end - int(fields[2]) / 1e6, end))
    return found


def stall_ms(times, late):
    """p99.99 of the transactions' times, less what the control process was late in each, ms."""
    late, own, first = sorted(late), [], 0
    for begin, end in sorted(times):
        while first < len(late) and sum(late[first]) < begin - 10:
            first += 1
        lost = 0.0
        for at, by in late[first:]:
            if at > end:
                break
            lost += max(0.0, min(end, at + by) - max(begin, at))
        own.append(end - begin - lost)
    own.sort()
    return own[min(len(own) - 1, len(own) * 9999 // 10000)] * 1000


class Snapshots(threading.Thread):
    """One snapshot after another, each for `length` seconds; the next one is there before the last one goes."""

    def __init__(self, server, length):
        super().__init__(daemon=True)
        self.server, self.length, self.over = server, length, threading.Event()

    def run(self):
        held = Held(self.server, "select count(*) from queue")
        while not self.over.wait(self.length):
            held, last = Held(self.server, "select count(*) from queue"), held
            last.end()
        held.end()

    def end(self):
        self.over.set()
        self.join()


class Watcher:
    """Who asks for the report and for sizes: one connection, as an application has it. A process for each question took more from the load than the questions."""

    def __init__(self, server, names):
        self.client, self.names = Client(server.port, timeout=600), names

    def ask(self, sql):
        answer = self.client.query(sql)[-1]
        if isinstance(answer, Failure):
            raise RuntimeError(f"{sql}: {answer.message}")
        return answer.rows

    def pages(self):
        """Size of each relation's main fork, in blocks of 8 KiB."""
        names = ", ".join(f"'{name}'" for name in self.names)
        sizes = self.ask(f"select n, pg_relation_size(n::regclass) / 8192 from unnest(array[{names}]) n")
        return {name.decode(): int(size) for name, size in sizes}


def one(server, rows, seconds, parts):
    """The load for so long, by `parts` windows, each as long as a snapshot's life."""
    fill(server, rows)
    watcher = Watcher(server, [*INDEXES, "queue_pkey", "accounts", "queue"])
    fresh = watcher.pages()
    (server.dir / "update.sql").write_text(UPDATE.format(rows=rows))
    (server.dir / "queue.sql").write_text(QUEUE)
    most = {name: ended(run) / 10 for name, run in [(name, start(server, name, 10)) for name in CLIENTS]}
    length = seconds / parts
    report = REPORT.format(seconds=round(seconds / 2))
    control = subprocess.Popen([sys.executable, "-c", CONTROL], stdout=subprocess.PIPE, text=True)
    snapshots = Snapshots(server, length)
    snapshots.start()
    begun, sizes, reports = time.time(), [], []
    runs = [start(server, name, seconds, max(1, int(0.4 * most[name]))) for name in CLIENTS]
    while any(run.poll() is None for run in runs):
        at = time.time() - begun
        watcher.ask(report)
        reports.append((at, time.time() - begun - at))
        sizes.append((at, watcher.pages()))
        time.sleep(max(0.0, 1 - (time.time() - begun - at)))
    counts = {name: ended(run) for name, run in zip(CLIENTS, runs)}
    control.kill()
    late = [tuple(map(float, line.split())) for line in control.communicate()[0].splitlines() if len(line.split()) == 2]
    snapshots.end()
    times = [x for name in CLIENTS for x in transactions(server, name)]
    within = lambda at, number: number * length <= at < (number + 1) * length
    # Sizes at the end of each window.
    ends = [[s for at, s in sizes if at < (number + 1) * length][-1] for number in range(parts)]
    took = [statistics.median(t for at, t in reports if within(at, number)) for number in range(parts)]
    return {"most": most, "counts": counts, "windows": {name: windows(server, name, parts, seconds) for name in CLIENTS}, "fresh": fresh, "sizes": ends,
            "report_ms": [round(1000 * t, 1) for t in took], "stall_ms": stall_ms(times, late), "raw_stall_ms": stall_ms(times, []), "late": len(late)}


def mixed(long):
    """Thread `bottom-up-deletion`'s mixed load at 40 % of the maximum with default settings and a snapshot always open: p99, sizes, stalls, the report's time. PostgreSQL beside it for at most ten minutes."""
    # So many that each is updated about three times in the life of a snapshot: then sizes are what they will be.
    rows, seconds, parts = (200_000, 1800, 6) if long else (20_000, 150, 6)
    details, missed, shown = {}, [], []
    for peer in (Niwaki, Postgres, Postgres18):
        # Nothing is tuned.
        with peer({}) as server:
            found = details[peer.name] = one(server, rows, seconds if peer is Niwaki else min(seconds // 2, 600), parts)
            if peer is Niwaki:
                server.stop()
                command(BINARY, "check", "--data-dir", server.dir / "data")
        # Once each snapshot is as old as any: from the end of the first window on.
        first, last = found["sizes"][0], found["sizes"][-1]
        grown = {name: last[name] / first[name] for name in (*INDEXES, "queue_pkey")}
        slower = {name: w[-1]["p99_ms"] / max(w[0]["p99_ms"], 0.001) for name, w in found["windows"].items()}
        # The report is about a half of the run: from there on it has as much to read.
        flat = found["report_ms"][-1] / found["report_ms"][parts // 2]
        if peer is Niwaki:
            missed += [f"{name} p99 {ratio:.2f}x" for name, ratio in slower.items() if ratio > 1.25]
            # A page more is no growth.
            missed += [f"{name} {ratio:.3f}x" for name, ratio in grown.items() if last[name] > (1.02 if name == "accounts_mtime" else 1.005) * first[name] + 1]
            missed += ["stalls"] * (found["stall_ms"] > 100) + ["report"] * (flat > 1.25)
        p99 = ", ".join(f"{name} p99 {w[0]['p99_ms']:.1f} -> {w[-1]['p99_ms']:.1f} ms" for name, w in found["windows"].items())
        sizes = ", ".join(f"{name} {ratio:.3f}x" for name, ratio in grown.items())
        shown.append(f"{peer.name}: {p99}; {sizes} ({sum(last.values()) / sum(found['fresh'].values()):.2f}x of loading); "
                     f"stalls {found['stall_ms']:.0f} ms; report {found['report_ms'][parts // 2]:.0f} -> {found['report_ms'][-1]:.0f} ms")
    return not missed, "; ".join(shown) + (f"; missed: {missed}" if missed else ""), details
