"""Parts of PostgreSQL 15's source, as Debian has it, fetched once into the checkout's .cache."""

import hashlib
import re
import subprocess
import tarfile
import urllib.request

from servers import ROOT

SOURCE = "postgresql-15_15.18.orig.tar.bz2"
SHA256 = "11df0df97fe3ea4ba9a791faaf39cee1d2fe571e78885b5b55d8517d27c323b4"


def address():
    """Where the source is: beside the package, and apt knows where the package comes from."""
    asked = subprocess.run(["apt-get", "--print-uris", "download", "postgresql-15"], capture_output=True, text=True)
    found = re.search(r"'([^']*/)[^/']+\.deb'", asked.stdout)
    if not found:
        raise RuntimeError(f"apt does not say where postgresql-15 comes from: {asked.stderr.strip()}")
    return found[1] + SOURCE


def fetch(name, pattern):
    """The folder .cache/NAME with the files whose paths match; the pattern's first group is the path in it."""
    home = ROOT / ".cache" / name
    if not (home / "ready").exists():
        home.mkdir(parents=True, exist_ok=True)
        archive = home / "source.tar.bz2"
        urllib.request.urlretrieve(address(), archive)
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        if found != SHA256:
            raise RuntimeError(f"{SOURCE} has the checksum {found}, not {SHA256}")
        with tarfile.open(archive) as tar:
            for member in tar:
                path = re.match(pattern, member.name)
                if path and member.isfile():
                    member.name = path[1]
                    tar.extract(member, home, filter="data") if hasattr(tarfile, "data_filter") else tar.extract(member, home)
        archive.unlink()
        (home / "ready").touch()
    return home


def schedule(file):
    """The tests that a schedule of PostgreSQL's names, in their order."""
    lines = file.read_text().splitlines()
    return [name for line in lines if line.startswith("test:") for name in line[5:].split()]
