"""Thread `no-page-flag`'s scans: one table from many connections, and five hundred small ones from as many."""

import re
import resource
import time

from servers import Niwaki, Postgres, Postgres18
from steps import SETTINGS, pages

MAPS = ("resident", "off", "per_access")


def servers():
    """PostgreSQL 15 and 18, and Niwaki with each kind of map."""
    return [(f"niwaki {pin}", Niwaki, {"visibility_map_pin": pin}) for pin in MAPS] + [("postgres 15", Postgres, {}), ("postgres 18", Postgres18, {})]


def counts(server, clients, times, script):
    """Seconds that so many connections need for so many counts each, all of them connected before the first."""
    file = server.dir / "count.sql"
    file.write_text(script)
    output = server.client("pgbench", "-n", "-c", str(clients), "-j", "2", "-t", str(times), "-f", str(file)).stdout
    if "number of failed transactions: 0 (" not in output:
        raise RuntimeError(output)
    return clients * times / float(re.search(r"tps = ([\d.]+) \(without initial", output).group(1))


def refusals(server):
    """What its log says of buffers that could not be had; a refused query ends the run besides."""
    log = (server.dir / "log").read_text(errors="replace")
    return log.count("no free buffer") + log.count("no unpinned buffers")


def scans(long):
    """Counts of a table of 350 MB from 1 to 128 connections: no slower with a map than without, and no connection in another's way."""
    times, connections = (4, (1, 2, 4, 8, 32, 48, 64, 96, 128)) if long else (1, (2, 8, 32, 128))
    rows = 10_000_000
    details, missed = {}, []
    for name, kind, settings in servers():
        with kind({**SETTINGS, "shared_buffers": "2GB", "max_connections": "200", **settings}) as server:
            server.psql("create table t (i int)")
            server.psql(f"insert into t select generate_series(1, {rows})")
            server.psql("vacuum t")
            server.psql("select count(*) from t")
            details[name] = {n: counts(server, n, times, "select count(*) from t;\n") for n in connections}
    most = connections[-1]
    a_scan = lambda name, n: details[name][n] / (n * times)
    ours, off = details["niwaki resident"], details["niwaki off"]
    missed += [f"{n}: {ours[n] / off[n]:.2f}x of no map" for n in connections if ours[n] > 1.10 * off[n]]
    contention = a_scan("niwaki resident", most) / a_scan("niwaki resident", 2)
    missed += [f"a scan takes {contention:.2f}x beside {most - 1} others"] * (contention > 1.25)
    shown = "; ".join(f"{name}: " + ", ".join(f"{n}: {t:.1f} s" for n, t in found.items()) for name, found in details.items())
    return not missed, shown + (f"; missed: {missed}" if missed else ""), details


def tables(long):
    """500 connections that count 500 tables, of 1 MB and of 31 and 33 pages, with shared_buffers from 32 MB to 2 GB: never "no free buffer"."""
    count, times, pools = (500, 10, ("32MB", "64MB", "96MB", "128MB", "256MB", "2GB")) if long else (500, 2, ("32MB", "128MB", "2GB"))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8192)), hard))
    details, missed, begun = {}, [], time.time()
    for name, kind, settings in servers():
        if not long and name == "niwaki per_access":
            continue
        for pool in pools:
            with kind({**SETTINGS, "max_connections": "620", "shared_buffers": pool, **settings}) as server:
                # 17 and 20 January 2013; rows of one int.
                server.psql("create table probe (i int); insert into probe select generate_series(1, 1000)")
                rows_a_page = int(server.psql("select count(*) from probe where ctid < '(1,0)'"))
                for size, blocks in (("1 MB", 128), ("31 pages", 31), ("33 pages", 33)):
                    tables = ";".join(f"create table t{blocks}_{n} (i int); insert into t{blocks}_{n} select generate_series(1, {blocks * rows_a_page})" for n in range(count))
                    (server.dir / "tables.sql").write_text(tables.replace(";", ";\n") + ";\n")
                    server.client("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", str(server.dir / "tables.sql"))
                    server.psql("vacuum")
                    found = pages(server, f"t{blocks}_0")[f"t{blocks}_0"]
                    missed += [f"{name}: {found} pages for {size}"] * (abs(found - blocks) > 1)
                    took = counts(server, count, times, f"select count(*) from t{blocks}_:client_id;\n")
                    details.setdefault(name, {}).setdefault(size, {})[pool] = {"seconds": took, "pages": found}
                    server.psql("checkpoint")
                if refusals(server):
                    missed.append(f"{name}, {pool}: no free buffer")
    details["minutes"] = (time.time() - begun) / 60
    by_pool = lambda found: " / ".join(f"{x['seconds']:.1f}" for x in found.values())
    shown = "; ".join(f"{name}: " + ", ".join(f"{size} {by_pool(found)} s" for size, found in sizes.items()) for name, sizes in details.items() if name != "minutes")
    return not missed, f"shared_buffers {', '.join(pools)}: {shown}" + (f"; missed: {missed}" if missed else ""), details
