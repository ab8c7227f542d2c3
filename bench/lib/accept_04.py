"""Issue 04: the visibility map and maintenance nobody has to tune (threads 001 and 004). Steps come with the parts of its plan."""

import os
import re
import statistics
import time

from servers import Niwaki, Postgres, Postgres18
from steps import SETTINGS, build_beside_postgres as build, instructions

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


def map_cost(long):
    """Deletions by index from pages that all see, rolled back: at most 2 % more instructions than without a map; pinning a page of it at each look beside them."""
    rows, transactions = (300_000, 600) if long else (100_000, 300)
    counted = {}
    # The same rows for all.
    os.environ["PGBENCH_RANDOM_SEED"] = "7"
    for pin in ("resident", "off", "per_access"):
        # Each page once: the gardener would show it again.
        with Niwaki({**SETTINGS, "visibility_map_pin": pin, "gardener": "off"}) as server:
            # Thread 004, 21 January 2013: each key in both halves of the heap.
            server.psql("create unlogged table t (i int)")
            for _ in range(2):
                server.psql(f"insert into t select generate_series(1, {rows})")
            server.psql("create index t_i on t (i)")
            server.psql("vacuum analyze t")
            script = (f"\\set i random(1, {rows - 100})\nBEGIN;\nDELETE FROM t WHERE i BETWEEN :i AND :i + 99;\nROLLBACK;\n")
            counted[pin] = instructions(server, script, clients=1, warm=20, transactions=transactions)
    ratio, pinned = (counted[pin] / counted["off"] for pin in ("resident", "per_access"))
    return ratio <= 1.02, f"{ratio:.4f}x the instructions of no map, per access {pinned:.4f}x ({counted['off']:.0f} a transaction of 200 rows)", counted


STEPS = {"build": build, "index-only": index_only, "clean-vacuum": clean_vacuum, "write-once": write_once,
         "map-cost": map_cost}
