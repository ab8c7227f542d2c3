"""Issue 02: indexes that never split for versions (threads `bottom-up-deletion` and `tid-key`)."""

import json
import math
import os
import random
import re
import statistics
import subprocess
import tempfile

from servers import Niwaki, Postgres18
from steps import BINARY, SETTINGS, build_beside_postgres as build, cargo_test, command, index_stats, median_ratio, pages, pgbench

# What thread `bottom-up-deletion` switches off to see its own worth.
PLAIN = "bottom_up_deletion = off, simple_deletion_extras = off"

# Thread `bottom-up-deletion`, 16 October 2020: hot, uneven updates; a covering unique index and two redundant ones.
GAUSSIAN = """\\set aid1 random_gaussian(1, 100000 * {scale}, {a})
\\set aid2 random_gaussian(1, 100000 * {scale}, {b})
\\set aid3 random_gaussian(1, 100000 * {scale}, {c})
\\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid1;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid2;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid3;
END;
"""
FIRST = ["create unique index abalance_ruin on pgbench_accounts (aid) include (abalance)",
         "create index one on pgbench_accounts (aid)", "create index two on pgbench_accounts (aid)"]
LOW_CARDINALITY = ["create unique index bench_pk on pgbench_accounts (aid) include (abalance)",
                   "create index fiver on pgbench_accounts ((aid - (aid % 5)))",
                   "create index tenner on pgbench_accounts ((aid - (aid % 10)))",
                   "create index score on pgbench_accounts ((aid - (aid % 20)))",
                   "create index mostly on pgbench_accounts ((case when aid % 5 = 0 then aid else 0 end))"]


def script(scale, first=True):
    a, b, c = ("2.0", "2.5", "2.2") if first else ("4.0", "4.5", "4.2")
    return GAUSSIAN.format(scale=scale, a=a, b=b, c=c)


def options(server, indexes, text):
    for index in indexes:
        server.psql(f"alter index {index} set ({text})")


def names(definitions):
    return [re.search(r"index (\w+) on", text).group(1) for text in definitions]


def accounts(server, scale, definitions, switches=None, fillfactor=100):
    """pgbench's accounts with the given indexes instead of its primary key, every update touching all of them."""
    server.client("pgbench", "-i", "-q", "-s", str(scale), "-F", str(fillfactor), "-I", "dtg")
    if server.name == "niwaki":
        server.psql("alter table pgbench_accounts set (heap_only_updates = off)")
    for text in definitions:
        server.psql(text)
        if switches:
            options(server, names([text]), switches)
    server.psql("vacuum analyze pgbench_accounts")
    server.psql("checkpoint")


def first(long):
    """Thread `bottom-up-deletion`'s first benchmark, 10 updates a row: index sizes identical to the page; off, they grow by over 10%."""
    scale = 10 if long else 1
    details, missed = {}, []
    for case, switches in (("on", None), ("off", PLAIN)):
        with Niwaki(SETTINGS) as server:
            accounts(server, scale, FIRST, switches)
            before = pages(server, *names(FIRST))
            run = pgbench(server, script(scale), transactions=1_000_000 * scale)
            after = pages(server, *names(FIRST))
            server.stop()
            command(BINARY, "check", "--data-dir", server.dir / "data")
        details[case] = {"before": before, "after": after, **run}
        grown = [after[name] / before[name] - 1 for name in before]
        if case == "on" and before != after:
            missed.append(f"on: {before} -> {after}")
        if case == "off" and min(grown) <= 0.10:
            missed.append(f"off: {before} -> {after}")
    shown = ", ".join(f"{case} {sum(d['before'].values())} -> {sum(d['after'].values())} pages" for case, d in details.items())
    return not missed, shown + (f"; missed: {missed}" if missed else ""), details


def beyond_the_pool(long):
    """Data at 8 times the pool: index blocks read per update at most 0.5x, heap blocks at most 1.2x of bottom-up off.

    After 10 updates a row, when the indexes differ; the pool is an eighth of the data as loaded. The first distribution
    (2.0) is so flat that not even a pool that always kept the pages most asked for would come to 0.5x: it is reported
    beside that bound, and the second (4.0), with which the thread measured this, must hold.
    """
    scale = 10 if long else 2
    details, missed, shown = {}, [], []
    for case, switches in (("on", None), ("off", PLAIN)):
        with Niwaki(SETTINGS) as server:
            accounts(server, scale, FIRST, switches)
            data = sum(pages(server, "pgbench_accounts", *names(FIRST)).values())
            pgbench(server, script(scale), transactions=1_000_000 * scale)
            server.stop()
            server.settings = {**SETTINGS, "shared_buffers": f"{data}kB"}
            server.start()
            read = lambda: [int(x) for x in server.psql(
                "select idx_blks_read, heap_blks_read from pg_statio_user_tables where relname = 'pgbench_accounts'").split("|")]
            for distribution, is_first in (("second", False), ("first", True)):
                # Until the pool holds what it will hold.
                pgbench(server, script(scale, is_first), transactions=50_000 * scale)
                sizes, before = pages(server, "pgbench_accounts", *names(FIRST)), read()
                run = pgbench(server, script(scale, is_first), transactions=100_000 * scale)
                index, heap = [(b - a) / run["transactions"] for a, b in zip(before, read())]
                details[f"{case} {distribution}"] = {"index": index, "heap": heap, "pages": sizes, "least": least_reads(sizes, data // 8, is_first), **run}
    for distribution in ("second", "first"):
        on, off = details[f"on {distribution}"], details[f"off {distribution}"]
        index, heap = on["index"] / off["index"], on["heap"] / off["heap"]
        if heap > 1.2 or (index > 0.5 and distribution == "second"):
            missed.append(distribution)
        shown.append(f"{distribution} distribution: index blocks read {index:.2f}x (at best {on['least'] / off['least']:.2f}x), heap blocks {heap:.2f}x of off")
    return not missed, "; ".join(shown), details


def least_reads(sizes, frames, is_first):
    """Index blocks read per transaction if the pool always held the pages that are asked for most."""
    def shares(width, count):
        # The share of each page in a gaussian cut off at `width` standard deviations.
        edges = [math.erf((2 * i / count - 1) * width / math.sqrt(2)) for i in range(count + 1)]
        return [(b - a) / (2 * math.erf(width / math.sqrt(2))) for a, b in zip(edges, edges[1:])]
    widths = (2.0, 2.5, 2.2) if is_first else (4.0, 4.5, 4.2)
    asked = []
    for name, count in sizes.items():
        # All three statements look a row up in the covering index; the update inserts into each index.
        of_lookups = [sum(x) for x in zip(*(shares(width, count) for width in widths))]
        is_index = name != "pgbench_accounts"
        asked += [(share, is_index) for share in (shares(widths[0], count) if name in ("one", "two") else of_lookups)]
    kept = sorted(asked, reverse=True)[:frames]
    return sum(share for share, is_index in asked if is_index) - sum(share for share, is_index in kept if is_index)


def low_cardinality(long):
    """Indexes of few values: no split; CPU within 5% of off; steadier when rate-limited; SELECTs no slower.

    Of a heap whose pages are all full the first update of each must put a version on a new block. Entries of one
    value are in the order of TIDs, so those of new blocks all belong to the value's last leaf, which splits as
    often as they fill a leaf: so often `mostly` may split, and with some room on the heap's pages not at all.
    """
    scale, pairs, seconds = (10, 9, 30) if long else (2, 9, 8)
    details, missed = {}, []
    indexes = names(LOW_CARDINALITY)
    with Niwaki(SETTINGS) as roomy:
        accounts(roomy, scale, LOW_CARDINALITY, fillfactor=95)
        before = pages(roomy, *indexes)
        pgbench(roomy, script(scale, first=False), transactions=200_000 * scale)
        details["fillfactor_95"] = {"before": before, "after": pages(roomy, *indexes)}
    if before != details["fillfactor_95"]["after"]:
        missed.append(f"split with room in the heap: {details['fillfactor_95']}")
    with Niwaki(SETTINGS) as on, Niwaki(SETTINGS) as off:
        accounts(on, scale, LOW_CARDINALITY)
        accounts(off, scale, LOW_CARDINALITY, PLAIN)
        before, heap_before = pages(on, *indexes), pages(on, "pgbench_accounts")["pgbench_accounts"]
        rounds = []
        for number in range(pairs):
            order = (on, off) if number % 2 == 0 else (off, on)
            runs = {id(server): pgbench(server, script(scale, first=False), seconds=seconds) for server in order}
            rounds.append({"on": runs[id(on)], "off": runs[id(off)]})
        cpu = median_ratio([(r["on"]["cpu_us"], r["off"]["cpu_us"]) for r in rounds])
        rate = int(0.4 * statistics.median(r["on"]["tps"] for r in rounds))
        limited = {}
        for case, server in (("on", on), ("off", off)) * (2 if not long else 3):
            run = pgbench(server, script(scale, first=False), seconds=seconds * 2, rate=rate, log="limited")
            limited.setdefault(case, []).append(run)
        best = {case: {key: min(run[key] for run in runs) for key in ("p99_ms", "stddev_ms")} for case, runs in limited.items()}
        # Innocent readers beside the updaters, who come at the same rate in both.
        readers = {"on": [], "off": []}
        for case, server in (("on", on), ("off", off), ("off", off), ("on", on)) * ((pairs + 1) // 2):
            (server.dir / "update.sql").write_text(script(scale, first=False))
            beside = subprocess.Popen(["pgbench", "-n", "-M", "prepared", "-c", "4", "-T", str(seconds + 4), "-R", str(rate), "-f", server.dir / "update.sql"],
                                      env=server.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            select = f"\\set aid random(1, 100000 * {scale})\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n"
            readers[case].append(pgbench(server, select, clients=4, seconds=seconds - 2)["avg_ms"])
            beside.terminate()
            beside.wait()
        after = pages(on, *indexes)
        stats = index_stats(on)
        new_blocks = pages(on, "pgbench_accounts")["pgbench_accounts"] - heap_before
        # Of each new block four rows in five, six bytes each, on leaves nine tenths full.
        filled = math.ceil(new_blocks * (100_000 * scale / heap_before) * 0.8 * 6 / (0.9 * 8192))
        details |= {"before": before, "after": after, "off": pages(off, *indexes), "cpu": cpu, "limited": best, "rate": rate,
                    "readers_ms": readers, "rounds": rounds, "stats": stats, "new_heap_blocks": new_blocks}
    splits = {index: after[index] - before[index] for index in indexes if after[index] != before[index]}
    if splits.pop("mostly", 0) > filled or splits:
        missed.append(f"split: {before} -> {after}")
    if cpu["median"] > 1.05:
        missed.append(f"CPU {cpu['median']:.3f}")
    for key in ("p99_ms", "stddev_ms"):
        if best["on"][key] > best["off"][key]:
            missed.append(f"{key} {best['on'][key]:.2f} against {best['off'][key]:.2f}")
    slower = median_ratio(list(zip(readers["on"], readers["off"])))["median"]
    if slower > 1.05:
        missed.append(f"SELECT latency {slower:.2f}")
    grown = sum(details["off"].values()) / sum(before.values())
    mostly = f"mostly {before['mostly']} -> {after['mostly']} for {new_blocks} new heap blocks, the others unchanged; " if not splits else ""
    return not missed, (f"{mostly}none split at fillfactor 95; off {grown:.2f}x; CPU {cpu['median']:.3f} "
                        f"({cpu['low']:.2f}-{cpu['high']:.2f}); p99 {best['on']['p99_ms']:.2f}/{best['off']['p99_ms']:.2f} ms; SELECT {slower:.3f}"
                        + (f"; missed: {missed}" if missed else "")), details


def held_snapshot(_long):
    """A snapshot opened under churn: first split after at least 3x the updates of off; growth stops with its end."""
    scale, step, most, details = 1, 500, 100_000, {}
    indexes = names(FIRST)
    for case, switches in (("off", PLAIN), ("on", None)):
        with Niwaki(SETTINGS) as server:
            accounts(server, scale, FIRST, switches)
            # A system that runs: on pages just built nothing is dead, and no old version could go whatever is tried.
            pgbench(server, script(scale), transactions=300_000)
            holder = subprocess.Popen(["psql", "-X", "-q"], env=server.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            holder.stdin.write("begin isolation level repeatable read;\nselect count(*) from pgbench_accounts;\n")
            holder.stdin.flush()
            while "row" not in holder.stdout.readline():
                pass
            before = pages(server, *indexes)
            updates = 0
            while pages(server, *indexes) == before and updates < most:
                updates += pgbench(server, script(scale), transactions=step)["transactions"]
            # Ten times as many are more than enough.
            most = max(10 * updates, 50_000)
            # On for as much again, so that there is pressure when the snapshot ends.
            pgbench(server, script(scale), transactions=200_000)
            held = pages(server, *indexes)
            holder.stdin.write("commit;\n")
            holder.stdin.close()
            holder.wait()
            pgbench(server, script(scale), seconds=1)
            second = pages(server, *indexes)
            pgbench(server, script(scale), transactions=200_000)
            details[case] = {"first_split": updates, "before": before, "held": held, "second": second, "after": pages(server, *indexes)}
    ratio = details["on"]["first_split"] / details["off"]["first_split"]
    stopped = details["on"]["second"] == details["on"]["after"]
    return ratio >= 3 and stopped, (f"first split after {details['on']['first_split']} updates, off {details['off']['first_split']} "
                                    f"({ratio:.1f}x); growth {'stopped' if stopped else 'went on'} after the snapshot's end"), details


def mixed_hints(_long):
    """Inserts among hinted updates: splits and useless passes per 1,000 inserts (reported), by what counts as a hint."""
    details, shown = {}, []
    for hint, words in (("last_item", "hint of the last item"), ("page", "any hint on the page")):
        with Niwaki(SETTINGS) as server:
            server.psql("create table t (id int, key int, other int, filler text) with (heap_only_updates = off, fillfactor = 90)")
            server.psql("insert into t select g, g * 7919 % 1000003, 0, repeat('x', 60) from generate_series(1, 100000) g")
            server.psql("create index t_key on t (key); create index t_other on t (other); create unique index t_id on t (id)")
            options(server, ("t_key", "t_other", "t_id"), f"version_hint = {hint}")
            server.psql("create sequence t_seq start 100001")
            before = index_stats(server)["t_key"]
            pgbench(server, "\\set id random(1, 100000)\n\\set key random(1, 1000003)\n"
                            "UPDATE t SET other = other + 1 WHERE id = :id;\n"
                            "INSERT INTO t VALUES (nextval('t_seq'), :key, 0, 'new');\n", transactions=100_000)
            after = index_stats(server)["t_key"]
        details[hint] = {"before": before, "after": after}
        per_thousand = lambda name: (after[name] - before[name]) / 100
        shown.append(f"{words}: {per_thousand('leaf_splits'):.2f} splits, {per_thousand('bottom_up_useless'):.2f} useless of "
                     f"{per_thousand('bottom_up_passes'):.2f} passes per 1,000 inserts")
    return True, "; ".join(shown), details


QUEUE = """SELECT nextval('head') AS head \\gset
INSERT INTO queue (due, payload) VALUES (nextval('tail'), 'job');
SELECT count(*) FROM queue WHERE due <= :head;
DELETE FROM queue WHERE due <= :head;
"""


def queue(long):
    """Insert at the tail, delete at the head, read by index scans, then by bitmap scans: index at most 1.005x."""
    details, missed = {}, []
    moves = 3_000_000 if long else 300_000
    for case, off in (("index scans", "enable_bitmapscan"), ("bitmap scans", "enable_indexscan")):
        with Niwaki({**SETTINGS, off: "off", "enable_seqscan": "off"}) as server:
            server.psql("create table queue (id bigserial, due int, payload text)")
            server.psql("create index queue_due on queue (due)")
            server.psql("create sequence head; create sequence tail start 500001")
            # Grown as a queue grows, not built, so that the pages are as full as such pages are.
            server.psql("insert into queue (due, payload) select g, repeat('x', 50) from generate_series(1, 500000) g")
            server.psql("analyze queue")
            before = pages(server, "queue_due")["queue_due"]
            run = pgbench(server, QUEUE, transactions=moves, clients=4)
            after = pages(server, "queue_due")["queue_due"]
            stats = index_stats(server)["queue_due"]
            server.stop()
            command(BINARY, "check", "--data-dir", server.dir / "data")
        details[case] = {"before": before, "after": after, "stats": stats, **run}
        if after > 1.005 * before:
            missed.append(case)
    shown = ", ".join(f"{case} {d['before']} -> {d['after']} pages" for case, d in details.items())
    return not missed, shown, details


def order_line_rows(rows, seed=1):
    """Order lines as TPC-C's new-order makes them: (warehouse, district, order, number, item), ascending inside many groups."""
    generator = random.Random(seed)
    next_order = {}
    made = 0
    while made < rows:
        group = (generator.randint(1, 30), generator.randint(1, 10))
        order = next_order[group] = next_order.get(group, 0) + 1
        for number in range(1, generator.randint(5, 15) + 1):
            yield (*group, order, number, generator.randint(1, 100_000))
            made += 1


def order_lines(long):
    """TPC-C order lines: grown against freshly built at most 1.10x (composite) and 1.28x (item); 0.62x of plain halves."""
    rows = 2_900_000
    details = {}
    with tempfile.NamedTemporaryFile("w", suffix=".copy") as file:
        for row in order_line_rows(rows):
            file.write("\t".join(map(str, row)) + "\n")
        file.flush()
        os.chmod(file.name, 0o644)
        cases = [("niwaki", Niwaki, None), ("plain halves", Niwaki, "split_strategy = half, suffix_truncation = off, deduplicate_items = off"),
                 ("postgres18", Postgres18, None)]
        for case, server_class, switches in cases:
            with server_class({name: value for name, value in SETTINGS.items()}) as server:
                server.psql("create table order_line (ol_w_id int, ol_d_id int, ol_o_id int, ol_number int, ol_i_id int)")
                definitions = {"ol_pk": "unique index ol_pk on order_line (ol_w_id, ol_d_id, ol_o_id, ol_number)", "ol_item": "index ol_item on order_line (ol_i_id)"}
                for name, text in definitions.items():
                    server.psql(f"create {text}")
                    if switches:
                        options(server, [name], switches)
                server.psql(f"\\copy order_line from '{file.name}'")
                grown = pages(server, *definitions)
                for name in definitions:
                    server.psql(f"reindex index {name}")
                details[case] = {"grown": grown, "fresh": pages(server, *definitions)}
    ratio = {case: {name: d["grown"][name] / d["fresh"][name] for name in d["grown"]} for case, d in details.items()}
    against = sum(details["niwaki"]["grown"].values()) / sum(details["plain halves"]["grown"].values())
    held = ratio["niwaki"]["ol_pk"] <= 1.10 and ratio["niwaki"]["ol_item"] <= 1.28 and against <= 0.62
    return held, (f"composite {ratio['niwaki']['ol_pk']:.3f}x, item {ratio['niwaki']['ol_item']:.3f}x (PostgreSQL 18 {ratio['postgres18']['ol_pk']:.2f}x, "
                  f"{ratio['postgres18']['ol_item']:.2f}x); {against:.3f}x of plain halves"), details


def sequential(_long):
    """Sequential inserts leave leaves at the fillfactor."""
    with Niwaki(SETTINGS) as server:
        server.psql("create table s (id int); create index s_id on s (id); insert into s select generate_series(1, 1000000)")
        grown = pages(server, "s_id")
        server.psql("reindex index s_id")
        fresh = pages(server, "s_id")
    ratio = grown["s_id"] / fresh["s_id"]
    return ratio <= 1.01, f"{ratio:.3f}x of a fresh build", {"grown": grown, "fresh": fresh}


def lookups(_long):
    """Leaf pages per equality lookup: 1 for every key of a unique index; with duplicates those that hold them."""
    with Niwaki({**SETTINGS, "enable_seqscan": "off", "enable_bitmapscan": "off"}) as server:
        server.psql("create table u (id int, dup int)")
        server.psql("insert into u select g, g / 1000 from generate_series(0, 299999) g")
        server.psql("create unique index u_id on u (id); create index u_dup on u (dup); analyze u")
        before = index_stats(server)["u_id"]
        server.psql("create sequence u_seq")
        # Every key once, page-edge keys included.
        pgbench(server, "SELECT nextval('u_seq') - 1 AS id \\gset\nSELECT dup FROM u WHERE id = :id;\n", transactions=300_000)
        after = index_stats(server)["u_id"]
    count = after["lookups"] - before["lookups"]
    leaves = after["lookup_leaf_pages"] - before["lookup_leaf_pages"]
    passed, _ = cargo_test("-p", "niwaki-nbtree", "--lib", "leaf_pages_per_lookup")
    return count >= 300_000 and leaves == count, f"{leaves} leaf pages for {count} lookups; {passed} property tests for duplicates", {"before": before, "after": after}


def hot_row(_long):
    """64 clients on one hot row: entries visited per unique check stay bounded."""
    with Niwaki(SETTINGS) as server:
        server.psql("create table hot (id int, n int) with (heap_only_updates = off); create unique index hot_id on hot (id); insert into hot values (1, 0)")
        run = pgbench(server, "UPDATE hot SET n = n + 1 WHERE id = 1;\n", transactions=64_000, clients=64)
        stats = index_stats(server)["hot_id"]
        total = int(server.psql("select n from hot"))
    visited = stats["unique_entries_visited"] / max(1, stats["unique_checks"])
    held = total == run["transactions"] and visited <= 100 and stats["unique_checks"] >= run["transactions"]
    return held, f"{visited:.1f} entries a check, {run['tps']:.0f} TPS", {"stats": stats, **run}


def records(_long):
    """Bottom-up record under 100 bytes, simple under 64 + 2 an item; at most 6 heap blocks a pass, 1 when it fails."""
    with Niwaki(SETTINGS) as server:
        accounts(server, 1, LOW_CARDINALITY)
        pgbench(server, script(1, first=False), transactions=400_000)
        stats = index_stats(server)
    total = {name: sum(row[name] for row in stats.values()) for name in next(iter(stats.values()))
             if name.startswith(("bottom_up", "simple")) and isinstance(next(iter(stats.values()))[name], int)}
    successes = total["bottom_up_passes"] - total["bottom_up_useless"]
    bottom_up = total["bottom_up_wal_bytes"] / max(1, successes)
    simple = (total["simple_wal_bytes"] - 2 * total["simple_deleted"]) / max(1, total["simple_passes"] - total["simple_useless"])
    blocks = max(row["bottom_up_heap_blocks_max"] for row in stats.values())
    failed = total["bottom_up_useless_blocks"] / max(1, total["bottom_up_useless"])
    held = successes > 0 and bottom_up < 100 and simple < 64 and blocks <= 6 and failed <= 1
    return held, (f"bottom-up {bottom_up:.0f} bytes ({successes} passes), simple {simple:.0f} + 2 an item, at most {blocks} heap blocks, "
                  f"{failed:.2f} when it fails"), total


def lookup_speed(_long):
    """Point lookup below SQL: 1 M rows at most 1.0 us; 10 M at most 6 x a pointer chase; two threads 0.95 x of two chases."""
    output = command("cargo", "run", "--release", "-q", "-p", "niwaki-nbtree", "--example", "point_lookup", "--", "--json")
    result = json.loads(output[output.index("{"):output.rindex("}") + 1])
    held = result["lookup_1m_ns"] <= 1000 and result["lookup_10m_ns"] <= 6 * result["chase_10m_ns"] and result["scaling_lookup"] >= 0.95 * result["scaling_chase"]
    return held, ", ".join(f"{name} {value:.2f}" for name, value in result.items()), result


def bulk_update(long):
    """The single bulk update of thread `bottom-up-deletion`'s end: instructions at most 2% more with bottom-up deletion than without."""
    rows = 1_000_000 if long else 100_000
    counts = {}
    for case in ("on", "off"):
        setup = (f"create table t1 (c1 int, c2 int, c3 int, c4 int) with (heap_only_updates = off); insert into t1 select g, 0, g % 100, g from generate_series(1, {rows}) g; "
                 f"create index t_c1 on t1 (c1) with (bottom_up_deletion = {case}); create index t_c2 on t1 (c2) with (bottom_up_deletion = {case}); "
                 f"create index t_c3 on t1 (c3) with (bottom_up_deletion = {case})")
        with tempfile.TemporaryDirectory() as directory:
            command(BINARY, "sql", "--data-dir", f"{directory}/data", "-c", setup, "-c", "vacuum t1")
            out = f"{directory}/callgrind"
            command("valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", BINARY, "sql", "--data-dir", f"{directory}/data", "-c", "update t1 set c2 = 2")
            text = open(out).read()
            counts[case] = int(re.search(r"^(?:totals|summary): (\d+)", text, re.M).group(1))
    ratio = counts["on"] / counts["off"]
    return ratio <= 1.02, f"{ratio:.4f}x of the instructions without", counts


def models(long):
    """Every operation against a model; readers against splits, deletions, page deletions under the scheduler."""
    properties, _ = cargo_test("-p", "niwaki-nbtree")
    schedules, _ = cargo_test("-p", "niwaki-nbtree", "--features", "shuttle", "--lib", env={"NIWAKI_SCHEDULES": "100000"} if long else None)
    return True, f"{properties} tests, {schedules} suites of schedules", {}


STEPS = {"build": build, "models": models, "lookups": lookups, "hot-row": hot_row, "records": records, "sequential": sequential, "first": first,
         "beyond-pool": beyond_the_pool, "held-snapshot": held_snapshot, "mixed-hints": mixed_hints, "queue": queue, "order-lines": order_lines,
         "low-card": low_cardinality, "lookup-speed": lookup_speed, "bulk-update": bulk_update}
