"""VACUUM in the table states of thread `vacuum-streams`, by where its pages are: in shared buffers, in the system's memory, on the device."""

import os
import pathlib
import shutil
import statistics
import subprocess
import time

from servers import Niwaki, Postgres, Postgres18, descendants
from steps import SETTINGS, touch_memory

DROP_CACHES = pathlib.Path("/proc/sys/vm/drop_caches")
# Thread `vacuum-streams`, 29 February 2024: each page has versions to remove; few pages have, mostly alone.
FILLS = {
    "sequential": [(200_000, "i % 3")],
    "few": [(20_000, "i"), (200, "1"), (20_000, "i"), (200, "1"), (200_000, "i"), (200, "1"), (20_000, "i"), (2_000, "1"),
            (20_000, "i"), (200, "1"), (200_000, "i"), (200, "1")],
}
# What one-block reads are, then what the settings give.
PLAIN = ("io_combine_limit = '8kB'", "maintenance_io_concurrency = 0")
OURS = {"plain": PLAIN} | {f"mic {n}": (f"maintenance_io_concurrency = {n}",) for n in (1, 10, 16, 100, 1000)}
THEIRS = {"default ring": ("vacuum_buffer_usage_limit = '2MB'",), "no ring": ("vacuum_buffer_usage_limit = 0",)}
PLACES = ["shared buffers", "system's memory", "cold"]


def can_drop_caches():
    return os.access(DROP_CACHES, os.W_OK)


def warm_program(server):
    """Reads what a server runs into the system's memory. The table is cold; a server that has been up for a while is not: who uses more of its code would wait for the device more often."""
    mapped = (line.split() for pid in descendants(server.process.pid) for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines())
    for file in {fields[5] for fields in mapped if len(fields) == 6 and "x" in fields[1] and fields[5].startswith("/")}:
        pathlib.Path(file).read_bytes()


class State:
    """A stopped server whose table is in one state; each measurement begins with a copy of its files."""

    def __init__(self, kind, state, times):
        # What is done to the table is this VACUUM's alone.
        self.settings = {**SETTINGS, "shared_buffers": "2GB"} | ({"gardener": "off"} if kind is Niwaki else {})
        self.server = kind(self.settings)
        self.server.start()
        self.server.psql("create table foo (a int) with (fillfactor = 25)")
        for rows, value in FILLS[state]:
            # Ones come from `1` alone.
            self.server.psql(f"insert into foo select {value} from generate_series(2, {rows * times + 1}) i")
        if state == "few":
            self.server.psql("vacuum (freeze) foo")
        self.server.psql("update foo set a = 5 where a = 1")
        if kind is not Niwaki:
            self.server.psql("create extension pg_prewarm")
        self.server.psql("checkpoint")
        self.bytes = int(self.server.psql("select pg_relation_size('foo')"))
        self.server.stop()
        self.data, self.saved = self.server.dir / "data", self.server.dir / "saved"
        shutil.move(self.data, self.saved)

    def measure(self, place, settings):
        """Milliseconds of one VACUUM."""
        shutil.rmtree(self.data, ignore_errors=True)
        subprocess.run(["cp", "-a", self.saved, self.data], check=True)
        self.server.start()
        try:
            if place == "shared buffers":
                self.server.psql("select pg_prewarm('foo')")
            else:
                # What a connection needs of the catalog is there; of the table nothing is in shared buffers.
                self.server.psql("select count(*) from pg_class")
            # The copy is on the device: nobody writes it beside what is measured.
            os.sync()
            if place == "cold":
                DROP_CACHES.write_text("3")
                warm_program(self.server)
            # Frames of the table, as much of the system's memory, and what a server that starts and its log take beside them.
            touch_memory(2 * self.bytes + (256 << 20))
            sets = [x for setting in settings for x in ("-c", f"set {setting}")]
            output = self.server.client("psql", "-X", "-v", "ON_ERROR_STOP=1", *sets, "-c", "\\timing on", "-c", "vacuum foo").stdout
            return float(output.split("Time: ")[-1].split()[0])
        finally:
            self.server.stop()

    def end(self):
        shutil.rmtree(self.server.dir, ignore_errors=True)


def measured(states, place, variants, turns):
    """Times of each variant, of its state, taken in turns, so that what the machine does meanwhile meets all alike."""
    times = {name: [] for name in variants}
    for _ in range(turns):
        for name, settings in variants.items():
            times[name].append(states[name].measure(place, settings))
    return times


# So many turns where fewer leave it open, be it in our favour: what the machine does beside them is as much as that.
TURNS = 9
# At most so much of PostgreSQL 18's time.
LIMITS = {"default ring": 0.5, "no ring": 0.8}
MINE = "mic 16"


def is_slower(pairs):
    """By a tenth, and by more than a millisecond, which is what the clock of a client is worth."""
    return statistics.median(a / b for a, b in pairs) > 1.10 and statistics.median(a - b for a, b in pairs) > 1


def slower(state, place, found):
    """The settings with which VACUUM takes longer than with one-block reads. A pair is of one turn; where few say so, more are asked."""
    slow = {}
    for variant in OURS:
        pairs = list(zip(found[variant], found["plain"]))
        while is_slower(pairs) and len(pairs) < TURNS:
            more = measured({variant: state, "plain": state}, place, {name: OURS[name] for name in ("plain", variant)}, 1)
            pairs += zip(more[variant], more["plain"])
        if is_slower(pairs):
            slow[variant] = statistics.median(a / b for a, b in pairs)
    return slow


def beside(ours, theirs, place, turns):
    """Times of ours with default settings and of PostgreSQL 18's, taken in turns, and the ratios of those of a turn; as many turns as it takes to tell them from the limits."""
    states, variants = {MINE: ours} | dict.fromkeys(THEIRS, theirs), {MINE: OURS[MINE]} | THEIRS
    found = measured(states, place, variants, turns)

    def ratios():
        return {ring: statistics.median(a / b for a, b in zip(found[MINE], found[ring])) for ring in THEIRS}

    while len(found[MINE]) < TURNS and any(0.8 * LIMITS[ring] < ratio for ring, ratio in ratios().items()):
        for name, times in measured(states, place, variants, 1).items():
            found[name] += times
    return found, ratios()


def vacuum_io(long):
    """VACUUM in thread `vacuum-streams`'s states: 0.5x of PostgreSQL 18's time with its ring, 0.8x without; no setting slower than one-block reads."""
    turns, factors = (9, (1, 10)) if long else (3, (1, 10))
    places = PLACES if can_drop_caches() else PLACES[:2]
    details, missed, shown = {"cold": "drop_caches after a sync, as root" if can_drop_caches() else "not measured: drop_caches is not permitted"}, [], []
    begun = time.time()
    for times in factors:
        for name in FILLS:
            ours, theirs, older = (State(kind, name, times) for kind in (Niwaki, Postgres18, Postgres))
            for place in places:
                key = f"{name} x{times}, {place}"
                found, ratios = beside(ours, theirs, place, turns)
                mine, theirs_ms = (statistics.median(found[name]) for name in (MINE, "default ring"))
                settings = measured(dict.fromkeys(OURS, ours), place, OURS, turns)
                fifteen = measured({"15": older}, place, {"15": ()}, turns)["15"]
                details[key] = {"mb": {kind.server.name: kind.bytes >> 20 for kind in (ours, theirs, older)}, "ratios": ratios, "beside": found, "settings": settings, "15": fifteen}
                if max(theirs_ms, mine) > 10:
                    missed += [f"{key}, {ring}: {ratio:.2f}x" for ring, ratio in ratios.items() if ratio > LIMITS[ring]]
                missed += [f"{key}, {variant}: {ratio:.2f}x one-block reads" for variant, ratio in slower(ours, place, settings).items()]
                plain, old = statistics.median(settings["plain"]), statistics.median(fifteen)
                shown.append(f"{key}: {mine:.1f} ms, plain {plain:.1f}, 15 {old:.1f}, 18 {theirs_ms:.1f}; " + ", ".join(f"{ratio:.2f}x ({ring})" for ring, ratio in ratios.items()))
            for state in (ours, theirs, older):
                state.end()
    details["minutes"] = (time.time() - begun) / 60
    return not missed, "; ".join(shown) + (f"; missed: {missed}" if missed else ""), details
