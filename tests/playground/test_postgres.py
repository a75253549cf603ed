"""The same house on PostgreSQL: a private cluster of this test's own, or the server that DATABASE_URL names."""

import os
import subprocess
import sys
from urllib.parse import urlsplit, urlunsplit

import pytest

from tests.playground import postgres
from tests.playground.conftest import ROOT, House
from tests.playground.test_engine_is_lost import follow, whole
from tests.playground.websocket import WebSocket

HERE = "tests/playground"
# What holds of the log on any database, run again on PostgreSQL.
ON_ANY_DATABASE = (
    "test_log_has_one_writer.py",
    "test_log_is_append_only.py",
    "test_log_that_cannot_be_read.py",
    "test_addresses_take_turns.py",
    "test_idle_costs_little.py",
)
# A house of theirs has SQLite all the same; what this file's houses do, they do on PostgreSQL.
OF_A_HOUSE = (
    "test_log_that_cannot_be_read.py::test_the_engine_lives_on_and_the_next_session_runs",
    "test_log_that_cannot_be_read.py::test_sessions_of_before_are_backfilled",
    "test_addresses_take_turns.py::test_requests_side_by_side_do_not_pass_the_cap",
)


@pytest.fixture(scope="module")
def url():
    configured = os.environ.get("DATABASE_URL", "")
    if configured.startswith("postgres"):
        yield configured
        return
    binaries = postgres.programs()
    if binaries is None:
        if os.environ.get("CI"):
            pytest.fail("no PostgreSQL server on the CI machine; .ci/setup installs it with `postgresql`")
        pytest.skip("no PostgreSQL server is installed; sudo apt-get install postgresql")
    with postgres.cluster(binaries) as address:
        yield address


@pytest.fixture
def house(tmp_path, url):
    import psycopg

    name = f"ucutlass_house_{os.getpid()}"
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(f"DROP DATABASE IF EXISTS {name}")
        server.execute(f"CREATE DATABASE {name}")
        built = House(tmp_path, DATABASE_URL=urlunsplit(urlsplit(url)._replace(path=f"/{name}")))
        built.web()
        yield built
        built.close()
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_killed_engines_session_goes_on(house):
    session = house.submit("pace 0.05 trials 8")
    first = house.engine()
    house.wait(session["id"], lambda s: s["last_seq"] >= 5)
    first.kill()
    first.wait()
    house.engine()
    whole(follow(house, session["id"]), 8)


def test_connections_that_the_server_ends_are_opened_anew(house, url):
    """As after a restart of the server: the engine, its heartbeat, the poller and the sockets go on."""
    import psycopg

    session = house.submit("pace 0.1 trials 12")
    engine = house.engine()
    house.wait(session["id"], lambda s: s["last_seq"] >= 5)
    with WebSocket(house.port, f"/ws/s/{session['id']}", timeout=60) as viewer:
        viewer.until("events")
        with psycopg.connect(url, autocommit=True) as server:
            name = house.environ["DATABASE_URL"].rsplit("/", 1)[1].split("?")[0]
            ended = server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
            assert len(ended.fetchall()) >= 2
        house.wait(session["id"], lambda s: s["state"] == "ended")
    whole(follow(house, session["id"]), 12)
    assert engine.poll() is None
    assert house.get("/api/engines")["engines"], "its heartbeat goes on"


def test_many_engines_share_a_queue(house):
    sessions = [house.submit("pace 0.01 trials 3")["id"] for _ in range(8)]
    for _ in range(3):
        house.engine()
    for session_id in sessions:
        whole(follow(house, session_id), 3)


def test_the_log_holds_what_it_promises(url):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--create-db"]
    tests = [f"{HERE}/{name}" for name in ON_ANY_DATABASE]
    tests += [f"--deselect={HERE}/{name}" for name in OF_A_HOUSE]
    environ = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")} | {"DATABASE_URL": url}
    done = subprocess.run([*command, *tests], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "skipped" not in done.stdout.splitlines()[-1], done.stdout[-2000:]
