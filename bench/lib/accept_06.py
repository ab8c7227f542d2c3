"""Issue 06: nothing lost, nothing wrong: what broke when somebody looked from outside, and the kind of each."""

import os
import re

import bombs
from servers import Niwaki
from steps import BINARY, SETTINGS, TARGET, build_beside_postgres as build, cargo_test, command, instructions

# Suites that stand for the inputs that failed, a kind each.
KINDS = {
    "judged versions": ("-p", "niwaki", "--test", "judged_versions", "--test", "row_locks", "--test", "foreign_keys"),
    "files and ends": ("-p", "niwaki", "--test", "closing", "--test", "missing_files", "--test", "directory", "--test", "looking", "--test", "working_directory"),
    "the log and its end": ("-p", "niwaki-storage", "--test", "log_end", "--test", "failed_sync", "--test", "short_segments", "--test", "file_table"),
    "answers": ("-p", "niwaki", "--test", "scripts", "--test", "protocol"),
    "waits and strangers": ("-p", "niwaki-server", "--test", "waits"),
    "changes that fail": ("-p", "niwaki", "--test", "rollbacks"),
    "depth": ("-p", "niwaki", "--test", "deep_statements"),
    "embedding": ("-p", "niwaki", "--test", "churn", "--test", "session_memory", "--test", "parallel_memory"),
}


def kinds(_long):
    """Every input that failed, as the test of its kind."""
    passed = {name: cargo_test(*arguments)[0] for name, arguments in KINDS.items()}
    return True, ", ".join(f"{name} {count}" for name, count in passed.items()), passed


def counted(program, pattern):
    """A step that runs a comparison of the tree; `pattern` finds the line that sums it up. The long tier runs `more`."""
    def step(name, short, more, doc):
        def run(long):
            output = command(program, *(more if long else short))
            return True, re.findall(pattern, output, re.M)[-1], {"output": output[-4000:]}
        run.__doc__ = doc
        return name, run
    return step


SUMMARY = r"^\d+ .*differ.*$"
COMPARISONS = dict([
    counted("bench/schedules", SUMMARY)("schedules", ("--schedules", "600"), ("--schedules", "10000"), "Drawn schedules of two and three sessions, step by step as PostgreSQL 15 (at most one in a hundred differs)."),
    counted("bench/transactions", SUMMARY)("transactions", (), (), "Statements in each state of a transaction, as PostgreSQL 15."),
    counted("bench/messages", SUMMARY)("messages", ("--sequences", "2000"), ("--sequences", "20000", "--seed", "2"), "Drawn sequences of protocol messages, byte for byte as PostgreSQL 15."),
    counted("bench/isolation", r"^\d+ .*$")("isolation", (), (), "PostgreSQL's isolation specifications, unmodified: every difference has a reason."),
])


def faults(long):
    """System calls that fail, kills at the n-th call, files that are cut, removed, turned: nothing lost, no wrong answer."""
    cases = 2000 if long else 200
    passed, _ = cargo_test("-p", "niwaki-tests", "--test", "faults", env={"NIWAKI_FAULTS_CASES": str(cases), "NIWAKI_FAULTS_SEED": "2"})
    return True, f"{passed} suites of {cases} cases", {}


def everything_at_once(long):
    """Queues, index builds, vacuum, crashes and a failing disk from SQL, in drawn schedules."""
    schedules = 3000 if long else 300
    passed, _ = cargo_test("-p", "niwaki-testkit", "--features", "shuttle", "--test", "sim_ledger", "--test", "sim_indexes", "--test", "sim_queue_workers",
                           env={"NIWAKI_SIM_SCHEDULES": str(schedules)})
    return True, f"{passed} suites of {schedules} schedules", {}


def operations(_long):
    """Each operation on files that some work needs fails once, by enumeration."""
    passed, _ = cargo_test("-p", "niwaki-testkit", "--features", "shuttle", "--test", "operations")
    return True, f"{passed} suites", {}


def planted(_long):
    """Every planted bug is found."""
    _, output = cargo_test("-p", "niwaki-testkit", "--features", "shuttle", "--test", "seeded", "--", "--nocapture")
    found = len(re.findall(r"^\S+: found after \d+ visits", output, re.M))
    return found >= 60, f"{found} bugs", {}


def exploding(long):
    """Statements that ask for more memory than there is: the server lives, others are answered, memory comes back."""
    shown, numbers = [], {}
    for limit in (512, 3072) if long else (512,):
        size = {} if long else {"rows": 1_000_000, "seconds": 4}
        outcomes, wrong = bombs.run(limit, say=lambda _: None, **size)
        if wrong:
            raise RuntimeError("\n".join(wrong))
        worst = max(one.select_ms for one in outcomes)
        shown.append(f"{len(outcomes)} bombs in {limit} MB, select 1 {worst:.0f} ms at most")
        numbers[limit] = {one.name: [one.answer, one.select_ms, one.connect_ms, one.resident] for one in outcomes}
    return True, "; ".join(shown), numbers


# The commit before this issue.
BEFORE = "9a3fd319"
SCRIPTS = {
    "select": "\\set id random(1, 10000)\nselect v from counted where id = :id;\n",
    "update": "\\set id random(1, 10000)\nupdate counted set v = v + 1 where id = :id;\n",
    "insert": "insert into inserted values (1, 'x');\n",
}
TABLES = """
create table counted (id int primary key, v int);
insert into counted select i, 0 from generate_series(1, 10000) i;
create table inserted (a int, b text)
"""


def binary_before():
    """The release binary of the commit before this issue, built once."""
    tree, target = TARGET / "before" / "tree", TARGET / "before" / "target"
    if not tree.exists():
        command("git", "worktree", "add", "--force", "--detach", tree, BEFORE)
    command("cargo", "build", "--release", "-p", "niwaki-cli", "--manifest-path", tree / "Cargo.toml", env={"CARGO_TARGET_DIR": str(target)})
    return target / "release" / "niwaki"


def counts(binary, scripts=SCRIPTS):
    """Instructions of each script's transaction, its commit included."""
    found = {}
    previous = os.environ.get("NIWAKI_BINARY")
    os.environ["NIWAKI_BINARY"] = str(binary)
    try:
        for name, script in scripts.items():
            with Niwaki(SETTINGS) as server:
                server.psql(TABLES)
                # Else the first reads of the pages prune them, in or out of what is counted.
                server.psql("vacuum counted")
                # The same rows for both: what pruning takes follows from them.
                found[name] = instructions(server, script, clients=1, warm=2000, transactions=2000, extra=("--random-seed=7",))
    finally:
        os.environ.pop("NIWAKI_BINARY") if previous is None else os.environ.update(NIWAKI_BINARY=previous)
    return found


def instruction_counts(_long):
    """Instructions of a read by key, an update and an insert with their commits: at most 2% more than before this issue."""
    before, now = counts(binary_before()), counts(BINARY)
    ratios = {name: now[name] / before[name] for name in SCRIPTS}
    shown = ", ".join(f"{name} {now[name]:.0f} after {before[name]:.0f} ({ratio:.3f}x)" for name, ratio in ratios.items())
    return max(ratios.values()) <= 1.02, shown, {"before": before, "now": now}


STEPS = {"build": build, "kinds": kinds, "operations": operations, "faults": faults, "everything": everything_at_once, "planted": planted,
         "bombs": exploding, **COMPARISONS, "instructions": instruction_counts}
