"""Issue 07: a house one would move into: the tree's rules, what a change costs to build, and the same instructions."""

import pathlib
import re
import subprocess
import tempfile
import time

import accept_06
from steps import BINARY, TARGET, command

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# The last commit with the crates niwaki-sql and niwaki in one piece each.
BEFORE = "d437f748"

# A function, a node of plans, and a file of the heap: where they stood, and where they stand.
TOUCHED = {
    "function": ("crates/niwaki-sql/src/functions/text.rs", "crates/niwaki-functions/src/functions/text/strings.rs"),
    "plan node": ("crates/niwaki-sql/src/exec/output.rs", "crates/niwaki-exec/src/flow/output.rs"),
    "heap file": ("crates/niwaki-heap/src/modify.rs", "crates/niwaki-heap/src/row/modify.rs"),
}


def tree(_long):
    """The rules of the tree: circles, wings, folders, words, references, assertions, names, prose."""
    output = command("cargo", "xtask", "tidy")
    circles = dict(re.findall(r'\("(niwaki-[a-z]+)", (\d+)\)', (ROOT / "xtask/src/tidy/circles.rs").read_text().split("];")[0]))
    engine = {name: int(size) for name, size in circles.items() if name.split("-")[1] in ("storage", "txn", "heap", "nbtree", "table", "vacuum")}
    largest, largest_engine = max(map(int, circles.values())), max(engine.values(), default=0)
    long = subprocess.run(["git", "-C", ROOT, "grep", "-c", "clippy::too_many_lines", "--", "crates/*.rs"], capture_output=True, text=True).stdout
    flat = sum(int(line.rsplit(":", 1)[1]) for line in long.splitlines())
    held = output.rstrip().endswith(" 0 findings") and largest <= 12 and largest_engine <= 6
    return held, f"{output.strip().splitlines()[-1]}; largest circle {largest}, of the engine {largest_engine}; {flat} functions over 100 lines, each a flat match or a list", circles


def program(_long):
    """The program that ships, without its symbols: under 20 MB."""
    command("cargo", "build", "--release", "-p", "niwaki-cli")
    built = TARGET / "release" / "niwaki"
    with tempfile.NamedTemporaryFile() as stripped:
        command("strip", "-o", stripped.name, built)
        size = pathlib.Path(stripped.name).stat().st_size
    return size < 20e6, f"{size / 1e6:.1f} MB ({built.stat().st_size / 1e6:.1f} MB with the names of functions)", {"bytes": size}


def worktree(commit, name):
    tree = TARGET / name / "tree"
    if not tree.exists():
        command("git", "worktree", "add", "--force", "--detach", tree, commit)
    return tree


def seconds(tree, target, *arguments):
    begun = time.monotonic()
    command("cargo", "build", "-p", "niwaki-cli", "--manifest-path", tree / "Cargo.toml", *arguments, env={"CARGO_TARGET_DIR": str(target)})
    return time.monotonic() - begun


def builds(_long):
    """Seconds from a touched file to the program, before and after; the cold release build in under six minutes."""
    before, shown, numbers = worktree(BEFORE, "before-07"), [], {}
    for place, (tree, target) in enumerate(((before, TARGET / "before-07" / "dev"), (ROOT, TARGET))):
        seconds(tree, target)
        for name, files in TOUCHED.items():
            (tree / files[place]).touch()
            numbers.setdefault(name, []).append(seconds(tree, target))
    shown = [f"{name} {old:.0f} s before, {new:.0f} s now" for name, (old, new) in numbers.items()]
    with tempfile.TemporaryDirectory(dir=TARGET) as cold:
        numbers["cold release"] = seconds(ROOT, cold, "--release")
    shown.append(f"cold release {numbers['cold release']:.0f} s")
    return numbers["cold release"] < 360, ", ".join(shown), numbers


SCRIPTS = accept_06.SCRIPTS | {"scan": "select count(*), sum(v) from counted;\n"}


def instruction_counts(_long):
    """Instructions of a read by key, an update, an insert and a scan: within 1% of the commit before the moves, or fewer."""
    old = worktree(BEFORE, "before-07")
    target = TARGET / "before-07" / "release-target"
    seconds(old, target, "--release")
    before, now = (accept_06.counts(binary, SCRIPTS) for binary in (target / "release" / "niwaki", BINARY))
    ratios = {name: now[name] / before[name] for name in SCRIPTS}
    shown = ", ".join(f"{name} {now[name]:.0f} after {before[name]:.0f} ({ratio:.3f}x)" for name, ratio in ratios.items())
    return max(ratios.values()) <= 1.01, shown, {"before": before, "now": now}


STEPS = {"tree": tree, "program": program, "builds": builds, "instructions": instruction_counts}
