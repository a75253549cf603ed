"""The same house on PostgreSQL: `DATABASE_URL=postgres://... make test` (needs psycopg). Skipped without one.

With DATABASE_URL set every database test of this folder runs on PostgreSQL too; this file adds the processes.
"""

import os
from urllib.parse import urlsplit, urlunsplit

import pytest

from tests.playground.conftest import House
from tests.playground.test_engine_is_lost import follow, whole

URL = os.environ.get("DATABASE_URL", "")
pytestmark = pytest.mark.skipif(not URL.startswith("postgres"), reason="DATABASE_URL names no PostgreSQL")


@pytest.fixture
def house(tmp_path):
    import psycopg

    name = f"ucutlass_house_{os.getpid()}"
    with psycopg.connect(URL, autocommit=True) as server:
        server.execute(f"DROP DATABASE IF EXISTS {name}")
        server.execute(f"CREATE DATABASE {name}")
        built = House(tmp_path, DATABASE_URL=urlunsplit(urlsplit(URL)._replace(path=f"/{name}")))
        built.web()
        yield built
        built.close()
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_killed_engines_session_goes_on(house):
    made = house.submit("pace 0.05 trials 8")
    first = house.engine()
    house.wait(made["id"], lambda s: s["last_seq"] >= 5)
    first.kill()
    first.wait()
    house.engine()
    whole(follow(house, made["id"]), 8)


def test_many_engines_share_a_queue(house):
    made = [house.submit("pace 0.01 trials 3")["id"] for _ in range(8)]
    for _ in range(3):
        house.engine()
    for session_id in made:
        whole(follow(house, session_id), 3)
