"""Unmodified clients: each is installed from its registry, and its program is run against PostgreSQL 15 and against Niwaki.

A client is a folder of tests/drivers. What is in it says how it is installed and run:

    requirements.txt, main.py         Python, in a virtual environment
    main.py                           a program that drives PostgreSQL's own command-line tools
    package-lock.json, main.mjs       Node
    Cargo.toml, src/main.rs           Rust
    go.mod, main.go                   Go
    artifacts.txt, Main.java          Java, with the jars that the file names

What is installed lies under the target directory (clients/NAME), and is installed again when one of the client's files changes. A program
prints what it did: values with their types, tags, SQLSTATEs, what it found by reflection. PostgreSQL's transcript is the right one, and
Niwaki's must be the same, line by line, but for what `known.txt` in the folder allows: a difference is `-` lines of PostgreSQL and `+` lines
of Niwaki, below `#` lines with the reason. A difference that is listed and does not occur is an error too.
"""

import dataclasses
import difflib
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

from servers import ROOT, Niwaki, Postgres
from steps import TARGET

FOLDER = ROOT / "tests" / "drivers"
# Runs a program, without an answer for so long that it hangs.
SECONDS = 600


def names():
    return sorted(folder.name for folder in FOLDER.iterdir() if (folder / "known.txt").exists())


def install(name):
    """Puts the client where it runs from; the command that runs its program. An error of an installer is an error."""
    source, cache = FOLDER / name, TARGET / "clients" / name
    has = lambda file: (source / file).exists()
    if not has("requirements.txt") and has("main.py"):
        return [sys.executable, source / "main.py"], {}
    files = sorted(file for file in source.rglob("*") if file.is_file() and file.name != "known.txt" and "__pycache__" not in file.parts)
    digest = hashlib.sha256(b"".join(str(file.relative_to(source)).encode() + file.read_bytes() for file in files)).hexdigest()
    stamp = cache / "installed"
    fresh = stamp.exists() and stamp.read_text() == digest
    if not fresh:
        cache.mkdir(parents=True, exist_ok=True)
        stamp.unlink(missing_ok=True)
    run = lambda *command, cwd=cache, **env: installed(name, command, cwd, env) if not fresh else None
    if has("requirements.txt"):
        run(sys.executable, "-m", "venv", "--clear", cache / "venv")
        run(cache / "venv" / "bin" / "pip", "install", "--quiet", "--no-deps", "-r", source / "requirements.txt")
        command, env = [cache / "venv" / "bin" / "python", "-B", source / "main.py"], {}
    elif has("package-lock.json"):
        for file in ("package.json", "package-lock.json", "main.mjs"):
            shutil.copy(source / file, cache)
        run("npm", "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts")
        command, env = ["node", cache / "main.mjs"], {}
    elif has("Cargo.toml"):
        run("cargo", "build", "--quiet", "--locked", cwd=source, CARGO_TARGET_DIR=str(cache))
        command, env = [cache / "debug" / name], {}
    elif has("go.mod"):
        run("go", "build", "-o", cache / "program", ".", cwd=source, GOFLAGS="-mod=readonly", GOTOOLCHAIN="local")
        command, env = [cache / "program"], {}
    elif has("artifacts.txt"):
        for artifact in (source / "artifacts.txt").read_text().split():
            run("mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={cache / 'jars'}")
        run("javac", "-cp", f"{cache / 'jars'}/*", "-d", cache / "classes", source / "Main.java")
        command, env = ["java", "-Xshare:auto", "-cp", f"{cache / 'classes'}:{cache / 'jars'}/*", "Main"], {}
    else:
        raise RuntimeError(f"{source.relative_to(ROOT)} has nothing that can be installed")
    stamp.write_text(digest)
    return command, env


def installed(name, command, cwd, env):
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, timeout=3600)
    if done.returncode != 0:
        raise RuntimeError(f"{name} could not be installed: {' '.join(map(str, command))}: {done.stdout[-2000:]}{done.stderr[-2000:]}")


def transcript(command, env, server):
    """What the program prints, line by line. A program that fails has its error in it as last line, so both must fail alike."""
    more = {"PGSSLMODE": "disable", "PYTHONPATH": str(ROOT / "bench" / "lib"), "SERVER": server.name}
    done = subprocess.run(command, cwd=server.dir, env={**server.environment(), **env, **more}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS)
    lines = done.stdout.splitlines()
    return lines if done.returncode == 0 else lines + done.stderr.splitlines()[-15:] + [f"exit code {done.returncode}"]


def known(name):
    """The differences that are allowed: (PostgreSQL's lines, Niwaki's lines)."""
    differences, theirs, ours = [], [], []
    for line in [*(FOLDER / name / "known.txt").read_text().splitlines(), ""]:
        if line.startswith("- "):
            theirs.append(line[2:])
        elif line.startswith("+ "):
            ours.append(line[2:])
        elif theirs or ours:
            differences.append((theirs, ours))
            theirs, ours = [], []
    return differences


def compare(theirs, ours):
    """The places where the transcripts differ: (PostgreSQL's lines, Niwaki's lines)."""
    matcher = difflib.SequenceMatcher(None, theirs, ours, autojunk=False)
    return [(theirs[a:b], ours[c:d]) for kind, a, b, c, d in matcher.get_opcodes() if kind != "equal"]


@dataclasses.dataclass
class Result:
    lines: int
    known: int
    unknown: list

    def __str__(self):
        return f"{self.lines} lines, {self.known} known differences, {len(self.unknown)} others"


def check(name, keep=None):
    """Installs a client and runs it on both servers; a folder to keep the transcripts in may be given."""
    command, env = install(name)
    printed = []
    for kind in (Postgres, Niwaki):
        with kind({}) as server:
            printed.append(transcript(command, env, server))
        if keep:
            keep.mkdir(parents=True, exist_ok=True)
            (keep / f"{name}.{kind.name}").write_text("".join(line + "\n" for line in printed[-1]))
    theirs, ours = printed
    if not theirs or theirs[-1].startswith("exit code"):
        raise RuntimeError(f"{name} fails on PostgreSQL: " + "\n".join(theirs[-20:]))
    found, allowed = compare(theirs, ours), known(name)
    unknown = [difference for difference in found if difference not in allowed]
    stale = [(["known.txt has this, but it was not found:", *theirs], ours) for theirs, ours in allowed if (theirs, ours) not in found]
    return Result(len(theirs), len(allowed), unknown + stale)
