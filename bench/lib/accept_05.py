"""Issue 05: PostgreSQL's clients feel at home."""

import dataclasses

import clients as drivers
import differential as generated
import regress as scripts
from servers import Niwaki, Postgres
from steps import build_beside_postgres as build, cargo_test


def clients(_long):
    """psql, pgbench, and the statements and wire traces that were captured from other clients, with PostgreSQL's answers."""
    passed, _ = cargo_test("-p", "niwaki-tests", "--test", "clients")
    return True, f"{passed} tests", {}


def regress(_long):
    """PostgreSQL's regression scripts: no wrong answer, no crash, at least half of the statements the same, the rest refused by name."""
    folder = scripts.fetch()
    with Postgres({}) as theirs, Niwaki({}) as ours:
        comparer = scripts.Comparer(ours, theirs, folder)
        for name in scripts.schedule(folder):
            comparer.run_script(name)
    found = scripts.totals(comparer.verdicts)
    count = len(comparer.verdicts)
    unnamed = sum(found[kind] for kind in ("code", "fails", "accepts", "shape", "slow"))
    held = found["wrong"] == found["crash"] == unnamed == 0 and found["same"] >= 0.5 * count
    shown = ", ".join(f"{number} {kind}" for kind, number in found.items() if number)
    return held, f"{count} statements: {shown}; the same {found['same'] / count:.1%}", [dataclasses.asdict(verdict) for verdict in comparer.verdicts if verdict.kind != "same"]


def driver(name):
    """A step that installs a client and runs its program on both servers."""
    def step(_long):
        result = drivers.check(name)
        return not result.unknown, str(result), result.unknown
    step.__doc__ = f"{name}, as it comes from its registry: on Niwaki it prints what it prints on PostgreSQL 15."
    return step


def differential(long):
    """Generated statements (300,000 in the long form): none that differs from PostgreSQL's answer without a reason."""
    with Postgres({"fsync": "off"}) as theirs, Niwaki({}) as ours:
        comparer = generated.Comparer(ours, theirs)
        comparer.run(300_000 if long else 20_000)
    held = not any(comparer.counted[kind] for kind in generated.DIFFERENCES)
    return held, comparer.summary(), [dataclasses.asdict(finding) for finding in comparer.findings]


STEPS = {"build": build, "clients": clients, **{name: driver(name) for name in drivers.names()}, "regress": regress, "differential": differential}
