"""psql 15: the backslash commands of a first hour, each with its whole output; and pgbench's initialization and modes."""

import os
import pathlib
import re
import subprocess

FOLDER = pathlib.Path(__file__).parent


def run(*command, text=None):
    done = subprocess.run(command, input=text, capture_output=True, text=True, cwd=os.getcwd())
    return done.stdout + "".join(line + "\n" for line in done.stderr.splitlines())


def main():
    print(run("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", str(FOLDER / "objects.sql")))
    for command in (FOLDER / "commands.txt").read_text().split("\n\n"):
        command = command.strip("\n")
        shown = run("psql", "-X", "-P", "null=(null)", text=command + "\n")
        # What differs from run to run, and from file to file.
        shown = re.sub(r"\b\d+ (bytes|kB)\b *", "(size) ", re.sub(r"Time: [\d.]+ ms", "Time: (time)", shown))
        shown = re.sub(r"^LOCATION: .*\n", "", re.sub(r"port \d+", "port (port)", shown), flags=re.M)
        shown = re.sub(r"partition\('\d+'::oid", "partition('(oid)'::oid", shown)
        shown = re.sub(r"^.*\(every", "(time) (every", shown, flags=re.M)
        print(f"=> {command}\n{shown}")
    for options in (["-i", "-s", "1", "-q"], ["-i", "-I", "dtGvpf", "--unlogged-tables"], ["-i", "-I", "dtgvp", "--fillfactor=80", "-q"]):
        shown = run("pgbench", *options)
        print(options, [line for line in shown.splitlines() if "ERROR" in line or line.startswith(("creating", "vacuuming", "generating"))])
    for mode in ("simple", "extended", "prepared"):
        for script in ("tpcb-like", "simple-update", "select-only"):
            shown = run("pgbench", "-n", "-c", "2", "-t", "50", "-M", mode, "-b", script)
            print(mode, script, [line for line in shown.splitlines() if "ERROR" in line or "failed" in line or "processed" in line])


main()
