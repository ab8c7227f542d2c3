"""Issue 03: updates that touch only the indexes whose key changed (thread `warm`), and garbage collected by interval."""

import statistics
import subprocess
import time

from servers import Niwaki, Postgres, Postgres18
from steps import BINARY, SETTINGS, build_beside_postgres as build, cargo_test, command, index_stats, instructions, median_ratio, pages, pgbench

CLIENTS = 16
# Thread `warm`, 31 August 2016: wide accounts, six indexes, of which each transaction changes one key.
CHANGED = "pgb_a_abalance"
UNCHANGED = ["pgb_a_aid", "pgb_a_filler1", "pgb_a_filler2", "pgb_a_filler3", "pgb_a_filler4"]


def update(rows):
    return f"\\set aid random(1, {rows})\n\\set delta random(-5000, 5000)\nUPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;\n"


def transaction(rows):
    """Thread `warm`'s transaction, as it stands there."""
    setting, statement = update(rows).rsplit("UPDATE", 1)
    return f"{setting}BEGIN;\nUPDATE{statement}SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\nEND;\n"


def wide_accounts(server, rows, fillfactor=100, options="", changed=True):
    fillers = ", ".join(f"filler{n} text" for n in range(1, 13))
    extra = f", {options}" if options and server.name == "niwaki" else ""
    server.psql(f"create table pgbench_accounts (aid bigint, bid bigint, abalance bigint, {fillers}) with (fillfactor = {fillfactor}{extra})")
    values = ", ".join(f"md5((g * 12 + {n})::text)" for n in range(12))
    server.psql(f"insert into pgbench_accounts select g, 1, (g::bigint * 7919 % 1000003)::int, {values} from generate_series(1, {rows}) g")
    server.psql("create unique index pgb_a_aid on pgbench_accounts (aid)")
    for n in range(1, 5):
        server.psql(f"create index pgb_a_filler{n} on pgbench_accounts (filler{n})")
    if changed:
        server.psql(f"create index {CHANGED} on pgbench_accounts (abalance)")
    server.psql("vacuum analyze pgbench_accounts")
    server.psql("checkpoint")


def updates(server):
    row = server.psql("select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relname = 'pgbench_accounts'")
    return [int(x) for x in row.split("|")]


def range_scans(server, rows):
    """Entries read per row returned by range scans of the changed index, beside the updates."""
    (server.dir / "beside.sql").write_text(update(rows))
    beside = subprocess.Popen(["pgbench", "-n", "-M", "prepared", "-c", str(CLIENTS), "-j", "2", "-T", "8", "-f", server.dir / "beside.sql"],
                              env=server.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    read = lambda: int(server.psql(f"select idx_tup_read from pg_stat_user_indexes where indexrelname = '{CHANGED}'"))
    before, returned = read(), 0
    for number in range(20):
        low = number * 40_000
        returned += int(server.psql("set enable_seqscan = off; set enable_bitmapscan = off; "
                                    f"select count(*) from (select aid from pgbench_accounts where abalance between {low} and {low + 20_000}) s").splitlines()[-1])
    ratio = (read() - before) / max(1, returned)
    beside.wait()
    return ratio


def warm(long):
    """10 updates a row: moved rows, entries only where the key changed, sizes of all indexes, entries read a row."""
    rows = 300_000 if long else 100_000
    details, missed, shown = {}, [], []
    for fillfactor in (90, 100):
        with Niwaki(SETTINGS) as server:
            wide_accounts(server, rows, fillfactor, "heap_only_updates = any_key")
            indexes = [CHANGED, *UNCHANGED]
            sizes, stats = pages(server, *indexes), index_stats(server)
            first = pgbench(server, update(rows), clients=CLIENTS, transactions=2 * rows)
            begun = updates(server)
            run = pgbench(server, update(rows), clients=CLIENTS, transactions=8 * rows)
            ended = updates(server)
            ratio = range_scans(server, rows)
            total, heap_only = updates(server)
            grown, counters = pages(server, *indexes), index_stats(server)
            server.psql(f"reindex index {CHANGED}")
            fresh = pages(server, CHANGED)[CHANGED]
            server.stop()
            command(BINARY, "check", "--data-dir", server.dir / "data")
        later = 1 - (ended[1] - begun[1]) / (ended[0] - begun[0])
        moved = total - heap_only
        share = later if fillfactor == 100 else moved / total
        inserted = {name: counters[name]["inserts"] - stats[name]["inserts"] for name in UNCHANGED}
        changed = grown[CHANGED] / fresh
        details[fillfactor] = {"first": first, "run": run, "moved": moved, "updates": total, "moved_later": later, "inserted": inserted, "before": sizes, "after": grown,
                               "fresh": fresh, "read_per_row": ratio, "gardener": counters[CHANGED]["gardener_deleted"], "splits": counters[CHANGED]["leaf_splits"]}
        if share > 0.05:
            missed.append(f"{fillfactor}: {share:.1%} moved")
        if any(count != moved for count in inserted.values()):
            missed.append(f"{fillfactor}: {inserted} insertions for {moved} moved rows")
        if any(grown[name] != sizes[name] for name in UNCHANGED):
            missed.append(f"{fillfactor}: {sizes} -> {grown}")
        if changed > 1.10:
            missed.append(f"{fillfactor}: changed index {changed:.2f}x")
        if ratio > 1.2:
            missed.append(f"{fillfactor}: {ratio:.2f} entries a row")
        shown.append(f"fillfactor {fillfactor}: {share:.2%} moved, changed index {changed:.3f}x of fresh, {ratio:.2f} entries read a row, {run['tps']:.0f} TPS")
    return not missed, "; ".join(shown) + (f"; missed: {missed}" if missed else ""), details


def warm_speed(long):
    """Thread `warm`'s transaction: CPU at most 0.70x and TPS at least 1.25x of same_keys, 0.9x of the run without the index; WAL at most 300 B and 0.4x. The update alone beside it (reported)."""
    # Many short pairs: what slows a machine down for seconds hits both of a pair, or few of them.
    rows, pairs, seconds = (300_000, 45, 4) if long else (100_000, 45, 2)
    cases = {"any_key": ("heap_only_updates = any_key", True), "same_keys": ("heap_only_updates = same_keys", True), "bound": ("heap_only_updates = same_keys", False)}
    servers, found = {}, {}
    position = lambda server: int(server.psql("select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"))
    try:
        for case, (options, changed) in cases.items():
            server = servers[case] = Niwaki(SETTINGS)
            server.start()
            wide_accounts(server, rows, 90, options, changed)
            pgbench(server, update(rows), clients=CLIENTS, transactions=2 * rows)
        for name, text, count in (("transaction", transaction(rows), pairs), ("update", update(rows), 9)):
            rounds, wal = [], {case: [] for case in cases}
            for number in range(count):
                order = list(servers) if number % 2 == 0 else list(servers)[::-1]
                runs = {}
                for case in order:
                    before = position(servers[case])
                    runs[case] = pgbench(servers[case], text, clients=CLIENTS, seconds=seconds)
                    wal[case].append((position(servers[case]) - before) / runs[case]["transactions"])
                rounds.append(runs)
            ratio = lambda what, other: median_ratio([(run["any_key"][what], run[other][what]) for run in rounds])
            found[name] = {"cpu": ratio("cpu_us", "same_keys"), "tps": ratio("tps", "same_keys"), "bound": ratio("tps", "bound"),
                           "cpu_us": {case: statistics.median(run[case]["cpu_us"] for run in rounds) for case in cases},
                           "wal": {case: statistics.median(values) for case, values in wal.items()}, "rounds": rounds}
    finally:
        for server in servers.values():
            server.__exit__()
    whole, wal = found["transaction"], found["transaction"]["wal"]
    held = (whole["cpu"]["median"] <= 0.70 and whole["tps"]["median"] >= 1.25 and whole["bound"]["median"] >= 0.9
            and wal["any_key"] <= 300 and wal["any_key"] <= 0.4 * wal["same_keys"])
    shown = [f"{name}: CPU {it['cpu']['median']:.2f}x, TPS {it['tps']['median']:.2f}x of same_keys, {it['bound']['median']:.2f}x without the index "
             f"(CPU {it['cpu_us']['any_key']:.1f} us against {it['cpu_us']['bound']:.1f})" for name, it in found.items()]
    return held, (f"{'; '.join(shown)}; WAL {wal['any_key']:.0f} B (same_keys {wal['same_keys']:.0f}, without {wal['bound']:.0f})"), found


def peers(long):
    """PostgreSQL 15 and 18 in the same schema, 10 updates a row, fillfactor 90: moved rows, sizes, WAL (reported)."""
    rows, details, shown = (300_000 if long else 50_000), {}, []
    for peer in (Postgres, Postgres18):
        with peer(SETTINGS) as server:
            wide_accounts(server, rows, 90)
            before = pages(server, CHANGED, *UNCHANGED)
            run = pgbench(server, update(rows), clients=CLIENTS, transactions=10 * rows)
            total, heap_only = updates(server)
            after = pages(server, CHANGED, *UNCHANGED)
            server.psql(f"reindex index {CHANGED}")
            fresh = pages(server, CHANGED)[CHANGED]
        details[peer.name] = {"moved": total - heap_only, "updates": total, "before": before, "after": after, "fresh": fresh, **run}
        primary = after[UNCHANGED[0]] / before[UNCHANGED[0]]
        shown.append(f"{peer.name}: {1 - heap_only / total:.0%} moved, changed index {after[CHANGED] / fresh:.2f}x, primary key {primary:.2f}x, {run['tps']:.0f} TPS")
    return True, "; ".join(shown), details


def small_pool(long):
    """Pool at an eighth of the data: TPS at least 1.7x of same_keys at fillfactor 100, 2.2x at 90; pages read and written a transaction."""
    rows, seconds, rounds = (1_000_000, 60, 5) if long else (200_000, 12, 3)
    details, missed, shown = {}, [], []
    moved = {"read": "select heap_blks_read + idx_blks_read from pg_statio_user_tables where relname = 'pgbench_accounts'",
             "written": "select buffers_checkpoint + buffers_clean + buffers_backend from pg_stat_bgwriter"}
    count = lambda server: {what: int(server.psql(sql)) for what, sql in moved.items()}
    for fillfactor, least in ((100, 1.7), (90, 2.2)):
        servers, runs = {}, []
        try:
            for case in ("any_key", "same_keys"):
                server = servers[case] = Niwaki(SETTINGS)
                server.start()
                wide_accounts(server, rows, fillfactor, f"heap_only_updates = {case}")
                data = sum(pages(server, "pgbench_accounts", CHANGED, *UNCHANGED).values())
                server.stop()
                server.settings = {**SETTINGS, "shared_buffers": f"{data}kB"}
                server.start()
                # Until both are as they will be: two updates a row.
                pgbench(server, update(rows), clients=CLIENTS, transactions=2 * rows)
            for number in range(rounds):
                order = list(servers) if number % 2 == 0 else list(servers)[::-1]
                run = {}
                for case in order:
                    before = count(servers[case])
                    run[case] = pgbench(servers[case], update(rows), clients=CLIENTS, seconds=seconds)
                    run[case] |= {what: (total - before[what]) / run[case]["transactions"] for what, total in count(servers[case]).items()}
                runs.append(run)
        finally:
            for server in servers.values():
                server.__exit__()
        faster = median_ratio([(run["any_key"]["tps"], run["same_keys"]["tps"]) for run in runs])
        details[fillfactor] = {"tps": faster, "runs": runs}
        if faster["median"] < least:
            missed.append(fillfactor)
        each = {what: [statistics.median(run[case][what] for run in runs) for case in ("any_key", "same_keys")] for what in moved}
        shown.append(f"fillfactor {fillfactor}: {faster['median']:.2f}x ({faster['low']:.2f}-{faster['high']:.2f}), pages a transaction "
                     + ", ".join(f"{what} {ours:.2f} against {theirs:.2f}" for what, (ours, theirs) in each.items()))
    return not missed, "; ".join(shown) + (f"; missed: {missed}" if missed else ""), details


def several_keys(long):
    """Updates that change 1, 2, 3 and all 6 keys: CPU a transaction never worse than same_keys, whose updates leave their old entries to VACUUM: what that takes is counted, for both. Updates alone, and sizes of the indexes before VACUUM, beside it (reported)."""
    rows, pairs, seconds = (300_000, 9, 15) if long else (100_000, 9, 2)
    columns = ["abalance = abalance + :delta", *(f"filler{n} = md5(:delta || filler{n})" for n in range(1, 5)), "aid = -aid"]
    details, missed, shown = {}, [], []
    servers = {}
    try:
        for case in ("any_key", "same_keys"):
            server = servers[case] = Niwaki(SETTINGS)
            server.start()
            wide_accounts(server, rows, 90, f"heap_only_updates = {case}")
        for changed in (1, 2, 3, 6):
            text = (f"\\set aid random(1, {rows})\n\\set delta random(1, 5000)\n"
                    f"UPDATE pgbench_accounts SET {', '.join(columns[:changed])} WHERE aid {'= :aid' if changed < 6 else 'IN (:aid, 0 - :aid)'};\n")
            done = {case: pgbench(server, text, clients=CLIENTS, transactions=rows)["transactions"] for case, server in servers.items()}
            runs = []
            # A machine with two cores has two speeds, seconds at a time, a fifth apart: where both are alike, nine pairs do not tell them.
            for number in range(pairs if changed < 6 else 3 * pairs):
                order = list(servers) if number % 2 == 0 else list(servers)[::-1]
                runs.append({case: pgbench(servers[case], text, clients=CLIENTS, seconds=seconds) for case in order})
            sizes = {case: sum(pages(server, CHANGED, *UNCHANGED).values()) for case, server in servers.items()}
            vacuum = {}
            for case, server in servers.items():
                before = server.cpu_seconds()
                server.psql("vacuum pgbench_accounts")
                vacuum[case] = (server.cpu_seconds() - before) * 1e6 / (done[case] + sum(run[case]["transactions"] for run in runs))
            whole = median_ratio([(run["any_key"]["cpu_us"] + vacuum["any_key"], run["same_keys"]["cpu_us"] + vacuum["same_keys"]) for run in runs])
            alone = median_ratio([(run["any_key"]["cpu_us"], run["same_keys"]["cpu_us"]) for run in runs])
            details[changed] = {"cpu": whole, "updates_alone": alone, "vacuum_us": vacuum, "index_pages": sizes, "runs": runs}
            if whole["median"] > 1.0:
                missed.append(changed)
            shown.append(f"{changed}: {whole['median']:.2f}x ({alone['median']:.2f}x of updates alone; VACUUM {vacuum['any_key']:.1f} against {vacuum['same_keys']:.1f} us, "
                         f"index pages {sizes['any_key']} against {sizes['same_keys']})")
    finally:
        for server in servers.values():
            server.__exit__()
    return not missed, "CPU by keys changed: " + ", ".join(shown) + (f"; missed: {missed}" if missed else ""), details


def select_after(long):
    """Select-only after 10 updates a row, once most rows were read: at most 3% more instructions than on a table just loaded."""
    rows, transactions = (300_000, 100_000) if long else (50_000, 20_000)
    select = f"\\set aid random(1, {rows})\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n"
    counted = {}
    for case in ("churned", "loaded"):
        with Niwaki(SETTINGS) as server:
            wide_accounts(server, rows, 90, "heap_only_updates = any_key")
            if case == "churned":
                pgbench(server, update(rows), clients=CLIENTS, transactions=10 * rows)
            counted[case] = instructions(server, select, clients=CLIENTS, warm=4 * rows, transactions=transactions)
    ratio = counted["churned"] / counted["loaded"]
    return ratio <= 1.03, f"{counted['churned']:.0f} instructions a transaction against {counted['loaded']:.0f} ({ratio:.3f}x)", counted


class Held:
    """A session that holds a snapshot, and says what it sees."""

    def __init__(self, server, query):
        self.query = query
        self.process = subprocess.Popen(["psql", "-X", "-q", "-A", "-t"], env=server.environment(), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.send("begin isolation level repeatable read;")
        self.first = self.look()

    def send(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def look(self):
        self.send(self.query + ";")
        return self.process.stdout.readline().strip()

    def end(self):
        self.send("commit;")
        self.process.stdin.close()
        self.process.wait()


def windows(server, log, count, seconds):
    """Transactions and p99 (ms) in each of `count` equal windows of a logged pgbench run."""
    found = []
    for part in server.dir.glob(f"{log}.[0-9]*"):
        for line in part.read_text().splitlines():
            fields = line.split()
            found.append((int(fields[4]) + int(fields[5]) / 1e6, int(fields[2]) / 1000))
    start = min(end for end, _ in found)
    result = []
    for number in range(count):
        times = sorted(ms for end, ms in found if number * seconds / count <= end - start < (number + 1) * seconds / count)
        result.append({"transactions": len(times), "p99_ms": times[len(times) * 99 // 100] if times else 0.0})
    return result


REPORTED = "\\set aid random(1, {rows})\n\\set delta random(-5000, 5000)\nUPDATE accounts SET balance = balance + :delta WHERE aid = :aid;\n"


def report(long):
    """A snapshot held for the whole of an update run at 40% of the maximum: sizes, TPS, p99, its own answer. PostgreSQL beside it for at most two minutes."""
    rows, length = (1_000_000, 600) if long else (200_000, 60)
    details, missed, shown = {}, [], []
    for peer in (Niwaki, Postgres, Postgres18):
        seconds = length if peer is Niwaki else min(length, 120)
        with peer(SETTINGS) as server:
            options = "fillfactor = 90" + (", heap_only_updates = any_key" if peer is Niwaki else "")
            server.psql(f"create table accounts (aid bigint, balance bigint, filler text) with ({options})")
            server.psql(f"insert into accounts select g, (g::bigint * 7919 % 1000003)::int, repeat('x', 80) from generate_series(1, {rows}) g")
            server.psql("create unique index accounts_aid on accounts (aid); create index accounts_balance on accounts (balance)")
            server.psql("vacuum analyze accounts")
            names, text = ("accounts", "accounts_aid", "accounts_balance"), REPORTED.format(rows=rows)
            before = pages(server, *names)
            most = pgbench(server, text, clients=CLIENTS, seconds=8)["tps"]
            held = Held(server, "select sum(balance) from accounts")
            # What the snapshot sees and nobody else needs: one version of each row that is updated meanwhile.
            run = paced(server, text, seconds, int(0.4 * most))
            touched = rows * (1 - (1 - 1 / rows) ** run["transactions"])
            again = held.look()
            after = pages(server, *names)
            held.end()
        needed = {name: count * (1 + touched / rows * (name != "accounts_aid")) for name, count in before.items()}
        size = sum(after.values()) / sum(needed.values())
        first, last = run["windows"][1], run["windows"][-1]
        slope = last["transactions"] / first["transactions"]
        slower = last["p99_ms"] / first["p99_ms"]
        details[peer.name] = {"before": before, "after": after, "needed": needed, "most": most, "answers": [held.first, again], **run}
        if peer is Niwaki:
            missed += ["answer"] * (held.first != again) + ["size"] * (size > 1.10) + ["TPS"] * (slope < 0.97) + ["p99"] * (slower > 1.25)
        shown.append(f"{peer.name}: {size:.2f}x of what is needed ({sum(after.values()) / sum(before.values()):.2f}x of before), "
                     f"last window {slope:.2f}x TPS, {slower:.2f}x p99 ({last['p99_ms']:.1f} ms) of the second")
    return not missed, "; ".join(shown) + (f"; missed: {missed}" if missed else ""), details


def paced(server, text, seconds, rate):
    """A rate-limited run, by ten windows."""
    (server.dir / "paced.sql").write_text(text)
    output = server.client("pgbench", "-n", "-M", "prepared", "-c", str(CLIENTS), "-j", "2", "-T", str(seconds), "-R", str(rate), "-l",
                           "--log-prefix", str(server.dir / "paced"), "-f", str(server.dir / "paced.sql")).stdout
    if "number of failed transactions: 0 (" not in output:
        raise RuntimeError(output)
    found = windows(server, "paced", 10, seconds)
    return {"transactions": sum(window["transactions"] for window in found), "rate": rate, "windows": found}


INSERT_JOB = "INSERT INTO jobs (payload) VALUES ('job');\n"
WORK_JOB = """UPDATE jobs SET state = 1, taken = now() WHERE id = (SELECT id FROM jobs WHERE state = 0 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED);
DELETE FROM jobs WHERE id = (SELECT id FROM jobs WHERE state = 1 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED);
"""


def jobs(long):
    """800 jobs a second inserted, claimed, updated, deleted beside three overlapping reports: no backlog, steady p99, bounded sizes. PostgreSQL beside it for at most five minutes."""
    whole, length = (900, 120) if long else (90, 24)
    details, missed, shown = {}, [], []
    for peer in (Niwaki, Postgres, Postgres18):
        seconds = whole if peer is Niwaki else min(whole, 300)
        with peer({**SETTINGS, "autovacuum": "on"}) as server:
            options = " with (heap_only_updates = any_key)" if peer is Niwaki else ""
            server.psql(f"create table jobs (id bigserial primary key, state int not null default 0, taken timestamptz, payload text){options}")
            server.psql("create index jobs_open on jobs (state, id)")
            (server.dir / "insert.sql").write_text(INSERT_JOB)
            (server.dir / "work.sql").write_text(WORK_JOB)
            start = lambda name, rate, clients: subprocess.Popen(
                ["pgbench", "-n", "-M", "prepared", "-c", str(clients), "-T", str(seconds), "-R", str(rate), "-l", "--log-prefix", str(server.dir / name),
                 "-f", str(server.dir / f"{name}.sql")], env=server.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            runs = [start("insert", 800, 4), start("work", 1000, 8)]
            held, sizes, begun = [], [], time.monotonic()
            names = ("jobs", "jobs_pkey", "jobs_open")
            next_report = 0.0
            while any(run.poll() is None for run in runs):
                now = time.monotonic() - begun
                if now >= next_report and now < seconds - 2:
                    held.append((now, Held(server, "select count(*) from jobs")))
                    next_report += length / 3
                if held and now - held[0][0] >= length:
                    held.pop(0)[1].end()
                sizes.append(sum(pages(server, *names).values()))
                time.sleep(1)
            outputs = [run.communicate()[0] for run in runs]
            backlog = int(server.psql("select count(*) from jobs"))
            for _, session in held:
                session.end()
            if any("number of failed transactions: 0 (" not in output for output in outputs):
                raise RuntimeError("".join(outputs))
            found = windows(server, "work", 10, seconds)
        # Medians of three windows each: one window of a millisecond is as much the machine as the server.
        first, last = (statistics.median(window["p99_ms"] for window in some) for some in (found[1:4], found[-3:]))
        slower = last / first
        # With the reports' number as the bound, what is there at the end was there after the first of them.
        middle = sizes[len(sizes) // 2]
        details[peer.name] = {"backlog": backlog, "windows": found, "sizes": sizes}
        if peer is Niwaki:
            # A few pages more or less are no growth.
            missed += ["backlog"] * (backlog > 1600) + ["p99"] * (slower > 1.5) + ["size"] * (sizes[-1] > max(1.1 * middle, 32))
        shown.append(f"{peer.name}: {backlog} left, claim p99 {first:.1f} -> {last:.1f} ms ({slower:.2f}x), pages {middle} -> {sizes[-1]}")
    return not missed, "; ".join(shown) + (f"; missed: {missed}" if missed else ""), details


def temporary_tables(long):
    """Temporary tables created and dropped under an open snapshot: the catalog's table and indexes stay as they are."""
    count = 100_000 if long else 10_000
    with Niwaki(SETTINGS) as server:
        held = Held(server, "select count(*) from pg_class")
        own = lambda: {file: (server.dir / "data" / "base" / f"{file}.main").stat().st_size for file in (2, 3, 4)}
        script = server.dir / "churn.sql"
        script.write_text("create temp table t (id serial primary key, v text);\ninsert into t (v) values ('x');\ndrop table t;\n")
        server.psql("create temp table t (id serial primary key, v text); drop table t; checkpoint")
        before, files = own(), len(list((server.dir / "data" / "base").iterdir()))
        server.client("pgbench", "-n", "-c", "4", "-j", "2", "-t", str(count // 4), "-f", str(script))
        server.psql("checkpoint")
        after, left = own(), len(list((server.dir / "data" / "base").iterdir()))
        answer = held.look()
        held.end()
        server.stop()
        command(BINARY, "check", "--data-dir", server.dir / "data")
    fine = before == after and left <= files and answer == held.first
    return fine, f"{count} tables: {sum(before.values())} -> {sum(after.values())} bytes, {files} -> {left} files", {"before": before, "after": after}


# What tries the protocol and the engine: arguments of `cargo test`, what the long tier sets, and what that asks for.
MODELS = {
    "protocol": (("-p", "niwaki-model"), {"NIWAKI_MODEL_SCHEDULES": "1000000"}, "the protocol's rules under schedules of the model, a million in the long tier"),
    "heap": (("-p", "niwaki-heap"), {}, "pages, chains, pruning, records of roots"),
    "table": (("-p", "niwaki-table"), {}, "tables against their model, the gardener, uniqueness"),
    # 300 operations a run.
    "chains": (("-p", "niwaki-testkit", "--test", "chains"), {"RUNS": "3400"}, "operations on random schemas against the model, a million in the long tier"),
    # By name: the other suites of the package are not for simulated threads.
    "engine": (("-p", "niwaki-testkit", "--features", "shuttle", *(f"--test={suite}" for suite in ("sim", "sim_storage", "sim_index_builds", "sim_foreign_keys", "sim_tables", "seeded"))),
               {"NIWAKI_SIM_SCHEDULES": "2500"},
               "schedules of the engine's 40 stories, a hundred thousand in the long tier; planted bugs; snapshots of ten ages"),
}


def model(name):
    """One of MODELS as a step."""
    arguments, many, what = MODELS[name]

    def step(long):
        passed, _ = cargo_test(*arguments, env=many if long else None)
        return True, f"{passed} tests", {}

    step.__doc__ = what[0].upper() + what[1:] + "."
    return step


STEPS = {"build": build, **{f"model-{name}": model(name) for name in MODELS}, "warm": warm, "warm-speed": warm_speed, "peers": peers, "small-pool": small_pool, "several-keys": several_keys,
         "select-after": select_after, "report": report, "jobs": jobs,
         "temporary-tables": temporary_tables}
