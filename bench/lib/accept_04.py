"""Issue 04: the visibility map and maintenance nobody has to tune (threads `vacuum-streams` and `no-page-flag`). Steps come with the parts of its plan."""

import os
import re
import statistics
import time

from map_scans import scans, tables
from mixed_load import mixed
from servers import Niwaki, Postgres, Postgres18
from steps import BINARY, SETTINGS, build_beside_postgres as build, calls, cargo_test, command, instructions, pages
from vacuum_io import vacuum_io

SERVERS = [Niwaki, Postgres, Postgres18]
# What is measured are these scans, so no other is taken.
INDEX_ONLY = "set enable_seqscan = off; set enable_bitmapscan = off; "
INDEX = INDEX_ONLY + "set enable_indexonlyscan = off; "


def milliseconds(server, sql):
    """Time of the last statement, as psql sees it."""
    output = server.client("psql", "-X", "-v", "ON_ERROR_STOP=1", "-c", "\\timing on", *[x for s in sql.split("; ") for x in ("-c", s)]).stdout
    return float(re.findall(r"Time: ([\d.]+) ms", output)[-1])


def shuffled(server, rows):
    """Rows of a hundred bytes, with an index whose order is not that of the heap."""
    server.psql("create table t (id int, k int, filler text)")
    server.psql(f"insert into t select g, (g::bigint * 7919 % 2000003)::int, repeat('x', 60) from generate_series(1, {rows}) g")
    server.psql("create index t_k on t (k)")
    server.psql("vacuum analyze t")
    server.psql("checkpoint")


def index_only(long):
    """An index-only scan at least 3x as fast as the index scan on an all-visible table; seconds after updates of 1 % of the rows at most 1.5x its time then."""
    rows, turns, patience = 2_000_000, 9 if long else 5, 30
    count = "select count(k) from t where k > 0"
    details = {}
    for kind in SERVERS:
        # PostgreSQL's vacuum says nothing of pages whose commits wait for a flush.
        with kind({**SETTINGS, "synchronous_commit": "on"}) as server:
            shuffled(server, rows)
            pairs = [(milliseconds(server, INDEX_ONLY + count), milliseconds(server, INDEX + count)) for _ in range(turns)]
            visible, plain = (statistics.median(times) for times in zip(*pairs))
            server.psql("update t set filler = repeat('y', 60) where id % 100 = 0")
            # A scan each second, as an application would.
            start, after = time.time(), []
            while time.time() - start < patience and not (after and after[-1] <= 1.5 * visible):
                time.sleep(1)
                after.append(milliseconds(server, INDEX_ONLY + count))
            waited = time.time() - start
            settled = statistics.median(milliseconds(server, INDEX_ONLY + count) for _ in range(turns))
            details[kind.name] = {"visible_ms": visible, "plain_ms": plain, "after_ms": after, "waited_s": waited, "settled_ms": settled}
    ours = details["niwaki"]
    faster, cliff = ours["plain_ms"] / ours["visible_ms"], ours["settled_ms"] / ours["visible_ms"]
    shown = "; ".join(f"{name}: {d['visible_ms']:.0f} ms, index scan {d['plain_ms'] / d['visible_ms']:.1f}x, after the update {d['settled_ms'] / d['visible_ms']:.2f}x ({d['waited_s']:.0f} s waited)"
                      for name, d in details.items())
    return faster >= 3 and cliff <= 1.5 and ours["waited_s"] <= 10, shown, details


def heap_visits(server):
    return int(server.psql("select heap_blks_read + heap_blks_hit from pg_statio_user_tables where relname = 't'"))


def clean_vacuum(long):
    """VACUUM of a table in which nothing changed reads next to none of its pages."""
    rows = 2_000_000 if long else 500_000
    details = {}
    # Of the gardener's visits this is not about.
    with Niwaki({**SETTINGS, "gardener": "off"}) as server:
        shuffled(server, rows)
        before = heap_visits(server)
        took = milliseconds(server, "vacuum t")
        details = {"pages": int(server.psql("select pg_relation_size('t') / 8192")), "visits": heap_visits(server) - before, "ms": took}
    # The pages at the end that the heap grew by and has not used yet.
    return details["visits"] <= 64, f"{details['visits']} of {details['pages']} heap pages visited, {took:.1f} ms", details


def written(server):
    return int(server.psql("select buffers_checkpoint + buffers_clean + buffers_backend from pg_stat_bgwriter"))


def write_once(long):
    """COPY, read, VACUUM, CHECKPOINT: each heap page is written once; after a checkpoint VACUUM dirties none."""
    rows = 8_000_000 if long else 1_500_000
    details = {}
    with Niwaki(SETTINGS) as server:
        file = server.dir / "rows"
        with open(file, "w") as out:
            out.writelines(f"{n}\t{n % 1000}\t{'x' * 90}\n" for n in range(rows))
        for name in ("together", "apart"):
            server.psql("drop table if exists t; create table t (id int, a int, filler text)")
            server.psql("checkpoint")
            begin = written(server)
            server.psql(f"\\copy t from '{file}'")
            if name == "apart":
                server.psql("checkpoint")
            loaded = written(server)
            server.psql("select count(*) from t")
            server.psql("vacuum t")
            server.psql("checkpoint")
            end = written(server)
            heap = int(server.psql("select pg_relation_size('t') / 8192"))
            details[name] = {"heap": heap, "written": end - begin, "after_loading": end - loaded}
    together, apart = details["together"]["written"] / details["together"]["heap"], details["apart"]["after_loading"]
    held = together <= 1.01 and apart <= 0.01 * details["apart"]["heap"]
    return held, f"{together:.3f} pages written a heap page; {apart} pages of {details['apart']['heap']} written by reading and VACUUM after a checkpoint", details


# What a look at a page of the map writes that others share: its pin and its latch, taken and given back.
WRITES_A_LOOK = 4


def map_cost(long):
    """Deletions from pages that all see, rolled back: at most 2 % more instructions than without a map; with the map's page pinned at each look, what that writes a page."""
    rows, transactions = (300_000, 600) if long else (100_000, 300)
    clients = 8
    # Thread `no-page-flag`, 21 January 2013: each key in both halves of the heap. And connections with a page each, by ctid.
    scripts = {
        "alternating": (f"\\set i random(1, {rows - 100})\nBEGIN;\nDELETE FROM t WHERE i BETWEEN :i AND :i + 99;\nROLLBACK;\n", 1, 20, transactions),
        "own page": ("BEGIN;\nDELETE FROM t WHERE ctid = ANY (ARRAY[" + ", ".join(f"'(:page,{n})'" for n in range(1, 201)) + "]::tid[]);\nROLLBACK;\n", clients, 0, transactions),
        "scan": ("SELECT count(*) FROM t;\n", clients, clients, clients),
    }
    details, missed, shown = {}, [], []
    # The same rows for all.
    os.environ["PGBENCH_RANDOM_SEED"] = "7"
    for case, (script, connections, warm, count) in scripts.items():
        counted, looks = {}, {}
        for pin in ("resident", "off", "per_access"):
            # Each page once: the gardener would show it again.
            with Niwaki({**SETTINGS, "visibility_map_pin": pin, "gardener": "off"}) as server:
                server.psql("create unlogged table t (i int)")
                for _ in range(2):
                    server.psql(f"insert into t select generate_series(1, {rows})")
                server.psql("create index t_i on t (i)")
                server.psql("vacuum analyze t")
                blocks = pages(server, "t")["t"]
                if case == "own page":
                    # Another page each time: what was deleted once is not all-visible any more.
                    script_of_page = f"\\set page random(0, {blocks - 2})\n" + script
                else:
                    script_of_page = script
                counted[pin] = instructions(server, script_of_page, clients=connections, warm=warm, transactions=count, extra=("-M", "simple"))
                looks[pin] = calls(server, "visibility_on_page") / count
        ratio, pinned = (counted[pin] / counted["off"] for pin in ("resident", "per_access"))
        touched = blocks if case == "scan" else 1 if case == "own page" else None
        details[case] = {"instructions": counted, "looks": looks, "pages": touched}
        missed += [f"{case}: {ratio:.4f}x"] * (ratio > 1.02) + [f"{case}: no look was seen"] * (looks["per_access"] == 0) + [f"{case}: {looks['resident']} looks"] * (looks["resident"] > 0)
        writes = WRITES_A_LOOK * looks["per_access"]
        shared = f"{writes / touched:.1f} shared writes a page" if touched else f"{writes:.0f} shared writes a transaction"
        shown.append(f"{case}: {ratio:.4f}x the instructions of no map ({counted['off']:.0f}), per access {pinned:.4f}x, {shared}")
    return not missed, "; ".join(shown) + (f"; missed: {missed}" if missed else ""), details


def index_passes(long):
    """VACUUM at the smallest maintenance_work_mem visits the indexes at least three times, and leaves no dead line pointer."""
    # Half of the rows of each page go: some forty bytes a page. 64 kB is the smallest since PostgreSQL 17, 1 MB before.
    rows = 20_000_000 if long else 2_000_000
    details, shown = {}, []
    for kind in (Niwaki, Postgres, Postgres18):
        memory = {"maintenance_work_mem": "1MB" if kind is Postgres else "64kB"}
        with kind({**SETTINGS, "shared_buffers": "2GB", **memory} | ({"gardener": "off"} if kind is Niwaki else {})) as server:
            server.psql("create table t (i int)")
            server.psql(f"insert into t select generate_series(1, {rows})")
            server.psql("create index t_i on t (i)")
            server.psql("delete from t where i % 2 = 0")
            begun = time.time()
            said = server.client("psql", "-X", "-v", "ON_ERROR_STOP=1", "-c", "vacuum (verbose) t").stderr
            took = 1000 * (time.time() - begun)
            passes = int(re.search(r"index scans: (\d+)", said).group(1))
            if kind is Niwaki:
                dead = int(server.psql("select dead_line_pointers from niwaki_chain_stats('t')"))
                count = int(server.psql("select count(*) from t"))
                server.stop()
                command(BINARY, "check", "--data-dir", server.dir / "data")
                details |= {"passes": passes, "dead": dead, "count": count, "said": said}
            details[kind.name] = took
            shown.append(f"{kind.name} {took / 1000:.1f} s ({passes} passes)")
    held = details["passes"] >= 3 and details["dead"] == 0 and details["count"] == rows - rows // 2
    return held, f"{details['passes']} passes, {details['dead']} dead line pointers left; " + ", ".join(shown), details


def settled(server, ready, patience):
    """Seconds until `ready` says so; an error if it does not."""
    begun = time.time()
    while not ready():
        if time.time() - begun > patience:
            raise RuntimeError(f"not done after {patience} s")
        time.sleep(1)
    return time.time() - begun


# Pages that the gardener latched for the entries it took away: leaves, and heap pages to judge them by; and inner pages on its way.
VISITS = {"leaf": "select sum(gardener_leaf_pages) from niwaki_stat_indexes where relname = 't'",
          "inner": "select sum(gardener_inner_pages) from niwaki_stat_indexes where relname = 't'",
          "heap": "select gardener_heap_pages from niwaki_stat_tables where relname = 't'"}
INDEX_SCANS = "select sum(idx_scan) from pg_stat_user_indexes where relname = 't'"
LEFT = ("select dead_line_pointers + mixed_chains + (select gardener_waiting from niwaki_stat_tables where relname = 't') from niwaki_chain_stats('t')")


def gardener(long):
    """5,000 rows deleted at random from a table with four indexes are cleaned with at most 3 page visits a row and index, and no index scan."""
    rows, deleted, indexes = (10_000_000 if long else 1_000_000), 5000, 4
    with Niwaki({**SETTINGS, "shared_buffers": "2GB"}) as server:
        server.psql("create table t (a int primary key, b int, c int, d int)")
        server.psql(f"insert into t select g, (g::bigint * 7919 % 10000019)::int, (g::bigint * 104729 % 10000019)::int, g % 1000 from generate_series(1, {rows}) g")
        for column in "bcd":
            server.psql(f"create index t_{column} on t ({column})")
        server.psql("vacuum analyze t")
        server.psql("checkpoint")
        number = lambda sql: int(server.psql(sql))
        before = {what: number(sql) for what, sql in VISITS.items()}
        # By an expression that no index serves, at random; nobody comes back to these rows.
        server.psql(f"delete from t where a in (select (random() * {rows - 1})::int + 1 from generate_series(1, {deleted}))")
        gone = rows - number("select count(*) from t")
        after_delete = number(INDEX_SCANS)
        waited = settled(server, lambda: number(LEFT) == 0, 120)
        visits, scans = {what: number(sql) - before[what] for what, sql in VISITS.items()}, number(INDEX_SCANS) - after_delete
        server.stop()
        command(BINARY, "check", "--data-dir", server.dir / "data")
    each = {what: count / (gone * indexes) for what, count in visits.items()}
    latched = each["leaf"] + each["heap"]
    details = {"gone": gone, "visits": visits, "scans": scans, "waited_s": waited}
    return latched <= 3 and scans == 0, (f"{latched:.2f} pages latched a row and index ({each['heap']:.2f} of the heap), {each['inner']:.2f} inner pages looked at, {scans} index scans, "
                                         f"clean after {waited:.0f} s"), details


def used_pages(server, *indexes):
    """Pages of each index that hold entries or lead to such: those that are free for its next split are not counted."""
    free = lambda name: int(server.psql(f"select free_pages from niwaki_stat_indexes where indexrelname = '{name}'"))
    return {name: size - free(name) for name, size in pages(server, *indexes).items()}


# Nothing is left of what was deleted, and nobody is at work: a vacuum that began before the deletion says nothing of it.
MAINTAINED = ("select n_dead_tup = 0 and not exists (select from pg_stat_progress_vacuum) "
              "and (select dead_line_pointers + mixed_chains from niwaki_chain_stats('t')) = 0 from pg_stat_user_tables where relname = 't'")


def shrunk(long):
    """After 80 % of a table went, and what maintains it by itself is done, indexes have at most 1.3x the pages of a fresh build."""
    rows = 5_000_000 if long else 500_000
    details, missed, shown = {}, [], []
    names = ("t_pkey", "t_b", "t_d")
    for order, which in (("random", "b % 5 > 0"), ("a range", f"a > {rows // 5}"), ("alternating", "a % 5 > 0")):
        # Nothing is tuned, but that it looks more often.
        with Niwaki({"autovacuum_naptime": "1s"}) as server:
            server.psql("create table t (a int primary key, b int, d int, filler text)")
            server.psql(f"insert into t select g, (g::bigint * 7919 % 10000019)::int, g % 1000, repeat('x', 40) from generate_series(1, {rows}) g")
            server.psql("create index t_b on t (b)")
            server.psql("create index t_d on t (d)")
            server.psql("vacuum analyze t")
            before = used_pages(server, *names)
            server.psql(f"delete from t where {which}")
            waited = settled(server, lambda: server.psql(MAINTAINED) == "t", 180)
            after = used_pages(server, *names)
            server.psql("reindex table t")
            fresh = used_pages(server, *names)
        details[order] = {"before": before, "after": after, "fresh": fresh, "waited_s": waited}
        ratios = {name: after[name] / fresh[name] for name in names}
        missed += [f"{order}, {name}: {ratio:.2f}x" for name, ratio in ratios.items() if ratio > 1.3]
        shown.append(f"{order}: " + ", ".join(f"{name} {ratio:.2f}x" for name, ratio in ratios.items()) + f" after {waited:.0f} s")
    return not missed, "; ".join(shown) + (f"; missed: {missed}" if missed else ""), details


def vacuum(_long):
    """VACUUM's options, progress, SQLSTATEs; cancelled at any rest, on a full disk, crashed at any write."""
    suites = [("-p", "niwaki-vacuum"), ("-p", "niwaki", "--test", "vacuum", "--test", "vacuum_crashes", "--test", "autovacuum", "--test", "gardener"),
              ("-p", "niwaki", "--test", "scripts", "vacuum")]
    return True, ", ".join(f"{' '.join(arguments[1:])}: {cargo_test(*arguments)[0]}" for arguments in suites), {}


def models(long):
    """Crash images of tables with maps, vacuum and the gardener; the map's protocol exhaustively; schedules beside vacuum; planted bugs."""
    images = {"NIWAKI_CRASH_IMAGES": "400000" if long else "4000"}
    schedules = {"NIWAKI_SIM_SCHEDULES": "100000"} if long else None
    suites = [
        (("-p", "niwaki-heap", "--features", "loom", "--lib", "model"), None),
        (("-p", "niwaki-testkit", "--test", "tables"), None),
        (("-p", "niwaki-testkit", "--test", "crash"), images),
        (("-p", "niwaki-testkit", "--features", "shuttle", "--test", "sim_tables"), schedules),
        (("-p", "niwaki-testkit", "--features", "shuttle", "--test", "seeded"), None),
    ]
    return True, ", ".join(f"{' '.join(arguments[1:])}: {cargo_test(*arguments, env=env)[0]}" for arguments, env in suites), {}


STEPS = {"build": build, "vacuum": vacuum, "models": models, "index-only": index_only, "clean-vacuum": clean_vacuum, "write-once": write_once,
         "map-cost": map_cost, "map-scans": scans, "map-tables": tables, "vacuum-io": vacuum_io, "index-passes": index_passes, "gardener": gardener,
         "shrunk": shrunk, "mixed": mixed}
