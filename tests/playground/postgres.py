"""A private PostgreSQL cluster for tests, in a temporary folder and on a free loopback port."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

SETTINGS = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=60")


def programs() -> Path | None:
    """The folder of `initdb` and `pg_ctl` (Debian keeps it off the PATH), or None where no server is installed."""
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3]))
    return installed[-1].parent if installed else None


def _user() -> str | None:
    """PostgreSQL refuses to run as root, so root starts it as the package's user. None: as we are."""
    if os.getuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


@contextlib.contextmanager
def cluster(binaries: Path) -> Iterator[str]:
    """Start a cluster, give the URL of its database `postgres`, and remove the cluster at the end."""
    folder, user = Path(tempfile.mkdtemp(prefix="ucutlass-pg-")), _user()
    if user is not None:
        shutil.chown(folder, user)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def run(program: str, *arguments: str) -> None:
        command = [str(binaries / program), *arguments]
        with (folder.parent / f"{folder.name}.log").open("ab") as log:
            done = subprocess.run(command, cwd="/", user=user, stdout=log, stderr=log, timeout=120)
        assert done.returncode == 0, (folder.parent / f"{folder.name}.log").read_text()

    options = " ".join(
        [f"-p {port}", "-c listen_addresses=127.0.0.1", f"-k {folder}", *(f"-c {setting}" for setting in SETTINGS)]
    )
    try:
        run(
            "initdb",
            "-D",
            str(folder / "data"),
            "-U",
            "tester",
            "--auth=trust",
            "--no-sync",
            "-E",
            "UTF8",
            "--locale=C",
        )
        run("pg_ctl", "-D", str(folder / "data"), "-o", options, "-w", "-l", str(folder / "server.log"), "start")
        yield f"postgres://tester@127.0.0.1:{port}/postgres"
    finally:
        with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
            run("pg_ctl", "-D", str(folder / "data"), "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder, ignore_errors=True)
        (folder.parent / f"{folder.name}.log").unlink(missing_ok=True)
