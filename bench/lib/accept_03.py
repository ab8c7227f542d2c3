"""Issue 03: updates that touch only the indexes whose key changed (thread 002), and garbage collected by interval."""

import statistics
import subprocess

from servers import Niwaki
from steps import BINARY, SETTINGS, build_beside_postgres as build, command, index_stats, median_ratio, pages, pgbench

CLIENTS = 16
# Thread 002, 31 August 2016: wide accounts, six indexes, of which each transaction changes one key.
CHANGED = "pgb_a_abalance"
UNCHANGED = ["pgb_a_aid", "pgb_a_filler1", "pgb_a_filler2", "pgb_a_filler3", "pgb_a_filler4"]


def update(rows):
    return f"\\set aid random(1, {rows})\n\\set delta random(-5000, 5000)\nUPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;\n"


def wide_accounts(server, rows, fillfactor=100, options="", changed=True):
    fillers = ", ".join(f"filler{n} text" for n in range(1, 13))
    extra = f", {options}" if options and server.name == "niwaki" else ""
    server.psql(f"create table pgbench_accounts (aid bigint, bid bigint, abalance bigint, {fillers}) with (fillfactor = {fillfactor}{extra})")
    values = ", ".join(f"md5((g * 12 + {n})::text)" for n in range(12))
    server.psql(f"insert into pgbench_accounts select g, 1, (g * 7919) % 1000003, {values} from generate_series(1, {rows}) g")
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
    """CPU at most 0.70x and TPS at least 1.25x of same_keys, 0.9x of the run without the index; WAL at most 300 B and 0.4x."""
    rows, pairs, seconds = (300_000, 9, 20) if long else (100_000, 9, 6)
    cases = {"any_key": ("heap_only_updates = any_key", True), "same_keys": ("heap_only_updates = same_keys", True), "bound": ("", False)}
    servers, rounds, wal = {}, [], {case: [] for case in cases}
    try:
        for case, (options, changed) in cases.items():
            server = servers[case] = Niwaki(SETTINGS)
            server.start()
            wide_accounts(server, rows, 90, options, changed)
            pgbench(server, update(rows), clients=CLIENTS, transactions=2 * rows)
        position = lambda server: int(server.psql("select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"))
        for number in range(pairs):
            order = list(servers) if number % 2 == 0 else list(servers)[::-1]
            runs = {}
            for case in order:
                before = position(servers[case])
                runs[case] = pgbench(servers[case], update(rows), clients=CLIENTS, seconds=seconds)
                wal[case].append((position(servers[case]) - before) / runs[case]["transactions"])
            rounds.append(runs)
    finally:
        for server in servers.values():
            server.__exit__()
    cpu = median_ratio([(r["any_key"]["cpu_us"], r["same_keys"]["cpu_us"]) for r in rounds])
    faster = median_ratio([(r["any_key"]["tps"], r["same_keys"]["tps"]) for r in rounds])
    bound = median_ratio([(r["any_key"]["tps"], r["bound"]["tps"]) for r in rounds])
    bytes_of = {case: statistics.median(values) for case, values in wal.items()}
    held = (cpu["median"] <= 0.70 and faster["median"] >= 1.25 and bound["median"] >= 0.9 and bytes_of["any_key"] <= 300
            and bytes_of["any_key"] <= 0.4 * bytes_of["same_keys"])
    return held, (f"CPU {cpu['median']:.2f}x, TPS {faster['median']:.2f}x of same_keys, {bound['median']:.2f}x without the index; WAL {bytes_of['any_key']:.0f} B "
                  f"(same_keys {bytes_of['same_keys']:.0f}, without {bytes_of['bound']:.0f})"), {"cpu": cpu, "tps": faster, "bound": bound, "wal": wal, "rounds": rounds}


STEPS = {"build": build, "warm": warm, "warm-speed": warm_speed}
